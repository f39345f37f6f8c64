"""Rules about packages that a resolver takes together and that then break: what they are, and how they are read. Pure.

A rule is a row of `data/conflicts.toml`, where its keys are explained. It judges one package, by clauses that each
apply under conditions of their own.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, TypeVar

from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.version import Version

from envlock import lines
from envlock.document import Scope, Shape, quoted, safe
from envlock.errors import EnvlockError, Problem
from envlock.facts import Facts, Row

__all__ = ["BACKEND", "FILE", "PYTHON", "Bounds", "Clause", "Rule", "Rules", "parse", "within"]

FILE: Final = "conflicts.toml"
"""The data file that holds the rules."""

PYTHON: Final = "python"
"""Stands for the interpreter where a package is named."""

BACKEND: Final = "backend"
"""Stands in `build` for the backend that a package must be built for."""

Kind: TypeAlias = Literal["silent", "metadata"]
Compute: TypeAlias = Literal["cpu", "cuda"]
Status: TypeAlias = Literal["verified", "sourced", "claimed"]
Word = TypeVar("Word", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where a version must lie: specifiers, each None where it asks nothing; `holes` leave out what lies between."""

    floor: str | None = None
    ceiling: str | None = None
    holes: str | None = None

    def hold(self, version: str) -> bool:
        """Return whether a version lies inside."""
        return all(within(version, text) for text in (self.floor, self.ceiling, self.holes) if text)

    def nearest(self, version: str | None) -> str | None:
        """Return the bound that a version (None: any) breaks, as a version if that one lies inside; None if none."""
        broken = [text for text in (self.floor, self.ceiling) if text and not (version and within(version, text))]
        if not broken:
            return None
        bound = Specifier(broken[0])
        return bound.version if "=" in bound.operator else broken[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """When it applies (package to specifier, kind of backend, model types), and what it then asks of the package.

    `build` names what the package must be built for: `backend`, or a package whose local version it must have.
    """

    when: Mapping[str, str]
    backend: Compute | None
    families: tuple[str, ...]
    bounds: Bounds
    required: bool
    forbidden: bool
    library: bool
    build: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Row):
    """What one package is held to. `kind` says whether METADATA tells it as well; `because` is a sentence for users.

    So is `unseen`: why a file of requirements may not name the package though it is there.
    """

    id: str
    kind: Kind
    package: str
    because: str
    evidence: str
    unseen: str | None
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules in the order of their file, and the releases of a package, ascending, where they are known."""

    rules: tuple[Rule, ...]
    releases: Mapping[str, tuple[str, ...]]
    facts: Facts


def within(version: str, text: str) -> bool:
    """Return whether a version is one of a specifier's; pre-releases count."""
    return _specifiers(text).contains(version, prereleases=True)


def parse(text: str, known: Facts, file: str = FILE) -> Rules:
    """Read the rules; `known` are the other facts. `EnvlockError` (`facts-invalid`) has every mistake: line and key."""
    table = lines.load(text)
    if isinstance(table, lines.Fault):
        raise _invalid(Problem(message=table.message, file=file, line=table.line))
    plain = json.loads(json.dumps(table, default=str))  # a date becomes its text
    top = Scope(values=plain, path="", file=file, problems=[])
    top.know("rule", "releases")
    rules = tuple(_rule(each) for each in top.each("rule"))
    listed = dict(_releases(each) for each in top.each("releases"))
    for name, times in Counter(rule.id for rule in rules if rule.id).items():
        if times > 1:
            top.complain("rule", f"names {times} of them `{name}`")
    if top.problems:
        raise _invalid(*_placed(top.problems, text))
    listed["torch"] = _ascending(row.torch for row in known.torch_pypi)
    listed["bitsandbytes"] = _ascending(row.bitsandbytes for row in known.bitsandbytes)
    return Rules(rules=rules, releases=listed, facts=known)


