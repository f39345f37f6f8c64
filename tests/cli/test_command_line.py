from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envlock.cli import registry
from tests.cli.conftest import ROOT, Shell


def test_help_names_every_verb_and_exit_code(shell: Shell, golden: Callable[[str, str], None]) -> None:
    ran = shell("--help")
    assert (ran.code, ran.stderr) == (0, "")
    golden("help.txt", ran.stdout)


@pytest.mark.parametrize("verb", registry.VERBS)
def test_the_help_of_a_verb_has_an_example(shell: Shell, verb: str, golden: Callable[[str, str], None]) -> None:
    ran = shell(verb, "--help")
    assert (ran.code, ran.stderr) == (0, "")
    assert f"example:\n  envlock {verb}" in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 120
    golden(f"help-{verb}.txt", ran.stdout)


HOST = {
    "schema": 1,
    "os": "linux",
    "arch": "x86_64",
    "glibc": "2.35",
    "driver": {"version": "535.104.05", "library": "535.104.05", "numbering": "linux"},
    "gpus": [{"name": "NVIDIA GeForce RTX 3090", "compute_capability": "8.6", "memory_mib": 24576}],
    "pythons": ["3.10.13", "3.12.1"],
}


@pytest.mark.parametrize("profile", ["gemma-qlora", "xtuner-internlm2", "qwen2.5"])
def test_the_plan_of_a_workstation(shell: Shell, profile: str, golden: Callable[[str, str], None]) -> None:
    host = shell.write("host.json", json.dumps(HOST))
    plain, document = shell("plan", profile, "--host", host), shell("plan", profile, "--host", host, "--json")
    assert (plain.code, plain.stderr, document.code, document.stderr) == (0, "", 0, "")
    golden(f"run-plan-{profile}.txt", plain.stdout)
    golden(f"run-plan-{profile}.json", document.stdout)


def test_what_detect_prints_is_a_host_file(shell: Shell) -> None:
    detected = shell("detect", "--json")
    assert detected.code == 0
    host = shell.write("here.json", detected.stdout)
    assert shell("plan", "gemma-qlora", "--host", host, "--json").document["result"]["backend"] is not None


def test_global_flags_stand_on_either_side_of_the_verb(shell: Shell) -> None:
    before, after = shell("--json", "profiles"), shell("profiles", "--json")
    assert before.document == after.document
    assert before.code == 0
    assert shell("--color", "never", "profiles").code == 0
    assert shell("--color=always", "profiles").stdout != shell("profiles").stdout


def test_version_is_one_line_and_with_v_a_bug_report(shell: Shell) -> None:
    assert shell("--version").stdout.split()[0] == "envlock"
    assert shell("-V").stdout == shell("--version").stdout
    assert [line.split()[0] for line in shell("--version", "-v").stdout.splitlines()] == ["envlock", "uv", "python"]
    assert set(shell("--version", "-v", "--json").document["result"]["engines"]) == {"uv", "python"}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), "usage", "no command was given"),
        (("pln",), "unknown-command", "did you mean `plan`"),
        (("frobnicate",), "unknown-command", "detect, profiles, init, plan"),
        (("plan",), "usage", "PROFILE"),
        (("plan", "--bakend", "cpu"), "unknown-option", "did you mean `--backend`"),
        (("plan", "x", "--back", "cpu"), "unknown-option", "`--back`"),
        (("plan", "x", "y"), "unknown-argument", "`y`"),
        (("plan", "x", "-z"), "unknown-option", "`-z`"),
        (("plan", "x", "--driver-policy", "lax"), "usage", "not one of minor-version, strict"),
        (("verify", "--level", "kernel"), "usage", "did you mean `kernels`"),
        (("verify", "--timeout", "-1"), "usage", "number of seconds"),
        (("verify", "--timeout", "nan"), "usage", "number of seconds"),
        (("profiles", "--color", "sometimes"), "usage", "auto, always, never"),
        (("--color", "never", "plna"), "unknown-command", "did you mean `plan`"),
        (("lock", "x", "--check", "--upgrade"), "usage", "`--check` and `--upgrade`"),
        (("lock", "x", "--check", "--allow", "nonsense"), "usage", "`--check` and `--allow`"),
        (("lock", "x", "--confirm", "--allow", "nonsense"), "usage", "`--confirm` and `--allow`"),
        (("lock", "x", "--cross-check", "--allow", "nonsense"), "usage", "`--cross-check` and `--allow`"),
        (("lock", "x", "--conda", "--no-conda"), "usage", "`--conda` and `--no-conda`"),
        (("lock", "x", "--check", "--no-conda"), "usage", "`--check` and `--no-conda`"),
        (("lock", "x", "--cross-check", "--conda"), "usage", "`--cross-check` and `--conda`"),
        (("lock", "x", "--check", "--no-download"), "usage", "`--check` and `--no-download`"),
        (("lock", "x", "--confirm", "--no-download"), "usage", "`--confirm` and `--no-download`"),
        (("plan", "x", "--", "-y"), "unknown-argument", "`-y`"),
        (("lock", "-q", "--"), "usage", "PROFILE"),
    ],
)
def test_a_wrong_command_line_is_one_clear_error(
    shell: Shell, arguments: tuple[str, ...], code: str, says: str
) -> None:
    plain = shell(*arguments)
    assert plain.code == 2
    assert plain.stdout == ""
    assert plain.stderr.startswith("error: ")
    assert says in plain.stderr
    assert "\nhint: envlock " in plain.stderr
    document = shell("--json", *arguments).document
    assert (document["exit"], document["result"], document["error"]["code"]) == (2, None, code)


