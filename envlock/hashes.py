"""Hash files, and remember which file had which bytes so that one that has not moved is not read again.

A file is known by device, inode, size, mtime and ctime. The ctime is what an edit cannot hide: `os.utime` sets
the mtime back and by doing so moves the ctime. uv's hard links move it too (a link count is part of the inode),
so a file that a second environment shares is read once more, and then known in both.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from envlock import files as reading

__all__ = ["ALGORITHMS", "File", "Reading", "identity", "load", "place", "read", "save"]

ALGORITHMS: Final = ("sha256", "sha384", "sha512")  # what the wheel specification lets RECORD use
_MAGIC: Final = "envlock-hashes 1"
_LIMIT: Final = 200_000  # entries kept, latest first: about eight environments of 25,000 files, 22 MB
_LARGEST: Final = 1 << 26  # bytes: three times what it may grow to
_BUFFER: Final = 1 << 20

# A file is remembered only if it had been still for longer than its clock can resolve when it was read; else an
# edit within the same tick would go unseen. Linux stamps files at its timer tick (at most 10 ms); a ctime of
# whole seconds tells of a file system that counts in seconds, and FAT counts in twos.
_TICK_NS: Final = 100_000_000
_COARSE_NS: Final = 2_000_000_000
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file to hash: `algorithm` is one of `ALGORITHMS`, `size` (bytes) only orders the work."""

    path: str
    algorithm: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The digest as RECORD writes it (None where reading failed) and, where it may be remembered, the identity."""

    digest: str | None
    identity: str | None = None
    error: str | None = None


def place(environ: Mapping[str, str]) -> Path | None:
    """Return the user's own cache file (XDG base directories); None where there is no home to keep it in."""
    for variable, below in (("XDG_CACHE_HOME", ""), ("HOME", ".cache")):
        home = environ.get(variable, "")
        if home.startswith("/"):  # the XDG specification has relative paths ignored
            return Path(home, below, "envlock", "hashes")
    return None


def identity(stat: os.stat_result) -> str:
    """Return what a file is known by; any change of its bytes changes it."""
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"


def load(path: Path) -> dict[str, str]:
    """Return identity -> digest; a cache that is missing, damaged or of another format is an empty one."""
    try:
        head, _, body = reading.read(path, most=_LARGEST).decode("ascii").partition("\n")
        if head != _head(body):
            return {}
        return dict(line.split(" ") for line in body.splitlines())
    except (OSError, ValueError):
        return {}


def save(path: Path, used: Mapping[str, str]) -> None:
    """Add to the cache, atomically; what was used last is kept longest. A cache that cannot be written is no error."""
    kept = {key: digest for key, digest in load(path).items() if key not in used}
    lines = [f"{key} {digest}\n" for key, digest in (kept | dict(used)).items()]
    body = "".join(lines[-_LIMIT:])
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, f"{_head(body)}\n{body}")


def read(files: Iterable[File]) -> dict[str, Reading]:
    """Hash every file, by two threads: one from the largest down, one from the smallest up.

    hashlib lets go of the interpreter while it computes, so the thread with the large files runs beside the other
    one, and they hardly ever want the interpreter at the same moment.
    """
    todo = deque(sorted(files, key=lambda file: file.size))
    readings: dict[str, Reading] = {}
    with ThreadPoolExecutor(2, thread_name_prefix="hash") as pool:
        workers = [pool.submit(_work, todo, take, readings) for take in (todo.pop, todo.popleft)]
        try:
            for worker in workers:
                worker.result()
        except BaseException:
            todo.clear()
            raise
    return readings


def _work(todo: deque[File], take: Callable[[], File], readings: dict[str, Reading]) -> None:
    buffer = memoryview(bytearray(_BUFFER))
    while todo:
        try:
            file = take()
        except IndexError:
            return  # the other thread took the last one in between
        try:
            readings[file.path] = _digest(file, buffer)
        except OSError as error:
            readings[file.path] = Reading(digest=None, error=error.strerror or str(error))


def _digest(file: File, buffer: memoryview) -> Reading:
    hasher = hashlib.new(file.algorithm)
    begun = time.time_ns()
    # Not blocking: a pipe put in the place of a file must not hang the check.
    descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        before = os.fstat(descriptor)
        while count := os.readv(descriptor, [buffer]):
            hasher.update(buffer[:count])
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    settled = _settled(before, begun) and identity(before) == identity(after)
    digest = base64.urlsafe_b64encode(hasher.digest()).rstrip(b"=").decode("ascii")
    return Reading(digest=f"{file.algorithm}={digest}", identity=identity(after) if settled else None)


def _settled(stat: os.stat_result, now: int) -> bool:
    tick = _TICK_NS if stat.st_ctime_ns % _SECOND_NS else _COARSE_NS
    return now - stat.st_ctime_ns > tick


def _head(body: str) -> str:
    return f"{_MAGIC} {hashlib.sha256(body.encode()).hexdigest()}"


def _replace(path: Path, text: str) -> None:
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as handle:
            handle.write(text)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink()
        raise
