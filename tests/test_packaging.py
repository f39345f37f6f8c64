"""The wheel carries what the checkout has, and works where the checkout is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from uv import find_uv_bin

from envlock import __version__
from envlock.engines import conda_lock, rattler, uv_binary

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
HOST = {
    "schema": 1,
    "os": "linux",
    "arch": "x86_64",
    "glibc": "2.35",
    "driver": {"version": "535.104.05", "library": "535.104.05", "numbering": "linux"},
    "gpus": [{"name": "NVIDIA GeForce RTX 3090", "compute_capability": "8.6", "memory_mib": 24576}],
    "pythons": ["3.10.13"],
}


def start(argv: list[str], *, cwd: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, made by the build backend of the test environment."""
    out = tmp_path_factory.mktemp("dist")
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    built = start(argv, cwd=out, environ=os.environ)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in a fresh environment; its dependencies come through pip's own settings, as a user's would."""
    place = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(place, with_pip=True)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Nothing is written to the home: pip keeps no cache and asks nobody whether it is new.
    argv = [str(place / "bin" / "python"), "-m", "pip", "--no-cache-dir", "--disable-pip-version-check", "install"]
    done = start([*argv, "-q", str(wheel)], cwd=place, environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "bin" / "envlock"


@pytest.fixture
def document(installed: Path, tmp_path: Path, isolated_environ: dict[str, str]) -> Any:
    """Run the installed command outside the checkout, and return its document."""

    def run(*arguments: str) -> dict[str, Any]:
        done = start([str(installed), *arguments, "--json"], cwd=tmp_path, environ=isolated_environ)
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


def test_the_wheel_carries_data_profiles_locks_and_the_probe(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        carried = set(archive.namelist())
    tracked = start(["git", "ls-files", "envlock", "profiles", "lockfiles"], cwd=ROOT, environ=os.environ)
    # A checkout unpacked from an archive has no git: there, what lies in the folders is what is meant.
    names = tracked.stdout.splitlines() if tracked.returncode == 0 else _lying("envlock", "profiles", "lockfiles")
    assert len(names) > 50
    expected = {name if name.startswith("envlock/") else f"envlock/{name}" for name in names}
    assert expected - carried == set()
    for part in ("envlock/data/", "envlock/profiles/gemma-qlora.toml", "envlock/lockfiles/", "envlock/probe/script.py"):
        assert any(name.startswith(part) for name in carried), part


def test_the_wheel_carries_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert tops == {"envlock", f"envlock_cuda-{__version__}.dist-info"}


def test_everything_that_can_be_asked_for_resolves_together() -> None:
    argv = [find_uv_bin(), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--all-extras"]
    done = start([*argv, "--python-version", "3.10", str(ROOT / "pyproject.toml")], cwd=ROOT, environ=os.environ)
    assert done.returncode == 0, done.stderr
    found = {one.name: one for one in map(Requirement, done.stdout.split())}
    asked = [Requirement(one) for some in _required().values() for one in some]
    assert len(asked) > 15
    for one in asked:
        if one.name in found:  # not what only another Python needs
            (pin,) = found[one.name].specifier
            assert one.specifier.contains(pin.version), one
    # Without a floor a resolver silently goes back to a release that does without what is newer elsewhere.
    assert {"conda-lock", "py-rattler", "uv"} <= found.keys()


def test_what_the_conda_part_needs_is_named_once() -> None:
    extras = _required()
    assert set(extras["conda"]) <= set(extras["test"])
    assert all(one in rattler.INSTALL for one in extras["conda"])
    assert extras["conda"] == [f"conda-lock>={conda_lock.OLDEST}", f"py-rattler>={rattler.OLDEST},<1"]


def _required() -> dict[str, list[str]]:
    """What the distribution asks for: `""` for what it always needs, else by extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def test_the_wheel_names_its_licence_the_uv_it_needs_and_never_torch(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"envlock_cuda-{__version__}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert "License-Expression: Apache-2.0" in metadata
    assert f"Requires-Dist: uv>={uv_binary.OLDEST}" in metadata.splitlines()
    assert not [line for line in metadata.splitlines() if line.startswith("Requires-Dist: torch")]


def test_it_works_outside_the_checkout(document: Any, tmp_path: Path) -> None:
    profiles = document("profiles")["result"]["profiles"]
    assert {profile["name"] for profile in profiles} == {"gemma-qlora", "xtuner-internlm2", "qwen2.5"}
    assert all(profile["locked"] for profile in profiles)
    (tmp_path / "host.json").write_text(json.dumps(HOST), encoding="utf-8")
    plan = document("plan", "gemma-qlora", "--host", "host.json")["result"]
    assert (plan["backend"], plan["locked"], plan["precision"]) == ("cu121", True, "bf16")


def _lying(*folders: str) -> list[str]:
    files = (path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.is_file())
    return [str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts]
