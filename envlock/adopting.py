"""A profile from what a file asks for: its Python, its builds of torch, and its requirements as they are. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from envlock import conflicts, wishes
from envlock.adopted import Build, Dropped
from envlock.conflicts import Rules, Stack
from envlock.errors import Misuse, Problem
from envlock.facts import Facts
from envlock.foreign import Foreign, Hint, Line
from envlock.foreign_names import Names
from envlock.judgement import Violation
from envlock.wishes import Wish, Wishes

__all__ = ["Draft", "Known", "derive"]

_PATCHES: Final = 60  # a specifier that any of so many releases of a Python satisfies takes that Python
_NEWEST: Final = "99999"  # a version above every bound: what a rule says of it is the ceiling
_OLDEST: Final = "0"
_TORCH: Final = "{torch}"
_NAMED: Final = 5  # requirements without a version, before they are only counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of torch, of what breaks, and of names."""

    facts: Facts
    rules: Rules
    names: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What the profile says; `requires` maps each requirement to a remark, empty for what the file asks for itself."""

    python: str
    reason: str
    builds: tuple[Build, ...]
    requires: Mapping[str, str]
    torch: str | None
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A Python, what is asked for on it, and the torch that has a build for it."""

    python: str
    reason: str
    wishes: Wishes
    torch: str | None
    hints: tuple[Hint, ...]


def derive(foreign: Foreign, known: Known, *, python: str | None, here: str) -> Draft:
    """Return the profile's parts; `python` is the one that was asked for, `here` the one taken where nothing says any.

    Raises `Misuse`: `requirements-invalid`, `python-without-build`, `version-unknown`, `nothing-kept`.
    """
    choice = _choice(foreign, known, python, here)
    dropped = [*foreign.dropped, *choice.wishes.dropped, *_python_lost(foreign, choice)]
    packages, came = _without_parts(choice.wishes.packages, known.names)
    dropped += came
    packages, opened = _pinned(packages, choice, known)
    dropped += opened
    if not packages:
        problem = Problem(message="names no package that a profile can ask for", expected="at least one, from an index")
        raise Misuse("nothing is left to make a profile of", code="nothing-kept", problems=(problem,))
    stack = Stack(packages=_pins(choice.wishes.packages) | _pins(packages), python=choice.python)
    added = dict(_added(packages, stack, choice, known))
    builds, unfit, notes = _builds(choice, stack, known)
    listed = {str(wish): "" for wish in packages.values()} | dict(added.values())
    return Draft(
        python=choice.python,
        reason=choice.reason,
        builds=builds,
        requires=listed,
        torch=choice.torch,
        dropped=(*dropped, *unfit),
        notes=(*notes, *_bounded(packages, stack, builds[0].name, known), *_open(packages.values())),
    )


# ---- Python and torch ---------------------------------------------------------------------------------------------


def _choice(foreign: Foreign, known: Known, python: str | None, here: str) -> _Choice:
    """Return the first Python that torch has a build for, of those that are asked for, else of those in common use."""
    refused: Misuse | None = None
    candidates = tuple(_pythons(foreign, known.facts, python))
    for candidate, reason in candidates:
        asked = wishes.read(foreign.lines, candidate)
        wish = asked.packages.get("torch")
        if wish is None:
            continue
        hints = (*foreign.hints, *asked.hints)
        torch = _torch(wish, asked, candidate, hints, known)
        row = known.facts.torch(torch) if torch else None
        if row is not None and candidate in row.python and not _too_old(asked, candidate, known):
            told = reason.replace(_TORCH, f"torch {row.torch}")
            return _Choice(python=candidate, reason=told, wishes=asked, torch=row.torch, hints=hints)
        refused = refused or _without_build(wish, candidate, row.python if row else None, known.facts)
    if refused is not None:
        raise refused
    return _without_torch(foreign, candidates, here, named=python is not None)


def _without_torch(foreign: Foreign, candidates: Sequence[tuple[str, str]], here: str, *, named: bool) -> _Choice:
    allowed = dict(candidates)
    if not allowed:
        line = foreign.python
        problem = Problem(
            message="takes no Python that is known",
            file=line.file if line else None,
            line=line.number if line else None,
            key=line.text if line else None,
        )
        raise Misuse("no Python can be chosen", code="python-without-build", problems=(problem,))
    free = not named and (foreign.python is None or len(allowed) > 1) and here in allowed
    chosen = here if free else next(iter(allowed))
    reason = "the one that envlock runs on" if free else allowed[chosen].partition(", ")[0]
    asked = wishes.read(foreign.lines, chosen)
    return _Choice(python=chosen, reason=reason, wishes=asked, torch=None, hints=(*foreign.hints, *asked.hints))


