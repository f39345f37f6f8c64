"""Which default index uv and pip have set: what envlock reads is held against what these two say themselves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import uv

from envlock import ambient
from envlock.config import Ambient

URL = "https://%s.example/simple"
UV = 'index-url = "https://%s.example/simple"\n'
UV_DEFAULT = '[[index]]\nurl = "https://%s.example/simple"\ndefault = true\n'
PIP = "[global]\nindex-url = https://%s.example/simple\n"
PIP_SAYS = re.compile(r"Base URL of the Python\s+Package Index \(default\s+(?P<url>\S+)\)")


class Machine:
    """A home, a project and a system that are nobody's: `{}` in a value stands for the folder of it all."""

    def __init__(self, root: Path, environ: Mapping[str, str], files: Mapping[str, str]) -> None:
        self.root, self.cwd = root, root / "project" / "below"
        self.cwd.mkdir(parents=True)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        plain = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "XDG_CONFIG_DIRS": str(root / "etc" / "xdg")}
        self.environ = plain | {name: value.replace("{}", str(root)) for name, value in environ.items()}

    def read(self, *, with_files: bool = True) -> Ambient:
        prefix = self.root / "prefix"
        return ambient.read(self.environ, self.cwd, with_files=with_files, root=self.root, prefix=prefix)

    def known(self) -> tuple[str | None, str | None]:
        """The address that is read, and where it is set, below the root."""
        found = self.read()
        assert found.fault is None
        if found.index is None:
            return None, None
        return str(found.index.value), found.index.origin.removeprefix(f"{self.root}/")

    def uv(self) -> str | None:
        """The address that uv asks; None where it says that its settings are wrong."""
        asked = ("--emit-index-url", "--no-header", "--quiet", "--offline", "--python", sys.executable)
        done = self._run(uv.find_uv_bin(), "pip", "compile", os.devnull, *asked)
        return done.stdout.removeprefix("--index-url ").strip() if done.returncode == 0 else None

    def pip(self) -> str | None:
        """The address that `pip install` asks; None where it says that its settings are wrong."""
        done = self._run(sys.executable, "-m", "pip", "install", "--help")
        said = PIP_SAYS.search(done.stdout)
        return said["url"] if said else None

    def _run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, cwd=self.cwd, env=self.environ, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def own_index(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str | None]]:
    """What the two ask where a test sets nothing: this very machine may have a file that has no other place."""
    machine = Machine(tmp_path_factory.mktemp("nobody"), {}, {})
    apart = {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}
    nothing = Machine(tmp_path_factory.mktemp("apart"), apart, {})
    return {"uv": {machine.uv(), nothing.uv()}, "pip": {machine.pip(), nothing.pip()}}