# ---- one row ------------------------------------------------------------------------------------------------------

_NAME: Final = Shape(pattern=r"[a-z0-9]+(-[a-z0-9]+)*", expected="lower-case letters and digits, joined by `-`")
_TYPE: Final = Shape(pattern=r"[a-z0-9_]+", expected="a model type")
_DATE: Final = Shape(pattern=r"\d{4}-\d{2}-\d{2}", expected="a date like 2026-12-01")
_TEXT: Final = Shape(pattern=r"\S.*", expected="a text")
_EVIDENCE: Final = ("source", "date", "status")

_KINDS: Final[tuple[Kind, ...]] = ("silent", "metadata")
_COMPUTE: Final[tuple[Compute, ...]] = ("cpu", "cuda")
_STATUSES: Final[tuple[Status, ...]] = ("verified", "sourced", "claimed")

_CONDITIONS: Final = ("when", "backend", "families")
_BOUNDS: Final = {
    "floor": Shape(pattern=r">=?[0-9][^,*]*", expected="`>=` or `>`, and a version"),
    "ceiling": Shape(pattern=r"<=?[0-9][^,*]*", expected="`<` or `<=`, and a version"),
    "exactly": Shape(pattern=r"==[0-9][^,*]*", expected="`==` and a version"),
    "except": Shape(pattern=r"!=[^,]+(,!=[^,]+)*", expected="`!=` and a version, or several joined by `,`"),
}
_ANY: Final = Shape(pattern=r"[<>=!~].+", expected="a specifier")
_ALONE: Final = ("exactly", "forbidden", "library", "build")
_ASKED: Final = (*_BOUNDS, "required", "forbidden", "library", "build")


def _rule(scope: Scope) -> Rule:
    scope.know("id", "kind", "package", "because", "evidence", "unseen", *_EVIDENCE, "bounds")
    if not scope.values.get("bounds"):
        scope.complain("bounds", "is missing", expected="at least one row")
    package, clauses = _needed(scope, "package", _NAME), tuple(_clause(each) for each in scope.each("bounds"))
    for clause in clauses:
        owner = "bitsandbytes" if clause.library else "torch" if clause.build == BACKEND else package
        if package != owner:
            scope.complain("package", f"is `{package}`", expected=f"`{owner}`, of which builds are known")
    return Rule(
        id=_needed(scope, "id", _NAME),
        kind=_word(scope, "kind", _KINDS),
        package=package,
        because=_needed(scope, "because", _TEXT),
        evidence=_needed(scope, "evidence", _TEXT),
        unseen=scope.text("unseen", _TEXT),
        source=_needed(scope, "source", _TEXT),
        date=_needed(scope, "date", _DATE),
        status=_word(scope, "status", _STATUSES),
        clauses=clauses,
    )


def _clause(scope: Scope) -> Clause:
    scope.know(*_CONDITIONS, *_ASKED)
    if not any(scope.values.get(key) for key in _CONDITIONS):
        scope.complain("when", "is missing", expected=f"a condition: {', '.join(_CONDITIONS)}")
    asked = [key for key in _ASKED if scope.values.get(key)]
    if not asked:
        scope.complain("floor", "is missing", expected=f"something to ask for: {', '.join(_ASKED)}")
    for key in asked[1:] if set(asked) & set(_ALONE) else ():
        scope.complain(key, f"stands beside `{asked[0]}`")
    inner = scope.inner("when")
    when = _when(inner) if inner else {}
    return Clause(
        when=when,
        backend=_word(scope, "backend", _COMPUTE) if "backend" in scope.values else None,
        families=scope.texts("families", _TYPE),
        bounds=_bounds(scope),
        required=scope.flag("required"),
        forbidden=scope.flag("forbidden"),
        library=scope.flag("library"),
        build=_build(scope, when),
    )


