"""`envlock lock`: resolve every variant of a profile that can be, and write the lock and all that stands beside it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from packaging.utils import canonicalize_name

from envlock import facts, lock, request, store, writing
from envlock.app import conda, crossing, indexes, judging, reading, resolving
from envlock.app.conda import Use
from envlock.app.resolving import Task
from envlock.app.world import World
from envlock.conflicts import Rules
from envlock.engines.resolver import Resolver
from envlock.engines.resolvers import RESOLVERS
from envlock.errors import Misuse, Problem, Refused
from envlock.facts import Facts
from envlock.model import Caution, Inputs, Lock, Locked, LockedVariant, Profile

__all__ = ["Mode", "inputs", "run"]

Mode: TypeAlias = Literal["write", "check", "dry-run", "confirm", "cross-check"]

_LEFT: Final = "not locked when the others were"
_CONDA: Final = "conda"
_MOVED: Final = {
    "profile": "the profile says something else than when it was locked",
    "facts": "the facts that this profile touches are not those it was locked with",
    "rules": "what is known to break is not what its packages were held against",
    "engine": "the resolver is another one, or another major version",
    _CONDA: "the conda part of {variants} would answer another question by now",
}


def run(
    world: World,
    name: str,
    *,
    mode: Mode = "write",
    upgrade: bool = False,
    upgrade_packages: Sequence[str] = (),
    download: bool = True,
    allow: Sequence[str] = (),
    conda: Use = "auto",
) -> Locked:
    """Lock a profile; versions that still fit stay, but with `upgrade`, or for the `upgrade_packages`.

    `check` writes nothing and needs no network; it raises `Refused`: `lock-missing`, or `lock-stale` with what moved.
    `confirm` resolves nothing: it holds each hash against the page of its named index, and writes where it was read.
    `cross-check` writes nothing: it resolves with each engine, and the `failure` in the answer says where they differ.
    A variant that no versions satisfy is absent, and the `failure` in the answer says why; any other failure names its
    variant, and nothing is written. `download` allows what an index gives no hash of to be fetched and hashed; `allow`
    names rules that may be broken, which the lock records (else `Refused`, `conflict`). `conda` says whether the conda
    part is solved too; one that still answers what is asked is kept in any case.
    `WorldFailed` (`lock-busy`) where another envlock writes this very lock.
    """
    begun = world.clock()
    wanted, known = reading.profile(world, name), reading.facts()
    job = _Job(
        profile=wanted,
        facts=known,
        rules=judging.rules(known),
        resolver=RESOLVERS[world.config.resolver],
        target=store.lock_target(wanted.name, world.cwd),
        mode=mode,
        upgrade=upgrade,
        free={canonicalize_name(package) for package in upgrade_packages},
        download=download,
        allow=allow,
        conda=conda,
    )
    answer_of = {"check": _check, "confirm": _confirm, "cross-check": _cross_check}.get(mode, _make)
    # From what is read until all is written: what another one locks meanwhile would be undone.
    with writing.hold(job.target, again=job.hint) if job.writes else nullcontext():
        answer = answer_of(world, job)
    return replace(answer, seconds=world.clock() - begun)


def inputs(world: World, wanted: Profile, known: Facts, variants: Sequence[LockedVariant], *, ruled: Rules) -> Inputs:
    """Return what a lock of these variants made now would be made from; starts the resolver to learn its version."""
    return Inputs(
        profile=wanted.digest,
        facts=facts.used_digest(wanted, known),
        rules=judging.digest(wanted, variants, ruled),
        engine=RESOLVERS[world.config.resolver].series(resolving.bench(world, Path(sys.executable), {})),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A profile, what is known, where its lock goes, and what `run` was asked to do; `free` are normalized names."""

    profile: Profile
    facts: Facts
    rules: Rules
    resolver: Resolver
    target: Path
    mode: Mode
    upgrade: bool
    free: AbstractSet[str]
    download: bool
    allow: Sequence[str]
    conda: Use

    @property
    def writes(self) -> bool:
        """Whether what differs is written."""
        return self.mode in {"write", "confirm"}

    @property
    def canonical(self) -> Mapping[str, str]:
        """The addresses of the named indexes that a lock may name: everybody's, not this machine's."""
        return indexes.canonical(self.facts)

    @property
    def hint(self) -> str:
        """The command that makes the lock anew."""
        return f"envlock lock {self.profile.typed}"


# ---- is it current? -----------------------------------------------------------------------------------------------