def _pythons(foreign: Foreign, known: Facts, python: str | None) -> Iterator[tuple[str, str]]:
    """Yield the Pythons to try, and why: the one said, else the newest that most releases of torch are built for."""
    line = foreign.python
    taken = _specified(line) if line else None
    if python is not None:
        yield python, "as asked for"
        return
    exact = re.fullmatch(r"===?([0-9]+\.[0-9]+)(?:\.[0-9*]+)*", line.text) if line else None
    if line and exact:
        yield exact[1], f"{line.text.lstrip('=')} in {line.file}"
        return
    rows = [set(row.python) for row in known.torch_pypi]
    every = sorted({one for row in rows for one in row}, key=Version, reverse=True)
    common = [one for one in every if 2 * sum(one in row for row in rows) >= len(rows)]
    reason = f"{line.text} in {line.file}, newest of those" if line else "the newest in common use"
    for one in dict.fromkeys([*common, *every]):
        if taken is None or _takes(taken, one):
            yield one, f"{reason} that {_TORCH} is built for"


def _specified(line: Line) -> SpecifierSet:
    try:
        return SpecifierSet(line.text)
    except InvalidSpecifier as error:
        problem = Problem(
            message=f"`{line.text}` says no Python", file=line.file, line=line.number, expected='such as ">=3.10"'
        )
        raise Misuse("the Python cannot be read", code="requirements-invalid", problems=(problem,)) from error


def _takes(taken: SpecifierSet, python: str) -> bool:
    return any(taken.contains(f"{python}.{patch}") for patch in range(_PATCHES))


def _torch(wish: Wish, asked: Wishes, python: str, hints: Sequence[Hint], known: Known) -> str | None:
    """Return the torch that is pinned, else the newest known one that fits, breaks no rule, and is built as meant."""
    if wish.pin is not None:
        return wish.pin
    meant = [hint.backend for hint in hints]
    fitting = [
        row.torch
        for row in known.facts.torch_pypi
        if python in row.python
        and _specifiers(wish).contains(row.torch)
        and (not meant or {*meant} & {build.name for build in _known_builds(row.torch, known.facts)})
    ]
    return _newest(fitting, "torch", asked.packages, python, known)


def _newest(versions: Iterable[str], name: str, packages: Mapping[str, Wish], python: str, known: Known) -> str | None:
    """Return the newest of these versions that breaks no rule beside the pins; None where there is none at all."""
    ordered = sorted(versions, key=Version, reverse=True)
    pins = _pins({one: wish for one, wish in packages.items() if one != name})
    before = _broken(Stack(packages=pins, python=python), known)
    for version in ordered:
        if _broken(Stack(packages={**pins, name: version}, python=python), known) <= before:
            return version
    return next(iter(ordered), None)


def _broken(stack: Stack, known: Known) -> frozenset[str]:
    """Return the rules that packages break which are there: what is missing can be added."""
    return frozenset(row.rule for row in conflicts.violations(stack, known.rules) if row.have is not None)


def _too_old(asked: Wishes, python: str, known: Known) -> bool:
    found = conflicts.violations(Stack(packages=_pins(asked.packages), python=python), known.rules)
    return any(row.package == "python" for row in found)


def _without_build(wish: Wish, python: str, built: tuple[str, ...] | None, known: Facts) -> Misuse:
    message, code = "this torch is not built for that Python", "python-without-build"
    told = f"`{wish}` has no build for Python {python}"
    expected = f"`--python` with one of {', '.join(built or ())}"
    if built is None:
        message, code = "no such torch is known", "version-unknown"
        versions = sorted((row.torch for row in known.torch_pypi), key=Version)
        told = f"`{wish}` is no release that is known to be built for Python {python}"
        expected = f"one of torch {versions[0]} to {versions[-1]}"
    problem = Problem(message=told, file=wish.line.file, line=wish.line.number, expected=expected)
    return Misuse(message, code=code, problems=(problem,))


