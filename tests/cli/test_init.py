"""`envlock init`: a profile from a file that envlock did not write, and what comes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell
from tests.servers.index import Index
from tests.servers.wheels import make_wheel

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
FREEZE = "numpy==1.26.4\nnvidia-nccl-cu12==2.20.5\ntorch==2.4.1+cu121\ntriton==3.0.0\n-e .\n"


def typed(shell: Shell, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run with something on standard input."""
    argv = [*shell.argv, "init", "--from", "-", *arguments]
    return subprocess.run(
        argv,
        cwd=shell.cwd,
        env=dict(shell.environ),
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def error_of(shell: Shell, *arguments: str) -> dict[str, Any]:
    ran = shell("init", *arguments, "--json")
    assert (ran.code, ran.stderr) == (2, "")
    error: dict[str, Any] = ran.document["error"]
    assert error["hint"]
    return error


def test_a_profile_is_written_that_the_other_verbs_find(shell: Shell) -> None:
    shell.write("freeze.txt", FREEZE)
    plain = shell("init", "--from", "freeze.txt", "--name", "mine")
    assert (plain.code, plain.stderr) == (0, "")
    assert "written to profiles/mine.toml: 2 requirements of freeze.txt kept" in plain.stdout
    assert plain.stdout.splitlines()[-1] == "  envlock lock mine"
    text = (shell.cwd / "profiles" / "mine.toml").read_text(encoding="utf-8")
    assert text.startswith("# From freeze.txt, by `envlock init`.\nschema = 1\n")
    assert "mine" in [row["name"] for row in shell("profiles", "--json").document["result"]["profiles"]]
    host = ("--driver", "535.104.05", "--gpu", "8.6", "--glibc", "2.35", "--json")
    assert shell("plan", "mine", *host).document["result"]["backend"] == "cu121"


def test_the_document_says_what_was_kept_and_what_was_not(shell: Shell) -> None:
    shell.write("freeze.txt", FREEZE)
    result = shell("init", "--from", "freeze.txt", "--name", "mine", "--json").document["result"]
    assert (result["profile"], result["path"], result["text"]) == ("mine", "profiles/mine.toml", None)
    assert (result["python"], result["backends"]) == ("3.12", ["cu121", "cu124", "cu118", "cpu"])
    assert result["kept"] == ["numpy==1.26.4", "torch==2.4.1", "setuptools"]
    assert result["added"] == ["setuptools"]
    assert [(row["what"], row["line"]) for row in result["dropped"]] == [
        ("+cu121 of torch", 3),
        ("-e .", 5),
        ("nvidia-nccl-cu12==2.20.5", 2),
        ("triton==3.0.0", 4),
    ]
    assert all(row["why"] and row["file"] == "freeze.txt" for row in result["dropped"])


def test_a_profile_that_is_there_is_left_as_it_is_and_the_hint_works(shell: Shell) -> None:
    shell.write("freeze.txt", FREEZE)
    shell.write("profiles/mine.toml", "anything")
    for arguments in (("--name", "mine"), ("-o", "profiles/mine.toml")):
        error = error_of(shell, "--from", "freeze.txt", *arguments)
        assert (error["code"], error["context"][0]["file"]) == ("profile-exists", "profiles/mine.toml")
        assert (shell.cwd / "profiles" / "mine.toml").read_text(encoding="utf-8") == "anything"
        again = shell(*error["hint"].split()[1:], "--json")
        assert (again.code, again.document["result"]["path"]) == (0, "profiles/mine-2.toml")
        (shell.cwd / "profiles" / "mine-2.toml").unlink()


def test_a_name_of_a_profile_that_came_with_envlock_is_taken(shell: Shell) -> None:
    shell.write("freeze.txt", FREEZE)
    error = error_of(shell, "--from", "freeze.txt", "--name", "gemma-qlora")
    assert error["code"] == "profile-exists"
    assert shell(*error["hint"].split()[1:]).code == 0


def test_a_dash_prints_the_profile_alone_and_the_rest_to_stderr(shell: Shell) -> None:
    shell.write("freeze.txt", FREEZE)
    ran = shell("init", "--from", "freeze.txt", "--name", "mine", "-o", "-")
    assert ran.code == 0
    assert ran.stdout.startswith("# From freeze.txt")
    assert "warning: freeze.txt:5: -e . is not kept: editable" in ran.stderr
    assert not (shell.cwd / "profiles").exists()
    printed = shell("init", "--from", "freeze.txt", "--name", "mine", "-o", "-", "--json")
    assert (printed.stderr, printed.document["result"]["text"]) == ("", ran.stdout)


def test_a_freeze_comes_through_a_pipe(shell: Shell) -> None:
    ran = typed(shell, FREEZE.replace("\n", "\r\n"), "--name", "mine", "--json")
    assert json.loads(ran.stdout)["result"]["path"] == "profiles/mine.toml"
    assert "# From standard input" in (shell.cwd / "profiles" / "mine.toml").read_text(encoding="utf-8")
    nameless = typed(shell, FREEZE, "--json")
    error = json.loads(nameless.stdout)["error"]
    assert (nameless.returncode, error["code"], error["hint"]) == (2, "usage", "envlock init --from - --name mine")


def test_files_that_a_file_names_are_read_beside_it_and_once(shell: Shell) -> None:
    shell.write("req/all.txt", "-r base.txt\n-c pins.txt\nnumpy\n")
    shell.write("req/base.txt", "-r all.txt\nrich==13.7.1 --hash=sha256:00\n")
    shell.write("req/pins.txt", "numpy==1.26.4\npandas==2.2.0\n")
    result = shell("init", "--from", "req/all.txt", "--json").document["result"]
    assert (result["profile"], result["kept"]) == ("all", ["rich==13.7.1", "numpy==1.26.4"])
    assert [(row["what"], row["file"], row["line"]) for row in result["dropped"]] == [
        ("1 hash", "req/base.txt", 2),
        ("pandas==2.2.0", "req/pins.txt", 2),
    ]


def test_a_file_that_is_named_and_not_there_is_told_with_the_line_that_names_it(shell: Shell) -> None:
    shell.write("r.txt", "rich\n-r gone.txt\n-r https://index.example/r.txt\n")
    error = error_of(shell, "--from", "r.txt")
    assert error["code"] == "file-missing"
    assert (error["context"][0]["file"], error["context"][0]["line"]) == ("r.txt", 2)
    shell.write("gone.txt", "")
    assert shell("init", "--from", "r.txt", "--json").document["result"]["dropped"][0]["line"] == 3


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("environment.yml", "name: My Env\ndependencies:\n  - numpy\n", "my-env"),
        ("pyproject.toml", '[project]\nname = "fschat"\ndependencies = ["rich"]\n', "fschat"),
        ("requirements.txt", "rich\n", "project"),
        ("work/requirements.txt", "rich\n", "work"),
        ("train.txt", "rich\n", "train"),
    ],
)
def test_a_profile_is_called_as_the_file_says_or_is_called(shell: Shell, file: str, text: str, name: str) -> None:
    shell.write(file, text)
    assert shell("init", "--from", file, "--json").document["result"]["profile"] == name
    assert shell("plan", name, "--json").document["error"] is None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--from", "gone.txt"), "file-missing"),
        (("--from", "pixi.lock"), "source-unknown"),
        (("--from", "bad.txt"), "requirements-invalid"),
        (("--from", "bad.yml"), "environment-invalid"),
        (("--from", "bad/pyproject.toml"), "pyproject-invalid"),
        (("--from", "r.txt", "--python", "3"), "usage"),
        (("--from", "r.txt", "--name", "A B"), "name-invalid"),
        (("--from", "r.txt", "-o", "mine.yml"), "usage"),
        (("--from", "r.txt", "-o", "x.toml", "--name", "y"), "usage"),
        (("--from", "old.txt"), "version-unknown"),
        (("--from", "t.txt", "--python", "3.15"), "python-without-build"),
        (("--from", "e.txt"), "nothing-kept"),
        ((), "usage"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(shell: Shell, arguments: tuple[str, ...], code: str) -> None:
    shell.write("pixi.lock", "version: 6\nenvironments: {}\n")
    shell.write("bad.txt", "torch=2.6\n")
    shell.write("bad.yml", "dependencies: x\n")
    shell.write("bad/pyproject.toml", "[project\n")
    shell.write("r.txt", "rich\n")
    shell.write("old.txt", "torch==1.13.1\n")
    shell.write("t.txt", "torch==2.4.1\n")
    shell.write("e.txt", "# nothing\n")
    error = error_of(shell, *arguments)
    assert error["code"] == code
    assert not list(shell.cwd.glob("profiles/*"))
    assert all(row["file"] or row["key"] for row in error["context"])


def test_a_freeze_that_a_shell_of_windows_redirected_is_one_command_away(shell: Shell) -> None:
    (shell.cwd / "freeze.txt").write_bytes(FREEZE.encode("utf-16"))
    error = error_of(shell, "--from", "freeze.txt")
    assert error["code"] == "file-not-text"
    start, _, rest = error["hint"].partition(" | ")
    text = subprocess.run(start.split(), cwd=shell.cwd, check=True, capture_output=True, text=True).stdout
    assert typed(shell, text, *rest.split()[4:]).returncode == 0
    (shell.cwd / "freeze.txt").write_bytes(b"\xff\x00")
    assert error_of(shell, "--from", "freeze.txt")["hint"] == "envlock init --help"


def test_a_folder_that_takes_no_file_is_named(shell: Shell) -> None:
    shell.write("r.txt", "rich\n")
    shell.write("profiles", "a file")
    ran = shell("init", "--from", "r.txt", "--name", "mine", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (3, "not-writable")


def test_a_freeze_is_adopted_locked_and_installed(shell: Shell, index: Index, wheelhouse: Path) -> None:
    make_wheel(wheelhouse, "alpha", "1.0", requires=["omega"])
    make_wheel(wheelhouse, "alpha", "2.0", requires=["omega"])
    make_wheel(wheelhouse, "omega", "1.0")
    make_wheel(wheelhouse, "omega", "1.1")
    path = f"{sys.base_prefix}/bin{os.pathsep}{shell.environ['PATH']}"
    small = replace(shell, environ={**shell.environ, "ENVLOCK_INDEX_PYPI": index.url, "PATH": path})
    small.write("freeze.txt", "alpha==1.0\r\nomega==1.0\r\n-e .\r\n")
    made = small("init", "--from", "freeze.txt", "--name", "small", "--python", HERE, "--json").document["result"]
    assert small(*made["command"].split()[1:], "-q").code == 0
    installed = small("install", "small", "--json").document
    assert (installed["error"], installed["result"]["packages"]) == (None, 2)
    python = small.cwd / ".envlock" / "small" / "bin" / "python"
    told = "from importlib.metadata import version; print(version('alpha'), version('omega'))"
    ran = subprocess.run([python, "-c", told], check=True, env=dict(small.environ), capture_output=True, text=True)
    assert ran.stdout == "1.0 1.0\n"
