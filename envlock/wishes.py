"""What lines of pip's ask for on one Python: a wish for each package, and why the rest is none. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envlock import requirements_text
from envlock.adopted import Dropped
from envlock.document import quoted
from envlock.errors import Misuse, Problem
from envlock.foreign import Hint, Line

__all__ = ["Wish", "Wishes", "read"]

_TOLD: Final = 10  # mistakes that are named: a file of another kind has one on every line
_BACKEND: Final = re.compile(r"cpu|cu[1-9][0-9]{2}")
_OPTION: Final = re.compile(r"(?P<flag>--?[A-Za-z][A-Za-z-]*)(?:[ =]\s*(?P<value>\S.*))?")
_EDITABLE: Final = frozenset({"-e", "--editable"})
_INDEXES: Final = frozenset({"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--index"})
_PLACE: Final = re.compile(r"\.{0,2}/|\.{1,2}(?:\[.*\])?$|[A-Za-z]:[\\/]|\.\\|~/|\S+\.(?:whl|zip|tar\.gz)(?:\s|$)")
_ORDER: Final = (">=", ">", "~=", "==", "===", "!=", "<=", "<")
_OTHER_PLATFORM: Final = "for another Python or platform"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A package by its normalized name, the clauses on its version, and the line that asks for it first."""

    name: str
    extras: frozenset[str]
    clauses: tuple[str, ...]
    marker: str | None
    line: Line

    @property
    def pin(self) -> str | None:
        """The one version that is wanted; None where several would do."""
        exact = [one.removeprefix("==") for one in self.clauses if one.startswith("==") and not one.endswith(".*")]
        return exact[0] if exact and not exact[0].startswith("=") else None

    def __str__(self) -> str:
        """Return the requirement as PEP 508 has it."""
        extras = f"[{','.join(sorted(self.extras))}]" if self.extras else ""
        return f"{self.name}{extras}{','.join(self.clauses)}" + (f"; {self.marker}" if self.marker else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """`packages` by name in the order of the lines; `hints` name the builds of torch that were meant."""

    packages: Mapping[str, Wish]
    hints: tuple[Hint, ...]
    dropped: tuple[Dropped, ...]


def read(lines: Iterable[Line], python: str) -> Wishes:
    """Return what the lines ask for on that Python (`"3.10"`) under Linux.

    Raises `Misuse` (`requirements-invalid`) with every line that is no requirement, or asks for another version.
    """
    reader = _Reader(python=python)
    for line in lines:
        reader.take(line)
    reader.constrain()
    if reader.problems:
        rest = len(reader.problems) - _TOLD
        more = [Problem(message=f"and {rest} more", file=reader.problems[0].file)] if rest > 0 else []
        told = (*reader.problems[:_TOLD], *more)
        raise Misuse("the requirements cannot be read", code="requirements-invalid", problems=told)
    return Wishes(packages=reader.wishes, hints=(*reader.labels, *reader.indexes), dropped=tuple(reader.dropped))


@dataclass(slots=True, kw_only=True)
class _Reader:
    """The lines while they are read."""

    python: str
    wishes: dict[str, Wish] = field(default_factory=dict)
    constraints: list[Wish] = field(default_factory=list)
    labels: list[Hint] = field(default_factory=list)  # what was installed
    indexes: list[Hint] = field(default_factory=list)  # where it might have come from
    dropped: list[Dropped] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def take(self, line: Line) -> None:
        """Read one line."""
        option = _OPTION.fullmatch(line.text)
        if option:
            self._option(line, option["flag"], (option["value"] or "").strip())
        elif _is_address(line.text):
            self._address(line)
        elif _PLACE.match(line.text) and " @ " not in line.text:
            self._drop(line, "a file of the machine it was written on: a lock names what an index has")
        else:
            self._requirement(line)

    def constrain(self) -> None:
        """Add the constraints to the wishes that they are about."""
        for one in self.constraints:
            if one.name in self.wishes:
                self._wish(replace(one, extras=frozenset()))
            else:
                self._drop(one.line, "a constraint on what is not asked for by name")

    def _option(self, line: Line, flag: str, value: str) -> None:
        if flag in _EDITABLE:
            self._drop(line, "editable: a lock names what an index has, so install it into the environment afterwards")
        elif flag in _INDEXES:
            self._index(line, value)
        else:
            self._drop(line, "an option of pip's")

    def _index(self, line: Line, address: str) -> None:
        backend = re.split(r"[?#]", address)[0].rstrip("/").rpartition("/")[2]
        if _BACKEND.fullmatch(backend):
            self.indexes.append(Hint(backend=backend, why=f"named by the index on line {line.number}"))
            self._drop(line, f"the backend {backend} names that index")
        else:
            self._drop(line, "a profile names no index: the setting `index.pypi` does, or ENVLOCK_INDEX_PYPI")

    def _address(self, line: Line) -> None:
        """Take the version that the name of a wheel tells; any other address is none of an index's files."""
        pins = requirements_text.alone(line.text, line.file, self.python).pins
        for name, version in pins.items():
            self._drop(line, "an address: a profile names versions, and a lock the files")
            wish = Wish(name=name, extras=frozenset(), clauses=(f"=={version}",), marker=None, line=line)
            self._wish(self._labelled(wish))
        if not pins:
            self._drop(line, "not from an index: install it into the environment afterwards")

    def _requirement(self, line: Line) -> None:
        try:
            asked = Requirement(line.text)
        except InvalidRequirement as error:
            reason = str(error).partition("\n")[0]
            told = f"{quoted(line.text)}: {reason[:1].lower()}{reason[1:]}"
            place = Problem(message=told, file=line.file, line=line.number, expected="a requirement (PEP 508)")
            self.problems.append(place)
            return
        found = requirements_text.alone(line.text, line.file, self.python)
        if not found.pins and not found.left_open:
            self._drop(line, _OTHER_PLATFORM)
        elif asked.url:
            self._address(line)
        else:
            wish = Wish(
                name=str(canonicalize_name(asked.name)),
                extras=frozenset(asked.extras),
                clauses=_ordered(asked),
                marker=str(asked.marker) if asked.marker else None,
                line=line,
            )
            self._wish(self._labelled(wish))

    def _labelled(self, wish: Wish) -> Wish:
        """Take the label of a build off the version: which build it is, is the backend's to say."""
        label = Version(wish.pin).local if wish.pin and _is_version(wish.pin) else None
        if label is None or wish.pin is None:
            return wish
        public = wish.pin.partition("+")[0]
        if _BACKEND.fullmatch(label):
            self.labels.append(Hint(backend=label, why=f"named by {wish.name} {wish.pin}"))
            why = f"the backend {label} is that build"
        else:
            why = f"a build that the index does not have: {public} is taken"
        self._drop(wish.line, why, what=f"+{label} of {wish.name}")
        return replace(wish, clauses=tuple(f"=={public}" if one == f"=={wish.pin}" else one for one in wish.clauses))

    def _wish(self, wish: Wish) -> None:
        """Add a wish to what was wished for by that name before."""
        if wish.line.constraint and wish.name not in self.wishes:
            self.constraints.append(wish)
            return
        had = self.wishes.get(wish.name)
        if had is None:
            self.wishes[wish.name] = wish
        elif had.pin and wish.pin and not _equal(had.pin, wish.pin):
            place = f"line {had.line.number}" if had.line.file == wish.line.file else f"{had.line.file}"
            told = f"`{wish.name}` is pinned to {wish.pin}, and to {had.pin} on {place}"
            self.problems.append(
                Problem(message=told, file=wish.line.file, line=wish.line.number, expected="one version")
            )
        else:
            self.wishes[wish.name] = replace(
                had,
                extras=had.extras | wish.extras,
                clauses=_merged(had.clauses, wish.clauses),
                marker=had.marker if had.marker == wish.marker else None,
            )

    def _drop(self, line: Line, why: str, *, what: str | None = None) -> None:
        self.dropped.append(Dropped(what=what or line.text, why=why, file=line.file, line=line.number))


def _is_address(text: str) -> bool:
    return "://" in text.partition(";")[0] and " @ " not in text


def _ordered(asked: Requirement) -> tuple[str, ...]:
    """Return the clauses, floors first; `===` is `==` wherever its version is one of PEP 440's."""
    clauses = sorted(asked.specifier, key=lambda one: (_ORDER.index(one.operator), one.version))
    return tuple(
        f"=={one.version}" if one.operator == "===" and _is_version(one.version) else str(one) for one in clauses
    )


def _merged(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    exact = next((one for one in (*first, *second) if one.startswith("==") and not one.endswith(".*")), None)
    return tuple(dict.fromkeys((*([exact] if exact else []), *first, *second)))


def _is_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except ValueError:  # also for a number of more digits than Python reads
        return False


def _equal(one: str, other: str) -> bool:
    return Version(one) == Version(other) if _is_version(one) and _is_version(other) else one == other
