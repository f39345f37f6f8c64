"""The commands in the header of a committed `requirements.txt`, on real wheels: 3 GB, the least that is to be had.

Files of PyTorch's own indexes are dearer to reach than those of the default one, so PyPI's own builds are taken.
pip-sync hands the files to pip: what the header says of pip alone is done with small wheels, in the contract tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from envlock import interpreters, lock, lock_text, proc
from envlock.engines import uv_binary
from envlock.model import LockedVariant
from tests.contract.by_hand import command, do, installed

pytestmark = pytest.mark.e2e

MINUTES = 60
LOCKFILES = Path(__file__).parents[2] / "lockfiles"
# Asks for pip 26.2.2 or newer, as the releases after it will: no Python of 3.10 to 3.13 comes with one.
PIP_TOOLS = "pip-tools==7.7.0"
KEPT = ("LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A committed variant, the folder that it stands in, and a Python for it."""

    folder: Path
    locked: LockedVariant
    python: Path

    @property
    def size(self) -> int:
        """The bytes of what a new machine would take."""
        own = self.locked.variant
        files = (lock.pick(one, own.python, own.platform, None) for one in self.locked.packages)
        return sum(file.size or 0 for file in files)


def cases() -> Iterator[Case]:
    """Yield what comes from the default index alone and has a Python here."""
    here = interpreters.find(run=proc.run, environ=os.environ)
    for file in sorted(LOCKFILES.glob("*.lock")):
        for locked in lock_text.parse(file.read_text(encoding="utf-8"), file.name).variants:
            chosen = interpreters.choose_for(locked.variant.python, here)
            if chosen and not lock.indexed(locked.packages):
                yield Case(folder=LOCKFILES / file.stem / locked.variant.name, locked=locked, python=chosen.path)


@pytest.fixture(scope="module")
def case() -> Case:
    return min(cases(), key=lambda one: (one.size, one.folder))


@pytest.fixture(scope="module")
def environ(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield an environment with uv, pip-sync and the Python on PATH, and caches of its own, taken away afterwards."""
    home = tmp_path_factory.mktemp("home")
    uv = uv_binary.binary(os.environ)
    path = [str(home / "tools" / "bin"), str(uv.parent), str(case.python.parent), os.environ["PATH"]]
    environ = {name: os.environ[name] for name in KEPT if name in os.environ}
    environ |= {"HOME": str(home), "PATH": os.pathsep.join(path), "PIP_CONFIG_FILE": os.devnull}
    environ["PIP_COMPILE"] = "0"  # bytecode, which is not compared, takes pip a third of its time
    if "SSL_CERT_FILE" in environ:  # the pip of an older Python brings its own certificates
        environ["PIP_CERT"] = environ["SSL_CERT_FILE"]
    for argv in (("venv", "--python", sys.executable, "tools"), ("pip", "install", "--python", "tools", PIP_TOOLS)):
        subprocess.run([uv, *argv], cwd=home, env=environ, check=True, capture_output=True, timeout=5 * MINUTES)
    yield environ
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def where(case: Case, tmp_path: Path) -> Iterator[Path]:
    """Yield a folder with the files of the variant and nothing else, taken away afterwards: it comes to hold 6 GB."""
    yield Path(shutil.copytree(case.folder, tmp_path / "by-hand"))
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("tool", ["uv", "pip-sync"])
def test_the_header_s_own_command_installs_a_real_stack(
    case: Case, environ: dict[str, str], where: Path, tool: str
) -> None:
    line = command((where / "requirements.txt").read_text(encoding="utf-8"), tool)
    site = do(line, where, environ, seconds=15 * MINUTES)
    locked = {package.name: package.version for package in case.locked.packages}
    # What `python -m venv` puts into an environment stays there, where nothing asks for another version.
    own = () if tool == "uv" else {"pip", "setuptools"} - locked.keys()
    assert installed(site, own=own) == locked
    check = ("uv", "pip", "check", "--python", ".venv") if tool == "uv" else (".venv/bin/python", "-m", "pip", "check")
    done = subprocess.run(check, cwd=where, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
