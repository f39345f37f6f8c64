"""Finding Pythons: links to the Python that runs the tests stand for installed ones, scripts for those that mislead."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envlock import interpreters, proc
from envlock.interpreters import Interpreter

HERE = Path(sys.executable).resolve()
VERSION = platform.python_version()


class Home:
    """A home folder, and what is on PATH there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"HOME": str(folder), "PATH": ""}
        self.notes: list[str] = []

    def python(self, place: str, *, name: str = "python3") -> Path:
        """Put a link to a real Python at `<place>/bin`."""
        path = self.folder / place / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(HERE)
        return path

    def program(self, place: str, script: str, *, name: str = "python3") -> Path:
        """Put a program there that starts like an interpreter and answers what the script prints."""
        path = self.folder / place / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(script.encode())
        path.chmod(0o755)
        return path

    def on_path(self, *places: str) -> None:
        self.environ["PATH"] = os.pathsep.join(str(self.folder / place / "bin") for place in places)

    def find(self, run: proc.Runner = proc.run) -> tuple[Interpreter, ...]:
        return interpreters.find(run=run, environ=self.environ, own=None, note=self.notes.append)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path.resolve())


def answers(*said: str) -> proc.Runner:
    """A runner for programs that can't be built here: each start gives the next answer."""
    left = iter(said)

    def run(command: proc.Command) -> proc.Completed:
        return proc.Completed(argv=command.argv, code=0, stdout=next(left), stderr="")

    return run


def found_in(home: Home, run: proc.Runner = proc.run) -> set[Path]:
    """What was found in this home: folders of the machine itself, such as /opt/conda, are looked into as well."""
    return {it.path for it in home.find(run) if it.path.is_relative_to(home.folder) or it.path == HERE}


@pytest.mark.parametrize(
    ("place", "name", "origin"),
    [
        ("usr", "python3", "PATH"),
        ("usr", "python3.12", "PATH"),
        (".pyenv/versions/3.10.13", "python3", "pyenv"),
        (".local/share/uv/python/cpython-3.12.4-linux-x86_64-gnu", "python3.12", "uv"),
        ("miniforge3", "python3", "conda"),
        ("miniconda3/envs/train", "python3.10", "conda"),
    ],
)
def test_every_place_is_looked_into(home: Home, place: str, name: str, origin: str) -> None:
    home.python(place, name=name)
    home.on_path("usr")
    assert Interpreter(path=HERE, version=VERSION, origin=origin) in home.find()
    assert home.notes == []


@pytest.mark.parametrize(
    ("variable", "value", "place", "origin"),
    [
        ("PYENV_ROOT", "elsewhere", "elsewhere/versions/3.11.7", "pyenv"),
        ("UV_PYTHON_INSTALL_DIR", "pythons", "pythons/cpython-3.11.7-linux-x86_64-gnu", "uv"),
        ("XDG_DATA_HOME", "data", "data/uv/python/cpython-3.11.7-linux-x86_64-gnu", "uv"),
        ("CONDA_PREFIX", "env", "env", "conda"),
        ("CONDA_EXE", "base/bin/conda", "base/envs/train", "conda"),
        ("MAMBA_ROOT_PREFIX", "mamba", "mamba/envs/train", "conda"),
    ],
)
def test_variables_move_the_places(home: Home, variable: str, value: str, place: str, origin: str) -> None:
    home.python(place)
    assert HERE not in found_in(home)
    home.environ[variable] = str(home.folder / value)
    assert Interpreter(path=HERE, version=VERSION, origin=origin) in home.find()


def test_relative_settings_are_not_followed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.python("elsewhere/versions/3.11.7")
    monkeypatch.chdir(home.folder)
    home.environ |= {"PYENV_ROOT": "elsewhere", "PATH": "elsewhere/versions/3.11.7/bin:"}
    assert HERE not in found_in(home)


def test_a_home_is_not_needed(home: Home) -> None:
    home.python("usr")
    home.on_path("usr")
    del home.environ["HOME"]
    assert HERE in found_in(home)


def test_one_interpreter_is_asked_once(home: Home) -> None:
    for name in ("python3", "python3.10"):
        home.python("usr", name=name)
    home.python(".pyenv/versions/3.10.13")
    home.on_path("usr", "usr")
    assert [it.origin for it in home.find() if it.path == HERE] == ["PATH"]


def test_other_names_are_no_interpreters(home: Home) -> None:
    for name in ("python3-config", "python3.10-config", "python", "python3x"):
        home.python("usr", name=name)
    home.on_path("usr")
    assert HERE not in found_in(home)


def test_shims_are_not_started(home: Home) -> None:
    started = home.folder / "started"
    for name in ("python3", "python3.10"):
        home.program(".pyenv/shims", f"#!/bin/sh\ntouch {started}\necho 3.10.13 final cpython True -\n", name=name)
    tool = home.program("opt/mise", "\x7fELF", name="mise")
    (home.folder / "mise-shims/bin").mkdir(parents=True)
    (home.folder / "mise-shims/bin/python3").symlink_to(tool)
    home.environ["PATH"] = f"{home.folder}/.pyenv/shims/bin:{home.folder}/mise-shims/bin"
    assert found_in(home) == set()
    assert not started.exists()
    assert home.notes == [
        f"{home.folder}/.pyenv/shims/bin: a version manager's shims, not started: python3, python3.10",
        f"{home.folder}/mise-shims/bin: a version manager's shims, not started: python3",
    ]


def test_windows_folders_are_not_listed(home: Home) -> None:
    home.environ["PATH"] = "/mnt/c/Windows/System32:/mnt/c"
    assert found_in(home) == set()


