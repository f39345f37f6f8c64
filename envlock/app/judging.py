"""Hold what was resolved against the rules of what resolves and then breaks; what is waived is kept with the lock."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence

from envlock import conflicts, store
from envlock.app.world import World
from envlock.conflicts import Rules, Stack, Violation
from envlock.errors import Misuse, Problem, Refused
from envlock.facts import Facts
from envlock.model import Caution, LockedVariant, Profile

__all__ = ["Waivers", "digest", "judge", "require_known", "rules"]

Waivers = Mapping[str, tuple[str, ...]]
"""A rule, and the variants that it is waived for."""


def rules(known: Facts) -> Rules:
    """Return the rules there are."""
    return conflicts.parse(store.facts_texts()[conflicts.FILE], known)


def digest(wanted: Profile, variants: Iterable[LockedVariant], ruled: Rules) -> str:
    """Return the sha256 over what the rules ask of these variants."""
    return conflicts.used_digest([_stack(wanted, one) for one in variants], ruled)


def judge(
    world: World,
    wanted: Profile,
    variants: Sequence[LockedVariant],
    ruled: Rules,
    *,
    waived: Waivers,
    allow: Collection[str],
) -> Waivers:
    """Return the waivers that these variants need: of those there were, and of the rules to `allow` now, with a word.

    Raise `Refused` (`conflict`) with every violation that is not waived.
    """
    broken = [(one.variant.name, row) for one in variants for row in conflicts.violations(_stack(wanted, one), ruled)]
    needed: dict[str, list[str]] = {}
    refused: dict[Violation, list[str]] = {}
    for name, row in broken:
        if row.rule in allow or name in waived.get(row.rule, ()):
            needed.setdefault(row.rule, []).append(name)
            world.reporter.warn(Caution(code="conflict-allowed", message=f"{name}: {_said(row)}"))
        else:
            refused.setdefault(row, []).append(name)
    if refused:
        raise _conflict(wanted, refused)
    return {rule: tuple(dict.fromkeys(names)) for rule, names in sorted(needed.items())}


def require_known(allow: Collection[str], ruled: Rules) -> None:
    """Raise `Misuse` (`rule-unknown`) with the nearest name for a rule that is none."""
    known = [rule.id for rule in ruled.rules]
    for name in allow:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            expected = f"`{near[0]}`?" if near else f"one of {', '.join(known)}"
            problem = Problem(message=f"no rule is called `{name}`", key="--allow", expected=expected)
            raise Misuse("there is no such rule", code="rule-unknown", problems=(problem,), hint="envlock lock --help")


def _stack(wanted: Profile, locked: LockedVariant) -> Stack:
    return Stack(
        packages={package.name: package.version for package in locked.packages},
        python=locked.variant.python,
        backend=locked.variant.backend,
        families=wanted.families,
    )


def _conflict(wanted: Profile, refused: Mapping[Violation, Sequence[str]]) -> Refused:
    rows = tuple(
        Problem(key=", ".join(names), message=f"{_said(row)}; {row.evidence}", expected=_expected(row))
        for row, names in refused.items()
    )
    named = ", ".join(sorted({row.rule for row in refused}))
    allowed = " ".join(f"--allow {rule}" for rule in sorted({row.rule for row in refused}))
    return Refused(
        f"what `{wanted.name}` resolves to breaks in use, and its lock stays as it was: {named}",
        code="conflict",
        problems=rows,
        hint=f"envlock lock {wanted.name} {allowed}",
    )


def _said(row: Violation) -> str:
    beside = ", ".join(f"{one.name} {one.have}" for one in row.beside)
    have = f"{row.package} {row.have or 'is missing'}" + (f" beside {beside}" if beside else "")
    return f"{have}: {row.because} [{row.rule}]"


def _expected(row: Violation) -> str:
    bounds = ", ".join(filter(None, [row.floor, row.ceiling, row.holes]))
    wanted = f"{row.package} {bounds}" if bounds else f"no {row.package}" if row.have else f"a {row.package}"
    return wanted + (f" ({row.nearest} is the nearest)" if row.nearest else "")
