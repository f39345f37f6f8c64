"""On which line of a TOML text each key and each element of an array stands, and where a text is no TOML. Pure.

`tomllib` keeps no positions, and tomlkit's tree puts tables that stand apart next to each other, so a text that
`tomllib` has taken is walked here, token by token, without recursion.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Fault", "Path", "load", "of"]

Path: TypeAlias = "tuple[str | int, ...]"

# Strings of the four kinds, comments, the marks between keys and values, and bare words (keys, numbers, dates).
TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{},=.\n]"
    r"|[^\s\[\]{},=.\#\"']+",
    re.DOTALL,
)
PLACE: Final = re.compile(r" ?\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")
# Python makes a number of no more than 4300 decimal digits.
ENDLESS: Final = re.compile(r"[+-]?[0-9](_?[0-9]){4300,}")
# What a key of one part more has; tomllib's time and memory grow with the square of the parts.
DEEPEST: Final = 32
DEEP: Final = re.compile(
    r"(?:^|[\[{,])[ \t]*"
    rf"""(?:(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')[ \t]*\.[ \t]*){{{DEEPEST}}}""",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a text is no TOML, and on which line; None where that cannot be told."""

    message: str
    line: int | None


def load(text: str) -> dict[str, Any] | Fault:
    """Return the table a text holds, or what is wrong with the text; no key may have more than `DEEPEST` parts."""
    if deep := DEEP.search(text):
        return Fault(message=f"holds a key of more than {DEEPEST} parts", line=text.count("\n", 0, deep.start()) + 1)
    try:
        return dict(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        return _fault(str(error), text)
    except RecursionError:
        return Fault(message="is nested too deeply", line=None)
    except ValueError:
        line = next((line for mark, line in _tokens(text) if ENDLESS.fullmatch(mark)), None)
        return Fault(message="holds a number of too many digits", line=line)


def of(text: str) -> dict[Path, int]:
    """Return the line (from 1) of each key by its path; an element of an array stands under the key and its number.

    The text must be one that `load` takes.
    """
    walk = _Walk()
    for mark, line in _tokens(text):
        walk.take(mark, line)
    return walk.found


def _fault(said: str, text: str) -> Fault:
    message = said[:1].lower() + PLACE.sub("", said)[1:]
    if said.endswith("(at end of document)"):
        return Fault(message=f"{message}, at the end of the file", line=_last(text))
    found = PLACE.search(said)
    column = f", column {found['column']}" if found else ""
    return Fault(message=message + column, line=int(found["line"]) if found else None)


def _last(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Yield all but comments, each token with its line."""
    line, counted = 1, 0
    for found in TOKEN.finditer(text):
        line += text.count("\n", counted, found.start())
        counted = found.start()
        if not found[0].startswith("#"):
            yield found[0], line


@dataclass(slots=True, kw_only=True)
class _Walk:
    """Where the walk stands: in a header, before a key, before a value, or behind one."""

    found: dict[Path, int] = field(default_factory=dict)
    table: Path = ()  # the table of the last header
    tables: dict[Path, int] = field(default_factory=dict)  # the number of the last table in each array of tables
    around: list[tuple[Path, int | None]] = field(default_factory=list)  # open brackets: their path, an array's number
    parts: list[str] | None = field(default_factory=list)  # the key as far as it was read; None outside of keys
    header: int = 0  # how many brackets the header began with
    due: Path | None = None  # whose value comes next

    def take(self, mark: str, line: int) -> None:
        """Go on by one token."""
        if mark == "\n":
            if not self.around:
                self.parts, self.due = [], None
        elif self.parts is not None:
            self._in_key(self.parts, mark, line)
        else:
            self._in_value(mark, line)

    def _in_key(self, parts: list[str], mark: str, line: int) -> None:
        if mark == "[":
            self.header += 1
        elif mark == "]":
            self.table = self._opened(parts, line)
            self.parts, self.header = None, 0
        elif mark == "=":
            self.due = self._noted(self.around[-1][0] if self.around else self.table, parts, line)
            self.parts = None
        elif mark == "}":
            self.around.pop()
            self.parts = None
        elif mark not in (".", ","):
            parts.append(_key(mark))

    def _in_value(self, mark: str, line: int) -> None:
        if mark in ("]", "}"):
            if self.around:  # else the second bracket that closes the header of an array of tables
                self.around.pop()
            self.due = None
        elif mark == ",":
            path, number = self.around.pop()
            if number is None:
                self.around.append((path, None))
                self.parts = []
            else:
                self.around.append((path, number + 1))
                self.due = (*path, number + 1)
        elif self.due is not None:
            self._begin(self.due, mark, line)

    def _begin(self, path: Path, mark: str, line: int) -> None:
        """Note where a value begins, and what comes inside it."""
        self.found.setdefault(path, line)
        self.due = None
        if mark == "[":
            self.around.append((path, 0))
            self.due = (*path, 0)
        elif mark == "{":
            self.around.append((path, None))
            self.parts = []

    def _opened(self, parts: list[str], line: int) -> Path:
        """Return the path of the table that a header opens."""
        path: Path = ()
        for part in parts[:-1]:
            path = self._noted(path, [part], line)
            path = (*path, self.tables[path]) if path in self.tables else path
        path = self._noted(path, parts[-1:], line)
        if self.header == 1:
            return path
        self.tables[path] = self.tables.get(path, -1) + 1
        path = (*path, self.tables[path])
        self.found[path] = line
        return path

    def _noted(self, path: Path, parts: list[str], line: int) -> Path:
        for part in parts:
            path = (*path, part)
            self.found.setdefault(path, line)
        return path


def _key(mark: str) -> str:
    return str(tomllib.loads(f"k = {mark}")["k"]) if mark[0] in "\"'" else mark
