"""Write files that belong together: one writer at a time, each file whole, and in an order that survives a kill."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from envlock.errors import Problem, WorldFailed

__all__ = ["failed", "hold", "put"]

BUSY_SECONDS: Final = 2.0  # a writer that is about to end is waited for

# A file in the making, beside the one whose place it takes: mkstemp's eight characters between our own ends.
_SUFFIX: Final = ".envlock"
_UNFINISHED: Final = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.envlock")


@contextmanager
def hold(target: Path, *, again: str) -> Iterator[None]:
    """Be the only one of this user's processes on this machine that writes `target` and what stands beside it.

    What is held lies in the folder for temporary files, so that nothing of it is left beside the target. Raise
    `WorldFailed`: `lock-busy` with `again`, the command to repeat, or as `failed` says.
    """
    known = hashlib.sha256(os.fsencode(os.path.realpath(target))).hexdigest()[:16]
    try:
        guard = FileLock(_own_folder() / f"{known}.lock", timeout=BUSY_SECONDS)
        guard.acquire()
    except Timeout as error:
        problem = Problem(message="is being written", file=str(target))
        raise WorldFailed(
            "another envlock is at work on this lock", code="lock-busy", problems=(problem,), hint=again
        ) from error
    except OSError as error:
        raise failed(error, hint=f"TMPDIR=FOLDER {again}") from error
    try:
        yield
    finally:
        guard.release()


def put(files: Mapping[Path, bytes | None]) -> None:
    """Replace files in this order, and remove those that are None, with their folder once it is empty.

    All are on disk in full before the first one takes its place. Call it under `hold`: what a writer that was killed
    left of these files is cleared away. Raise `WorldFailed` as `failed` says.
    """
    made: dict[Path, Path] = {}
    try:
        _clear(files)
        for path, data in files.items():
            if data is not None:
                made[path] = _unfinished(path, data)
        for path in files:
            if path in made:
                made[path].replace(path)
            else:
                _remove(path)
    except OSError as error:
        raise failed(error) from error
    finally:
        for unfinished in made.values():
            with suppress(OSError):
                unfinished.unlink()


def failed(error: OSError, *, hint: str | None = None) -> WorldFailed:
    """Return the error for a write that failed: `disk-full`, else `not-writable`."""
    name = error.filename2 or error.filename  # of a file in the making and its place, the place is what people know
    problem = Problem(message=error.strerror or str(error), file=str(name) if name else None)
    folder = shlex.quote(str(Path(str(name)).parent)) if name else "."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = hint or f"df -h {folder}"
        return WorldFailed("no space left to write", code="disk-full", problems=(problem,), hint=hint)
    return WorldFailed("cannot write", code="not-writable", problems=(problem,), hint=hint or f"ls -ld {folder}")


def _own_folder() -> Path:
    """Return this user's own folder among everybody's temporary files; `PermissionError` if it is somebody else's."""
    user = os.geteuid()
    folder = Path(tempfile.gettempdir(), f"envlock-{user}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != user:
        raise PermissionError(errno.EPERM, "Belongs to somebody else", str(folder))
    return folder


def _unfinished(path: Path, data: bytes) -> Path:
    """Return a file beside `path` that holds the data, on disk, with the mode of the one that it will replace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_SUFFIX)
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        made.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
    except BaseException:
        made.unlink()
        raise
    return made


def _clear(paths: Iterable[Path]) -> None:
    wanted = set(paths)
    for folder in {path.parent for path in wanted if path.parent.is_dir()}:
        for one in folder.iterdir():
            found = _UNFINISHED.fullmatch(one.name)
            if found and folder / found["name"] in wanted:
                one.unlink()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()
