"""What of a set of packages breaks the rules: pairs that a resolver takes, and that break when they are used. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from packaging.version import Version

from envlock.conflict_rules import BACKEND, FILE, PYTHON, Bounds, Clause, Rule, Rules, parse, within
from envlock.facts import Facts
from envlock.judgement import Given, Violation

__all__ = [
    "FILE",
    "PYTHON",
    "Given",
    "Rules",
    "Stack",
    "Violation",
    "as_indexed",
    "backends",
    "built_for",
    "fitting",
    "judged",
    "parse",
    "told",
    "used_digest",
    "violations",
]


# ---- what is judged -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A set of packages for one Python and backend: normalized names and PEP 440 versions.

    `backend` as `cu121` or `cpu`, None to take it from torch's build; `families` are model types that it is for.
    """

    packages: Mapping[str, str]
    python: str
    backend: str | None = None
    families: tuple[str, ...] = ()

    def version(self, name: str) -> str | None:
        """Return what is there of a package, or of `python`."""
        return self.python if name == PYTHON else self.packages.get(name)


def violations(stack: Stack, rules: Rules) -> tuple[Violation, ...]:
    """Return what breaks a rule, in the order of the rules; bounds that several clauses ask for are told once."""
    broken: dict[tuple[str, Bounds | None], _Ask] = {}
    for ask in _asks(stack, rules):
        if ask.broken:
            broken.setdefault((ask.rule.id, ask.bounds), ask)
    return tuple(_violation(ask, stack, rules) for ask in broken.values())


def judged(stack: Stack, rules: Rules) -> int:
    """Return how many rules say something of this set."""
    return len({ask.rule.id for ask in _asks(stack, rules)})


def used_digest(stacks: Iterable[Stack], rules: Rules) -> str:
    """Return the sha256 over what the rules ask of these sets, so that other rules, and their wording, may move."""
    asked = {
        json.dumps([ask.rule.id, ask.rule.package, asdict(ask.bounds) if ask.bounds else None], sort_keys=True)
        for stack in stacks
        for ask in _asks(stack, rules)
    }
    return hashlib.sha256("\n".join(sorted(asked)).encode()).hexdigest()


def told(row: Violation) -> str:
    """Return in words what breaks a rule: the package, and what it is beside."""
    beside = ", ".join(f"{one.name} {one.have}" for one in row.beside)
    return f"{row.package} {row.have or 'is missing'}" + (f" beside {beside}" if beside else "")


def fitting(row: Violation) -> str:
    """Return in words what would break no rule: each bound once, and the nearest release where they do not name it."""
    bounds = dict.fromkeys(filter(None, (row.floor, row.ceiling, row.holes)))
    if not bounds:
        return f"no {row.package}" if row.have else f"any {row.package}"
    wanted = f"{row.package} {', '.join(bounds)}"
    if row.nearest is None or row.nearest[0] in "<>" or f"=={row.nearest}" in {row.floor, (row.floor or "")[1:]}:
        return wanted
    first = row.floor == f">={Version(row.nearest).public}"
    return f"{wanted} ({row.nearest} is the nearest{'' if first else ' that breaks no rule'})"