def _held(world: World, job: _Job) -> tuple[Path, Lock]:
    found = store.lock_file(job.profile.name, world.cwd)
    if found is None:
        raise Refused(f"`{job.profile.name}` is not locked", code="lock-missing", hint=job.hint)
    return found, reading.lock_at(world, found)


def _check(world: World, job: _Job) -> Locked:
    """Return the answer for a lock that is current; raise `lock-missing` or `lock-stale`."""
    found, held = _held(world, job)
    moved = lock.moved(held, inputs(world, job.profile, job.facts, held.variants, ruled=job.rules))
    other = conda.moved(job.profile, job.facts, held.variants)
    beside = [path for path, content in _files(found, held, job.canonical).items() if store.content(path) != content]
    beside += [path for path, fits in _conda_files(found, held).items() if not fits]
    if moved or other or beside:
        named = [*moved, *([_CONDA] if other else [])]
        what = f"{', '.join(named)} moved" if named else "what stands beside it is not what it says"
        problems = [Problem(message=_MOVED[name].format(variants=", ".join(other)), key=name) for name in named]
        problems += [Problem(message="is not what the lock says", file=store.shown(path, world.cwd)) for path in beside]
        message = f"the lock of `{job.profile.name}` is out of date: {what}"
        raise Refused(message, code="lock-stale", problems=tuple(problems), hint=job.hint)
    return _answer(world, job, held, path=found)


def _confirm(world: World, job: _Job) -> Locked:
    """Read the pages of the named indexes again; raise `index-changed` where one gives another hash.

    What a page gives no hash of is not confirmed, and named in the answer; no file is fetched for it.
    """
    _, held = _held(world, job)
    where = indexes.addresses(world, job.facts)
    every = [package for one in held.variants for package in one.packages]
    known = {
        (file.index, package.name, file.file)
        for package in every
        for file in package.artifacts
        if file.index != request.DEFAULT_INDEX
    }
    wanted = {(index, package): None for index, package, _ in known}
    listed = indexes.pages(world, wanted, where, download=False) if wanted else {}
    hashed = {(*pair, file.file) for pair, files in listed.items() for file in files if file.sha256}
    fresh = tuple(
        replace(one, packages=tuple(indexes.evident(package, listed, where) for package in one.packages))
        for one in held.variants
    )
    new = replace(held, variants=fresh)
    there = conda.contents(job.target.parent, held.variants, held.profile)
    answer = _answer(world, job, new, changed=_put(job, held, new, there))
    return replace(answer, unconfirmed=tuple(sorted(file for *_, file in known - hashed)))


def _cross_check(world: World, job: _Job) -> Locked:
    """Return what the engines that there are make of the same question; versions that are locked stay in each."""
    old = _old(world, job)
    crossed = crossing.compare(world, _task(world, job, old))
    return Locked(
        profile=job.profile.name,
        path=store.shown(job.target, world.cwd),
        mode=job.mode,
        changed=bool(crossed.failure),
        moved=(),
        changes=crossed.changes,
        variants=crossed.compared,
        absent=crossed.absent,
        engines=crossed.engines,
        failure=crossed.failure,
    )


# ---- making it ----------------------------------------------------------------------------------------------------


def _make(world: World, job: _Job) -> Locked:
    """Resolve, judge, compare with what stands there, and write it if the mode says so."""
    judging.require_known(job.allow, job.rules)
    old = _old(world, job)
    made = resolving.resolve(world, _task(world, job, old))
    waived = judging.judge(
        world, job.profile, made.variants, job.rules, waived=old.allowed if old else {}, allow=job.allow
    )
    now = inputs(world, job.profile, job.facts, made.variants, ruled=job.rules)
    parts = conda.make(world, _conda_task(world, job, old, made.variants))
    new = Lock(profile=job.profile.name, inputs=now, variants=parts.variants, allowed=waived)
    _warn_unknown(world, (old, new), parts, job.free)
    answer = _answer(world, job, new, changed=_put(job, old, new, parts.contents))
    return replace(
        answer,
        moved=lock.moved(old, now) if old else (),
        changes=(*lock.diff(old, new), *parts.changes),
        absent={**answer.absent, **{name: error.message for name, error in made.refused.items()}},
        conda_absent={**answer.conda_absent, **parts.absent},
        failure=resolving.unsatisfied(job.profile, made.refused) or conda.unsatisfied(job.profile, parts.refused),
    )


