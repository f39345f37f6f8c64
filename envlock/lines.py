"""On which line of a TOML text each key and each element of an array stands. Pure.

tomlkit keeps every character but no positions, so the newlines of all that was rendered before are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, Item, Key, Table

__all__ = ["Path", "of"]

Path: TypeAlias = "tuple[str | int, ...]"

# What an array is made of: strings of the four kinds, comments, brackets, commas, and bare words (numbers, dates).
TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{},]"
    r"|[^\s\[\]{},\#\"']+",
    re.DOTALL,
)


def of(text: str) -> dict[Path, int]:
    """Return the line (from 1) of each key by its path; an element of an array stands under the key and its number.

    Empty for a text that tomlkit cannot take.
    """
    found: dict[Path, int] = {}
    try:
        _walk(tomlkit.parse(text).body, (), 1, found)
    except (TOMLKitError, ValueError, RecursionError):
        return {}
    return found


def _walk(body: Sequence[tuple[Key | None, Item]], prefix: Path, line: int, found: dict[Path, int]) -> int:
    """Note where the items of a container begin; return the line on which the text after them begins."""
    for key, item in body:
        path = (*prefix, *(part.key for part in key)) if key is not None else prefix
        if isinstance(item, Table):
            line = _table(item, path, line, found)
        elif isinstance(item, AoT):
            for number, table in enumerate(item.body):
                found.setdefault(path, line + table.trivia.indent.count("\n"))
                line = _table(table, (*path, number), line, found)
        else:
            if key is not None:
                start = line + item.trivia.indent.count("\n")
                found.setdefault(path, start)
                found.update({(*path, number): start + below for number, below in enumerate(_elements(item))})
            line += _height(key, item)
    return line


def _table(table: Table, path: Path, line: int, found: dict[Path, int]) -> int:
    head = "" if table.is_super_table() else table.trivia.indent + table.trivia.trail
    found.setdefault(path, line + table.trivia.indent.count("\n"))
    return _walk(_body(table), path, line + head.count("\n"), found)


def _body(table: Table) -> Sequence[tuple[Key | None, Item]]:
    container: Any = table.value
    body: Sequence[tuple[Key | None, Item]] = container.body
    return body


def _height(key: Key | None, item: Item) -> int:
    if key is None:
        return item.as_string().count("\n")
    return (item.trivia.indent + item.as_string() + item.trivia.trail).count("\n")


def _elements(item: Item) -> Iterator[int]:
    """Yield how many lines below the array's first line each of its elements begins."""
    if not isinstance(item, Array):
        return
    text = item.as_string()
    depth, due = 0, False
    for token in TOKEN.finditer(text):
        mark = token[0]
        if due and depth == 1 and mark not in (",", "]") and not mark.startswith("#"):
            yield text.count("\n", 0, token.start())
            due = False
        if mark in ("[", "{"):
            depth += 1
            due = due or depth == 1
        elif mark in ("]", "}"):
            depth -= 1
        elif mark == "," and depth == 1:
            due = True