# ---- held against the tools themselves ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "files", "origin"),
    [
        ({}, {}, None),
        ({}, {"project/uv.toml": UV % "a"}, "project/uv.toml:1"),
        ({}, {"project/pyproject.toml": "[tool.uv]\n" + UV % "a"}, "project/pyproject.toml:2"),
        ({}, {"project/below/pyproject.toml": "[tool.x]\n", "project/uv.toml": UV % "a"}, "project/uv.toml:1"),
        ({}, {"project/below/uv.toml": "", "project/uv.toml": UV % "a"}, None),
        ({}, {"project/uv.toml": UV % "a", "project/pyproject.toml": "[tool.uv]\n" + UV % "b"}, "project/uv.toml:1"),
        ({}, {"project/below/pyproject.toml": "x = \n", "project/uv.toml": UV % "a"}, "project/uv.toml:1"),
        ({}, {"home/.config/uv/uv.toml": UV % "a"}, "home/.config/uv/uv.toml:1"),
        ({"XDG_CONFIG_HOME": "relative"}, {"home/.config/uv/uv.toml": UV % "a"}, "home/.config/uv/uv.toml:1"),
        (
            {"XDG_CONFIG_HOME": "{}/x"},
            {"home/.config/uv/uv.toml": UV % "a", "x/uv/uv.toml": UV % "b"},
            "x/uv/uv.toml:1",
        ),
        ({}, {"home/.config/uv/uv.toml": UV % "a", "project/uv.toml": UV % "b"}, "project/uv.toml:1"),
        ({}, {"home/.config/uv/uv.toml": UV_DEFAULT % "a", "project/uv.toml": UV % "b"}, "home/.config/uv/uv.toml:2"),
        ({}, {"etc/xdg/uv/uv.toml": UV % "a"}, "etc/xdg/uv/uv.toml:1"),
        ({"XDG_CONFIG_DIRS": "{}/no:{}/yes"}, {"yes/uv/uv.toml": UV % "a"}, "yes/uv/uv.toml:1"),
        ({}, {"etc/xdg/uv/uv.toml": UV % "a", "home/.config/uv/uv.toml": UV % "b"}, "home/.config/uv/uv.toml:1"),
        ({"UV_NO_CONFIG": "1"}, {"project/uv.toml": UV % "a"}, None),
        ({"UV_NO_CONFIG": "false"}, {"project/uv.toml": UV % "a"}, "project/uv.toml:1"),
        ({"UV_CONFIG_FILE": "{}/c.toml"}, {"project/uv.toml": UV % "a", "c.toml": UV % "b"}, "c.toml:1"),
        ({"UV_CONFIG_FILE": "{}/c.toml", "UV_NO_CONFIG": "1"}, {"c.toml": UV % "b"}, "c.toml:1"),
        ({"UV_INDEX_URL": URL % "v"}, {"project/uv.toml": UV_DEFAULT % "a"}, "UV_INDEX_URL"),
        ({"UV_DEFAULT_INDEX": f"co={URL % 'v'}", "UV_INDEX_URL": URL % "w"}, {}, "UV_DEFAULT_INDEX"),
    ],
)
def test_uv_asks_where_envlock_says(
    tmp_path: Path,
    own_index: Mapping[str, set[str | None]],
    environ: Mapping[str, str],
    files: Mapping[str, str],
    origin: str | None,
) -> None:
    machine = Machine(tmp_path, {**environ, "PIP_CONFIG_FILE": os.devnull}, files)
    url, place = machine.known()
    assert place == origin
    assert machine.uv() in ({url} if url else own_index["uv"])


@pytest.mark.parametrize(
    ("environ", "files", "origin"),
    [
        ({}, {}, None),
        ({}, {"home/.config/pip/pip.conf": PIP % "a"}, "home/.config/pip/pip.conf:2"),
        ({}, {"home/.pip/pip.conf": PIP % "a"}, "home/.pip/pip.conf:2"),
        (
            {},
            {"home/.pip/pip.conf": PIP % "a", "home/.config/pip/pip.conf": PIP % "b"},
            "home/.config/pip/pip.conf:2",
        ),
        ({"XDG_CONFIG_HOME": "{}/x"}, {"x/pip/pip.conf": PIP % "a"}, "x/pip/pip.conf:2"),
        ({}, {"etc/xdg/pip/pip.conf": PIP % "a"}, "etc/xdg/pip/pip.conf:2"),
        (
            {"XDG_CONFIG_DIRS": "{}/1:{}/2"},
            {"1/pip/pip.conf": PIP % "a", "2/pip/pip.conf": PIP % "b"},
            "2/pip/pip.conf:2",
        ),
        (
            {"PIP_CONFIG_FILE": "{}/c"},
            {"c": PIP % "a", "home/.config/pip/pip.conf": PIP % "b"},
            "c:2",
        ),
        (
            {"PIP_CONFIG_FILE": "{}/c"},
            {"c": "", "home/.config/pip/pip.conf": PIP % "b", "etc/xdg/pip/pip.conf": PIP % "c"},
            "etc/xdg/pip/pip.conf:2",
        ),
        ({"PIP_CONFIG_FILE": "{}/c"}, {"home/.config/pip/pip.conf": PIP % "b"}, "home/.config/pip/pip.conf:2"),
        ({"PIP_CONFIG_FILE": os.devnull}, {"home/.config/pip/pip.conf": PIP % "b"}, None),
        (
            {},
            {"home/.config/pip/pip.conf": PIP % "a", "etc/xdg/pip/pip.conf": "[install]\nindex-url = " + URL % "b"},
            "etc/xdg/pip/pip.conf:2",
        ),
        ({}, {"home/.config/pip/pip.conf": "[global]\nindex-url =\n", "etc/xdg/pip/pip.conf": PIP % "b"}, None),
        ({}, {"home/.config/pip/pip.conf": "[global]\n--Index_URL: " + URL % "b"}, "home/.config/pip/pip.conf:2"),
        ({}, {"home/.config/pip/pip.conf": "[global]\nindex-url =\n  " + URL % "b"}, "home/.config/pip/pip.conf:2"),
        ({}, {"home/.config/pip/pip.conf": "[search]\nindex-url = " + URL % "b"}, None),
        ({"PIP_INDEX_URL": URL % "v"}, {"home/.config/pip/pip.conf": PIP % "b"}, "PIP_INDEX_URL"),
        ({"PIP_INDEX_URL": ""}, {"home/.config/pip/pip.conf": PIP % "b"}, "home/.config/pip/pip.conf:2"),
    ],
)
def test_pip_asks_where_envlock_says(
    tmp_path: Path,
    own_index: Mapping[str, set[str | None]],
    environ: Mapping[str, str],
    files: Mapping[str, str],
    origin: str | None,
) -> None:
    machine = Machine(tmp_path, {"UV_NO_CONFIG": "1", **environ}, files)
    url, place = machine.known()
    assert place == origin
    assert machine.pip() in ({url} if url else own_index["pip"])


