"""The whole command over a small stack: lock, install, verify, and a Ctrl-C in the middle, as processes."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.servers.index import Fault, Index
from tests.servers.wheels import make_wheel

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PROFILE = f"""
schema = 1
name = "small"
summary = "one module and what it needs"
python = "{HERE}"
platforms = ["linux-x86_64"]
backends = ["cpu"]
requires = ["alpha"]

[backend.cpu]
pypi-python = ["{HERE}"]
"""


@pytest.fixture
def small(shell: Shell, index: Index, wheelhouse: Path) -> Shell:
    """A shell in a project whose one profile needs two wheels of the loopback index."""
    make_wheel(wheelhouse, "alpha", "1.0", requires=["omega"])
    make_wheel(wheelhouse, "omega", "1.0")
    shell.write("profiles/small.toml", PROFILE)
    # The Python that runs the tests is the one that is sure to be here.
    path = f"{sys.base_prefix}/bin{os.pathsep}{shell.environ['PATH']}"
    return replace(shell, environ={**shell.environ, "ENVLOCK_INDEX_PYPI": index.url, "PATH": path})


def test_lock_install_verify(small: Shell) -> None:
    locked = small("lock", "small", "--json").document
    assert locked["result"]["locks"][0]["changed"] is True
    assert small("lock", "small", "--json").document["result"]["locks"][0]["changed"] is False
    assert small("lock", "small", "--check").code == 0

    installed = small("install", "small", "--json").document
    assert (installed["error"], installed["result"]["installed"]) == (None, True)
    python = small.cwd / ".envlock" / "small" / "bin" / "python"
    subprocess.run([python, "-c", "import alpha, omega"], check=True, env=dict(small.environ))
    again = small("install", "small", "--json").document
    assert (again["error"], again["result"]["installed"]) == (None, False)

    verified = small("verify", "small", "--level", "quick", "--json").document
    assert (verified["error"], verified["result"]["verdict"]) == (None, "intact")


def test_what_is_missing_offline_is_fetched_by_the_hint(small: Shell) -> None:
    assert small("lock", "small", "-q").code == 0
    empty = {"UV_CACHE_DIR": str(small.cwd / "empty")}
    for flags, setting, hint in (
        (("--offline",), {}, "envlock install small"),
        ((), {"ENVLOCK_OFFLINE": "1"}, "ENVLOCK_OFFLINE=false envlock install small"),
    ):
        ran = small("install", "small", *flags, "--json", **empty, **setting)
        error = ran.document["error"]
        assert (ran.code, error["code"], error["hint"]) == (3, "not-cached", hint)
        assert error["message"].endswith("and offline none is fetched")
    assert "no pip is in it" in small("install", "small").stdout
    assert "no pip is in it" not in small("install", "small").stdout


def test_an_environment_that_was_spoilt_says_no_and_what_to_run(small: Shell) -> None:
    assert small("lock", "small", "-q").code == 0
    assert small("install", "small", "-q").code == 0
    (module,) = (small.cwd / ".envlock" / "small").resolve().glob("lib/python3*/site-packages/alpha.py")
    module.unlink()
    ran = small("verify", "small", "--json")
    assert (ran.code, ran.stderr) == (1, "")
    assert ran.document["error"]["code"] == "verification-failed"
    assert ran.document["result"]["verdict"] == "failed"
    plain = small("verify", "small")
    assert plain.code == 1
    assert plain.stdout.splitlines()[-1].startswith("failed: integrity.")
    assert "hint: envlock install small" in plain.stderr


@pytest.mark.parametrize("path", ["-dash", "--clear", "--help", "a b"])
def test_a_path_is_never_taken_for_an_option(small: Shell, path: str) -> None:
    assert small("lock", "small", "-q").code == 0
    ran = small("install", "small", f"--path={path}", "--level", "quick", "-q")
    assert (ran.code, ran.stderr) == (0, "")
    assert (small.cwd / path).is_symlink()
    (told,) = re.findall(r"^ +source (.+)$", ran.stdout, re.MULTILINE)
    assert subprocess.run(["sh", "-c", f". {told}"], cwd=small.cwd, check=False).returncode == 0
    (module,) = (small.cwd / path).resolve().glob("lib/python3*/site-packages/alpha.py")
    module.unlink()
    again = small("verify", str(small.cwd / path), "--level", "quick", "--json").document["error"]["hint"]
    assert small(*shlex.split(again)[1:], "--level", "quick", "-q").code == 0


def test_a_path_that_uv_cannot_be_told_is_refused_before_anything_is_made(small: Shell) -> None:
    assert small("lock", "small", "-q").code == 0
    ran = small("install", "small", "--path", os.fsdecode(b"\xff/env"), "--json")
    assert (ran.code, ran.stderr, ran.document["error"]["code"]) == (2, "", "path-invalid")
    assert sorted(path.name for path in small.cwd.iterdir()) == ["lockfiles", "profiles"]


def test_nothing_fetched_is_said_stage_by_stage_on_stderr_only(small: Shell) -> None:
    assert small("lock", "small", "-q").stderr == ""
    ran = small("install", "small")
    assert ran.code == 0
    assert "\x1b" not in ran.stderr
    assert len(ran.stderr.splitlines()) >= 3
    assert "source .envlock/small/bin/activate" in ran.stdout


def test_an_interrupted_install_leaves_nothing_behind_and_goes_on(small: Shell, index: Index) -> None:
    assert small("lock", "small", "-q").code == 0
    index.break_at("/files/omega-1.0-py3-none-any.whl", Fault(kind="stall", value=60))
    place = small.cwd / ".envlock" / "small"
    with subprocess.Popen(
        [*small.argv, "install", "small"],
        cwd=small.cwd,
        env={**small.environ, "UV_CACHE_DIR": str(small.cwd / "empty-cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        deadline = time.monotonic() + 60
        while not list(place.parent.glob("small.envlock/*/pyvenv.cfg")):
            assert time.monotonic() < deadline, "no generation was begun"
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=60)
    assert (child.returncode, stdout) == (130, "")
    assert "error: interrupted" in stderr
    assert "Traceback" not in stderr
    assert not place.exists()
    index.mend()
    assert small("install", "small", "-q").code == 0
    assert place.is_symlink()


@pytest.mark.parametrize(
    ("requires", "code", "exit_code"), [("alpha==9", "unsatisfiable", 1), ("nonesuch", "unsatisfiable", 1)]
)
def test_what_cannot_be_resolved(small: Shell, requires: str, code: str, exit_code: int) -> None:
    small.write("profiles/small.toml", PROFILE.replace('"alpha"', f'"{requires}"'))
    ran = small("lock", "small", "--json")
    assert (ran.code, ran.stderr, ran.document["error"]["code"]) == (exit_code, "", code)
    assert not (small.cwd / "lockfiles").exists()


@pytest.mark.parametrize("files", [8, 12, 16])
def test_files_that_cannot_be_opened_are_not_taken_for_missing_ones(small: Shell, files: int) -> None:
    assert small("lock", "small", "-q").code == 0
    limited = ("sh", "-c", f'ulimit -n {files}; exec "$@"', "sh")
    done = subprocess.run(
        [*limited, *small.argv, "install", "small", "--json"],
        cwd=small.cwd, env=small.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"], error["hint"]) == (3, "limit-reached", "ulimit -n")


def test_a_verification_without_a_folder_says_how_to_repeat_it_with_one(small: Shell) -> None:
    assert small("lock", "small", "-q").code == 0
    for command in (("install", "small", "--path", "an env"), ("verify", "an env")):
        ran = small(*command, "-q", "--json", TMPDIR="/nonexistent")
        error = ran.document["error"]
        assert (ran.code, error["code"]) == (3, "verification-could-not-run")
        assert error["hint"] == f"TMPDIR=FOLDER envlock {shlex.join(command)}"
        given = {"TMPDIR": str(small.cwd)}
        assert small(*shlex.split(error["hint"])[2:], "-q", **given).code == 0


def test_a_failed_install_is_repeated_at_the_same_path(small: Shell, index: Index) -> None:
    assert small("lock", "small", "-q").code == 0
    index.break_at("/files/omega-1.0-py3-none-any.whl", Fault(kind="status", value=503))
    ran = small(
        "install", "small", "--path", "an env", "--json", UV_HTTP_RETRIES="0", UV_CACHE_DIR=str(small.cwd / "c")
    )
    assert (ran.code, ran.document["error"]["hint"]) == (3, "envlock install small --path 'an env'")


def test_an_index_that_is_down_is_no_conflict(small: Shell, index: Index) -> None:
    index.break_at("/simple/alpha/", Fault(kind="status", value=503))
    ran = small("lock", "small", "--json", UV_HTTP_RETRIES="0")
    assert (ran.code, ran.document["error"]["code"]) == (3, "network")
