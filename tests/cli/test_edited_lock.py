"""A lock that somebody wrote by hand, digest and all: every verb refuses it in words, and `lock` makes it anew."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.cli.test_small_stack import PROFILE
from tests.servers.index import Index
from tests.servers.wheels import make_wheel


@pytest.fixture
def small(shell: Shell, index: Index, wheelhouse: Path) -> Shell:
    """A shell in a project with a lock of one wheel of the loopback index."""
    make_wheel(wheelhouse, "alpha", "1.0")
    shell.write("profiles/small.toml", PROFILE)
    path = f"{sys.base_prefix}/bin{os.pathsep}{shell.environ['PATH']}"
    running = replace(shell, environ={**shell.environ, "ENVLOCK_INDEX_PYPI": index.url, "PATH": path})
    assert running("lock", "small", "-q").code == 0
    return running


def edit(shell: Shell, was: str, now: str) -> None:
    file = shell.cwd / "lockfiles" / "small.lock"
    text = file.read_text(encoding="utf-8")
    assert was in text
    bare = re.sub(r"^digest = .*\n", "", text.replace(was, now, 1), count=1, flags=re.MULTILINE)
    digest = hashlib.sha256(bare.encode()).hexdigest()
    shell.write("lockfiles/small.lock", bare.replace("\nprofile = ", f'\ndigest = "{digest}"\nprofile = ', 1))


def test_an_index_that_nobody_knows_is_named_and_locking_again_forgets_it(small: Shell) -> None:
    edit(small, '{ index = "pypi"', '{ index = "nope"')
    for arguments in (
        ("export", "small", "--frozen"),
        ("export", "small", "--frozen", "--format", "environment.yml"),
        ("export", "small", "--frozen", "--format", "pylock"),
        ("install", "small", "--no-verify"),
        ("lock", "small", "--check"),
    ):
        ran = small(*arguments, "--json")
        error = ran.document["error"]
        assert (ran.code, error["code"]) == (1, "index-unknown"), arguments
        assert "`nope`" in error["message"]
    assert list((small.cwd / ".envlock").glob("small*/[0-9a-f]*")) == []
    assert small("lock", "small", "-q").code == 0
    assert small("lock", "small", "--check").code == 0