@pytest.mark.parametrize(
    ("environ", "files", "says"),
    [
        ({}, {"project/uv.toml": "x = \n"}, "project/uv.toml:1: invalid value"),
        ({}, {"project/uv.toml/x": ""}, "project/uv.toml: Is a directory"),
        ({}, {"project/uv.toml": UV % "a", "home/.config/uv/uv.toml": "index = 3"}, "home/.config/uv/uv.toml: `index`"),
        ({"UV_CONFIG_FILE": "{}/c.toml"}, {}, "c.toml: `UV_CONFIG_FILE`: no such file"),
    ],
)
def test_what_uv_refuses_is_a_fault(
    tmp_path: Path, environ: Mapping[str, str], files: Mapping[str, str], says: str
) -> None:
    machine = Machine(tmp_path, {**environ, "PIP_INDEX_URL": URL % "weaker"}, files)
    found = machine.read()
    assert str(found.fault).startswith(f"{tmp_path}/{says}")
    assert found.index is None
    assert machine.uv() is None


@pytest.mark.parametrize(
    ("text", "says"),
    [("index-url = x", ":1: stands before any section"), ("[global]\nx = 1\nx = 2", ":3: is there twice")],
)
def test_what_pip_refuses_is_a_fault(tmp_path: Path, text: str, says: str) -> None:
    machine = Machine(tmp_path, {"UV_NO_CONFIG": "1"}, {"home/.config/pip/pip.conf": text})
    assert str(machine.read().fault).startswith(f"{tmp_path}/home/.config/pip/pip.conf{says}")
    assert machine.pip() is None


def test_what_pip_cannot_open_it_passes_over(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {}, {"home/.config/pip/pip.conf/x": "", "etc/xdg/pip/pip.conf": PIP % "a"})
    url, _ = machine.known()
    assert machine.pip() == url == URL % "a"
    (unused,) = machine.read().unused
    assert (unused.value, unused.origin) == (
        "not used: Is a directory",
        str(tmp_path / "home/.config/pip/pip.conf"),
    )


# ---- between them ---------------------------------------------------------------------------------------------------


def test_uv_goes_before_pip_and_a_variable_before_a_file(tmp_path: Path) -> None:
    files = {"home/.config/pip/pip.conf": PIP % "pip", "home/.config/uv/uv.toml": UV % "uv"}
    every = {"UV_DEFAULT_INDEX": URL % "v", "PIP_INDEX_URL": URL % "w"}
    for number, (environ, names, origin) in enumerate(
        (
            (every, list(files), "UV_DEFAULT_INDEX"),
            ({"PIP_INDEX_URL": URL % "w"}, list(files), "home/.config/uv/uv.toml:1"),
            ({"PIP_INDEX_URL": URL % "w"}, list(files)[:1], "PIP_INDEX_URL"),
            ({}, list(files)[:1], "home/.config/pip/pip.conf:2"),
        )
    ):
        machine = Machine(tmp_path / str(number), environ, {name: files[name] for name in names})
        assert machine.known()[1] == origin


