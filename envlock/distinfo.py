"""What is installed under a site-packages folder, read from its dist-info folders; nothing is imported."""

from __future__ import annotations

import csv
import hashlib
import io
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from packaging.utils import canonicalize_name

from envlock import files

__all__ = ["Distribution", "Entry", "module", "read"]

_LARGEST: Final = 1 << 26  # bytes: the longest RECORD there is has a few million
_FIELDS: Final = 3  # path, hash, size: the columns of RECORD
_ASIDE: Final = frozenset({"test", "tests", "docs", "doc", "examples", "benchmarks", "scripts", "tools"})


class Entry(NamedTuple):
    """One row of RECORD. A tuple, since there are 25,000 of them and reading them is most of a quick check.

    `path` is normalised, relative to site-packages; `digest` is `""` where the row has none, `size` None.
    """

    path: str
    digest: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One dist-info folder; `record` is the sha256 (hex) of its RECORD, `trouble` says what of it is unreadable."""

    folder: str
    name: str
    version: str
    entries: tuple[Entry, ...] = ()
    record: str = ""
    trouble: str | None = None


def read(site: Path) -> tuple[Distribution, ...]:
    """Return every distribution, by folder name. A folder left by an interrupted pip (`~name`) is none."""
    folders = sorted(site.glob("*.dist-info"))
    return tuple(_distribution(folder) for folder in folders if not folder.name.startswith("~"))


def module(dist: Distribution) -> str | None:
    """Return the top-level module that a user imports of the distribution; None where it brings none of its own.

    That is the one of its name, else the only one, else the first; what packages ship by habit beside it is no module.
    """
    tops = {path.partition(".")[0] for path in map(_top, dist.entries) if path}
    named = dist.name.replace("-", "_")
    own = sorted(top for top in tops if top.isidentifier() and not top.startswith("_") and top not in _ASIDE)
    alike = [top for top in own if top.lower() == named]
    return next(iter(alike or own), None)


def _top(entry: Entry) -> str:
    """Return `name` of a row that makes a package, `name.py` of one that is a module, nothing of any other."""
    folder, slash, file = entry.path.partition("/")
    if slash:
        return folder if file == "__init__.py" else ""
    return folder if folder.endswith((".py", ".so")) else ""


def _distribution(folder: Path) -> Distribution:
    stem, _, version = folder.name.removesuffix(".dist-info").partition("-")
    named = canonicalize_name(stem)
    try:
        metadata = files.read(folder / "METADATA", most=_LARGEST).decode("utf-8", "replace")
        headers = dict(_headers(metadata.splitlines()))
        name, version = canonicalize_name(headers["name"]), headers["version"]
        raw = files.read(folder / "RECORD", most=_LARGEST)
        entries = tuple(_entries(io.StringIO(raw.decode("utf-8"), newline="")))
    except KeyError as error:
        return _broken(folder, named, version, f"METADATA has no {str(error.args[0]).title()}")
    except OSError as error:
        return _broken(folder, named, version, f"{Path(error.filename).name}: {error.strerror}")
    except (ValueError, csv.Error) as error:
        return _broken(folder, named, version, str(error))
    trouble = None if name == named else f"METADATA names it `{name}`"
    digest = hashlib.sha256(raw).hexdigest()
    return Distribution(
        folder=folder.name, name=named, version=version, entries=entries, record=digest, trouble=trouble
    )


def _broken(folder: Path, name: str, version: str, trouble: str) -> Distribution:
    return Distribution(folder=folder.name, name=name, version=version, trouble=trouble)


def _headers(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if not line:
            return
        key, _, value = line.partition(":")
        if key in {"Name", "Version"}:
            yield key.lower(), value.strip()


def _entries(lines: Iterable[str]) -> Iterator[Entry]:
    for number, row in enumerate(csv.reader(lines), start=1):
        if len(row) != _FIELDS or not row[0] or (row[2] and not row[2].isdigit()):
            raise ValueError(f"RECORD line {number}: not `path,hash,size`")
        path, digest, size = row
        if ".." in path or "./" in path or "//" in path:
            path = posixpath.normpath(path)
        yield Entry(path, digest, int(size) if size else None)
