"""Each module imports alone, in a fresh interpreter: nothing leans on what another import happened to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "envlock").rglob("*.py"))
]
# What a start-up must not pay for before a verb has been chosen and has an answer.
HEAVY = ("rich", "packaging", "filelock", "pynvml", "jsonschema", "hypothesis", "rattler", "conda_lock", "pydantic")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_alone(module: str) -> None:
    done = python(f"import {module}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_command_starts_light() -> None:
    done = python(f"import sys, envlock.cli.main; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr
