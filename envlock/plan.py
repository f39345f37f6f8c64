"""Carry a decision to a variant: which Python, which source, and what it would bring. Pure, without network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from packaging.version import Version

from envlock import lock, request
from envlock.errors import Misuse, Problem, Refused
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
from envlock.rules import pythons

__all__ = ["variant"]


def variant(
    decision: Decision, profile: Profile, locked: Lock | None, hosts: Sequence[HostFacts], *, python: str | None = None
) -> Plan:
    """Return what would be installed: the backend's index where that variant is locked, else PyPI's own build.

    Where neither is locked the plan says so (`variant-not-locked`) and names the variant that is missing. `python`
    decides over the profile's order; raises `Misuse` (`python-not-in-profile`).
    """
    if decision.backend is None:
        return Plan(decision=decision, variant=None, locked=False)
    spec = request.spec_of(profile, decision.backend)
    chosen = _python(spec, hosts, python, profile)
    candidates = [each for each in _candidates(profile, spec, chosen) if _platform(hosts) in (each.platform, None)]
    found = next((each for each in candidates if _find(locked, each)), None)
    if found is None:
        return _unlocked(decision, profile, candidates)
    packages = _packages(locked, found)
    return Plan(
        decision=decision,
        variant=found,
        locked=True,
        packages=len(packages),
        download=_download(packages, found, hosts),
        command=f"envlock install {_named(profile)}",
    )


def _python(spec: BackendSpec, hosts: Sequence[HostFacts], asked: str | None, profile: Profile) -> str:
    known = pythons(spec)
    if asked is not None:
        if asked in known:
            return asked
        problem = Problem(
            file=profile.file,
            key=f"backend.{spec.name}.python",
            message=f"{spec.name} is not locked for Python {asked}",
            expected=f"one of {', '.join(known)}",
        )
        raise Misuse("the profile has no such Python", code="python-not-in-profile", problems=(problem,))
    here = [{each.rpartition(".")[0] for each in host.pythons} for host in hosts]
    return next((each for each in known if all(each in versions for versions in here)), known[0])


def _candidates(profile: Profile, spec: BackendSpec, python: str) -> Iterator[Variant]:
    for each in request.variants(profile):
        if each.backend == spec.name and each.python == python:
            yield each


def _platform(hosts: Sequence[HostFacts]) -> str | None:
    return f"{hosts[0].os}-{hosts[0].arch}" if hosts else None


def _find(locked: Lock | None, wanted: Variant) -> LockedVariant | None:
    return next((each for each in locked.variants if each.variant == wanted), None) if locked else None


def _packages(locked: Lock | None, wanted: Variant) -> tuple[LockedPackage, ...]:
    found = _find(locked, wanted)
    return found.packages if found else ()


def _unlocked(decision: Decision, profile: Profile, candidates: Sequence[Variant]) -> Plan:
    names = " or ".join(each.name for each in candidates)
    caution = Caution(
        code="variant-not-locked",
        message=f"no lock holds {names}: it cannot be installed before it is locked",
        backend=decision.backend,
    )
    command = f"envlock lock {_named(profile)}"
    return Plan(decision=decision, variant=candidates[0], locked=False, warnings=(caution,), command=command)


def _download(packages: Sequence[LockedPackage], wanted: Variant, hosts: Sequence[HostFacts]) -> int | None:
    """Return the bytes of the files these machines would take; None where a size is not known."""
    glibc = min((host.glibc for host in hosts if host.glibc), key=Version, default=None)
    try:
        sizes = [lock.pick(each, wanted.python, wanted.platform, glibc).size for each in packages]
    except Refused:
        return None
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _named(profile: Profile) -> str:
    """Return what a person types to name the profile: its name, or its file where that is called otherwise."""
    return profile.name if PurePath(profile.file).stem == profile.name else profile.file