def test_a_virtual_environment_stands_for_its_base(home: Home) -> None:
    subprocess.run([str(HERE), "-m", "venv", "--without-pip", str(home.folder / "venv")], check=True)
    home.on_path("venv")
    assert found_in(home) == {HERE}


def test_a_virtual_environment_of_copies_stands_for_its_base(home: Home) -> None:
    venv = home.folder / "venv"
    (venv / "bin").mkdir(parents=True)
    shutil.copy(HERE, venv / "bin" / HERE.name)
    (venv / "pyvenv.cfg").write_text(f"home = {HERE.parent}\nversion = {VERSION}\n", encoding="utf-8")
    home.on_path("venv")
    assert found_in(home) == {HERE}


def test_a_broken_link_is_nothing(home: Home) -> None:
    (home.folder / "usr/bin").mkdir(parents=True)
    (home.folder / "usr/bin/python3").symlink_to("/nowhere/python3")
    (home.folder / "usr/bin/python3.10").symlink_to("python3.10")
    home.on_path("usr")
    assert found_in(home) == set()
    assert home.notes == []


def test_a_broken_interpreter_is_noted(home: Home) -> None:
    path = home.program("usr", "\x7fELF but not really")
    home.on_path("usr")
    assert found_in(home) == set()
    (note,) = home.notes
    assert note.startswith(f"{path}: broken: ")


def test_a_hanging_interpreter_is_noted(home: Home) -> None:
    path = home.program("usr", "\x7fELF")
    home.on_path("usr")

    def hang(command: proc.Command) -> proc.Completed:
        return proc.Completed(argv=command.argv, code=-15, stdout="", stderr="", timed_out=True)

    assert found_in(home, hang) == set()
    assert home.notes == [f"{path}: no answer in 5 s"]


@pytest.mark.parametrize(
    ("said", "note"),
    [
        ("3.10.14 final pypy True -", "3.10.14, pypy, not CPython"),
        ("3.14.0 candidate cpython True -", "3.14.0, a pre-release"),
        ("3.11.7 final cpython False -", "3.11.7, a 32-bit build"),
        ("3.13.0 final cpython True t", "3.13.0, a free-threaded build"),
        ("hello", "broken: ended with 0"),
        ("", "broken: ended with 0"),
        ("3.11 final cpython True -", "broken: ended with 0"),
    ],
)
def test_what_can_not_be_used_is_noted(home: Home, said: str, note: str) -> None:
    path = home.program("usr", "\x7fELF")
    home.on_path("usr")
    assert found_in(home, answers(said)) == set()
    assert home.notes == [f"{path}: {note}"]


def test_a_musl_build_is_passed_over(home: Home) -> None:
    home.python(".local/share/uv/python/cpython-3.12.4-linux-x86_64-musl")
    assert HERE not in found_in(home)


def test_a_conda_environment_on_path_is_condas(home: Home) -> None:
    home.program("env", "\x7fELF")
    (home.folder / "env/conda-meta").mkdir()
    home.on_path("env")
    found = home.find(answers("3.10.13 final cpython True -"))
    assert [it.origin for it in found if it.path.is_relative_to(home.folder)] == ["conda"]


def test_oldest_first(home: Home) -> None:
    for version in ("3.9.18", "3.10.13", "3.13.0"):
        home.program(f".pyenv/versions/{version}", "\x7fELF")

    def run(command: proc.Command) -> proc.Completed:
        version = Path(command.argv[0]).parents[1].name
        return proc.Completed(argv=command.argv, code=0, stdout=f"{version} final cpython True -", stderr="")

    found = [it.version for it in home.find(run) if it.path.is_relative_to(home.folder)]
    assert found == ["3.9.18", "3.10.13", "3.13.0"]


def interpreter(version: str, origin: str = "pyenv") -> Interpreter:
    return Interpreter(path=Path(f"/{origin}/{version}/bin/python3"), version=version, origin=origin)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("3.10", "/pyenv/3.10.13/bin/python3"),
        ("3.10.9", "/PATH/3.10.9/bin/python3"),
        ("3.1", None),
        ("3.12", "/conda/3.12.7/bin/python3"),
        ("3.9", None),
    ],
)
def test_the_newest_patch_that_is_not_condas(asked: str, path: str | None) -> None:
    found = (
        interpreter("3.10.9", "PATH"),
        interpreter("3.10.13"),
        interpreter("3.10.16", "conda"),
        interpreter("3.12.7", "conda"),
    )
    chosen = interpreters.choose_for(asked, found)
    assert (str(chosen.path) if chosen else None) == path


def test_a_name_that_says_another_version_is_not_started(home: Home) -> None:
    other = home.program("other", "#!/bin/sh\nexit 1\n", name="python3.4")
    other.write_bytes(Path("/bin/false").read_bytes())
    mine = home.python("mine", name=f"python{VERSION.rpartition('.')[0]}")
    home.on_path("other", "mine")
    found = interpreters.find(
        run=proc.run, environ=home.environ, own=None, only=(VERSION.rpartition(".")[0],), note=home.notes.append
    )
    assert ([it.path for it in found], home.notes) == ([mine.resolve()], [])
    assert [it.path for it in home.find()] == [mine.resolve()]
    assert home.notes == [f"{other}: broken: ended with 1"]


def test_the_python_that_runs_envlock_is_found_wherever_it_lies(tmp_path: Path) -> None:
    empty = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    found = interpreters.find(run=proc.run, environ=empty)
    assert [(it.path, it.origin) for it in found if it.path == HERE] == [(HERE, "envlock")]


def test_a_pipe_called_python_is_not_waited_for(home: Home) -> None:
    home.python("usr")
    home.on_path("odd", "usr")
    (home.folder / "odd" / "bin").mkdir(parents=True)
    os.mkfifo(home.folder / "odd" / "bin" / "python3", 0o755)
    assert found_in(home) == {HERE}
