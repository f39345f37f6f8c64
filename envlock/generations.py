"""The copies of an environment behind its path, and the link that names the one in use.

`<path>` is a link to `<path>.envlock/<digest>-<n>`. A generation is built in place and never renamed, because console
scripts hold absolute paths. It counts once its record is there, which is written last; `n` is never used twice, so
that a process which outlived a killed install cannot write into a later generation.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from envlock import document, files, record
from envlock.errors import Misuse, Problem, WorldFailed

__all__ = [
    "DIGEST_LENGTH",
    "Generation",
    "begin",
    "complete",
    "current",
    "discard",
    "find",
    "folder",
    "hold",
    "listing",
    "locate",
    "mark_broken",
    "mark_proven",
    "proven",
    "read",
    "switch",
    "unwritable",
]

BUSY_SECONDS: Final = 2.0  # an install that is about to end is waited for; any other is named
DIGEST_LENGTH: Final = 12  # characters of the variant's digest in an id; the record holds all of them
BROKEN: Final = "broken.txt"
PROVEN: Final = "proven.txt"
_LOCK: Final = ".lock"
_STATE: Final = ".state.json"
_TRASH: Final = ".trash-"
_LARGEST: Final = 1 << 25  # bytes: no record comes near
_NUMBERS: Final = range(2**63)
_ID: Final = re.compile(r"[0-9a-f]{12}-([1-9][0-9]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One installed copy of a variant behind an environment's link."""

    id: str
    variant: str
    complete: bool
    broken: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """Who holds the path, and the highest number given to a generation."""

    pid: int = 0
    number: int = 0


# ---- looking ----------------------------------------------------------------------------------------------------


def locate(path: Path) -> Path:
    """Return `path` absolute with its parent resolved: every script of a generation will hold that name."""
    return path.parent.resolve() / path.name


def folder(path: Path, identity: str) -> Path:
    """Return where a generation of `path` lives."""
    return _store(path) / identity


def listing(path: Path) -> tuple[Generation, ...]:
    """Return every generation of `path`, oldest first; what is being built, or was left half-built, is not complete."""
    found = [(int(match[1]), match[0]) for name in _names(path) if (match := _ID.fullmatch(name))]
    return tuple(_generation(path, identity) for _, identity in sorted(found))


def current(path: Path) -> Generation | None:
    """Return the generation that the link at `path` names; None where there is no link of ours, or it dangles."""
    identity = _linked(path)
    return _generation(path, identity) if identity and folder(path, identity).is_dir() else None


def find(path: Path, digest: str) -> Generation | None:
    """Return the newest generation of that variant digest that is complete and not broken."""
    start = f"{digest[:DIGEST_LENGTH]}-"
    fit = (row for row in listing(path) if row.id.startswith(start) and row.complete and not row.broken)
    return max(fit, key=lambda row: int(row.id.rpartition("-")[2]), default=None)


def read(generation: Path) -> record.Record:
    """Return what the generation says of itself; raise `Misuse` (`env-record-invalid`) for a damaged record."""
    file = generation / record.FILE
    return record.parse(files.read(file, most=_LARGEST).decode("utf-8"), str(file))


def proven(generation: Path) -> bool:
    """Return whether the generation once passed its verification."""
    return (generation / PROVEN).exists()