# ---- judging ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """A clause that applies to a set; without bounds the package, which is there, must not be.

    `backend` is the one that a build is asked for, None where the rule is about releases.
    """

    rule: Rule
    beside: tuple[Given, ...]
    bounds: Bounds | None
    have: str | None
    backend: str | None

    @property
    def broken(self) -> bool:
        return self.bounds is None or self.have is None or not self.bounds.hold(self.have)


def _asks(stack: Stack, rules: Rules, package: str | None = None) -> Iterator[_Ask]:
    """Yield what is asked of each package that is there or must be, or of one of them."""
    backend = stack.backend or built_for(stack, rules.facts)
    for rule in rules.rules:
        have = stack.version(rule.package)
        for clause in rule.clauses if package in {None, rule.package} else ():
            if have is None and not clause.required:
                continue
            given = _given(clause, stack, backend)
            if given is not None:
                beside = tuple(one for one in given if one.name != rule.package)
                bounds = None if clause.forbidden else _bounds(rule.package, clause, stack, backend, rules.facts)
                built = backend if clause.build == BACKEND else None
                yield _Ask(rule=rule, beside=beside, bounds=bounds, have=have, backend=built)


def _given(clause: Clause, stack: Stack, backend: str | None) -> tuple[Given, ...] | None:
    """Return the conditions of a clause with what meets them; None where one is not met."""
    found = []
    for name, text in clause.when.items():
        have = stack.version(name)
        if have is None or not within(have, text):
            return None
        found.append(Given(name=name, have=have, when=text))
    if clause.backend or clause.build == BACKEND:
        if backend is None or clause.backend not in {None, "cpu" if backend == "cpu" else "cuda"}:
            return None
        found.append(Given(name="backend", have=backend, when=clause.backend or "any"))
    if clause.families:
        family = next((one for one in stack.families if one in clause.families), None)
        if family is None:
            return None
        found.append(Given(name="family", have=family, when=" ".join(clause.families)))
    return tuple(found)


def _bounds(package: str, clause: Clause, stack: Stack, backend: str | None, known: Facts) -> Bounds:
    if clause.library and backend:
        return _with_library(backend, known)
    if clause.build:
        return _built_alike(package, clause.build, stack, backend, known)
    return clause.bounds


def _with_library(backend: str, known: Facts) -> Bounds:
    """Return which bitsandbytes has a library for a backend; of a release that is not known its neighbours tell."""
    rows = sorted(known.bitsandbytes, key=lambda row: Version(row.bitsandbytes))
    fits = {row.bitsandbytes for row in rows if known.loaded(row, backend) is not None}
    return _among([row.bitsandbytes for row in rows], fits)


def _among(releases: Sequence[str], fits: Collection[str]) -> Bounds:
    """Return the bounds that leave some of all releases, in order; where none fits, one after the last may."""
    places = [place for place, release in enumerate(releases) if release in fits]
    if not places:
        return Bounds(floor=f">{releases[-1]}" if releases else None)
    first, last = places[0], places[-1]
    holes = [f"!={releases[place]}" for place in range(first, last) if place not in places]
    return Bounds(
        floor=f">={releases[first]}" if first else None,
        ceiling=f"<={releases[last]}" if last < len(releases) - 1 else None,
        holes=",".join(holes) or None,
    )


def _built_alike(package: str, model: str, stack: Stack, backend: str | None, known: Facts) -> Bounds:
    """Return what is built as it should be; no bounds where the version that is there is, or may be."""
    have = Version(stack.packages[package])
    if model == BACKEND:
        return _for_backend(have, backend, known) if backend else Bounds()
    wanted = Version(stack.packages[model]).local
    return Bounds() if have.local == wanted else _exactly(have, wanted)


def _for_backend(have: Version, backend: str, known: Facts) -> Bounds:
    """Return the build of that torch for a backend; where it has none, the releases that have one."""
    if _built_for(have, known) in {None, backend} or (backend == "cpu" and have.local is None):
        return Bounds()  # PyPI's builds compute on a CPU too
    row = known.torch(have.public)
    if row is None or _is_built(row.torch, backend, known):
        return _exactly(have, backend)
    return _among(_torches(known), {Version(build).public for build in _builds(have, backend, known)})


def _exactly(have: Version, local: str | None) -> Bounds:
    exact = f"==={have.public}+{local}" if local else f"==={have.public}"
    return Bounds(floor=exact, ceiling=exact)


def _torches(known: Facts) -> list[str]:
    return sorted((row.torch for row in known.torch_pypi), key=Version)


def _is_built(release: str, backend: str, known: Facts) -> bool:
    return backend == "cpu" or known.torch_sm(release, backend) is not None


def _builds(have: Version, backend: str, known: Facts) -> list[str]:
    """Return the torch builds for a backend: PyPI's own in place of one of those, where it has any."""
    own = [row.torch for row in known.torch_pypi if row.cuda == backend and have.local is None]
    return own or [f"{release}+{backend}" for release in _torches(known) if _is_built(release, backend, known)]


