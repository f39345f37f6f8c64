"""Where in a TOML text each key and each string of an array stands: tomlkit keeps every character, but no positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from tomlkit import TOMLDocument
from tomlkit.container import Container
from tomlkit.items import AoT, Array, Item, Key, Table

__all__ = ["Path", "of"]

Path: TypeAlias = "tuple[str | int, ...]"

# What an array of strings is made of, as far as lines go: strings of the four kinds, and comments.
TOKEN: Final = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|#[^\n]*", re.DOTALL)


def of(document: TOMLDocument) -> dict[Path, int]:
    """Return the line (from 1) of each key by its path; strings of an array stand under the key and their number."""
    found: dict[Path, int] = {}
    _walk(document.body, (), 1, found)
    return found


def _walk(body: list[tuple[Key | None, Item]], prefix: Path, line: int, found: dict[Path, int]) -> int:
    """Note where the items of a container begin; return the line on which the text after them begins."""
    for key, item in body:
        path = (*prefix, *(part.key for part in key)) if key is not None else prefix
        if isinstance(item, Table):
            line = _table(item, path, line, found)
        elif isinstance(item, AoT):
            for number, table in enumerate(item.body):
                line = _table(table, (*path, number), line, found)
        else:
            if key is not None:
                start = line + item.trivia.indent.count("\n")
                found.setdefault(path, start)
                found.update({(*path, number): start + at for number, at in enumerate(_strings(item))})
            line += _height(key, item)
    return line


def _table(table: Table, path: Path, line: int, found: dict[Path, int]) -> int:
    head = "" if table.is_super_table() else table.trivia.indent + table.trivia.trail
    found.setdefault(path, line + table.trivia.indent.count("\n"))
    return _walk(_body(table.value), path, line + head.count("\n"), found)


def _body(container: Container | Any) -> list[tuple[Key | None, Item]]:
    body: list[tuple[Key | None, Item]] = container.body
    return body


def _height(key: Key | None, item: Item) -> int:
    if key is None:
        return item.as_string().count("\n")
    return (item.trivia.indent + item.as_string() + item.trivia.trail).count("\n")


def _strings(item: Item) -> Iterator[int]:
    """Yield how many lines below the array's first line each of its strings begins."""
    if isinstance(item, Array):
        text = item.as_string()
        yield from (text.count("\n", 0, token.start()) for token in TOKEN.finditer(text) if token[0][0] != "#")
