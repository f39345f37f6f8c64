"""Start programs: the only module that does.

A child runs in its own process group; on a time-out or an interrupt the whole group is terminated, then killed.
Both pipes are drained at once, so a child that writes megabytes to stderr cannot block.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

__all__ = ["Command", "Completed", "Runner", "run"]

GRACE_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to start: argv (never a shell line), the child's whole environment, and a limit in seconds."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    timeout: float | None = None
    stdin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How it ended. `code` is negative for a signal, 127 for a program that is not there; output is text."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    timed_out: bool = False


Runner: TypeAlias = Callable[[Command], Completed]


def run(command: Command) -> Completed:
    """Run to the end and return the outcome; only `KeyboardInterrupt` is raised, after the group has been ended."""
    try:
        child = subprocess.Popen(
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.PIPE if command.stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Completed(argv=command.argv, code=127, stdout="", stderr=str(error))
    try:
        stdout, stderr = child.communicate(command.stdin, timeout=command.timeout)
    except subprocess.TimeoutExpired:
        stdout, stderr = _end(child)
        return Completed(argv=command.argv, code=child.returncode, stdout=stdout, stderr=stderr, timed_out=True)
    except BaseException:
        _end(child)
        raise
    return Completed(argv=command.argv, code=child.returncode, stdout=stdout, stderr=stderr)


def _end(child: subprocess.Popen[str]) -> tuple[str, str]:
    _signal(child, signal.SIGTERM)
    try:
        return child.communicate(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _signal(child, signal.SIGKILL)
        return child.communicate()


def _signal(child: subprocess.Popen[str], number: signal.Signals) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return
