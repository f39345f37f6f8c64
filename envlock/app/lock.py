"""`envlock lock`: resolve every variant of a profile that can be, and write the lock and all that stands beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from packaging.utils import canonicalize_name

from envlock import facts, lock, profile, request, store
from envlock.app import resolving
from envlock.app.resolving import Task
from envlock.app.world import World
from envlock.engines.resolver import Resolver
from envlock.engines.resolvers import RESOLVERS
from envlock.errors import Misuse, Problem, Refused
from envlock.facts import Facts
from envlock.model import Caution, Change, Inputs, Lock, Locked, LockedVariant, Profile, Variant

__all__ = ["Mode", "inputs", "run"]

Mode: TypeAlias = Literal["write", "check", "dry-run"]

_MOVED: Final = {
    "profile": "the profile says something else than when it was locked",
    "facts": "the facts that this profile touches are not those it was locked with",
    "engine": "the resolver is another one, or another major version",
}


def run(
    world: World,
    name: str,
    *,
    mode: Mode = "write",
    upgrade: bool = False,
    upgrade_packages: Sequence[str] = (),
    variants: Sequence[str] = (),
) -> Locked:
    """Lock a profile; versions that still fit stay, but with `upgrade`, or for the `upgrade_packages`.

    `variants` limits the work to those; the others stay as they are locked if no input moved. `check` writes nothing
    and needs no network; it raises `Refused`: `lock-missing`, or `lock-stale` with what moved. A failure of one
    variant names it, and nothing is written.
    """
    begun = world.clock()
    job = _job(world, name)
    if mode == "check":
        return replace(_checked(world, job), seconds=world.clock() - begun)
    old = _old(world, job, upgrade=upgrade)
    wanted = _wanted(job, variants)
    free = {str(canonicalize_name(package)) for package in upgrade_packages}
    several = f"{len(wanted)} variants" if len(wanted) > 1 else wanted[0].name
    world.reporter.stage(f"Resolving {several} of {job.profile.name}")
    task = Task(
        profile=job.profile,
        facts=job.facts,
        resolver=job.resolver,
        variants=wanted,
        held={one.variant.name: one for one in old.variants} if old and not upgrade else {},
        free=free,
    )
    fresh = resolving.resolve(world, task)
    new = Lock(profile=job.profile.name, inputs=job.inputs, variants=_merged(job, old, fresh, partial=bool(variants)))
    _warn_unknown(world, old, new, free)
    changed = _put(job, old, new, write=mode == "write")
    moved = lock.moved(old, job.inputs) if old else ()
    answer = _answer(world, job, new, mode=mode, moved=moved, changed=changed, changes=lock.diff(old, new))
    return replace(answer, seconds=world.clock() - begun)


# ---- what there is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A profile, what a lock of it is made from, and where that lock is and goes."""

    profile: Profile
    facts: Facts
    resolver: Resolver
    inputs: Inputs
    found: Path | None
    target: Path

    @property
    def hint(self) -> str:
        """The command that makes the lock anew."""
        return f"envlock lock {self.profile.name}"


def inputs(world: World, wanted: Profile, known: Facts) -> Inputs:
    """Return what a lock made now would be made from; starts the resolver to learn its version."""
    series = RESOLVERS[world.config.resolver].series(resolving.bench(world, Path(sys.executable)))
    return Inputs(profile=wanted.digest, facts=facts.used_digest(wanted, known), engine=series)


def _job(world: World, name: str) -> _Job:
    path = store.profile_file(name, world.cwd)
    wanted = profile.parse(store.read_text(path, what="profile"), store.shown(path, world.cwd))
    known = facts.parse(store.facts_texts())
    return _Job(
        profile=wanted,
        facts=known,
        resolver=RESOLVERS[world.config.resolver],
        inputs=inputs(world, wanted, known),
        found=store.lock_file(wanted.name, world.cwd),
        target=store.lock_target(wanted.name, world.cwd),
    )


def _old(world: World, job: _Job, *, upgrade: bool) -> Lock | None:
    """Return the lock there is; what cannot be read is made anew, unless a newer envlock wrote it."""
    try:
        return _read(world, job)
    except Misuse as error:
        if error.code == "lock-newer" and not upgrade:
            raise
        world.reporter.warn(Caution(code=error.code, message=f"{error.message}; its versions are not kept"))
        return None


