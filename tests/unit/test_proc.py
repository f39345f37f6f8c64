"""A program runs to its end, or is ended, with all that it started; what it said is kept."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from envlock import proc
from envlock.proc import Command, Completed

ENV = {"PATH": os.environ["PATH"]}


def shell(script: str, *, timeout: float | None = None, cancel: threading.Event | None = None) -> Completed:
    return proc.run(Command(argv=("sh", "-c", script), env=ENV, timeout=timeout, cancel=cancel))


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pid: int) -> bool:
    """Tell whether a process that was sent a signal is over, as soon as it is."""
    deadline = time.monotonic() + 30
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


@pytest.mark.parametrize("cancel", [None, threading.Event()])
def test_a_program_that_ends_says_how(cancel: threading.Event | None) -> None:
    done = shell("echo out; echo err >&2; exit 3", cancel=cancel)
    assert (done.code, done.stdout, done.stderr, done.timed_out) == (3, "out\n", "err\n", False)
    assert shell("kill -9 $$", cancel=cancel).code == -signal.SIGKILL


def test_an_argument_that_no_argument_can_be_is_127() -> None:
    done = proc.run(Command(argv=("true", "a\0b"), env=ENV))
    assert (done.code, done.stderr) == (127, "embedded null byte")


def test_a_program_that_is_not_there_is_127(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    done = proc.run(Command(argv=(missing,), env=ENV))
    assert (done.code, done.stdout, done.stderr) == (127, "", f"[Errno 2] No such file or directory: '{missing}'")


@pytest.mark.parametrize("cancel", [None, threading.Event()])
def test_both_outputs_are_read_at_once_and_nothing_is_lost(cancel: threading.Event | None) -> None:
    script = "import sys; [stream.write('é' * 10**6) for stream in (sys.stderr, sys.stdout)]"
    argv = (sys.executable, "-X", "utf8", "-c", script)
    done = proc.run(Command(argv=argv, env=ENV, cancel=cancel))
    assert (done.code, done.stdout, done.stderr) == (0, "é" * 10**6, "é" * 10**6)


def test_it_gets_no_input_and_only_the_environment_that_is_given() -> None:
    done = proc.run(Command(argv=("sh", "-c", 'cat; echo "$A" "$HOME"'), env={**ENV, "A": "a"}, cwd=Path("/")))
    assert (done.code, done.stdout) == (0, "a \n")


def test_at_its_limit_it_is_ended_with_all_that_it_started() -> None:
    done = shell("sleep 60 & echo $!; wait", timeout=0.3)
    assert (done.code, done.timed_out) == (-signal.SIGTERM, True)
    assert ends(int(done.stdout))


def test_who_does_not_listen_is_killed() -> None:
    done = shell("trap '' TERM; echo here; while :; do sleep 1; done", timeout=0.3)
    assert (done.code, done.stdout, done.timed_out) == (-signal.SIGKILL, "here\n", True)


def test_cancelled_it_is_ended_and_that_is_no_limit() -> None:
    cancel = threading.Event()
    cancel.set()
    done = shell("sleep 60", cancel=cancel, timeout=60)
    assert (done.code, done.timed_out) == (-signal.SIGTERM, False)


def test_nobody_waits_for_a_grandchild_that_left_and_keeps_the_outputs() -> None:
    done = shell("setsid sleep 600 & echo $!; sleep 600", timeout=0.3)
    grandchild = int(done.stdout)
    try:
        assert (done.code, done.timed_out) == (-signal.SIGTERM, True)
        assert is_alive(grandchild)
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_what_is_done_meanwhile_is_done_while_it_runs(tmp_path: Path) -> None:
    def answer() -> None:
        (tmp_path / "answer").write_text("42\n")

    waiting = Command(argv=("sh", "-c", "until [ -s answer ]; do sleep 0.01; done; cat answer"), env=ENV, cwd=tmp_path)
    assert proc.run(waiting, meanwhile=answer).stdout == "42\n"


def test_nothing_runs_on_where_what_is_done_meanwhile_fails(tmp_path: Path) -> None:
    def fail() -> None:
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        raise MemoryError

    with pytest.raises(MemoryError):
        proc.run(
            Command(argv=("sh", "-c", "echo $$ > pid.new; mv pid.new pid; sleep 60"), env=ENV, cwd=tmp_path),
            meanwhile=fail,
        )
    assert ends(int((tmp_path / "pid").read_text()))
