"""Make a folder beside the place where it will stand, and put it there in one step, or leave nothing behind."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from envlock import writing

__all__ = ["folder"]

# A folder in the making: mkdtemp's eight characters between our own ends.
_SUFFIX: Final = ".envlock-making"
_UNFINISHED: Final = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.envlock-making")
_MODE: Final = 0o755  # mkdtemp lets nobody else in


@contextmanager
def folder(target: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of `target` where the block ends well, and is gone where it does not.

    Enter it under `writing.hold`: what a run that was killed left of it is cleared away. `WorldFailed` as
    `writing.failed` says.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear(target)
        made = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=_SUFFIX))
    except OSError as error:
        raise writing.failed(error) from error
    try:
        yield made
        made.chmod(_MODE)
        _put(made, target)
    except OSError as error:
        raise writing.failed(error) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _put(made: Path, target: Path) -> None:
    """Swap the two; what stood there is gone only once the new one stands."""
    if not target.exists():
        made.rename(target)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=_SUFFIX))
    target.rename(old)
    try:
        made.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _clear(target: Path) -> None:
    for one in target.parent.iterdir():
        found = _UNFINISHED.fullmatch(one.name)
        if found and found["name"] == target.name:
            shutil.rmtree(one, ignore_errors=True)
