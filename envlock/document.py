"""A JSON document read with every mistake named: a key's path, what it holds, and what was expected there."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, time
from typing import Any, Final, TypeVar

from envlock.errors import Problem

__all__ = ["ANY", "WHOLE", "Object", "Scope", "Shape", "decode", "quoted", "safe"]

T = TypeVar("T")

# How much of a wrong value a message repeats.
SHOWN = 60
# The whole numbers of TOML; Python would read any, and write none of more than 4300 digits.
WHOLE: Final = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a text must look like, and how to say so."""

    pattern: str
    expected: str


ANY = Shape(pattern=r".+", expected="printable text")


class Object(dict[str, Any]):
    """A JSON object that remembers which of its keys were written twice."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        """Take the pairs as `json` reads them; the last value of a repeated key wins."""
        super().__init__(pairs)
        self.repeated = sorted(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One object of the document while it is read: where it stands, and where its problems go."""

    values: Mapping[str, Any]
    path: str
    file: str
    problems: list[Problem]

    def complain(self, key: str, message: str, *, expected: str | None = None) -> None:
        """Note a problem with one key of this object."""
        self.problems.append(Problem(message=message, file=self.file, key=self.at(key), expected=expected))

    def at(self, key: str) -> str:
        """Return the path of a key of this object from the top of the document."""
        return f"{self.path}.{key}" if self.path else key

    def know(self, *keys: str) -> None:
        """Complain about each key that is none of these, or is written twice."""
        for key in self.values:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                self.complain(safe(key), "unknown key" + (f"; did you mean `{near[0]}`?" if near else ""))
        for key in getattr(self.values, "repeated", ()):
            self.complain(safe(key), "is written twice")

    def text(self, key: str, shape: Shape = ANY) -> str | None:
        """Return a text of that shape; None where the key is missing or null."""
        return self._shaped(key, self.values.get(key), shape)

    def texts(self, key: str, shape: Shape = ANY) -> tuple[str, ...]:
        """Return a list of such texts; empty where the key is missing or null."""
        items = self._typed(key, list, "a list of texts") or []
        read = [self._shaped(f"{key}[{place}]", item, shape, null=False) for place, item in enumerate(items)]
        return tuple(item for item in read if item is not None)

    def flag(self, key: str) -> bool:
        """Return true or false; false where the key is missing or null."""
        return self._typed(key, bool, "true or false") or False

    def word(self, key: str, default: str, *allowed: str) -> str:
        """Return one of the allowed words."""
        value = self.text(key)
        if value is not None and value not in allowed:
            self.complain(key, f"is `{value}`", expected=" or ".join(allowed))
        return value or default

    def count(self, key: str) -> int | None:
        """Return a whole number above 0, of 64 bits at most."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0 or value not in WHOLE:
            self.complain(key, f"is {quoted(value)}", expected="a whole number above 0")
            return None
        return value

    def inner(self, key: str, *, required: bool = False, expected: str = "an object") -> Scope | None:
        """Return the object under a key."""
        if required and self.values.get(key) is None:
            self.complain(key, "is missing", expected=expected)
        value = self._typed(key, dict, expected)
        return None if value is None else replace(self, values=value, path=self.at(key))

    def each(self, key: str) -> tuple[Scope, ...]:
        """Return the objects of the list under a key."""
        scopes = []
        for place, item in enumerate(self._typed(key, list, "a list of objects") or []):
            where = f"{key}[{place}]"
            if isinstance(item, dict):
                scopes.append(replace(self, values=item, path=self.at(where)))
            else:
                self.complain(where, f"is {quoted(item)}", expected="an object")
        return tuple(scopes)

    def _typed(self, key: str, kind: type[T], expected: str) -> T | None:
        value = self.values.get(key)
        if value is None or isinstance(value, kind):
            return value
        self.complain(key, f"is {quoted(value)}", expected=expected)
        return None

    def _shaped(self, key: str, value: object, shape: Shape, *, null: bool = True) -> str | None:
        if value is None and null:
            return None
        if not isinstance(value, str) or not value.isprintable() or not re.fullmatch(shape.pattern, value):
            self.complain(key, f"is {quoted(value)}", expected=shape.expected)
            return None
        return value


def decode(text: str, file: str) -> Object | Problem:
    """Return the JSON object a text holds, or what is wrong with the text."""
    try:
        value = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=Object)
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg}, column {error.colno}" if text.strip("\ufeff \t\r\n") else "is empty"
        return Problem(message=message, file=file, line=error.lineno, expected="a JSON object")
    except RecursionError:
        return Problem(message="is nested too deeply", file=file, expected="a JSON object")
    except ValueError:  # Python's own limit on the digits of a number
        return Problem(message="holds a number of too many digits", file=file, expected="a JSON object")
    return (
        value
        if isinstance(value, Object)
        else Problem(message=f"holds {quoted(value)}", file=file, expected="a JSON object")
    )


def quoted(value: object) -> str:
    """Return a value of JSON or TOML as it would be written in printable ASCII, cut to a length that fits a message."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value not in WHOLE:
        return "a number of more than 64 bits"
    if isinstance(value, (date, time)):
        return value.isoformat()
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def safe(text: str) -> str:
    """Return a text as it is, or quoted where a terminal would act on it."""
    return text if text.isprintable() else quoted(text)
