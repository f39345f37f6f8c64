"""A folder for what is needed for a while, among everybody's temporary files; it outlives no run by more than another.

Whoever is killed leaves its folder behind. The next run clears it: a folder in use is locked, and the kernel drops the
lock of a process that ended, however it did.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["folder"]

_PREFIX: Final = "envlock-scratch."
_FRESH_SECONDS: Final = 60.0  # a folder that was just made may not be locked yet


@contextlib.contextmanager
def folder(parent: Path | None = None) -> Iterator[Path]:
    """Give an empty folder in `parent` (default: where temporary files go), gone afterwards; `OSError` where none is.

    Those that this user's killed runs left there are cleared away.
    """
    place = parent or Path(tempfile.gettempdir())
    _clear(place)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    try:
        with _locked(made):
            yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _clear(place: Path) -> None:
    for left in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            seen = left.lstat()
            if seen.st_uid != os.geteuid() or time.time() - seen.st_mtime < _FRESH_SECONDS:
                continue
            with _locked(left) as alone:
                if alone:
                    shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock a folder and say whether it is locked now: no where somebody else has it, or the disk knows no locks."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except OSError:
            alone = False
        yield alone
    finally:
        os.close(handle)
