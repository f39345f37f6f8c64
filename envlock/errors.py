"""Every failure envlock reports on purpose: one type, four exit codes, a stable code each.

A module raises one of the four subclasses below; nothing but `envlock.cli` turns them into an exit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

__all__ = ["EnvlockError", "Interrupted", "Misuse", "Problem", "Refused", "WorldFailed", "unreachable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, and where: `file:line: key: message (expected …)`."""

    message: str
    file: str | None = None
    line: int | None = None
    key: str | None = None
    expected: str | None = None

    def __str__(self) -> str:
        """Return the place and what is wrong there, on one line."""
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        key = f"`{self.key}`" if self.key else ""
        head = ": ".join(part for part in (place, key, self.message) if part)
        return f"{head} (expected {self.expected})" if self.expected else head


class EnvlockError(Exception):
    """Base of all reported failures.

    `code` is stable kebab-case; `problems` say where (file, line, key), all at once; `hint` is a command to run.
    """

    exit: ClassVar[int] = 70

    def __init__(self, message: str, *, code: str, problems: tuple[Problem, ...] = (), hint: str | None = None) -> None:
        """Keep the parts apart, so that each face renders them its own way."""
        super().__init__(message)
        self.message = message
        self.code = code
        self.problems = problems
        self.hint = hint


class Refused(EnvlockError):
    """The answer is no: unsatisfiable, out of date, verification failed."""

    exit: ClassVar[int] = 1


class Misuse(EnvlockError):
    """Asked wrongly: a flag, a profile, a config or a host file."""

    exit: ClassVar[int] = 2


class WorldFailed(EnvlockError):
    """The world failed: engine missing, network, disk, target in use."""

    exit: ClassVar[int] = 3


class Interrupted(EnvlockError):
    """Ctrl-C or SIGTERM; the message says what was left on disk."""

    exit: ClassVar[int] = 130


def unreachable(value: NoReturn) -> AssertionError:
    """Close a `match` over a closed union with `raise`: mypy then reports a member that was forgotten."""
    return AssertionError(f"not a member of the union: {value!r}")
