"""Read a profile with every mistake named at once: file, line, key, what was expected. Pure.

Which keys there are, and what may stand in them, is `envlock.profile_keys`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timezone
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envlock import lines
from envlock.document import safe
from envlock.errors import Misuse, Problem
from envlock.model import BackendSpec, Profile
from envlock.profile_keys import BACKEND, SCHEMA, TABLES, TOP, Key, Kind, described, schema

__all__ = ["SCHEMA", "parse", "schema"]

# Packages whose builds decide which machines fit: without an exact version there is nothing to look up.
PINNED: Final = {"torch": "torch==2.4.1", "bitsandbytes": "bitsandbytes==0.43.3"}
BARE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
# How much of a key that needs quotes a message repeats.
SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mistake:
    """A problem before its line is known."""

    path: lines.Path
    message: str
    expected: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What stands under a key: a value, or a list as a tuple of those elements that fit, each with its path beside it.

    Not `sound` is one with a mistake: what follows from its value need not be told as well.
    """

    value: Any
    elements: tuple[tuple[lines.Path, Any], ...] = ()
    sound: bool = True


_Table: TypeAlias = Mapping[str, _Entry]
ABSENT: Final = _Entry(value=())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """One profile while it is read: what was wrong so far."""

    mistakes: list[_Mistake]

    def complain(self, path: lines.Path, message: str, expected: str | None = None) -> None:
        """Note what is wrong with one key."""
        self.mistakes.append(_Mistake(path=path, message=message, expected=expected))

    def table(self, value: Any, keys: Mapping[str, Key], path: lines.Path, *, beside: Iterable[str] = ()) -> _Table:
        """Return an entry for each key that is there; `beside` are keys that others read."""
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
        return {key: self._entry(value[key], rule.kind, (*path, key)) for key, rule in keys.items() if key in value}

    def _entry(self, value: Any, kind: Kind, path: lines.Path) -> _Entry:
        if (mistake := kind.mistake(value)) is not None:
            self.complain(path, mistake, kind.expected)
            return _Entry(value=None, sound=False)
        if kind.each is None:
            return _Entry(value=value)
        fitting = {
            (*path, number): one for number, one in enumerate(value) if self._fits(one, kind.each, (*path, number))
        }
        if kind.distinct:
            self._differ(fitting)
        return _Entry(value=tuple(fitting.values()), elements=tuple(fitting.items()), sound=len(fitting) == len(value))

    def _fits(self, value: Any, kind: Kind, path: lines.Path) -> bool:
        mistake = kind.mistake(value)
        if mistake is not None:
            self.complain(path, mistake, kind.expected)
        return mistake is None

    def _differ(self, elements: Mapping[lines.Path, str]) -> None:
        seen: set[str] = set()
        for path, element in elements.items():
            if element in seen:
                self.complain(path, f"names {safe(element)} twice")
            seen.add(element)


def parse(text: str, file: str) -> Profile:
    """Return the profile; `Misuse` (`profile-invalid`, `profile-newer`) names every mistake at once."""
    text = text.removeprefix("\ufeff")  # some editors begin a file with a mark of its encoding
    raw = lines.load(text)
    if isinstance(raw, lines.Fault):
        problem = Problem(file=file, line=raw.line, message=raw.message, expected="TOML")
        raise Misuse("the profile is not TOML", code="profile-invalid", problems=(problem,))
    _refuse_newer(raw, text, file)
    reader = _Reader(mistakes=[])
    top = reader.table(raw, TOP, (), beside=("backend", *TABLES))
    own = _backends(raw, reader)
    conda, verify = (reader.table(raw.get(name, {}), keys, (name,)) for name, keys in TABLES.items())
    for table in (top, *own.values()):
        _check_requires(table, reader)
    first: dict[str, lines.Path] = {}
    for path, name in top.get("backends", ABSENT).elements:
        first.setdefault(name, path)
    for name, path in first.items():
        _check_backend(path, name, top, own.get(name, {}), reader)
    _check_name(top, file, reader)
    if reader.mistakes:
        problems = _placed(reader.mistakes, text, file)
        raise Misuse(f"{_counted(len(problems))} in the profile", code="profile-invalid", problems=problems)
    read = Profile(
        name=top["name"].value,
        summary=_value(top, "summary", ""),
        file=file,
        platforms=top["platforms"].value,
        backends=tuple(_spec(name, top, own.get(name, {})) for name in top["backends"].value),
        conda_requires=_value(conda, "requires", ()),
        families=_value(verify, "families", ()),
        min_memory_mib=_value(verify, "min-memory-mib", 0),
    )
    return replace(read, digest=_digest(read))


