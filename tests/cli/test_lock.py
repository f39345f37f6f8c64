"""`envlock lock` as a process: where it writes, what it says of a world that fails, and two of it at a time."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Shell
from tests.servers.index import Index
from tests.servers.wheels import make_wheel

PROFILE = """
schema = 1
name = "{name}"
summary = "one module and what it needs"
python = "3.10"
platforms = ["linux-x86_64"]
backends = ["cpu"]
requires = ["{requires}"]

[backend.cpu]
pypi-python = ["3.10"]
"""


@pytest.fixture
def project(shell: Shell, index: Index, wheelhouse: Path) -> Shell:
    """A shell in a project with the profiles `small` and `other`; both need one wheel of the loopback index."""
    make_wheel(wheelhouse, "alpha", "1.0", requires=["omega"])
    make_wheel(wheelhouse, "omega", "1.0")
    shell.write("pyproject.toml", "")
    for name in ("small", "other"):
        profile(shell, name)
    return replace(shell, environ={**shell.environ, "ENVLOCK_INDEX_PYPI": index.url})


def profile(shell: Shell, name: str, requires: str = "alpha") -> None:
    shell.write(f"profiles/{name}.toml", PROFILE.format(name=name, requires=requires))


def confined(shell: Shell, blocks: int, *arguments: str, **environ: str) -> Ran:
    """Run where no file can have more than so many blocks, as on a disk that is full."""
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f "$0"; exec "$@"', str(blocks), *shell.argv, *arguments],
        cwd=shell.cwd,
        env={**shell.environ, **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    return Ran(code=done.returncode, stdout=done.stdout, stderr=done.stderr)


# ---- a world that fails ------------------------------------------------------------------------------------------


def test_a_folder_for_temporary_files_that_is_not_there_is_done_without(project: Shell) -> None:
    assert project("lock", "small", "-q", TMPDIR="/nowhere").code == 0


def test_no_room_for_any_temporary_file_is_told(project: Shell) -> None:
    ran = confined(project, 0, "lock", "small", "--json", TMPDIR="/nowhere")
    error = ran.document["error"]
    assert (ran.code, ran.stderr, error["code"]) == (3, "", "not-writable")
    assert error["hint"] == "TMPDIR=FOLDER envlock lock small"
    assert error["context"][0]["message"].startswith("No usable temporary directory found in ['/nowhere', '/tmp'")
    assert not (project.cwd / "lockfiles").exists()


def test_no_room_for_the_question_is_told(project: Shell, tmp_path: Path) -> None:
    profile(project, "small", '", "'.join(f"alpha{number}" for number in range(200)))
    (tmp_path / "scratch").mkdir()
    ran = confined(project, 1, "lock", "small", "--json", TMPDIR=str(tmp_path / "scratch"))
    error = ran.document["error"]
    assert (ran.code, ran.stderr, error["code"]) == (3, "", "not-writable")
    assert (error["hint"], error["context"][0]["message"]) == ("TMPDIR=FOLDER envlock lock small", "File too large")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_cache_that_cannot_be_used_is_told_as_what_it_is(project: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = project("lock", "small", "--json", UV_CACHE_DIR=str(tmp_path / "file"))
    error = ran.document["error"]
    assert (ran.code, ran.stderr, error["code"]) == (3, "", "cache-unusable")
    assert error["hint"] == "UV_CACHE_DIR=FOLDER envlock lock small"
    assert str(tmp_path / "file") in error["context"][0]["message"]
    plain = project("lock", "small", UV_CACHE_DIR=str(tmp_path / "file"))
    assert "Traceback" not in plain.stderr
    assert plain.stderr.endswith("\nhint: UV_CACHE_DIR=FOLDER envlock lock small\n")