def backends(addresses: Iterable[str], known: Facts) -> tuple[str, ...]:
    """Return the backends whose own indexes these are, by the last part of each path, as mirrors keep it."""
    parts = (re.split(r"[?#]", address)[0].rstrip("/").rpartition("/")[2] for address in addresses)
    return tuple(dict.fromkeys(part for part in parts if known.torch_source(part)))


def as_indexed(packages: Mapping[str, str], addresses: Iterable[str], known: Facts) -> Mapping[str, str]:
    """Return the packages as pip takes them from such indexes: torch's family in the build of one that has that torch.

    Of several builds pip takes the one whose local version is the highest. Without such an index nothing changes.
    """
    torch, named = packages.get("torch"), backends(addresses, known)
    if torch is None or not named:
        return packages
    public, local = Version(torch).public, Version(torch).local
    made = [one for one in named if local in {None, one} and known.torch(public) and _is_built(public, one, known)]
    backend = local if local in named else max(made, key=lambda one: Version(f"0+{one}"), default=None)
    source = known.torch_source(backend) if backend else None
    family = source.packages if source else ()
    return {
        name: f"{version}+{backend}" if name in family and Version(version).local is None else version
        for name, version in packages.items()
    }


def built_for(stack: Stack, known: Facts) -> str | None:
    """Return the backend that torch was built for; None where there is no torch, or that is not known."""
    torch = stack.packages.get("torch")
    built = _built_for(Version(torch), known) if torch else None
    return built if built and re.fullmatch(r"cpu|cu[0-9]+", built) else None


def _built_for(torch: Version, known: Facts) -> str | None:
    """Return what a torch was built for: its local version says so, or it is PyPI's."""
    row = known.torch(torch.public)
    return torch.local or (row.cuda if row else None)


def _violation(ask: _Ask, stack: Stack, rules: Rules) -> Violation:
    bounds = ask.bounds or Bounds()
    return Violation(
        rule=ask.rule.id,
        package=ask.rule.package,
        have=ask.have,
        floor=bounds.floor,
        ceiling=bounds.ceiling,
        holes=bounds.holes,
        nearest=_nearest(ask, bounds, stack, rules),
        beside=ask.beside,
        because=ask.rule.because,
        evidence=ask.rule.evidence,
    )


def _nearest(ask: _Ask, bounds: Bounds, stack: Stack, rules: Rules) -> str | None:
    package, known = ask.rule.package, rules.releases.get(ask.rule.package)
    if not known or ask.have is None:
        return bounds.nearest(ask.have)
    have = Version(ask.have)
    if (bounds.floor or "").startswith("===") and have.public in known:
        return bounds.nearest(ask.have)
    builds = _builds(have, ask.backend, rules.facts) if ask.backend else _alike(package, have, known, rules.facts)
    above = sorted((one for one in builds if Version(one) > have), key=Version)
    below = sorted((one for one in builds if Version(one) < have), key=Version, reverse=True)
    for version in (*above, *below):
        packages = {**stack.packages, package: version}
        if not any(other.broken for other in _asks(replace(stack, packages=packages), rules, package)):
            return version if ask.backend else Version(version).public
    return None


def _alike(package: str, have: Version, releases: Iterable[str], known: Facts) -> list[str]:
    """Return the releases in the same build, without those of torch that are not made in it."""
    if have.local is None:
        return list(releases)
    made = [one for one in releases if package != "torch" or _is_built(one, have.local, known)]
    return [f"{one}+{have.local}" for one in made]