def _refuse_newer(raw: Mapping[str, Any], text: str, file: str) -> None:
    found = raw.get("schema")
    if isinstance(found, int) and found > SCHEMA:
        expected = f"{SCHEMA}, the newest this envlock reads"
        mistake = _Mistake(path=("schema",), message=f"is {described(found)}", expected=expected)
        problems = _placed([mistake], text, file)
        message = "the profile is for a newer envlock"
        raise Misuse(message, code="profile-newer", problems=problems, hint="envlock --version")


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


def _check_name(top: _Table, file: str, reader: _Reader) -> None:
    """Complain of a file that is called otherwise: a copy that kept its name would write the original's lock."""
    path, name = PurePath(file), top.get("name", ABSENT).value
    if name and path.suffix == ".toml" and path.stem != name:
        reader.complain(("name",), f"is {name}, but the file is {safe(path.name)}", safe(path.stem))


def _check_requires(table: _Table, reader: _Reader) -> None:
    """Complain of a package that is named twice, and of one whose version must be exact but is not."""
    seen: set[str] = set()
    for path, text in table.get("requires", ABSENT).elements:
        name = _package(text)
        if name in seen:
            reader.complain(path, f"names {name} twice", "one requirement for each package")
        elif name in PINNED and (mistake := _unpinned(Requirement(text))) is not None:
            reader.complain(path, mistake, f"one exact version, such as {PINNED[name]}")
        seen.add(name)


def _unpinned(requirement: Requirement) -> str | None:
    """Return why a requirement is no exact version that every build of the backend gets."""
    exact = [one.version for one in requirement.specifier if one.operator == "=="]
    if len(exact) != 1 or len(requirement.specifier) != 1 or exact[0].endswith(".*"):
        return f"leaves the version of {requirement.name} open"
    if requirement.marker is not None:
        return f"requires {requirement.name} in some environments only"
    return f"names a build of {requirement.name}: that is the backend's to say" if "+" in exact[0] else None


def _check_backend(path: lines.Path, name: str, top: _Table, own: _Table, reader: _Reader) -> None:
    """Complain of a backend that can make no environment."""
    both = {**top, **own}
    pythons = [both[key] for key in ("python", "pypi-python") if key in both]
    if "python" in both and not any(entry.value or not entry.sound for entry in pythons):
        reader.complain(("backend", name), "names no Python", "`python` or `pypi-python`")
    requires = both.get("requires", ABSENT)
    if requires is ABSENT:
        reader.complain(path, f"names {name}, which requires nothing", f"`requires` at the top or in [backend.{name}]")
    elif requires.sound and name != "cpu" and "torch" not in map(_package, requires.value):
        reader.complain(path, f"names {name}, a build of torch, but torch is not required", '"cpu", or torch==…')


def _spec(name: str, top: _Table, own: _Table) -> BackendSpec:
    """Return the backend; a key of its own table replaces the profile's."""
    both = {**top, **own}
    return BackendSpec(
        name=name,
        python=own["python"].value if "python" in own else (top["python"].value,),
        pypi_python=_value(own, "pypi-python", ()),
        requires=both["requires"].value,
        exclude_newer=_value(both, "exclude-newer", None),
    )


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


def _value(table: _Table, key: str, default: Any) -> Any:
    return table[key].value if key in table else default


def _package(text: str) -> str:
    return canonicalize_name(Requirement(text).name)


# ---- the words ----------------------------------------------------------------------------------------------------


def _meant(given: str, known: Sequence[str]) -> str | None:
    if not known:
        return None
    near = difflib.get_close_matches(given, known, n=1)
    return f"`{safe(near[0])}`?" if near else f"one of {', '.join(map(safe, known))}"


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
    return key if BARE.fullmatch(key) else f'"{"".join(map(_escaped, key[:SHOWN]))}{"…" * (len(key) > SHOWN)}"'


def _escaped(mark: str) -> str:
    if mark in '"\\':
        return f"\\{mark}"
    if " " <= mark <= "~":
        return mark
    return f"\\u{ord(mark):04x}" if mark <= "\uffff" else f"\\U{ord(mark):08x}"


def _counted(mistakes: int) -> str:
    return "a mistake" if mistakes == 1 else f"{mistakes} mistakes"
