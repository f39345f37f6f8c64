"""Start a program that ends when the one that asked for it does, even if that one is killed: `leash.py PARENT ARGV…`.

Run as a file, by `python -I -S`, since it must happen in the child between fork and exec. Without it a uv whose
envlock was killed goes on writing, and holds the locks of its cache, until its download ends or times out.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

__all__ = ["argv"]

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def argv(program: Path, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return what to start instead of `program`."""
    return (sys.executable, "-I", "-S", __file__, str(os.getpid()), str(program), *arguments)


def _main(parent: int, command: list[str]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have ended before the kernel was told to watch it.
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606 - there is no shell, and that is the point


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2:])
