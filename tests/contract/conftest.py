"""What tests of locking and installing start from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contract.places import NEEDS, PROFILE, Place
from tests.servers.index import Index
from tests.servers.wheels import make_wheel


@pytest.fixture
def place(tmp_path: Path, isolated_environ: dict[str, str]) -> Iterator[Place]:
    shelves = tmp_path / "default", tmp_path / "torch"
    for shelf, version in zip(shelves, ("2.8.0", "2.8.0+cu128"), strict=True):
        make_wheel(shelf, "torch", version, requires=NEEDS)
    for name, version in (("nvidia-cublas-cu12", "12.8.4.1"), ("triton", "3.4.0"), ("alpha", "1.0")):
        make_wheel(shelves[0], name, version, requires=["torch"] if name == "alpha" else [])
    # What would win if the wrong index were asked: newer ones, and other bytes under the very same name.
    make_wheel(shelves[0], "torch", "9.0", requires=NEEDS, files={"torch.py": "EVIL = 1\n"})
    make_wheel(shelves[1], "nvidia-cublas-cu12", "12.8.4.1", files={"evil.py": "EVIL = 1\n"})
    make_wheel(shelves[1], "triton", "3.4.0", files={"triton.py": "EVIL = 1\n"})
    make_wheel(shelves[1], "alpha", "9.0", files={"alpha.py": "EVIL = 1\n"})
    project = tmp_path / "project"
    (project / "profiles").mkdir(parents=True)
    (project / "profiles" / "small.toml").write_text(PROFILE, encoding="utf-8")
    path = f"{sys.base_prefix}/bin{os.pathsep}{isolated_environ['PATH']}"
    with ExitStack() as stack:
        default = stack.enter_context(Index(shelves[0]))
        torch = stack.enter_context(Index(shelves[1]))
        torch.uploaded.update(dict.fromkeys((each.name for each in shelves[1].iterdir()), None))
        yield Place(project, default, torch, {**isolated_environ, "PATH": path})