def _conda_task(world: World, job: _Job, old: Lock | None, variants: Sequence[LockedVariant]) -> conda.Task:
    """Return what is asked for beside the wheels, with what lies beside the lock that was read."""
    found = store.lock_file(job.profile.name, world.cwd)
    held = old.variants if old else ()
    return conda.Task(
        profile=job.profile,
        facts=job.facts,
        variants=variants,
        held={one.variant.name: one.conda for one in held if one.conda},
        contents=conda.contents(found.parent, held, job.profile.name) if found else {},
        use=job.conda,
        upgrade=job.upgrade,
        free=job.free,
    )


def _old(world: World, job: _Job) -> Lock | None:
    """Return the lock there is; what cannot be read is made anew, unless a newer envlock wrote it."""
    found = store.lock_file(job.profile.name, world.cwd)
    try:
        return reading.lock_at(world, found) if found else None
    except Misuse as error:
        if error.code == "lock-newer" and not job.upgrade:
            raise
        world.reporter.warn(Caution(code=error.code, message=f"{error.message}; its versions are not kept"))
        return None


def _task(world: World, job: _Job, old: Lock | None) -> Task:
    """Return what to resolve, and tell that it begins."""
    wanted = request.variants(job.profile)
    several = f"{len(wanted)} variants" if len(wanted) > 1 else wanted[0].name
    world.reporter.stage(f"Resolving {several} of {job.profile.name}")
    return Task(
        profile=job.profile,
        facts=job.facts,
        resolver=job.resolver,
        variants=wanted,
        held={one.variant.name: one for one in old.variants} if old and not job.upgrade else {},
        free=job.free,
        addresses=indexes.readable(world, job.facts),
        download=job.download,
    )


def _warn_unknown(world: World, locks: Sequence[Lock | None], parts: conda.Parts, named: AbstractSet[str]) -> None:
    held = {name for one in locks if one for locked in one.variants for name in lock.pins(locked)}
    for name in sorted(named - held - conda.names(parts.contents.values())):
        world.reporter.warn(Caution(code="package-unknown", message=f"no variant holds `{name}`: nothing to upgrade"))


# ---- the outcome --------------------------------------------------------------------------------------------------


def _put(job: _Job, old: Lock | None, new: Lock, parts: Mapping[str, bytes]) -> bool:
    """Return whether anything differs from what stands there, after writing it if the mode says so.

    `parts` are the conda parts by variant; one that stands there of a variant that has none is taken away.
    """
    beside = {_conda_file(job.target, new, name): content for name, content in parts.items()}
    files = {**beside, **_files(job.target, new, job.canonical)}
    before = [job.target.parent / place for place in lock.places(old)] if old else []
    before += [_conda_file(job.target, one, each.variant.name) for one in (old, new) if one for each in one.variants]
    gone = [path for path in before if path not in files and lock.is_rendered(store.content(path) or b"")]
    changed = bool(gone) or any(store.content(path) != content for path, content in files.items())
    if changed and job.writes:
        # The lock comes last: until then the old one holds, and `--check` tells what already differs from it.
        writing.put({**dict.fromkeys(gone), **files})
    return changed


def _files(place: Path, held: Lock, known: Mapping[str, str]) -> dict[Path, bytes]:
    """Return what stands at and beside a lock's place but the conda parts, itself last."""
    return {place.parent / name: content for name, content in lock.files(held, known).items()}


def _conda_file(place: Path, held: Lock, variant: str) -> Path:
    return place.parent / lock.conda_place(held.profile, variant)


def _conda_files(place: Path, held: Lock) -> dict[Path, bool]:
    """Return whether what stands there, or does not, is what a lock says of each variant's conda part."""
    said = {_conda_file(place, held, one.variant.name): one.conda for one in held.variants}
    return {path: conda.fits(part, store.content(path)) for path, part in said.items()}


def _answer(world: World, job: _Job, held: Lock, *, path: Path | None = None, changed: bool = False) -> Locked:
    """Return what there is to say of a lock that stands at `path`, else where the job's goes."""
    names = tuple(one.variant.name for one in held.variants)
    missing = (one.name for one in request.variants(job.profile) if one.name not in names)
    asked = job.profile.conda_requires
    without = [one.variant.name for one in held.variants if asked and one.conda is None]
    return Locked(
        profile=job.profile.name,
        path=store.shown(path or job.target, world.cwd),
        mode=job.mode,
        changed=changed,
        moved=(),
        changes=(),
        variants=names,
        absent=dict.fromkeys(missing, _LEFT),
        conda=tuple(one.variant.name for one in held.variants if one.conda),
        conda_absent=dict.fromkeys(without, _LEFT),
    )