@pytest.mark.parametrize("word", ["-x", "--json", "--help", "-v", "--color=always", "-1"])
def test_after_two_dashes_nothing_is_an_option(shell: Shell, word: str) -> None:
    for command in (("plan", "--", word), ("diff", "--exit-code", "--", word, word), ("lock", "--check", "--", word)):
        ran = shell(*command)
        assert (ran.code, ran.stdout) == (2, "")
        assert f"no profile is named `{word}`" in ran.stderr


def test_nothing_but_the_document_is_said_with_json(shell: Shell) -> None:
    ran = shell("plan", "no-such-profile", "--json")
    assert ran.stderr == ""
    assert ran.document["command"] == "plan"


def test_colour_follows_flag_then_no_color_then_force(shell: Shell) -> None:
    escape = "\x1b["
    assert escape not in shell("pln").stderr
    assert escape in shell("pln", FORCE_COLOR="1").stderr
    assert escape in shell("pln", CLICOLOR_FORCE="1").stderr
    assert escape not in shell("pln", FORCE_COLOR="1", NO_COLOR="1").stderr
    assert escape in shell("pln", "--color", "always", NO_COLOR="1").stderr
    assert escape not in shell("pln", "--color", "never", FORCE_COLOR="1").stderr


def test_a_terminal_without_unicode_gets_none(shell: Shell) -> None:
    ran = shell("plan", "gemma-qlora", "--driver", "535.104.05", "--gpu", "8.6", PYTHONIOENCODING="ascii")
    assert ran.stdout.isascii()
    assert ran.code == 0


def test_a_reader_that_goes_away_is_no_error(shell: Shell) -> None:
    with subprocess.Popen(
        [*shell.argv, "plan", "--help"],
        cwd=shell.cwd,
        env=dict(shell.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == ""
        assert child.wait(timeout=60) == 0


def test_help_is_a_word_too(shell: Shell) -> None:
    assert shell("help").stdout == shell("--help").stdout
    assert shell("help", "plan").stdout == shell("plan", "--help").stdout
    assert shell("help", "nope", "--json").document["error"]["code"] == "unknown-command"


def test_profiles_says_whose_they_are(shell: Shell) -> None:
    text = (ROOT / "profiles" / "gemma-qlora.toml").read_text(encoding="utf-8")
    shell.write("profiles/mine.toml", text.replace('name = "gemma-qlora"', 'name = "mine"'))
    blocks = shell("profiles").stdout.split("\n\n")
    origins = {block.split()[0]: block.rstrip().splitlines()[-1].split(maxsplit=1)[1] for block in blocks}
    assert origins["gemma-qlora"] == "envlock itself"
    assert origins["mine"] == "profiles/mine.toml"


@pytest.mark.parametrize("arguments", [("profiles",), ("profiles", "--json"), ("--help",), ("profiles", "--nope")])
def test_an_answer_that_nobody_can_keep_is_a_failure(shell: Shell, arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*shell.argv, *arguments], cwd=shell.cwd, env=dict(shell.environ), stdout=full, stderr=subprocess.PIPE,
            text=True, check=False,
        )  # fmt: skip
    lines = done.stderr.splitlines()
    if "--nope" in arguments:  # nothing is written to stdout then, so nothing is lost
        assert (done.returncode, lines[0].startswith("error: ")) == (2, True)
    else:
        assert (done.returncode, lines) == (
            3,
            ["error: the answer cannot be written: No space left on device", "", "hint: df -h ."],
        )


def test_a_failure_that_nobody_can_read_keeps_its_exit_code(shell: Shell) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*shell.argv, "plan", "nope"], cwd=shell.cwd, env=dict(shell.environ), stdout=subprocess.PIPE, stderr=full,
            text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", ENDING)
def test_an_interrupt_is_one_line_and_130(shell: Shell, number: signal.Signals) -> None:
    code, stdout, stderr = _interrupted(shell, number)
    assert (code, stdout, stderr) == (130, "", "error: interrupted\n")


def test_an_interrupt_is_one_document_too(shell: Shell) -> None:
    code, stdout, stderr = _interrupted(shell, signal.SIGINT, "--json")
    document = json.loads(stdout)
    assert (code, stderr) == (130, "")
    assert (document["command"], document["exit"], document["error"]["code"]) == ("plan", 130, "interrupted")


