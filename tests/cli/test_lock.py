"""`envlock lock` as a process: where it writes, what it says of a world that fails, and two of it at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Shell
from tests.servers.index import Fault, Index
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
    """Run where no file can have more than so many blocks, as on a disk that is full.

    Python would cut short the bytecode that it writes beside the sources, too.
    """
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f "$0"; exec "$@"', str(blocks), *shell.argv, *arguments],
        cwd=shell.cwd,
        env={**shell.environ, "PYTHONDONTWRITEBYTECODE": "1", **environ},
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
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == [f"envlock-{os.getuid()}"]


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


# ---- several profiles -----------------------------------------------------------------------------------------------


def test_what_was_locked_before_a_failure_is_told_beside_it(project: Shell) -> None:
    profile(project, "other", "alpha==9")
    ran = project("lock", "small", "other", "small", "--json")
    document = ran.document
    assert (ran.code, ran.stderr, document["error"]["code"]) == (1, "", "unsatisfiable")
    assert document["error"]["message"].startswith("`other` cannot be locked for cpu-pypi, and stays as it was: ")
    assert [(row["profile"], row["changed"]) for row in document["result"]["locks"]] == [("small", True)]
    plain = project("lock", "small", "other")
    assert plain.stdout.startswith("small  unchanged: lockfiles/small.lock, 1 variant")
    assert "error: `other` cannot be locked" in plain.stderr
    assert plain.code == 1


def test_where_nothing_was_locked_there_is_no_result(project: Shell) -> None:
    profile(project, "other", "alpha==9")
    document = project("lock", "other", "small", "--json").document
    assert (document["exit"], document["result"], document["error"]["code"]) == (1, None, "unsatisfiable")
    assert not (project.cwd / "lockfiles").exists()


def test_a_check_looks_at_all_and_tells_those_that_are_current(project: Shell) -> None:
    assert project("lock", "small", "-q").code == 0
    document = project("lock", "other", "small", "--check", "--json").document
    assert (document["exit"], document["error"]["code"]) == (1, "lock-missing")
    assert [row["profile"] for row in document["result"]["locks"]] == ["small"]
    profile(project, "small", "omega")
    document = project("lock", "other", "small", "--check", "--json").document
    assert (document["exit"], document["result"], document["error"]["code"]) == (1, None, "lock-missing")
    assert document["error"]["message"] == "2 of 2 locks cannot be called current"
    assert document["error"]["hint"] == "envlock lock other small"
    assert [(problem["file"], problem["key"]) for problem in document["error"]["context"]] == [
        ("other", None),
        (None, "profile"),
    ]


def test_a_lock_that_cannot_be_judged_goes_before_one_that_is_not_current(project: Shell) -> None:
    project.write("lockfiles/small.lock", "schema = 1")
    document = project("lock", "other", "small", "--check", "--json").document
    assert (document["exit"], document["result"], document["error"]["code"]) == (2, None, "lock-invalid")
    assert document["error"]["hint"] == "envlock lock small"
    assert {problem["file"] for problem in document["error"]["context"]} == {"other", "lockfiles/small.lock"}


# ---- two at a time ------------------------------------------------------------------------------------------------


def test_one_at_a_time_writes_a_lock(project: Shell, index: Index) -> None:
    index.break_at("/simple/omega/", Fault(kind="stall", value=60))
    with subprocess.Popen(
        [*project.argv, "lock", "small"],
        cwd=project.cwd,
        env=dict(project.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as first:
        deadline = time.monotonic() + 60
        while "/simple/omega/" not in index.requested:
            assert first.poll() is None, "it ended without asking"
            assert time.monotonic() < deadline, "nothing was asked of the index"
            time.sleep(0.05)
        index.mend()
        second = project("lock", "small", "--json")
        error = second.document["error"]
        assert (second.code, error["code"], error["hint"]) == (3, "lock-busy", "envlock lock small")
        assert error["context"][0]["file"] == str(project.cwd / "lockfiles" / "small.lock")
        assert project("lock", "other", "-q").code == 0
        assert project("lock", "small", "--dry-run", "-q").code == 0
        assert not (project.cwd / "lockfiles" / "small.lock").exists()
        first.send_signal(signal.SIGINT)
        stdout, stderr = first.communicate(timeout=60)
    assert (first.returncode, stdout) == (130, "")
    assert "interrupted: the lock of `small` is as it was" in stderr
    assert project("lock", "small", "-q").code == 0
    assert sorted(path.name for path in (project.cwd / "lockfiles").iterdir()) == [
        "other",
        "other.lock",
        "small",
        "small.lock",
    ]
