"""Read a profile with every mistake named: file, line, key, what was expected. Pure.

The keys and their shapes stand once, in `TOP`, `BACKEND`, `CONDA` and `VERIFY`; the reader and the published JSON
Schema both come from them.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import tomlkit
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from tomlkit.exceptions import ParseError, TOMLKitError

from envlock import lines
from envlock.errors import Misuse, Problem
from envlock.model import BackendSpec, Profile

__all__ = ["SCHEMA", "parse", "schema"]

SCHEMA: Final = 1
# Packages whose builds decide which machines fit: without an exact version there is nothing to look up.
PINNED: Final = ("torch", "bitsandbytes")
PLATFORMS: Final = ("linux-x86_64", "linux-aarch64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The shape of a value: a test, the words for it, and its JSON Schema. `each` is the kind of a list's elements."""

    expected: str
    fits: Callable[[Any], bool]
    schema: Mapping[str, Any]
    each: Kind | None = None


def _pattern(expression: str, expected: str) -> Kind:
    compiled = re.compile(expression)
    return Kind(
        expected=expected,
        fits=lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None,
        schema={"type": "string", "pattern": f"^({expression})$"},
    )


def _many(each: Kind, *, least: int = 0) -> Kind:
    return Kind(
        expected=f"a list, each {each.expected}",
        fits=lambda value: isinstance(value, list) and len(value) >= least,
        schema={"type": "array", "items": each.schema, "minItems": least},
        each=each,
    )


def _requirement(value: Any) -> bool:
    try:
        Requirement(value)
    except (InvalidRequirement, TypeError):
        return False
    return True


TEXT: Final = _pattern(r"[^\n]+", "a text of one line")
PYTHON: Final = _pattern(r"3\.[0-9]{1,2}", 'a Python version such as "3.10"')
BACKEND_NAME: Final = _pattern(r"cpu|cu[0-9]{3}", '"cpu" or a CUDA line such as "cu121"')
REQUIREMENT: Final = Kind(
    expected='a requirement such as "peft==0.12.0"', fits=_requirement, schema={"type": "string", "minLength": 1}
)
MOMENT: Final = Kind(
    expected="a date and time with an offset, such as 2024-12-02T00:00:00Z (a local one differs by machine)",
    fits=lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    schema={"type": "string", "format": "date-time"},
)
NUMBER: Final = Kind(
    expected="a whole number, 0 or more",
    fits=lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    schema={"type": "integer", "minimum": 0},
)
PLATFORM: Final = Kind(
    expected=f"one of {', '.join(PLATFORMS)}",
    fits=lambda value: value in PLATFORMS,
    schema={"type": "string", "enum": list(PLATFORMS)},
)
VERSION: Final = Kind(
    expected=str(SCHEMA), fits=lambda value: value == SCHEMA and not isinstance(value, bool), schema={"const": SCHEMA}
)