# Stands before the standard library's own argparse, is signalled in the middle of the imports, and makes way for it.
EARLY = """
import os, sys
os.kill(os.getpid(), {number})
sys.path.remove(os.path.dirname(__file__))
del sys.modules[__name__]
import argparse
"""
LATE = "import atexit, os\natexit.register(lambda: os.kill(os.getpid(), {number}))\n"


@pytest.mark.parametrize("number", ENDING)
def test_an_interrupt_before_anything_runs_is_answered_all_the_same(shell: Shell, number: signal.Signals) -> None:
    environ = _with_module(shell, "argparse", EARLY.format(number=int(number)))
    plain, ran = shell("profiles", **environ), shell("profiles", "--json", **environ)
    assert (plain.code, plain.stdout, plain.stderr) == (130, "", "error: interrupted\n")
    assert (ran.code, ran.stderr, ran.document["error"]["code"]) == (130, "", "interrupted")


@pytest.mark.parametrize("number", ENDING)
def test_an_interrupt_after_the_answer_ends_nothing(shell: Shell, number: signal.Signals) -> None:
    environ = _with_module(shell, "sitecustomize", LATE.format(number=int(number)))
    ran = shell("profiles", "--json", **environ)
    assert (ran.code, ran.stderr, ran.document["error"]) == (0, "", None)


def test_a_signal_that_the_caller_ignores_stays_ignored(shell: Shell) -> None:
    environ = {**shell.environ, **_with_module(shell, "argparse", EARLY.format(number=int(signal.SIGHUP)))}
    done = subprocess.run(
        ["nohup", *shell.argv, "profiles"], cwd=shell.cwd, env=environ, stdin=subprocess.DEVNULL, capture_output=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0


def test_whoever_waits_for_a_reader_can_be_interrupted(shell: Shell) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)  # the document is longer than that
    with subprocess.Popen(
        [
            *shell.argv,
            "diff",
            *(str(ROOT / "lockfiles" / name) for name in ("gemma-qlora.lock", "qwen2.5.lock")),
            "--json",
        ],
        cwd=shell.cwd,
        env=dict(shell.environ),
        stdout=writer,
        stderr=subprocess.PIPE,
    ) as child:
        assert select.select([reader], [], [], 60)[0]
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate(timeout=60)
    os.close(reader)
    os.close(writer)
    assert (child.returncode, stderr) == (130, b"error: interrupted\n")


def _with_module(shell: Shell, name: str, text: str) -> dict[str, str]:
    """Put a module where Python looks first, and return the environment that makes it look there."""
    file = shell.cwd.parent / "early" / f"{name}.py"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(file.parent), shell.environ["PYTHONPATH"]))}


@pytest.mark.parametrize(
    "arguments", [("profiles",), ("export", "gemma-qlora", "-o", "x.txt"), ("diff", "HEAD:small", "small")]
)
@pytest.mark.parametrize("told", [True, False])
def test_without_a_current_folder_nothing_is_made_anywhere(
    shell: Shell, arguments: tuple[str, ...], *, told: bool
) -> None:
    gone = shell.cwd / "gone"
    for flags in ((), ("--json",)):
        gone.mkdir()
        command = ["sh", "-c", 'rmdir "$0" && exec "$@"', str(gone), *shell.argv, *arguments, *flags]
        environ = {**shell.environ, "PWD": str(gone)} if told else dict(shell.environ)
        done = subprocess.run(command, cwd=gone, env=environ, capture_output=True, text=True, check=False)
        said = json.loads(done.stdout)["error"]["message"] if flags else done.stderr
        assert done.returncode == 3
        assert "the current folder is gone" in said
        assert not gone.exists()


def _interrupted(shell: Shell, number: signal.Signals, *flags: str) -> tuple[int, str, str]:
    # Reading a host file blocks on a pipe that nobody writes to: a point that is certain to be in the middle.
    # Without `-W error`: Python itself leaves a file to the collector when it is interrupted while opening it.
    fifo = shell.cwd / "slow.json"
    os.mkfifo(fifo)
    with subprocess.Popen(
        [sys.executable, "-m", "envlock", "plan", "gemma-qlora", "--host", str(fifo), *flags],
        cwd=shell.cwd,
        env=dict(shell.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        writer = _once_it_is_read(fifo)
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=60)
    os.close(writer)
    return child.returncode, stdout, stderr


def _once_it_is_read(fifo: Path) -> int:
    """Open the pipe's other end, which fails until somebody reads."""
    deadline = time.monotonic() + 60
    while (writer := _writer(fifo)) is None:
        assert time.monotonic() < deadline, "the host file was never opened"
        time.sleep(0.05)
    return writer


def _writer(fifo: Path) -> int | None:
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