# ---- changing ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """Be the only install of `path`; make its parent where missing.

    Raise `WorldFailed`: `target-foreign` where something stands there that envlock did not make, `target-busy` with
    the process that holds it, `target-unwritable`; `Misuse` (`path-invalid`) for a path that uv could not be told.
    """
    _refuse_unspeakable(path)
    try:
        _refuse_foreign(path)
        store = _store(path)
        store.mkdir(parents=True, exist_ok=True)
        lock = FileLock(store / _LOCK, timeout=BUSY_SECONDS)
        lock.acquire()
    except Timeout as error:
        holder = _state(path).pid
        raise WorldFailed(
            f"another envlock is installing into `{path}`: process {holder}",
            code="target-busy",
            hint=f"ps -fp {holder}",
        ) from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise unwritable(path, error) from error
    try:
        _remember(path, _State(pid=os.getpid(), number=_state(path).number))
        yield
    finally:
        lock.release()


def begin(path: Path, digest: str) -> Path:
    """Make the folder of a new generation, then clear what earlier runs left unfinished; only under `hold`."""
    used = (int(match[1]) for name in _names(path) if (match := _ID.search(name)))
    number = 1 + max((_state(path).number, *used))
    _remember(path, _State(pid=os.getpid(), number=number))
    made = folder(path, f"{digest[:DIGEST_LENGTH]}-{number}")
    try:
        made.mkdir()
    except OSError as error:
        raise unwritable(path, error) from error
    _sweep(path, keep=made.name)
    return made


def complete(generation: Path, text: str) -> None:
    """Write the record, atomically: from here on the generation counts."""
    _write(generation / record.FILE, text)


def mark_broken(generation: Path, reason: str) -> None:
    """Say that the generation failed its verification; it stays to be looked at and is never switched to."""
    _write(generation / BROKEN, f"{reason}\n")


def mark_proven(generation: Path, verdict: str) -> None:
    """Say that the generation passed its verification, so that a quick look is enough from now on."""
    _write(generation / PROVEN, f"{verdict}\n")


def switch(path: Path, identity: str) -> str | None:
    """Point the link at a generation in one step; return the id it named before."""
    previous = _linked(path)
    fresh = path.with_name(f".{path.name}.envlock-new")
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(Path(_store(path).name, identity))
        fresh.replace(path)
    except (IsADirectoryError, NotADirectoryError) as error:
        fresh.unlink(missing_ok=True)
        raise _foreign(path, "a folder") from error
    except OSError as error:
        raise unwritable(path, error) from error
    return previous


def discard(generation: Path) -> None:
    """Take a generation away. Renamed first, so that whoever still writes into it by name cannot go on."""
    trash = generation.with_name(f"{_TRASH}{generation.name}")
    with contextlib.suppress(OSError):
        generation.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


def unwritable(path: Path, error: Exception) -> WorldFailed:
    """Return what it means that a file of `path` could not be written: `disk-full`, or `target-unwritable`."""
    parent = shlex.quote(str(path.parent))
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return WorldFailed(f"no space left for `{path}`", code="disk-full", hint=f"df -h {parent}")
    return WorldFailed(f"cannot write beside `{path}`: {error}", code="target-unwritable", hint=f"ls -ld {parent}")


def _sweep(path: Path, *, keep: str) -> None:
    kept = {keep, _linked(path)}
    for name in _names(path):
        if name.startswith(_TRASH):
            shutil.rmtree(_store(path) / name, ignore_errors=True)
        elif _ID.fullmatch(name) and name not in kept and not (folder(path, name) / record.FILE).exists():
            discard(folder(path, name))


# ---- what stands there ------------------------------------------------------------------------------------------


def _refuse_unspeakable(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        problem = Problem(message="not UTF-8", file=repr(str(path)), expected="a path in UTF-8")
        message = "no environment can be at that path"
        hint = "envlock install PROFILE --path FOLDER"
        raise Misuse(message, code="path-invalid", problems=(problem,), hint=hint) from error


def _refuse_foreign(path: Path) -> None:
    if path.is_symlink():
        if _linked(path) is None:
            raise _foreign(path, f"a link to `{path.readlink()}`")
    elif path.exists():
        raise _foreign(path, "a folder" if path.is_dir() else "a file")
    store = _store(path)
    if os.path.lexists(store) and (not store.is_dir() or (any(store.iterdir()) and not (store / _LOCK).exists())):
        raise _foreign(store, "not a store of generations")


def _linked(path: Path) -> str | None:
    """Return the id in the link at `path`, None if it is no link, or not one of ours."""
    try:
        target = path.readlink()
    except OSError:
        return None
    ours = target.parent in {Path(_store(path).name), _store(path)} and _ID.fullmatch(target.name)
    return target.name if ours else None


def _generation(path: Path, identity: str) -> Generation:
    root = folder(path, identity)
    variant = _document(root / record.FILE).get("variant")
    broken = (root / BROKEN).exists()
    if not isinstance(variant, str):
        return Generation(id=identity, variant="", complete=False, broken=broken)
    return Generation(id=identity, variant=variant, complete=True, broken=broken)


def _document(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file, an empty one where it is missing or damaged."""
    try:
        found = document.decode(files.read(file, most=_LARGEST).decode("utf-8"), str(file))
    except (OSError, UnicodeDecodeError):
        return {}
    return {} if isinstance(found, Problem) else found


def _store(path: Path) -> Path:
    return path.with_name(f"{path.name}.envlock")


def _names(path: Path) -> list[str]:
    try:
        return [entry.name for entry in _store(path).iterdir()]
    except OSError:
        return []


def _state(path: Path) -> _State:
    state = _document(_store(path) / _STATE)
    return _State(pid=_whole(state.get("pid")), number=_whole(state.get("number")))


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value in _NUMBERS else 0


def _remember(path: Path, state: _State) -> None:
    try:
        _write(_store(path) / _STATE, json.dumps({"pid": state.pid, "number": state.number}))
    except OSError as error:
        raise unwritable(path, error) from error


def _write(file: Path, text: str) -> None:
    fresh = file.with_name(f"{file.name}.new")
    try:
        with fresh.open("w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)


def _foreign(path: Path, what: str) -> WorldFailed:
    return WorldFailed(
        f"`{path}` is {what} that envlock did not make; it is left alone",
        code="target-foreign",
        hint=f"envlock install PROFILE --path {shlex.quote(f'{path}-2')}",
    )
