"""Hold what was resolved against the rules of what resolves and then breaks; what is waived is kept with the lock."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence

from packaging.version import Version

from envlock import conflicts, request, store
from envlock.app.world import World
from envlock.conflicts import Rules, Stack, Violation
from envlock.errors import Misuse, Problem, Refused
from envlock.facts import Facts
from envlock.model import Caution, LockedVariant, Profile
from envlock.profile import PINNED

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

    Raise `Refused`: `torch-not-named` where only another package asks for torch, so that its build is anybody's guess;
    `conflict` with every violation that is not waived.
    """
    _require_torch_named(wanted, variants)
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


def _require_torch_named(wanted: Profile, variants: Sequence[LockedVariant]) -> None:
    """Refuse a torch that the profile does not name: it is the default index's newest, for whatever CUDA."""
    found = [
        (one, package)
        for one in variants
        for package in one.packages
        if package.name == "torch" and not request.names(request.spec_of(wanted, one.variant.backend), "torch")
    ]
    if not found:
        return
    rows = tuple(
        Problem(
            file=wanted.file,
            key=one.variant.name,
            message=f"{', '.join(package.why)} asks for torch, and {package.version} came from the default index,"
            f" whether or not it is a build for `{one.variant.backend}`",
            expected=f'`"torch=={Version(package.version).public}"`, or another version, in `requires`',
        )
        for one, package in found
    )
    raise Refused(
        f"`{wanted.name}` does not name the torch that it takes, and its lock stays as it was",
        code="torch-not-named",
        problems=rows,
        hint=f"envlock lock {wanted.name}",
    )


def _conflict(wanted: Profile, refused: Mapping[Violation, Sequence[str]]) -> Refused:
    rows = tuple(
        Problem(
            key=", ".join(names), message=f"{_said(row)}; {row.evidence}", expected=conflicts.fitting(row) + _how(row)
        )
        for row, names in refused.items()
    )
    named = ", ".join(sorted({row.rule for row in refused}))
    allowed = " ".join(f"--allow {rule}" for rule in sorted({row.rule for row in refused}))
    waive = f"envlock lock {wanted.name} {allowed}"
    cures = ", ".join(f'"{requirement}"' for requirement in _cures(refused))
    return Refused(
        f"what `{wanted.name}` resolves to breaks in use, and its lock stays as it was: {named}",
        code="conflict",
        problems=rows,
        hint=f"say {cures} in `requires` of {wanted.file}; to lock it as it is: {waive}" if cures else waive,
    )


def _said(row: Violation) -> str:
    return f"{conflicts.told(row)}: {row.because} [{row.rule}]"


def _how(row: Violation) -> str:
    """Return how to come by another build of the same release, which no requirement can ask for."""
    if row.package == "torch" and row.have and row.nearest and _same_release(row.nearest, row.have):
        return ", which is on the index of the backend: it can have no `pypi-python`"
    return ""


def _cures(broken: Iterable[Violation]) -> list[str]:
    """Return the requirements of a profile with which these rules would hold, one a package."""
    asked: dict[str, dict[str, None]] = {}
    for row in broken:
        if row.package != conflicts.PYTHON and (specifiers := _specifiers(row)) is not None:
            asked.setdefault(row.package, {}).update(dict.fromkeys(specifiers))
    return [f"{package}{','.join(specifiers)}" for package, specifiers in asked.items()]


def _specifiers(row: Violation) -> list[str] | None:
    """Return what to ask of the package, None where it must go, or where no requirement asks for what is missing."""
    bounds = list(dict.fromkeys(filter(None, (row.floor, row.ceiling, row.holes))))
    exact = len(bounds) == 1 and bounds[0].startswith("==")
    if not bounds:
        return [] if row.have is None else None
    if not exact and row.package not in PINNED:
        return bounds
    # A profile names releases, and for some packages one: the build is the backend's to say.
    version = row.nearest if row.package in PINNED else bounds[0].lstrip("=")
    if version is None or (row.package in PINNED and row.have and _same_release(version, row.have)):
        return None
    return [f"=={Version(version).public}"]


def _same_release(one: str, other: str) -> bool:
    return Version(one).public == Version(other).public
