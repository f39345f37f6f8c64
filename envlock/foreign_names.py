"""What packages are called elsewhere: conda's names and PyPI's, and the parts that torch brings along. Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from envlock.errors import EnvlockError, Problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Names", "parse"]

FILES: Final = ("conda_names.toml", "torch_parts.toml")
_EVIDENCE: Final = {"source": str, "date": str, "status": str}
_TABLES: Final[Mapping[str, Mapping[str, type]]] = {
    "same": {"names": list},
    "package": {"conda": str, "pypi": str},
    "cuda": {"conda": str},
    "only": {"names": list, "why": str},
    "part": {"names": list},
}
_MAJOR: Final = re.compile(r"-cu[0-9]{2}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """`pypi` maps conda's names to PyPI's, `only` those that PyPI has nothing for to why that does not matter.

    The version of a package in `cuda` names a CUDA line; `parts` come with torch.
    """

    pypi: Mapping[str, str]
    only: Mapping[str, str]
    cuda: frozenset[str]
    parts: frozenset[str]

    def is_part(self, package: str) -> bool:
        """Say whether a package, by its normalized name, comes with torch, for whichever CUDA."""
        return _MAJOR.sub("", package) in self.parts


def parse(texts: Mapping[str, str]) -> Names:
    """Read the data files (name -> TOML text); `EnvlockError` (`facts-invalid`) names the file and the row."""
    tables: dict[str, Sequence[Mapping[str, Any]]] = {}
    for file in FILES:
        tables |= tomllib.loads(texts[file])
        _check(file, tomllib.loads(texts[file]))
    same = {name: name for name in _names(tables["same"])}
    return Names(
        pypi=same | {row["conda"]: row["pypi"] for row in tables["package"]},
        only={name: row["why"] for row in tables["only"] for name in row["names"]},
        cuda=frozenset(row["conda"] for row in tables["cuda"]),
        parts=frozenset(_names(tables["part"])),
    )


def _names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [name for row in rows for name in row["names"]]


def _check(file: str, tables: Mapping[str, Any]) -> None:
    for table, rows in tables.items():
        for number, row in enumerate(rows, 1):
            wanted = {**_TABLES.get(table, {}), **_EVIDENCE}
            if {key: type(value) for key, value in row.items()} != wanted:
                problem = Problem(file=f"{file}: {table} {number}", message="holds other keys", expected=str([*wanted]))
                raise EnvlockError("envlock's own data is broken", code="facts-invalid", problems=(problem,))
