"""The command as a user's shell starts it: a process, its streams, and an environment that is nobody's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import place

__all__ = ["Ran", "Shell", "place", "shell"]

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ran:
    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The one document on stdout; anything around it makes this fail."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        assert list(found) == ["schema", "command", "exit", "result", "error"]
        assert found["exit"] == self.code
        return found


@dataclass(frozen=True)
class Shell:
    """`shell("plan", "x")` runs `envlock plan x` in `cwd`."""

    cwd: Path
    environ: Mapping[str, str]

    @property
    def argv(self) -> tuple[str, ...]:
        return (sys.executable, "-W", "error", "-m", "envlock")

    def __call__(self, *arguments: str, **environ: str) -> Ran:
        done = subprocess.run(
            [*self.argv, *arguments],
            cwd=self.cwd,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        return Ran(code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def write(self, name: str, text: str) -> str:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name


@pytest.fixture
def shell(tmp_path: Path, isolated_environ: dict[str, str]) -> Shell:
    cwd = tmp_path / "project"
    cwd.mkdir(exist_ok=True)
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    kept = {"PYTHONPATH": os.pathsep.join(path for path in paths if path), "LC_ALL": "C.UTF-8"}
    return Shell(cwd=cwd, environ={**isolated_environ, **kept})
