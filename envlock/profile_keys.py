"""What may stand in a profile: every key once, with its shape and its meaning. Pure.

The reader (`envlock.profile`) and the published JSON Schema both come from these definitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from envlock.document import WHOLE, quoted

__all__ = ["BACKEND", "BACKEND_NAME", "REQUIREMENT", "SCHEMA", "TABLES", "TOP", "Key", "Kind", "described", "schema"]

SCHEMA: Final = 1
PLATFORMS: Final = ("linux-x86_64", "linux-aarch64")
DIGITS: Final = 100  # of a number in a requirement: of no version that there is, and Python reads at most 4300
# Snapshots beyond these years would only come from a slip; the margin keeps a change to UTC within the calendar.
YEARS: Final = range(1970, 9999)
LONGEST_NAME: Final = 214  # characters of a package's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The shape of a value: `mistake` says what is wrong with one, or None; `each` is the kind of a list's elements.

    The elements of a `distinct` list must differ.
    """

    expected: str
    mistake: Callable[[Any], str | None]
    schema: Mapping[str, Any]
    each: Kind | None = None
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a table: its kind, and its meaning in the words that an editor shows."""

    kind: Kind
    about: str
    required: bool = False


def described(value: Any) -> str:
    """Return what a TOML value is: `"abc"`, or in words, `a list`."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return f"a boolean: {str(value).lower()}"
    if isinstance(value, int) and value not in WHOLE:
        return "a number of more than 64 bits"
    if isinstance(value, (int, float)):
        return f"a number: {value}"
    return "a table" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a date or a time"


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a profile, for editors that complete and check TOML."""
    backends = {
        "type": "object",
        "description": "What differs in one backend: a key here replaces the profile's own.",
        "propertyNames": BACKEND_NAME.schema,
        "additionalProperties": _object(BACKEND),
    }
    top = _object(TOP)
    sections = {"backend": backends, **{name: _object(keys) for name, keys in TABLES.items()}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "envlock profile",
        **top,
        "properties": top["properties"] | sections,
    }


def _object(keys: Mapping[str, Key]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"description": key.about, **key.kind.schema} for name, key in keys.items()},
        "required": [name for name, key in keys.items() if key.required],
        "additionalProperties": False,
    }


def _unless(fits: Callable[[Any], bool]) -> Callable[[Any], str | None]:
    return lambda value: None if fits(value) else f"is {described(value)}"


def _matching(expression: str, expected: str) -> Kind:
    compiled = re.compile(expression)
    return Kind(
        expected=expected,
        mistake=_unless(lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None),
        schema={"type": "string", "pattern": f"^(?:{expression})$"},
    )


def _many(each: Kind, *, least: int = 0, distinct: bool = True) -> Kind:
    def mistake(value: Any) -> str | None:
        if not isinstance(value, list):
            return f"is {described(value)}"
        return None if len(value) >= least else "is empty"

    return Kind(
        expected=f"a list, each {each.expected}",
        mistake=mistake,
        schema={"type": "array", "items": each.schema, "minItems": least, "uniqueItems": distinct},
        each=each,
        distinct=distinct,
    )


def _requirement(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"is {described(value)}"
    if any(len(number) > DIGITS for number in re.findall(r"[0-9]+", value)):
        return "holds a number of too many digits"
    try:
        requirement = Requirement(value)
    except InvalidRequirement as error:
        reason = str(error).partition("\n")[0]
        return f"is {quoted(value)}: {reason[:1].lower()}{reason[1:]}"
    if requirement.url:
        return "names a place: a lock holds index, file name and hash"
    if len(requirement.name) > LONGEST_NAME:
        return f"names a package with {len(requirement.name)} characters: no index has one of more than {LONGEST_NAME}"
    unread = (mistake for one in requirement.specifier if (mistake := _version(one.version.removesuffix(".*"))))
    return next(unread, None)


def _version(text: str) -> str | None:
    """Return why no resolver reads this version: `===` takes any text, and a number has 64 bits in uv."""
    if any(int(number) >= 1 << 64 for number in re.findall(r"[0-9]+", text)):
        return "asks for a version with a number of more than 64 bits"
    try:
        Version(text)
    except InvalidVersion:
        return f"asks for a version that is none: {quoted(text)}"
    return None


def _moment(value: Any) -> str | None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return "has no offset: each machine would take another moment"
        return None if value.year in YEARS else f"lies in the year {value.year}"
    if isinstance(value, date):
        return "is a date without a time: each machine would take another moment"
    return f"is {described(value)}"


# One line without control characters, line separators, or marks that turn the direction of writing.
TEXT: Final = _matching(r"[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+", "a text of one line")
NAME: Final = _matching(
    r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?", "a name of a-z, 0-9, `.`, `_` and `-`, 64 characters at most"
)
PYTHON: Final = _matching(r"3\.(0|[1-9][0-9]?)", 'a Python without its patch release, such as "3.10"')
BACKEND_NAME: Final = _matching(r"cpu|cu[1-9][0-9]{2}", '"cpu" or a CUDA line such as "cu121"')
FAMILY: Final = _matching(r"[a-z0-9][a-z0-9_-]*", 'a model type such as "gemma2"')
PLATFORM: Final = Kind(
    expected=f"one of {', '.join(PLATFORMS)}",
    mistake=_unless(lambda value: value in PLATFORMS),
    schema={"type": "string", "enum": list(PLATFORMS)},
)
REQUIREMENT: Final = Kind(
    expected='a requirement such as "peft==0.12.0"', mistake=_requirement, schema={"type": "string", "minLength": 1}
)
MOMENT: Final = Kind(
    expected="a date and time with an offset, such as 2024-12-02T00:00:00Z",
    mistake=_moment,
    schema={"type": "string", "format": "date-time", "pattern": "([Zz]|[+-][0-9]{2}:[0-9]{2})$"},
)
NUMBER: Final = Kind(
    expected="a whole number, 0 or more",
    mistake=_unless(lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < WHOLE.stop),
    schema={"type": "integer", "minimum": 0, "maximum": WHOLE.stop - 1},
)
VERSION: Final = Kind(
    expected=str(SCHEMA),
    mistake=_unless(lambda value: isinstance(value, int) and not isinstance(value, bool) and value == SCHEMA),
    schema={"type": "integer", "const": SCHEMA},
)

SNAPSHOT: Final = Key(kind=MOMENT, about="Files uploaded later do not exist for the resolver: what makes a lock last.")
REQUIRES: Final = Key(
    kind=_many(REQUIREMENT, least=1, distinct=False),
    about="What is wanted (PEP 508); torch and bitsandbytes with an exact version.",
)

TOP: Final[Mapping[str, Key]] = {
    "schema": Key(kind=VERSION, about="The version of this format.", required=True),
    "name": Key(kind=NAME, about="What the profile and its lock are called.", required=True),
    "summary": Key(kind=TEXT, about="One line for `envlock profiles`."),
    "python": Key(kind=PYTHON, about="The Python of every backend that names none itself.", required=True),
    "platforms": Key(kind=_many(PLATFORM, least=1), about="Where it is meant to run.", required=True),
    "backends": Key(
        kind=_many(BACKEND_NAME, least=1),
        about="Lines of torch builds in order of preference: the first that fits a machine is taken.",
        required=True,
    ),
    "exclude-newer": SNAPSHOT,
    "requires": REQUIRES,
}
BACKEND: Final[Mapping[str, Key]] = {
    "python": Key(kind=_many(PYTHON), about="The Pythons locked from the index of this backend, preferred first."),
    "pypi-python": Key(
        kind=_many(PYTHON), about="The Pythons locked with PyPI's own build of torch, where that is this backend."
    ),
    "exclude-newer": SNAPSHOT,
    "requires": REQUIRES,
}
CONDA: Final[Mapping[str, Key]] = {
    "requires": Key(kind=_many(TEXT), about="conda specs: the interpreter, and a compiler for Triton and extensions.")
}
VERIFY: Final[Mapping[str, Key]] = {
    "families": Key(kind=_many(FAMILY), about="Model types of which a tiny random model is trained to verify."),
    "min-memory-mib": Key(kind=NUMBER, about="GPU memory in MiB below which verification does not train."),
}
TABLES: Final[Mapping[str, Mapping[str, Key]]] = {"conda": CONDA, "verify": VERIFY}
