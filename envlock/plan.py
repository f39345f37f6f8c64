"""Carry a decision to a variant: which Python, which source, and what it would bring. Pure, without network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from packaging.version import Version

from envlock import facts as known
from envlock import lock, request, rules
from envlock.errors import Misuse, Problem, Refused
from envlock.facts import Facts
from envlock.model import (
    BackendSpec,
    Caution,
    Decision,
    HostFacts,
    Lock,
    LockedPackage,
    LockedVariant,
    Plan,
    Profile,
    Variant,
)

__all__ = ["INSTALL", "current", "variant"]

INSTALL: Final = "envlock install"
SHOWN: Final = 6  # variants that a message lists


def variant(
    decision: Decision,
    profile: Profile,
    locked: Lock | None,
    hosts: Sequence[HostFacts],
    facts: Facts,
    *,
    python: str | None = None,
    offline: bool = False,
) -> Plan:
    """Return what would be installed: the backend's index where that variant is locked, else PyPI's own build.

    Where neither is locked the plan says so (`variant-not-locked`), names the variant that is missing, and one of
    another backend that fits and is locked, if there is one. `python` decides over the profile's order; raises
    `Misuse` (`python-not-in-profile`).
    """
    if decision.backend is None:
        return Plan(decision=decision, variant=None, locked=False)
    candidates = _candidates(profile, decision.backend, hosts, facts, python=python, offline=offline)
    found = next((each for each in candidates if _find(locked, each)), None)
    if found is None:
        others = (
            each
            for backend in decision.eligible
            for each in _candidates(profile, backend, hosts, facts, python=None, offline=offline)
        )
        instead = next((each for each in others if _find(locked, each)), None)
        return _unlocked(decision, profile, candidates, instead, locked)
    packages = _packages(locked, found)
    return Plan(
        decision=decision,
        variant=found,
        locked=True,
        torch=next((each.version for each in packages if each.name == "torch"), None),
        packages=len(packages),
        download=_download(packages, found, hosts),
        evidence={one.name: file.evidence for one in packages for file in one.artifacts if file.evidence},
        command=f"{INSTALL} {profile.typed}",
    )


def current(made: Plan, profile: Profile, locked: Lock | None, facts: Facts) -> Plan:
    """Return the plan with `lock-stale` and what to do first, where the lock is not of this profile or these facts.

    Which resolver would be asked today, and what it knows to break, is left to `lock --check`: that takes longer.
    """
    if locked is None or made.command is None or not made.command.startswith(INSTALL):
        return made
    today = replace(locked.inputs, profile=profile.digest, facts=known.used_digest(profile, facts))
    moved = lock.moved(locked, today)
    if not moved:
        return made
    told = f"the lock of `{profile.name}` is out of date ({', '.join(moved)} moved): lock it again before it is used"
    caution = Caution(code="lock-stale", message=told, backend=made.decision.backend)
    return replace(made, warnings=(*made.warnings, caution), command=_locking(profile))


def _candidates(
    profile: Profile,
    backend: str,
    hosts: Sequence[HostFacts],
    facts: Facts,
    *,
    python: str | None,
    offline: bool,
) -> list[Variant]:
    """Return the backend's variants for the Python to take and the machines' platform, the index before PyPI."""
    spec = request.spec_of(profile, backend)
    chosen = _asked(spec, facts, python, profile) or rules.common_pythons(spec, facts, hosts, offline=offline)[0]
    return [
        each
        for each in request.variants(profile)
        if (each.backend, each.python) == (backend, chosen) and _platform(hosts) in (each.platform, None)
    ]


def _asked(spec: BackendSpec, facts: Facts, python: str | None, profile: Profile) -> str | None:
    known = rules.pythons(spec, facts)
    if python is None or python in known:
        return python
    problem = Problem(
        file=profile.file,
        key=f"backend.{spec.name}.python",
        message=f"{spec.name} is not locked for Python {python}",
        expected=f"one of {', '.join(known)}",
    )
    raise Misuse("the profile has no such Python", code="python-not-in-profile", problems=(problem,))


def _platform(hosts: Sequence[HostFacts]) -> str | None:
    return f"{hosts[0].os}-{hosts[0].arch}" if hosts else None


def _find(locked: Lock | None, wanted: Variant) -> LockedVariant | None:
    return next((each for each in locked.variants if each.variant == wanted), None) if locked else None


def _packages(locked: Lock | None, wanted: Variant) -> tuple[LockedPackage, ...]:
    found = _find(locked, wanted)
    return found.packages if found else ()


def _unlocked(
    decision: Decision, profile: Profile, candidates: Sequence[Variant], instead: Variant | None, locked: Lock | None
) -> Plan:
    missing = candidates[0]
    torch = request.pin(request.spec_of(profile, missing.backend), "torch")
    names = " or ".join(each.name for each in candidates)
    told = (
        f"no lock holds {names}{_from(candidates, torch)}: it cannot be installed before it is locked; {_held(locked)}"
    )
    command = _locking(profile)
    if instead:
        told += f"; {instead.name} fits too, and is locked"
        command = f"{INSTALL} {profile.typed} --backend {instead.backend}"
    caution = Caution(code="variant-not-locked", message=told, backend=decision.backend)
    return Plan(decision=decision, variant=missing, locked=False, torch=torch, warnings=(caution,), command=command)


def _from(candidates: Sequence[Variant], torch: str | None) -> str:
    """Return where the torch of these variants would come from, in brackets; nothing where there is none."""
    own = "PyPI's own build"
    origins = (own if each.source == "pypi" else f"the {each.backend} index of PyTorch" for each in candidates)
    return f" (torch {torch} from {' or '.join(dict.fromkeys(origins))})" if torch else ""


def _held(locked: Lock | None) -> str:
    names = [each.variant.name for each in locked.variants] if locked else []
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"locked: {', '.join(names[:SHOWN]) or 'nothing'}{more}"


def _locking(profile: Profile) -> str:
    return f"envlock lock {profile.typed}"


def _download(packages: Sequence[LockedPackage], wanted: Variant, hosts: Sequence[HostFacts]) -> int | None:
    """Return the bytes of the files these machines would take; None where a size is not known."""
    glibc = min((host.glibc for host in hosts if host.glibc), key=Version, default=None)
    try:
        sizes = [lock.pick(each, wanted.python, wanted.platform, glibc).size for each in packages]
    except Refused:
        return None
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
