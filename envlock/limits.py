"""What the machine has no more of: an answer of its own, lest it be taken for "there is no such file or program"."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from envlock.errors import WorldFailed

__all__ = ["exhausted", "require"]

# Each with a command that shows how much there is.
_SPENT: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        errno.EMFILE: ("this process may not open any more files", "ulimit -n"),
        errno.ENFILE: ("the machine cannot open any more files", "cat /proc/sys/fs/file-nr"),
    }
)

# Of a file, these say something else.
_SPENT_ON_PROGRAMS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        **_SPENT,
        errno.EAGAIN: ("no more processes may be started", "ulimit -u"),
        errno.ENOMEM: ("there is no memory for another process", "ulimit -a"),
    }
)


def exhausted(error: OSError, *, starting: bool = False) -> WorldFailed | None:
    """Return `limit-reached` where the error is about the machine and not about the file, or the program, asked for."""
    known = _SPENT_ON_PROGRAMS if starting else _SPENT
    if error.errno is None or error.errno not in known:
        return None
    message, hint = known[error.errno]
    return WorldFailed(f"a limit of this machine is reached: {message}", code="limit-reached", hint=hint)


def require(error: OSError, *, starting: bool = False) -> None:
    """Raise what `exhausted` returns; whoever calls this takes any other error for an answer."""
    spent = exhausted(error, starting=starting)
    if spent:
        raise spent from error
