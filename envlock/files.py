"""Read files without waiting for one that never comes, and look at a machine's own under a root that tests can move.

Where no more files can be opened, a look raises `WorldFailed` (`limit-reached`): that says nothing about any of them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from envlock import limits

__all__ = ["head", "link_target", "matching", "read", "text", "under"]

# No file that detection reads is longer; /proc can hand out endless ones.
LARGEST = 1 << 20
CHUNK = 1 << 16


def read(path: Path, *, most: int, piped: bool = False) -> bytes:
    """Return what a file holds; raise `OSError` with its name, also for one of more than `most` bytes, and for no file.

    Only where it may be `piped`, a pipe is waited for.
    """
    found = head(path, most + 1, piped=piped)
    if len(found) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return found


def head(path: Path, most: int, *, piped: bool = False) -> bytes:
    """Return the first bytes of a file, `most` of them; raise as `read` does."""
    chunks, left = [], most
    with _named(path), _opened(path, piped=piped) as descriptor:
        while left and (chunk := os.read(descriptor, min(CHUNK, left))):
            chunks.append(chunk)
            left -= len(chunk)
    return b"".join(chunks)


@contextmanager
def _opened(path: Path, *, piped: bool) -> Iterator[int]:
    """Open a file, which does not wait, to close it again; what is no file is refused unless it may be piped."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if piped else os.O_NONBLOCK))
    try:
        mode = os.fstat(descriptor).st_mode
        if not piped and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise OSError(errno.EINVAL, "Is no file, but a pipe or a device")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Put the name into errors that lack it, as those of reading do."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


def under(root: Path, name: str) -> Path:
    """Return an absolute path's place under the root."""
    return root / name.lstrip("/")


def text(path: Path) -> str:
    """Return a file's text, or nothing where it can't be read."""
    try:
        return head(path, LARGEST).decode("utf-8", "replace")
    except OSError as error:
        limits.require(error)
        return ""


def matching(folder: Path, pattern: str) -> list[Path]:
    """Return the folder's entries whose name matches, with numbers in counting order: nvidia2 before nvidia10."""
    try:
        found = [path for path in folder.iterdir() if fnmatchcase(path.name, pattern)]
    except OSError as error:
        limits.require(error)
        return []
    return sorted(found, key=lambda path: _counting(path.name))


def link_target(path: Path) -> str:
    """Return the name of the file that a link leads to, or nothing where it is no link."""
    try:
        return path.resolve().name if path.is_symlink() else ""
    except (OSError, RuntimeError):  # Python before 3.13 says RuntimeError to a loop of links
        return ""


def _counting(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name))
