"""Read a profile with every mistake named at once: file, line, key, what was expected. Pure.

Which keys there are, and what may stand in them, is `envlock.profile_keys`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timezone
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envlock import lines
from envlock.document import quoted
from envlock.errors import Misuse, Problem
from envlock.model import BackendSpec, Profile
from envlock.profile_keys import BACKEND, SCHEMA, TABLES, TOP, Key, Kind, described, schema

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["SCHEMA", "parse", "schema"]

# Packages whose builds decide which machines fit: without an exact version there is nothing to look up.
PINNED: Final = ("torch", "bitsandbytes")
BARE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
PLACE: Final = re.compile(r" ?\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mistake:
    """A problem before its line is known."""

    path: lines.Path
    message: str
    expected: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """One profile while it is read: what was wrong so far."""

    mistakes: list[_Mistake]

    def complain(self, path: lines.Path, message: str, expected: str | None = None) -> None:
        """Note what is wrong with one key."""
        self.mistakes.append(_Mistake(path=path, message=message, expected=expected))

    def table(self, value: Any, keys: Mapping[str, Key], path: lines.Path, *, beside: Iterable[str] = ()) -> _Table:
        """Return the values that fit, of lists the elements that do; `beside` are keys that others read."""
        if not isinstance(value, dict):
            self.complain(path, f"is {described(value)}", "a table")
            return {}
        known = (*keys, *beside)
        for key in value:
            if key not in known:
                self.complain((*path, key), "is an unknown key", _meant(key, known))
        for key, rule in keys.items():
            if rule.required and key not in value:
                self.complain((*path, key), "is missing", rule.kind.expected)
        present = {key: rule.kind for key, rule in keys.items() if key in value}
        return {key: held for key, kind in present.items() if (held := self._held(value[key], kind, (*path, key)))}

    def _held(self, value: Any, kind: Kind, path: lines.Path) -> _Held | None:
        """Return the value, or the elements that fit, each with its path; None where nothing does."""
        if (mistake := kind.mistake(value)) is not None:
            self.complain(path, mistake, kind.expected)
            return None
        if kind.each is None:
            return _Held(value=value, elements=())
        numbered = [((*path, number), element) for number, element in enumerate(value)]
        elements: list[tuple[lines.Path, Any]] = []
        for place, element in numbered:
            if (mistake := kind.each.mistake(element)) is not None:
                self.complain(place, mistake, kind.each.expected)
            elif kind.distinct and any(element == other for _, other in elements):
                self.complain(place, f"names {element} twice")
            else:
                elements.append((place, element))
        return _Held(value=tuple(element for _, element in elements), elements=tuple(elements))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A value that fits; the elements of a list stand beside it with their paths."""

    value: Any
    elements: tuple[tuple[lines.Path, Any], ...]


_Table = Mapping[str, _Held]


def parse(text: str, file: str) -> Profile:
    """Return the profile; `Misuse` (`profile-invalid`, `profile-newer`) names every mistake at once."""
    text = text.removeprefix("\ufeff")  # some editors begin a file with a mark of its encoding
    raw = _document(text, file)
    _refuse_newer(raw, text, file)
    reader = _Reader(mistakes=[])
    top = reader.table(raw, TOP, (), beside=("backend", *TABLES))
    own = _backends(raw, reader)
    conda, verify = (reader.table(raw.get(name, {}), keys, (name,)) for name, keys in TABLES.items())
    for table in (top, *own.values()):
        _check_requires(table, reader)
    specs = tuple(_spec(path, name, top, own.get(name, {}), reader) for path, name in _elements(top, "backends"))
    if reader.mistakes:
        problems = _placed(reader.mistakes, text, file)
        raise Misuse(f"{_counted(len(problems))} in the profile", code="profile-invalid", problems=problems)
    read = Profile(
        name=_value(top, "name"),
        summary=_value(top, "summary", ""),
        file=file,
        platforms=_value(top, "platforms"),
        backends=specs,
        conda_requires=_value(conda, "requires", ()),
        families=_value(verify, "families", ()),
        min_memory_mib=_value(verify, "min-memory-mib", 0),
    )
    return replace(read, digest=_digest(read))


# ---- the text -----------------------------------------------------------------------------------------------------


def _document(text: str, file: str) -> dict[str, Any]:
    try:
        return dict(tomllib.loads(text))
    except RecursionError as error:
        problem = Problem(file=file, message="is nested too deeply", expected="TOML")
        raise Misuse("the profile is not TOML", code="profile-invalid", problems=(problem,)) from error
    except ValueError as error:  # a mistake in the TOML, or a number beyond Python's own limit of digits
        message, line = _syntax(str(error), text)
        problem = Problem(file=file, line=line, message=message, expected="TOML")
        raise Misuse("the profile is not TOML", code="profile-invalid", problems=(problem,)) from error


def _syntax(said: str, text: str) -> tuple[str, int | None]:
    """Return what the TOML reader said without the place, and the line of the place."""
    message = said[:1].lower() + PLACE.sub("", said)[1:]
    found = PLACE.search(said)
    if found is None:
        return message, None
    if found["line"] is None:
        return f"{message}, at the end of the file", text.count("\n") + (not text.endswith("\n"))
    return f"{message}, column {found['column']}", int(found["line"])


