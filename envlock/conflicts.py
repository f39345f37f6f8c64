"""What of a set of packages breaks the rules: pairs that a resolver takes, and that break when they are used. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from packaging.version import Version

from envlock.conflict_rules import BACKEND, FILE, PYTHON, Bounds, Clause, Rule, Rules, parse, within
from envlock.facts import Facts
from envlock.model import Given, Violation

__all__ = ["FILE", "Given", "Rules", "Stack", "Violation", "built_for", "parse", "used_digest", "violations"]


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


def used_digest(stacks: Iterable[Stack], rules: Rules) -> str:
    """Return the sha256 over what the rules ask of these sets, so that other rules, and their wording, may move."""
    asked = {
        json.dumps([ask.rule.id, ask.rule.package, asdict(ask.bounds) if ask.bounds else None], sort_keys=True)
        for stack in stacks
        for ask in _asks(stack, rules)
    }
    return hashlib.sha256("\n".join(sorted(asked)).encode()).hexdigest()


# ---- judging ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """A clause that applies to a set; without bounds the package, which is there, must not be."""

    rule: Rule
    beside: tuple[Given, ...]
    bounds: Bounds | None
    have: str | None

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
                yield _Ask(rule=rule, beside=beside, bounds=bounds, have=have)


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
    fits = [place for place, row in enumerate(rows) if known.loaded(row, backend) is not None]
    if not fits:
        return Bounds(floor=f">{rows[-1].bitsandbytes}" if rows else None)
    first, last = fits[0], fits[-1]
    holes = [f"!={rows[place].bitsandbytes}" for place in range(first, last) if place not in fits]
    return Bounds(
        floor=f">={rows[first].bitsandbytes}" if first else None,
        ceiling=f"<={rows[last].bitsandbytes}" if rows[last] is not rows[-1] else None,
        holes=",".join(holes) or None,
    )


def _built_alike(package: str, model: str, stack: Stack, backend: str | None, known: Facts) -> Bounds:
    """Return the exact version that is built as it should be; no bounds where the one that is there is, or may be."""
    have = Version(stack.packages[package])
    if model == BACKEND:
        wanted, found = backend, _built_for(have, known)
        if found is None or (wanted == "cpu" and have.local is None):  # PyPI's builds compute on a CPU too
            return Bounds()
    else:
        wanted, found = Version(stack.packages[model]).local, have.local
    if found == wanted:
        return Bounds()
    exact = f"==={have.public}+{wanted}" if wanted else f"==={have.public}"
    return Bounds(floor=exact, ceiling=exact)


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
    package = ask.rule.package
    known = rules.releases.get(package)
    if not known or ask.have is None or (bounds.floor or "").startswith("==="):
        return bounds.nearest(ask.have)
    have = Version(ask.have)
    above = [one for one in known if Version(one) > have]
    below = [one for one in reversed(known) if Version(one) < have]
    build = f"+{have.local}" if have.local else ""
    for release in (*above, *below):
        packages = {**stack.packages, package: release + build}
        if not any(other.broken for other in _asks(replace(stack, packages=packages), rules, package)):
            return release
    return None