def _when(scope: Scope) -> Mapping[str, str]:
    found = {}
    for name in scope.values:
        if not re.fullmatch(_NAME.pattern, name):
            scope.complain(safe(name), "is no package's name", expected=_NAME.expected)
        elif text := _specifier(scope, name, _ANY):
            found[name] = text
    return found


def _bounds(scope: Scope) -> Bounds:
    read = {key: _specifier(scope, key, shape) for key, shape in _BOUNDS.items()}
    floor, ceiling, exactly = read["floor"], read["ceiling"], read["exactly"]
    if floor and ceiling and not _leave_room(Specifier(floor), Specifier(ceiling)):
        scope.complain("ceiling", f"is `{ceiling}`", expected=f"one that leaves room above `{floor}`")
    return Bounds(floor=floor or exactly, ceiling=ceiling or exactly, holes=read["except"])


def _leave_room(floor: Specifier, ceiling: Specifier) -> bool:
    low, high = Version(floor.version), Version(ceiling.version)
    return low < high or (low == high and (floor.operator, ceiling.operator) == (">=", "<="))


def _build(scope: Scope, when: Mapping[str, str]) -> str | None:
    model = scope.text("build", _NAME)
    if model and model not in {BACKEND, *when}:
        scope.complain("build", f"is `{model}`", expected=f"`{BACKEND}`, or a package that `when` names")
    return model


def _releases(scope: Scope) -> tuple[str, tuple[str, ...]]:
    scope.know("package", "versions", *_EVIDENCE)
    _needed(scope, "source", _TEXT)
    _needed(scope, "date", _DATE)
    _word(scope, "status", _STATUSES)
    versions = scope.texts("versions")
    wrong = [quoted(version) for version in versions if not _is_version(version)]
    if wrong or not scope.values.get("versions"):
        scope.complain("versions", f"holds {', '.join(wrong) or 'none'}", expected="versions")
    return _needed(scope, "package", _NAME), () if wrong else _ascending(versions)


# ---- one value ----------------------------------------------------------------------------------------------------


def _needed(scope: Scope, key: str, shape: Shape) -> str:
    """Return the text of that shape under a key that must be there; an empty one after a complaint."""
    if key not in scope.values:
        scope.complain(key, "is missing", expected=shape.expected)
    return scope.text(key, shape) or ""


def _word(scope: Scope, key: str, words: tuple[Word, ...]) -> Word:
    """Return which of these words stands under a key that must be there; any of them after a complaint."""
    value = scope.values.get(key)
    if value not in words:
        told = f"is {quoted(value)}" if key in scope.values else "is missing"
        scope.complain(key, told, expected=" or ".join(words))
    return next((word for word in words if word == value), words[0])


def _specifier(scope: Scope, key: str, shape: Shape) -> str | None:
    text = scope.text(key, shape)
    if text and not _is_specifier(text):
        scope.complain(key, f"is {quoted(text)}", expected=shape.expected)
        return None
    return text


def _is_specifier(text: str) -> bool:
    try:
        return bool(_specifiers(text))
    except InvalidSpecifier:
        return False


def _is_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except ValueError:  # also for a number of more digits than Python reads
        return False


@functools.cache
def _specifiers(text: str) -> SpecifierSet:
    return SpecifierSet(text)


def _ascending(versions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(versions, key=Version))


# ---- mistakes -----------------------------------------------------------------------------------------------------


def _placed(problems: Sequence[Problem], text: str) -> Iterator[Problem]:
    """Yield the problems with their lines: that of the key, or of the table it is missing from."""
    found = lines.of(text)
    for problem in problems:
        parts = re.findall(r"[^.\[\]]+", problem.key or "")
        path: lines.Path = tuple(int(part) if part.isdigit() else part for part in parts)
        while path and path not in found:
            path = path[:-1]
        yield replace(problem, line=found.get(path))


def _invalid(*problems: Problem) -> EnvlockError:
    return EnvlockError("envlock's own rules are broken", code="facts-invalid", problems=problems)