def _python_lost(foreign: Foreign, choice: _Choice) -> Iterator[Dropped]:
    line = foreign.python
    if line is None:
        return
    patch = re.fullmatch(r"===?([0-9]+\.[0-9]+)\.[0-9][0-9.]*", line.text)
    if patch and patch[1] == choice.python:
        why = f"a profile says {choice.python}, and an environment takes the newest patch release there is"
    elif not _takes(_specified(line), choice.python):
        why = f"Python {choice.python} was asked for instead"
    else:
        return
    yield Dropped(what=f"Python {line.text.lstrip('=')}", why=why, file=line.file, line=line.number)


# ---- packages -----------------------------------------------------------------------------------------------------


def _without_parts(packages: Mapping[str, Wish], names: Names) -> tuple[dict[str, Wish], list[Dropped]]:
    """Return the packages without those that torch brings along, where there is torch."""
    parts = [wish for name, wish in packages.items() if names.is_part(name)] if "torch" in packages else []
    kept = {name: wish for name, wish in packages.items() if wish not in parts}
    return kept, [_dropped(wish, "comes with torch") for wish in parts]


def _pinned(packages: Mapping[str, Wish], choice: _Choice, known: Known) -> tuple[dict[str, Wish], list[Dropped]]:
    """Return the packages with one exact version of torch and of bitsandbytes, which a profile demands."""
    exact, dropped = dict(packages), []
    for name in ("torch", "bitsandbytes"):
        wish = packages.get(name)
        if wish is None:
            continue
        version = choice.torch if name == "torch" else _bitsandbytes(wish, exact, choice, known)
        if wish.pin is None:
            dropped.append(_dropped(wish, f"a profile pins {name}: {version} is the newest known one that fits"))
        elif wish.marker is not None or wish.clauses != (f"=={wish.pin}",):
            dropped.append(_dropped(wish, f"a profile pins {name} everywhere: {version}"))
        exact[name] = replace(wish, clauses=(f"=={version}",), marker=None)
    return exact, dropped


def _bitsandbytes(wish: Wish, packages: Mapping[str, Wish], choice: _Choice, known: Known) -> str:
    if wish.pin is not None:
        return wish.pin
    releases = [row.bitsandbytes for row in known.facts.bitsandbytes]
    fitting = [one for one in releases if _specifiers(wish).contains(one)]
    version = _newest(fitting, wish.name, packages, choice.python, known)
    if version is None:
        newest = max(releases, key=Version)
        told = f"`{wish}` fits no release that is known"
        problem = Problem(message=told, file=wish.line.file, line=wish.line.number, expected=f"bitsandbytes=={newest}")
        raise Misuse("no such bitsandbytes is known", code="version-unknown", problems=(problem,))
    return version


