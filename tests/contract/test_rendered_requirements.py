"""`requirements.txt` beside a lock, installed by the very commands in its header: uv's, pip's and pip-sync's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envlock.app import lock
from envlock.engines import uv_binary
from tests.contract.by_hand import command, do, installed
from tests.contract.installing import HERE
from tests.contract.places import PROFILE, Place
from tests.servers.wheels import make_sdist, make_wheel

ROOT = Path(__file__).parents[2]
OWN = {"pip", "setuptools"}  # what a fresh environment may have anyway
each_tool = pytest.mark.parametrize("tool", ["uv", "pip", "pip-sync"])


@pytest.fixture(scope="session")
def pip_sync(pip_tools_wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real pip-sync."""
    place = tmp_path_factory.mktemp("pip-sync") / "env"
    uv = str(uv_binary.binary(os.environ))
    subprocess.run([uv, "--no-config", "venv", "-q", "--python", sys.executable, place], check=True)
    offline = ("--no-index", "--find-links", str(pip_tools_wheels))
    subprocess.run([uv, "--no-config", "pip", "install", "-q", "--python", place, *offline, "pip-tools"], check=True)
    return place / "bin"


def by_hand(place: Place, variant: str, tool: str, tmp_path: Path, pip_sync: Path) -> Path:
    """Do what the header says for a tool, in a folder that holds nothing but the files; return its site-packages."""
    where = tmp_path / "by-hand"
    shutil.copytree(place.project / "lockfiles" / "small" / variant, where)
    line = command((where / "requirements.txt").read_text(encoding="utf-8"), tool)
    line = line.replace("https://download.pytorch.org/whl/cu128/", place.torch.url)
    line = line.replace(f"--python {HERE}", f"--python {sys.executable}")
    line = line.replace(f"python{HERE} -m", f"{sys.executable} -m")
    uv = uv_binary.binary(os.environ).parent
    path = os.pathsep.join([str(pip_sync), str(uv), place.environ["PATH"]])
    settings = {"UV_DEFAULT_INDEX": place.default.url, "PIP_INDEX_URL": place.default.url, "PATH": path}
    return do(line, where, {**place.environ, **settings})


def locked(place: Place, variant: str) -> dict[str, str]:
    (found,) = (one for one in place.held.variants if one.variant.name == variant)
    return {package.name: package.version for package in found.packages}


@pytest.fixture
def pips(place: Place, pip_tools_wheels: Path) -> None:
    """Let the default index have what an environment is upgraded to before pip-sync is asked."""
    for name in OWN:
        (wheel,) = pip_tools_wheels.glob(f"{name}-*.whl")
        shutil.copy(wheel, place.default.directory)


@pytest.mark.usefixtures("pips")
@each_tool
@pytest.mark.parametrize("variant", ["cu128", "cu128-pypi"])
def test_the_header_s_own_command_installs_it(
    place: Place, tmp_path: Path, pip_sync: Path, tool: str, variant: str
) -> None:
    lock.run(place.world(), "small")
    site = by_hand(place, variant, tool, tmp_path, pip_sync)
    assert installed(site, own=OWN) == locked(place, variant)
    if tool == "pip-sync":  # which stops where it finds a pip as old as the one that came with this Python
        (newest,) = place.default.directory.glob("pip-*.whl")
        assert newest.name.split("-")[1] == installed(site)["pip"]
    for module in ("torch", "triton", "alpha"):
        assert "EVIL" not in (site / f"{module}.py").read_text(encoding="utf-8")


@pytest.mark.usefixtures("pips")
@each_tool
def test_what_comes_as_source_is_built_with_what_is_named(
    place: Place, tmp_path: Path, pip_sync: Path, tool: str
) -> None:
    make_wheel(place.default.directory, "kit", "1.0")
    make_sdist(place.default.directory, "ext", "1.0", build_requires=["kit"])
    profile = place.project / "profiles" / "small.toml"
    profile.write_text(PROFILE.replace('"alpha"', '"alpha", "ext"'), encoding="utf-8")
    lock.run(place.world(), "small")
    site = by_hand(place, "cu128", tool, tmp_path, pip_sync)
    found = installed(site, own=OWN)
    if tool == "pip":  # which takes nothing away
        assert found.pop("kit") == "1.0"
    assert found == locked(place, "cu128")


@pytest.mark.usefixtures("pips")
@each_tool
def test_other_bytes_are_refused(place: Place, tmp_path: Path, pip_sync: Path, tool: str) -> None:
    lock.run(place.world(), "small")
    make_wheel(place.default.directory, "alpha", "1.0", requires=["torch"], files={"alpha.py": "EVIL = 1\n"})
    with pytest.raises(AssertionError, match=r"(?i)hash"):
        by_hand(place, "cu128", tool, tmp_path, pip_sync)
