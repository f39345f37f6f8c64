"""The files envlock reads, and where they are: bundled data, profiles, locks, settings."""

from __future__ import annotations

import difflib
import errno
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from envlock import files, lines
from envlock.config import Section
from envlock.errors import Misuse, Problem, WorldFailed

__all__ = [
    "STDIN",
    "config_table",
    "content",
    "example",
    "facts_texts",
    "is_bundled",
    "lock_file",
    "lock_target",
    "profile_file",
    "profile_names",
    "profile_target",
    "profile_text",
    "read_text",
    "shown",
    "typed",
]

STDIN: Final = "<stdin>"
"""How the standard input is shown where a file would be."""

LARGEST: Final = 1 << 25  # bytes: no text that is read here comes near, and /dev/zero never ends
SMALL: Final = 1 << 20  # bytes: what somebody writes by hand
_TOLD: Final = 120  # characters of an impossible path that are shown
PACKAGE: Final = Path(__file__).resolve().parent
WITHOUT: Final = "envlock --no-config detect"
PROJECT_MARKS: Final = ("pyproject.toml", ".git")


def facts_texts() -> Mapping[str, str]:
    """Return the bundled data files as name -> TOML text."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((PACKAGE / "data").glob("*.toml"))}


def read_text(path: Path, *, what: str = "file", most: int = LARGEST, piped: bool = False) -> str:
    """Return the text of a UTF-8 file of `most` bytes; a pipe is waited for only where it may be `piped`.

    `Misuse` (`file-missing`, `file-not-text`, `file-too-large`), `WorldFailed` (`file-unreadable`).
    """
    try:
        return files.read(path, most=most, piped=piped).decode("utf-8")
    except UnicodeDecodeError as error:
        problem = Problem(message=f"byte {error.start} is not UTF-8", file=str(path), expected="UTF-8 text")
        raise Misuse(f"the {what} is not text", code="file-not-text", problems=(problem,)) from error
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # no file can have a name with a NUL in it
        problem = Problem(message="no such file", file=str(path))
        raise Misuse(f"the {what} is not there", code="file-missing", problems=(problem,)) from error
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise _unreadable(error, path, f"cannot read the {what}") from error
        problem = Problem(message="is too large", file=str(path), expected=f"at most {most >> 20} MiB")
        raise Misuse(f"the {what} is too large", code="file-too-large", problems=(problem,)) from error


def profile_text(path: Path) -> str:
    """Return the text of a profile's file; raise as `read_text` does."""
    return read_text(path, what="profile", most=SMALL)


def content(path: Path) -> bytes | None:
    """Return what a file holds; None where there is no file; `WorldFailed` (`file-unreadable`)."""
    try:
        return files.read(path, most=LARGEST) if _is_file(path) else None
    except OSError as error:
        raise _unreadable(error, path, "cannot read a file") from error


def shown(path: Path, cwd: Path) -> str:
    """Return a path as people type it: relative to `cwd` where it lies below, and never as an option."""
    text = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
    return f"./{text}" if text.startswith("-") else text


def typed(path: str | Path, cwd: Path) -> Path:
    """Return the path that somebody typed: `~` is a home, what is relative begins at `cwd`.

    Raises `Misuse` (`path-invalid`) for the home of a user that is not there, and for what no path can be.
    """
    if "\0" in str(path):
        raise _impossible(path, "holds a NUL")
    try:
        found = cwd / Path(path).expanduser()
    except RuntimeError as error:
        raise _impossible(path, "no such user") from error
    try:
        found.lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise _impossible(path, "too long for a path, or a name in it is") from error
    return found


def _impossible(path: str | Path, why: str) -> Misuse:
    told = str(path)
    shortened = f"{told[:_TOLD]}…" if len(told) > _TOLD else told
    problem = Problem(message=why, file=shortened)
    return Misuse("the path cannot be used", code="path-invalid", problems=(problem,))


def profile_file(name: str, cwd: Path) -> Path:
    """Return a profile's file: a path as given, else the project's `profiles/`, else the bundled one.

    Raises `Misuse` (`profile-unknown`) with the nearest names.
    """
    if os.sep in name or name.endswith(".toml"):
        return cwd / name
    for folder in _folders("profiles", cwd):
        if _is_file(path := folder / f"{name}.toml"):
            return path
    known = profile_names(cwd)
    near = difflib.get_close_matches(name, known, n=1)
    expected = f"`{near[0]}`?" if near else f"one of {', '.join(known)}"
    message = f"no profile is named `{name}`: there is no profiles/{name}.toml, and none of envlock's own"
    problem = Problem(message=message, expected=expected)
    raise Misuse("unknown profile", code="profile-unknown", problems=(problem,), hint="envlock profiles")


