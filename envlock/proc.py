"""Start programs: the only module that does.

A child runs in its own process group and gets no input; on a time-out or an interrupt the whole group is terminated,
then killed. Both pipes are drained at once, so a child that writes megabytes to stderr cannot block.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from envlock import limits

__all__ = ["Command", "Completed", "Runner", "run"]

GRACE_SECONDS = 3.0  # to end after SIGTERM
KILLED_SECONDS = 1.0  # for the pipes to close after SIGKILL
WATCH_SECONDS = 0.05  # how soon a cancelled command is noticed


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to start: argv (never a shell line), the child's whole environment, and a limit in seconds.

    Setting `cancel` from another thread ends the child: Ctrl-C reaches only the main one.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    timeout: float | None = None
    cancel: threading.Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How it ended. `code` is negative for a signal, 127 for a program that is not there; output is text."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    timed_out: bool = False


Runner: TypeAlias = Callable[[Command], Completed]


def run(command: Command, *, meanwhile: Callable[[], object] | None = None) -> Completed:
    """Run to the end and return the outcome; `KeyboardInterrupt` is raised after the group has been ended.

    What is to be done `meanwhile` is done once the program has started, in this thread: if it fails, the group is
    ended too. Raise `WorldFailed` (`limit-reached`) where it is the machine that starts no more.
    """
    try:
        child = subprocess.Popen(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: an argument that no argument can be
        if isinstance(error, OSError):
            limits.require(error, starting=True)
        return Completed(argv=command.argv, code=127, stdout="", stderr=str(error))
    try:
        if meanwhile:
            meanwhile()
        stdout, stderr = _communicate(child, command)
    except subprocess.TimeoutExpired:
        late = command.cancel is None or not command.cancel.is_set()
        stdout, stderr = _end(child)
        code = -signal.SIGKILL if child.returncode is None else child.returncode
        return Completed(argv=command.argv, code=code, stdout=stdout, stderr=stderr, timed_out=late)
    except BaseException:
        _end(child)
        raise
    return Completed(argv=command.argv, code=child.returncode, stdout=stdout, stderr=stderr)


def _communicate(child: subprocess.Popen[str], command: Command) -> tuple[str, str]:
    """Return both outputs at the end; raise `TimeoutExpired` at the limit, or soon after `cancel` is set."""
    if command.cancel is None:
        return child.communicate(timeout=command.timeout)
    limit = time.monotonic() + command.timeout if command.timeout is not None else math.inf
    while time.monotonic() < limit and not command.cancel.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=WATCH_SECONDS)
    raise subprocess.TimeoutExpired(command.argv, command.timeout or 0.0)


def _end(child: subprocess.Popen[str]) -> tuple[str, str]:
    """End the group and return what it said. Who left it, or waits where no signal reaches, is not waited for."""
    _signal(child, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return child.communicate(timeout=GRACE_SECONDS)
    _signal(child, signal.SIGKILL)
    try:
        return child.communicate(timeout=KILLED_SECONDS)
    except subprocess.TimeoutExpired as error:
        child.poll()
        for pipe in (child.stdout, child.stderr):
            if pipe:
                pipe.close()
        return _text(error.stdout), _text(error.stderr)


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


def _signal(child: subprocess.Popen[str], number: signal.Signals) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return