def _added(
    packages: Mapping[str, Wish], stack: Stack, choice: _Choice, known: Known
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield name -> requirement and remark of what a rule demands and nobody names: setuptools, beside old tritons."""
    whole = _completed(stack, choice.torch, known)
    cuda = next((build.name for build in _known_builds(choice.torch, known.facts)), "cpu") if choice.torch else "cpu"
    for row in conflicts.violations(replace(whole, backend=cuda), known.rules):
        if row.have is None and row.package not in packages:
            probe = replace(whole, packages={**whole.packages, row.package: _NEWEST}, backend=cuda)
            bounds = [one.ceiling for one in conflicts.violations(probe, known.rules) if one.package == row.package]
            yield row.package, (f"{row.package}{','.join(filter(None, dict.fromkeys(bounds)))}", row.because)


def _completed(stack: Stack, torch: str | None, known: Known) -> Stack:
    """Return the stack with the triton that torch brings, where none is named."""
    if torch is None or "triton" in stack.packages:
        return stack
    probe = Stack(packages={"torch": torch, "triton": _OLDEST}, python=stack.python, backend="cu121")
    floors = (row.floor for row in conflicts.violations(probe, known.rules) if row.package == "triton" and row.floor)
    found = next((one for floor in floors if (one := re.search(r"[0-9][0-9.]*", floor))), None)
    return replace(stack, packages={**stack.packages, "triton": found[0]}) if found else stack


def _bounded(packages: Mapping[str, Wish], stack: Stack, backend: str, known: Known) -> Iterator[str]:
    """Yield which requirements a rule would bound that no resolver knows of."""
    silent = {rule.id for rule in known.rules.rules if rule.kind == "silent"}
    for name, wish in packages.items():
        probe = replace(stack, packages={**stack.packages, name: _NEWEST}, backend=backend)
        for row in conflicts.violations(probe, known.rules) if wish.pin is None else ():
            if row.package == name and row.rule in silent and row.ceiling and row.ceiling not in wish.clauses:
                yield f"`{wish}` may need {row.ceiling}: {row.because} [{row.rule}]"


def _open(packages: Iterable[Wish]) -> Iterator[str]:
    names = [wish.name for wish in packages if wish.pin is None]
    if names:
        rest = len(names) - _NAMED
        told = ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        yield f"no one version is asked of {told}: a lock takes the newest, up to an `exclude-newer` of the profile's"


# ---- builds -------------------------------------------------------------------------------------------------------


def _builds(choice: _Choice, stack: Stack, known: Known) -> tuple[tuple[Build, ...], list[Dropped], list[str]]:
    """Return the backends in order of preference, those that a rule refuses, and what every one of them breaks."""
    if choice.torch is None:
        return (Build(name="cpu", why="no torch is asked for"),), [], []
    found = _preferred(_known_builds(choice.torch, known.facts), choice.hints)
    whole = _completed(stack, choice.torch, known)
    rows = {build.name: _refusals(build, whole, known) for build in found}
    common = set.intersection(*(set(each) for each in rows.values()))
    fit = [build for build in found if not set(rows[build.name]) - common] or found
    unfit = [
        Dropped(
            what=f"backend {build.name}",
            why=_said(next(row for key, row in rows[build.name].items() if key not in common)),
        )
        for build in found
        if build not in fit
    ]
    unknown = [
        Dropped(what=f"backend {hint.backend}", why=f"{hint.why}, but no such build of torch {choice.torch} is known")
        for hint in choice.hints
        if hint.backend not in rows
    ]
    notes = [f"breaks a rule: {_said(row)}" for key, row in rows[fit[0].name].items() if key in common or fit is found]
    return tuple(fit), [*unfit, *dict.fromkeys(unknown)], notes


def _known_builds(torch: str, known: Facts) -> list[Build]:
    """Return the builds of a torch: PyPI's own first, then the newest CUDA, the CPU's last."""
    row = known.torch(torch)
    indexed = {one.backend for one in known.torch_index if SpecifierSet(one.torch).contains(Version(torch).public)}
    own = row.cuda if row else ""
    names = {own, *indexed} & {own, *(source.name for source in known.torch_sources)} - {"", "cpu"}
    ordered = sorted(names, key=lambda name: (name != own, -int(name.removeprefix("cu"))))
    builds = [
        Build(
            name=name, why="PyPI's own build" if name == own else "built too", index=name in indexed, pypi=name == own
        )
        for name in ordered
    ]
    return [*builds, Build(name="cpu", why="for machines without a GPU", pypi=True)]


def _preferred(builds: Sequence[Build], hints: Sequence[Hint]) -> list[Build]:
    """Return the builds with those that were meant first."""
    meant: dict[str, str] = {}
    for hint in hints:
        meant.setdefault(hint.backend, hint.why)
    named = [replace(build, why=meant[build.name]) for build in builds if build.name in meant]
    named.sort(key=lambda build: [*meant].index(build.name))
    return [*named, *(build for build in builds if build.name not in meant)]


def _refusals(build: Build, stack: Stack, known: Known) -> dict[tuple[str, str], Violation]:
    """Return what breaks with one build of torch and its companions, by rule and package."""
    source = known.facts.torch_source(build.name) if build.index else None
    labelled = {
        name: f"{version}+{build.name}" if source and name in source.packages else version
        for name, version in stack.packages.items()
    }
    found = conflicts.violations(replace(stack, packages=labelled, backend=build.name), known.rules)
    return {(row.rule, row.package): row for row in found if row.have is not None}


def _said(row: Violation) -> str:
    beside = ", ".join(f"{one.name} {one.have}" for one in row.beside)
    return f"{row.package} {row.have}" + (f" beside {beside}" if beside else "") + f": {row.because} [{row.rule}]"


def _pins(packages: Mapping[str, Wish]) -> dict[str, str]:
    """Return name -> version of what is pinned."""
    return {name: wish.pin for name, wish in packages.items() if wish.pin is not None}


def _specifiers(wish: Wish) -> SpecifierSet:
    return SpecifierSet(",".join(wish.clauses))


def _dropped(wish: Wish, why: str) -> Dropped:
    return Dropped(what=str(wish), why=why, file=wish.line.file, line=wish.line.number)