def profile_names(cwd: Path) -> tuple[str, ...]:
    """Return the names that `profile_file` finds, sorted."""
    found = (path for folder in _folders("profiles", cwd) for path in folder.glob("*.toml"))
    return tuple(sorted({path.stem for path in found if _is_file(path)}))


def is_bundled(file: Path) -> bool:
    """Return whether a profile's file came with envlock."""
    return file.parent == _bundled("profiles")


def example() -> Path:
    """Return a profile that came with envlock, to learn from."""
    return min(_bundled("profiles").glob("*.toml"))


def profile_target(name: str, cwd: Path) -> Path:
    """Return where a new profile is written: the project's `profiles/`, or those in `cwd` where there is no project."""
    return (_project(cwd) or cwd) / "profiles" / f"{name}.toml"


def lock_file(profile: str, cwd: Path) -> Path | None:
    """Return the lock of a profile: the project's `lockfiles/`, else the bundled one, else None."""
    found = (folder / f"{profile}.lock" for folder in _folders("lockfiles", cwd))
    return next((path for path in found if _is_file(path)), None)


def lock_target(profile: str, cwd: Path) -> Path:
    """Return where a lock is written: where `lock_file` reads it, but never into the bundle.

    A first lock goes to the project's `lockfiles/`, or to those in `cwd` where there is no project.
    """
    found = lock_file(profile, cwd)
    if found is not None and found.parent != _bundled("lockfiles"):
        return found
    return (_project(cwd) or cwd) / "lockfiles" / f"{profile}.lock"


def config_table(cwd: Path) -> tuple[Mapping[str, Any], str | None]:
    """Return `[tool.envlock]` of the nearest pyproject.toml that has it, and that file's name; empty if none has.

    Raises `Misuse` (`config-invalid`) for a file on the way there that is not TOML.
    """
    for folder in (cwd, *cwd.parents):
        path = folder / "pyproject.toml"
        if _is_file(path) and (section := _section(path)) is not None:
            return section, str(path)
    return {}, None


def _is_file(path: Path) -> bool:
    return _seen(path, Path.is_file)


def _seen(path: Path, look: Callable[[Path], bool]) -> bool:
    """Return what a look at a path tells; `WorldFailed` where it tells nothing, lest another file take its place."""
    try:
        return look(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise _unreadable(error, path, "cannot look for a file") from error


def _unreadable(error: OSError, path: Path, message: str) -> WorldFailed:
    problem = Problem(message=error.strerror or str(error), file=str(path))
    return WorldFailed(message, code="file-unreadable", problems=(problem,), hint=f"ls -ld {shlex.quote(str(path))}")


def _folders(kind: str, cwd: Path) -> Iterator[Path]:
    project = _project(cwd)
    yield cwd / kind
    if project is not None and project != cwd:
        yield project / kind
    yield _bundled(kind)


def _bundled(kind: str) -> Path:
    """Return the folder that came with envlock: inside the package in a wheel, beside it in a checkout."""
    return PACKAGE / kind if (PACKAGE / kind).is_dir() else PACKAGE.parent / kind


def _project(cwd: Path) -> Path | None:
    """Return the nearest folder from `cwd` up that a project begins in."""
    folders = (cwd, *cwd.parents)
    return next((one for one in folders if any(_seen(one / mark, Path.exists) for mark in PROJECT_MARKS)), None)


def _section(path: Path) -> Section | None:
    text = read_text(path, what="project file", most=SMALL)
    table = lines.load(text)
    if isinstance(table, lines.Fault):
        problem = Problem(message=table.message, file=str(path), line=table.line, expected="TOML")
        raise Misuse("the project file is not TOML", code="config-invalid", problems=(problem,), hint=WITHOUT)
    tool = table.get("tool", {})
    if not isinstance(tool, dict) or "envlock" not in tool:
        return None
    places = lines.of(text)
    values = tool["envlock"]
    if not isinstance(values, dict):
        line = places.get(("tool", "envlock"))
        problem = Problem(message="wrong type", file=str(path), line=line, key="tool.envlock", expected="a table")
        raise Misuse("the settings are wrong", code="config-invalid", problems=(problem,), hint=WITHOUT)
    return Section(values, {key[2:]: line for key, line in places.items() if key[:2] == ("tool", "envlock")})
