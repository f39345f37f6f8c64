"""Find the files in which uv and pip keep their settings, as these two find them, and read what they say."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from envlock import ambient_text, files, limits
from envlock.ambient_text import Table
from envlock.config import Ambient
from envlock.errors import Problem
from envlock.model import Setting

__all__ = ["read"]

_LARGEST: Final = 1 << 20  # bytes: what somebody writes by hand
_TRUE: Final = frozenset({"1", "on", "t", "true", "y", "yes"})
_SYSTEM: Final = "/etc/xdg"  # where XDG_CONFIG_DIRS is not set


def read(
    environ: Mapping[str, str],
    cwd: Path,
    *,
    with_files: bool = True,
    root: Path = Path("/"),
    prefix: Path = Path(sys.prefix),
) -> Ambient:
    """Return which default index uv or pip have set: uv's variables and files, then pip's.

    Without `with_files` only variables count. Files of the system are looked for below `root`; `prefix` is the
    environment whose pip.conf counts where none is active.
    """
    layers = [ambient_text.uv_variables(environ, str(cwd))]
    if with_files:
        layers.append(_uv(environ, cwd, root))
    layers.append(ambient_text.pip_variables(environ, str(cwd)))
    if with_files:
        layers.append(_pip(environ, cwd, root, prefix))
    return ambient_text.by_strength(layers)


# ---- uv -----------------------------------------------------------------------------------------------------------


def _uv(environ: Mapping[str, str], cwd: Path, root: Path) -> Ambient:
    tables = []
    for found in _uv_tables(environ, cwd, root):
        if isinstance(found, Problem):
            return Ambient(fault=found)
        tables.append(found)
    return ambient_text.uv(tables, environ)


def _uv_tables(environ: Mapping[str, str], cwd: Path, root: Path) -> Iterator[Table | Problem]:
    """Yield the settings in the one file that is named, else those of project, user and system."""
    if named := environ.get("UV_CONFIG_FILE"):
        yield _table(cwd / named) or Problem(message="no such file", file=str(cwd / named), key="UV_CONFIG_FILE")
    elif environ.get("UV_NO_CONFIG", "").lower() not in _TRUE:
        own = (found for folder in (cwd, *cwd.parents) if (found := _project(folder)))
        system = [folder / "uv/uv.toml" for folder in _system_folders(environ, root)]
        everybody = (found for path in (*system, files.under(root, "/etc/uv/uv.toml")) if (found := _table(path)))
        yield from (
            found
            for found in (next(own, None), *map(_table, _user_file(environ)), next(everybody, None))
            if found is not None
        )


def _project(folder: Path) -> Table | Problem | None:
    return _table(folder / "uv.toml") or _table(folder / "pyproject.toml")


def _user_file(environ: Mapping[str, str]) -> Sequence[Path]:
    home, folder = environ.get("HOME"), environ.get("XDG_CONFIG_HOME", "")
    if Path(folder).is_absolute():
        return [Path(folder) / "uv/uv.toml"]
    return [Path(home) / ".config/uv/uv.toml"] if home else []


def _table(path: Path) -> Table | Problem | None:
    try:
        text = _text(path)
    except OSError as error:
        return Problem(message=_reason(error), file=str(path))
    return ambient_text.uv_table(text, str(path)) if isinstance(text, str) else text


# ---- pip ----------------------------------------------------------------------------------------------------------


def _pip(environ: Mapping[str, str], cwd: Path, root: Path, prefix: Path) -> Ambient:
    """Read pip's files; one that cannot be opened it passes over, and so does this."""
    if environ.get("PIP_CONFIG_FILE") == os.devnull:
        return Ambient()
    texts, closed = [], []
    for path in _pip_files(environ, cwd, root, prefix):
        try:
            text = _text(path)
        except OSError as error:
            closed.append(Setting(name="pip settings", value=f"not used: {_reason(error)}", origin=str(path)))
            continue
        if isinstance(text, Problem):
            return Ambient(fault=text)
        if text is not None:
            texts.append((str(path), text))
    found = ambient_text.pip(texts, str(cwd))
    return Ambient(index=found.index, fault=found.fault, unused=(*found.unused, *closed))


def _pip_files(environ: Mapping[str, str], cwd: Path, root: Path, prefix: Path) -> Iterator[Path]:
    """Yield where they may be, the weakest first: everybody's, the user's, the environment's, and the one named."""
    yield from (folder / "pip/pip.conf" for folder in _system_folders(environ, root))
    yield files.under(root, "/etc/pip.conf")
    named = environ.get("PIP_CONFIG_FILE")
    if home := environ.get("HOME"):
        own = environ.get("XDG_CONFIG_HOME", "").strip() or f"{home}/.config"
        if not named or not (cwd / named).exists():
            yield from (Path(home) / ".pip/pip.conf", cwd / own / "pip/pip.conf")
    yield Path(environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX") or prefix) / "pip.conf"
    if named:
        yield cwd / named


# ---- both ---------------------------------------------------------------------------------------------------------


def _system_folders(environ: Mapping[str, str], root: Path) -> list[Path]:
    named = [Path(one) for one in environ.get("XDG_CONFIG_DIRS", "").split(os.pathsep) if one.strip()]
    return named or [files.under(root, _SYSTEM)]


def _text(path: Path) -> str | Problem | None:
    """Return what a file says, None where there is no such file; `OSError` where it is there and cannot be read."""
    try:
        return files.read(path, most=_LARGEST).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        return Problem(message=f"byte {error.start} is not UTF-8", file=str(path), expected="UTF-8 text")


def _reason(error: OSError) -> str:
    limits.require(error)
    return error.strerror or str(error)