BACKEND: Final[Mapping[str, Kind]] = {
    "python": _many(PYTHON),
    "pypi-python": _many(PYTHON),
    "exclude-newer": MOMENT,
    "requires": _many(REQUIREMENT, least=1),
}
CONDA: Final[Mapping[str, Kind]] = {"requires": _many(TEXT)}
VERIFY: Final[Mapping[str, Kind]] = {"families": _many(TEXT), "min-memory-mib": NUMBER}
TOP: Final[Mapping[str, Kind]] = {
    "schema": VERSION,
    "name": _pattern(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", "a name of a-z, 0-9, `.`, `_` and `-`"),
    "summary": TEXT,
    "python": PYTHON,
    "platforms": _many(PLATFORM, least=1),
    "backends": _many(BACKEND_NAME, least=1),
    "exclude-newer": MOMENT,
    "requires": _many(REQUIREMENT, least=1),
}
REQUIRED: Final = ("schema", "name", "python", "platforms", "backends")
TABLES: Final[Mapping[str, Mapping[str, Kind]]] = {"conda": CONDA, "verify": VERIFY}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """One profile while it is read: where its keys stand, and what was wrong so far."""

    file: str
    places: Mapping[lines.Path, int]
    problems: list[Problem]

    def complain(self, path: lines.Path, message: str, expected: str | None = None) -> None:
        line = next((self.places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.places), None)
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        problem = Problem(file=self.file, line=line, key=key or None, message=message, expected=expected)
        self.problems.append(problem)

    def table(self, value: Any, keys: Mapping[str, Kind], path: lines.Path) -> dict[str, Any]:
        """Return the values that fit; complain of the others."""
        if not isinstance(value, dict):
            self.complain(path, f"is {_named(value)}", "a table")
            return {}
        for key in value.keys() - keys.keys():
            self.unknown((*path, key), keys)
        return {
            key: value[key] for key, kind in keys.items() if key in value and self.fits(value[key], kind, (*path, key))
        }

    def fits(self, value: Any, kind: Kind, path: lines.Path) -> bool:
        if not kind.fits(value):
            self.complain(path, f"is {_named(value)}", kind.expected)
            return False
        if kind.each is None:
            return True
        fitting = [self.fits(element, kind.each, (*path, number)) for number, element in enumerate(value)]
        return all(fitting)

    def unknown(self, path: lines.Path, known: Mapping[str, object]) -> None:
        near = difflib.get_close_matches(str(path[-1]), known, n=1)
        self.complain(path, "unknown key", f"`{near[0]}`?" if near else f"one of {', '.join(known)}")


def parse(text: str, file: str) -> Profile:
    """Return the profile; `Misuse` (`profile-invalid`, `profile-newer`) names every mistake at once."""
    document = _document(text, file)
    raw = document.unwrap()
    reader = _Reader(file=file, places=lines.of(document), problems=[])
    _refuse_newer(raw, reader)
    sections = {"backend", *TABLES}
    top = reader.table({key: value for key, value in raw.items() if key not in sections}, TOP, ())
    for key in REQUIRED:
        if key not in raw:
            reader.complain((key,), "is missing", TOP[key].expected)
    own = _backends(raw.get("backend", {}), top, reader)
    conda, verify = (reader.table(raw.get(name, {}), keys, (name,)) for name, keys in TABLES.items())
    specs = tuple(_spec(name, top, own.get(name, {}), reader) for name in dict.fromkeys(top.get("backends", ())))
    if reader.problems:
        ordered = sorted(reader.problems, key=lambda problem: problem.line or 0)
        raise Misuse("the profile has mistakes", code="profile-invalid", problems=tuple(ordered))
    read = Profile(
        name=top["name"],
        summary=top.get("summary", ""),
        file=file,
        platforms=tuple(top["platforms"]),
        backends=specs,
        conda_requires=tuple(conda.get("requires", ())),
        families=tuple(verify.get("families", ())),
        min_memory_mib=verify.get("min-memory-mib", 0),
    )
    return replace(read, digest=_digest(read))


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a profile, as editors take it."""
    backend = {"type": "object", "additionalProperties": _object(BACKEND)}
    sections = {"backend": backend, **{name: _object(keys) for name, keys in TABLES.items()}}
    top = _object(TOP)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "envlock profile",
        **top,
        "properties": top["properties"] | sections,
        "required": list(REQUIRED),
    }


def _document(text: str, file: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except ParseError as error:
        problem = Problem(file=file, line=error.line, message=str(error), expected="TOML")
        raise Misuse("the profile is not TOML", code="profile-invalid", problems=(problem,)) from error
    except (TOMLKitError, ValueError, RecursionError) as error:
        problem = Problem(file=file, message=str(error), expected="TOML")
        raise Misuse("the profile is not TOML", code="profile-invalid", problems=(problem,)) from error


def _refuse_newer(raw: Mapping[str, Any], reader: _Reader) -> None:
    found = raw.get("schema")
    if isinstance(found, int) and not isinstance(found, bool) and found > SCHEMA:
        reader.complain(("schema",), f"is {found}", f"{SCHEMA}: this envlock knows no newer one")
        hint = "git pull && pip install ."
        raise Misuse(
            "the profile is for a newer envlock", code="profile-newer", problems=tuple(reader.problems), hint=hint
        )


def _backends(raw: Any, top: Mapping[str, Any], reader: _Reader) -> dict[str, dict[str, Any]]:
    if not isinstance(raw, dict):
        reader.complain(("backend",), f"is {_named(raw)}", "tables such as [backend.cu128]")
        return {}
    listed = top.get("backends", list(raw))
    for name in raw.keys() - set(listed):
        reader.complain(("backend", name), "is not listed in `backends`", f"one of {', '.join(listed)}")
    for number, name in enumerate(listed):
        if name in listed[:number]:
            reader.complain(("backends", number), f"names {name} twice")
    return {name: reader.table(values, BACKEND, ("backend", name)) for name, values in raw.items()}


def _spec(name: str, top: Mapping[str, Any], own: Mapping[str, Any], reader: _Reader) -> BackendSpec:
    """Return the backend; a key of its own table replaces the profile's."""
    path: lines.Path = ("backend", name, "requires") if "requires" in own else ("requires",)
    requires = own.get("requires", top.get("requires", ()))
    if not requires and not reader.problems:
        reader.complain(("backend", name), "requires nothing", "`requires`, here or at the top")
    for number, message in _requirement_mistakes(requires, name):
        reader.complain((*path, number), message, "an exact version, such as torch==2.4.1")
    fallback = (top["python"],) if "python" in top else ()
    spec = BackendSpec(
        name=name,
        python=tuple(dict.fromkeys(own.get("python", fallback))),
        pypi_python=tuple(dict.fromkeys(own.get("pypi-python", ()))),
        requires=tuple(requires),
        exclude_newer=own.get("exclude-newer", top.get("exclude-newer")),
    )
    if not (spec.python or spec.pypi_python) and "python" in top:
        reader.complain(("backend", name), "names no Python", "`python` or `pypi-python`")
    return spec


def _requirement_mistakes(requires: tuple[str, ...], backend: str) -> Iterator[tuple[int, str]]:
    names = [canonicalize_name(Requirement(each).name) for each in requires]
    for number, (name, text) in enumerate(zip(names, requires, strict=True)):
        exact = [each for each in Requirement(text).specifier if each.operator == "==" and "*" not in each.version]
        if name in names[:number]:
            yield number, f"names {name} twice"
        elif name in PINNED and not exact:
            yield number, f"leaves the version of {name} open"
    if "torch" not in names and backend != "cpu" and requires:
        yield 0, f"names no torch, which {backend} is a build of"


def _digest(read: Profile) -> str:
    """Return the sha256 over what a lock is made from: not the summary, the file, or what verification trains."""
    meaning = {
        "name": read.name,
        "platforms": read.platforms,
        "conda": read.conda_requires,
        "backends": [
            {
                "name": spec.name,
                "python": spec.python,
                "pypi-python": spec.pypi_python,
                "requires": spec.requires,
                "exclude-newer": spec.exclude_newer.isoformat() if spec.exclude_newer else None,
            }
            for spec in read.backends
        ],
    }
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _object(keys: Mapping[str, Kind]) -> dict[str, Any]:
    properties = {key: dict(kind.schema) for key, kind in keys.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _named(value: Any) -> str:
    names = {bool: "a boolean", str: "a text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    kind = names.get(type(value), "a date or time")
    return f"{kind}: {value!r}" if isinstance(value, (bool, int, float, str)) else kind