def _read(world: World, job: _Job) -> Lock | None:
    if job.found is None:
        return None
    return lock.parse(store.read_text(job.found, what="lock"), store.shown(job.found, world.cwd))


def _checked(world: World, job: _Job) -> Locked:
    """Return the answer for a lock that is current; raise `lock-missing` or `lock-stale`."""
    held = _read(world, job)
    if held is None or job.found is None:
        raise Refused(f"`{job.profile.name}` is not locked", code="lock-missing", hint=job.hint)
    moved = lock.moved(held, job.inputs)
    problems = [Problem(message=_MOVED[name], key=name) for name in moved]
    problems += [
        Problem(message="is not what the lock says", file=store.shown(path, world.cwd))
        for place, content in lock.files(held).items()
        if store.content(path := job.found.parent / place) != content
    ]
    if problems:
        named = ", ".join(moved) or "files beside it"
        message = f"the lock of `{job.profile.name}` is out of date: {named} moved"
        raise Refused(message, code="lock-stale", problems=tuple(problems), hint=job.hint)
    return _answer(world, job, held, mode="check", path=job.found)


# ---- which variants -----------------------------------------------------------------------------------------------


def _wanted(job: _Job, names: Sequence[str]) -> list[Variant]:
    """Return the variants to resolve: those of the names, else all that PyPI can serve."""
    able = [variant for variant in request.variants(job.profile) if variant.source == "pypi"]
    known = [variant.name for variant in able]
    strange = [name for name in names if name not in known]
    if strange:
        raise Misuse(
            f"no variant to lock: {', '.join(strange)}",
            code="variant-unknown",
            problems=tuple(Problem(message="is unknown", key=name, expected=", ".join(known)) for name in strange),
            hint=job.hint,
        )
    if not able:
        message = f"no variant of `{job.profile.name}` can be had from PyPI"
        raise Refused(message, code="nothing-to-lock", hint=f"envlock plan {job.profile.name}")
    return [variant for variant in able if not names or variant.name in names]


def _merged(
    job: _Job, old: Lock | None, fresh: Mapping[str, LockedVariant], *, partial: bool
) -> tuple[LockedVariant, ...]:
    """Return what goes into the lock, in the profile's order; variants not asked for stay if no input moved."""
    stay = old.variants if partial and old and not lock.moved(old, job.inputs) else ()
    held = {**{one.variant.name: one for one in stay}, **fresh}
    return tuple(held[variant.name] for variant in request.variants(job.profile) if variant.name in held)


def _absent(job: _Job, held: Lock) -> dict[str, str]:
    there = {one.variant.name for one in held.variants}
    return {
        variant.name: f"its packages come from the {variant.backend} index, which is not locked yet"
        if variant.source == "index"
        else "was not asked for"
        for variant in request.variants(job.profile)
        if variant.name not in there
    }


# ---- the outcome --------------------------------------------------------------------------------------------------


def _put(job: _Job, old: Lock | None, new: Lock, *, write: bool) -> bool:
    """Return whether anything differs from what stands there, after writing it if asked to."""
    files = {job.target.parent / place: content for place, content in lock.files(new).items()}
    before = [job.target.parent / place for place in (lock.files(old) if old else ())]
    gone = [path for path in before if path not in files and lock.is_rendered(store.content(path) or b"")]
    changed = bool(gone) or any(store.content(path) != content for path, content in files.items())
    if changed and write:
        # The lock comes last: until then the old one holds, and `--check` tells what already differs from it.
        store.write_set({**dict.fromkeys(gone), **files})
    return changed


def _warn_unknown(world: World, old: Lock | None, new: Lock, named: Iterable[str]) -> None:
    held = {package.name for one in (old, new) if one for locked in one.variants for package in locked.packages}
    for name in sorted(set(named) - held):
        world.reporter.warn(Caution(code="package-unknown", message=f"no variant holds `{name}`: nothing to upgrade"))


def _answer(
    world: World,
    job: _Job,
    held: Lock,
    *,
    mode: Mode,
    path: Path | None = None,
    moved: tuple[str, ...] = (),
    changed: bool = False,
    changes: tuple[Change, ...] = (),
) -> Locked:
    return Locked(
        profile=job.profile.name,
        path=store.shown(path or job.target, world.cwd),
        mode=mode,
        changed=changed,
        moved=moved,
        changes=changes,
        variants=tuple(one.variant.name for one in held.variants),
        absent=_absent(job, held),
    )