def _refuse_newer(raw: Mapping[str, Any], text: str, file: str) -> None:
    found = raw.get("schema")
    if isinstance(found, int) and found > SCHEMA:
        mistake = _Mistake(path=("schema",), message=f"is {found}", expected=f"{SCHEMA}, the newest this envlock reads")
        problems = _placed([mistake], text, file)
        hint = "git pull && python -m pip install ."
        raise Misuse("the profile is for a newer envlock", code="profile-newer", problems=problems, hint=hint)


# ---- what the keys mean together ----------------------------------------------------------------------------------


def _backends(raw: Mapping[str, Any], reader: _Reader) -> dict[str, _Table]:
    """Return the tables of the backends; one that `backends` does not list would never be used, so it is a mistake."""
    tables, listed = raw.get("backend", {}), raw.get("backends")
    if not isinstance(tables, dict):
        reader.complain(("backend",), f"is {described(tables)}", "a table for each backend, such as [backend.cu128]")
        return {}
    if isinstance(listed, list):
        names = [name for name in listed if isinstance(name, str)]
        for name in tables:
            if name not in names:
                reader.complain(("backend", name), "is not listed in `backends`", _meant(name, names))
    return {name: reader.table(values, BACKEND, ("backend", name)) for name, values in tables.items()}


def _spec(path: lines.Path, name: str, top: _Table, own: _Table, reader: _Reader) -> BackendSpec:
    """Return the backend; a key of its own table replaces the profile's."""
    both = {**top, **own}
    python = both.get("python")
    default = python is not None and "python" not in own
    spec = BackendSpec(
        name=name,
        python=(python.value,) if python and default else _value(both, "python", ()),
        pypi_python=_value(own, "pypi-python", ()),
        requires=_value(both, "requires", ()),
        exclude_newer=_value(both, "exclude-newer", None),
    )
    if not (spec.python or spec.pypi_python) and not reader.mistakes:
        reader.complain(("backend", name), "names no Python", "`python` or `pypi-python`")
    elif not spec.requires and not reader.mistakes:
        reader.complain(path, f"names {name}, which requires nothing", f"`requires` at the top or in [backend.{name}]")
    elif spec.requires and name != "cpu" and "torch" not in map(_package, spec.requires):
        reader.complain(path, f"names {name}, a build of torch, but torch is not required", '"cpu", or torch==…')
    return spec


def _check_requires(table: _Table, reader: _Reader) -> None:
    """Complain of a package that is named twice, and of one whose version must be exact but is not."""
    seen: set[str] = set()
    for path, text in _elements(table, "requires"):
        name = _package(text)
        if name in seen:
            reader.complain(path, f"names {name} twice", "one requirement for each package")
        elif name in PINNED and (mistake := _unpinned(Requirement(text))) is not None:
            reader.complain(path, mistake, f"one exact version, such as {name}==2.4.1" if name == "torch" else "…==…")
        seen.add(name)


def _unpinned(requirement: Requirement) -> str | None:
    """Return why a requirement is no exact version."""
    exact = [one.version for one in requirement.specifier if one.operator == "=="]
    if len(exact) != 1 or len(requirement.specifier) != 1 or exact[0].endswith(".*"):
        return f"leaves the version of {requirement.name} open"
    return f"names a build of {requirement.name}: that is the backend's to say" if "+" in exact[0] else None


def _digest(read: Profile) -> str:
    """Return the sha256 over what a lock is made from, so that nothing else makes one stale.

    Left out: the summary, the file's name and layout, comments, and what verification trains. A moment counts as
    itself, however its offset is written; so does a requirement, however it is spaced.
    """
    meaning = {
        "name": read.name,
        "platforms": read.platforms,
        "conda": read.conda_requires,
        "backends": [
            {
                "name": spec.name,
                "python": spec.python,
                "pypi-python": spec.pypi_python,
                "requires": ["".join(text.split()) for text in spec.requires],
                "exclude-newer": spec.exclude_newer.astimezone(timezone.utc).isoformat()
                if spec.exclude_newer
                else None,
            }
            for spec in read.backends
        ],
    }
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _value(table: _Table, key: str, default: Any = None) -> Any:
    return table[key].value if key in table else default


def _elements(table: _Table, key: str) -> Iterator[tuple[lines.Path, str]]:
    if key in table:
        yield from table[key].elements


def _package(text: str) -> str:
    return canonicalize_name(Requirement(text).name)


# ---- the words ----------------------------------------------------------------------------------------------------


def _meant(given: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    return f"`{near[0]}`?" if near else f"one of {', '.join(known)}"


def _placed(mistakes: Sequence[_Mistake], text: str, file: str) -> tuple[Problem, ...]:
    """Return the problems in the order of the file; what is missing has no line and comes first."""
    places = lines.of(text)
    problems = [
        Problem(
            file=file,
            line=_line(mistake.path, places),
            key=_key(mistake.path),
            message=mistake.message,
            expected=mistake.expected,
        )
        for mistake in mistakes
    ]
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def _line(path: lines.Path, places: Mapping[lines.Path, int]) -> int | None:
    """Return the line of a key, or of what holds it."""
    return next((places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in places), None)


def _key(path: lines.Path) -> str:
    """Return a path as TOML writes it, with `[0]` for an element of a list."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{_bare(part)}" for part in path)
    return "".join(parts).removeprefix(".")


def _bare(key: str) -> str:
    return key if BARE.fullmatch(key) else quoted(key)


def _counted(mistakes: int) -> str:
    return "a mistake" if mistakes == 1 else f"{mistakes} mistakes"