def test_a_broken_file_behind_what_is_set_is_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"UV_DEFAULT_INDEX": URL % "v"}, {"project/uv.toml": "x", "etc/pip.conf": "x"})
    assert machine.known() == (URL % "v", "UV_DEFAULT_INDEX")


def test_without_files_only_variables_count(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"PIP_INDEX_URL": URL % "v"}, {"project/uv.toml": UV % "a", "etc/pip.conf": "x"})
    found = machine.read(with_files=False).index
    assert found is not None
    assert found.origin == "PIP_INDEX_URL"


@pytest.mark.parametrize(
    ("environ", "files", "origin"),
    [
        ({}, {"etc/pip.conf": PIP % "a", "etc/xdg/pip/pip.conf": PIP % "b"}, "etc/pip.conf:2"),
        ({"XDG_CONFIG_DIRS": ""}, {"etc/xdg/pip/pip.conf": PIP % "b"}, "etc/xdg/pip/pip.conf:2"),
        ({}, {"prefix/pip.conf": PIP % "a", "home/.config/pip/pip.conf": PIP % "b"}, "prefix/pip.conf:2"),
        ({"VIRTUAL_ENV": "{}/v"}, {"prefix/pip.conf": PIP % "a", "v/pip.conf": PIP % "b"}, "v/pip.conf:2"),
        ({"CONDA_PREFIX": "{}/c"}, {"prefix/pip.conf": PIP % "a", "c/pip.conf": PIP % "b"}, "c/pip.conf:2"),
        ({"HOME": ""}, {"home/.config/pip/pip.conf": PIP % "b"}, None),
        ({}, {"etc/uv/uv.toml": UV % "a"}, "etc/uv/uv.toml:1"),
        ({}, {"etc/uv/uv.toml": UV % "a", "etc/xdg/uv/uv.toml": UV % "b"}, "etc/xdg/uv/uv.toml:1"),
        ({"HOME": ""}, {"home/.config/uv/uv.toml": UV % "b"}, None),
    ],
)
def test_files_of_the_system_and_of_an_environment(
    tmp_path: Path, environ: Mapping[str, str], files: Mapping[str, str], origin: str | None
) -> None:
    """As these have one place on a machine, the tools themselves cannot be asked."""
    assert Machine(tmp_path, environ, files).known()[1] == origin


def test_the_environment_of_pip_has_its_own_file(tmp_path: Path) -> None:
    """Held against a pip that runs in such an environment."""
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    (place / "pip.conf").write_text(PIP % "own", encoding="utf-8")
    machine = Machine(tmp_path, {"VIRTUAL_ENV": str(place)}, {"home/.config/pip/pip.conf": PIP % "user"})
    done = machine._run(str(place / "bin" / "pip"), "install", "--help")
    said = PIP_SAYS.search(done.stdout)
    assert said is not None
    assert machine.known() == (said["url"], "venv/pip.conf:2") == (URL % "own", "venv/pip.conf:2")


def test_a_file_that_is_no_text_is_a_fault(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {}, {})
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "pip.conf").write_bytes(b"[global]\n\xff")
    assert str(machine.read().fault) == f"{tmp_path}/etc/pip.conf: byte 9 is not UTF-8 (expected UTF-8 text)"
    (tmp_path / "project" / "uv.toml").write_bytes(b"\xff")
    assert str(machine.read().fault) == f"{tmp_path}/project/uv.toml: byte 0 is not UTF-8 (expected UTF-8 text)"


def test_what_is_handed_to_json_holds_no_login(tmp_path: Path) -> None:
    text = "[global]\nextra-index-url = https://joe:s3cret@x.example/\nfind-links = https://joe:s3cret@x.example/\n"
    unused = Machine(tmp_path, {}, {"etc/pip.conf": text}).read().unused
    assert [one.origin.removeprefix(f"{tmp_path}/") for one in unused] == ["etc/pip.conf:2", "etc/pip.conf:3"]
    assert "s3cret" not in json.dumps([[one.name, one.value] for one in unused])
