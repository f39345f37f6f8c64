"""What differs between two locks, or a lock and what is in an environment, and what machines need then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from envlock import drift, lock
from envlock.model import Change, Diffed, Floors, Held, Lock, LockedPackage, LockedVariant, Need, Shift, Side
from envlock.record import Record

__all__ = ["Content", "Environment", "compare"]

_CAPABILITY: Final = re.compile(r"\d+\.\d+")

Digest: TypeAlias = Callable[[LockedVariant], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is in an environment, name -> version, and what it says of itself; nothing if envlock did not make it."""

    packages: Mapping[str, str]
    record: Record | None

    @property
    def variant(self) -> str | None:
        """The variant that was installed, where that is known."""
        return self.record.variant if self.record else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One side, and what was read for it: a lock, or an environment, which holds one variant."""

    side: Side
    read: Lock | Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class _Package:
    """`files` are index names and hashes, None where a record does not list them."""

    version: str
    files: frozenset[tuple[str, str]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    """A variant as its side tells it, None where it does not; `digest` gives that of all it installs and needs."""

    name: str
    python: str | None
    platform: str | None
    floors: Floors | None
    packages: Mapping[str, _Package]
    build: Mapping[str, _Package] | None
    digest: Callable[[], str] | None


def compare(
    before: Content, after: Content, *, digest: Digest, gpus: Iterable[str] = (), strict: bool = False
) -> Diffed:
    """Return what came, went or changed, by variant; those that both sides hold are told package by package.

    An environment is compared with its own variant of a lock alone, one that envlock did not make with the variant that
    is nearest to it, two environments with each other whatever they hold. `digest` is that of a locked variant as
    records keep it, `gpus` are the compute capabilities there are.
    """
    was, now = _variants(before, after.read, digest), _variants(after, before.read, digest)
    pairs = _pairs(was, now)
    both = {one.name for pair in pairs for one in pair}
    found = [_difference(*pair, gpus=tuple(gpus)) for pair in pairs]
    return Diffed(
        before=before.side,
        after=after.side,
        moved=_moved(before.read, after.read),
        came=tuple(_held(one) for one in now if one.name not in both),
        went=tuple(_held(one) for one in was if one.name not in both),
        same=tuple(one.label for one in found if not (one.changes or one.shifts or one.files)),
        changes=tuple(change for one in found for change in one.changes),
        files=tuple(one.label for one in found if one.files),
        shifts=tuple(shift for one in found for shift in one.shifts),
        strict=strict,
    )


def _moved(before: Lock | Environment, after: Lock | Environment) -> tuple[str, ...]:
    """Return the inputs that differ; they say something of two locks of one profile only."""
    if isinstance(before, Lock) and isinstance(after, Lock) and before.profile == after.profile:
        return lock.moved(before, after.inputs)
    return ()


# ---- variants -----------------------------------------------------------------------------------------------------


def _variants(content: Content, other: Lock | Environment, digest: Digest) -> list[_Variant]:
    read = content.read
    if isinstance(read, Environment):
        return [_found(read, content.side.asked)]
    every = [_locked(each, digest) for each in read.variants]
    if isinstance(other, Lock):
        return every
    if other.record is None:
        return sorted(every, key=lambda one: _distance(one, other))[:1]
    return [one for one in every if one.name == other.variant]


def _distance(one: _Variant, other: Environment) -> int:
    """Return how many packages are not the same."""
    versions = {name: package.version for name, package in one.packages.items()}
    return sum(versions.get(name) != other.packages.get(name) for name in {*versions, *other.packages})


def _found(read: Environment, asked: str) -> _Variant:
    """Return what is in an environment. Its record is the word of the day of the install, for what files do not say."""
    kept = read.record
    return _Variant(
        name=kept.variant if kept else asked,
        python=None,
        platform=None,
        floors=kept.floors if kept else None,
        packages={name: _Package(version=version, files=None) for name, version in read.packages.items()},
        build=None,
        digest=(lambda: kept.lock) if kept else None,
    )


def _locked(locked: LockedVariant, digest: Digest) -> _Variant:
    kinds = [{package.name: _package(package) for package in packages} for packages in (locked.packages, locked.build)]
    return _Variant(
        name=locked.variant.name,
        python=locked.variant.python,
        platform=locked.variant.platform,
        floors=locked.floors,
        packages=kinds[0],
        build=kinds[1],
        digest=lambda: digest(locked),
    )


def _package(package: LockedPackage) -> _Package:
    files = frozenset((file.index, file.sha256) for file in package.artifacts)
    return _Package(version=package.version, files=files)


def _pairs(was: Sequence[_Variant], now: Sequence[_Variant]) -> list[tuple[_Variant, _Variant]]:
    if len(was) == len(now) == 1:
        one, other = was[0], now[0]
        if one.build is other.build is None or None in (one.floors, other.floors):
            return [(one, other)]
    named = {one.name: one for one in now}
    return [(one, named[one.name]) for one in was if one.name in named]


def _held(one: _Variant) -> Held:
    packages = {name: package.version for name, package in sorted(one.packages.items())}
    floors = one.floors or Floors(driver=None, driver_windows=None, glibc=None, sm=())
    return Held(variant=one.name, python=one.python, platform=one.platform, floors=floors, packages=packages)


# ---- one variant --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    label: str
    changes: tuple[Change, ...]
    shifts: tuple[Shift, ...]
    files: bool


def _difference(was: _Variant, now: _Variant, *, gpus: Sequence[str]) -> _Difference:
    label = now.name if was.name == now.name else f"{was.name} → {now.name}"
    changes = list(_changes(label, was.packages, now.packages))
    recorded = was.build is None or now.build is None
    if was.build is not None and now.build is not None:
        changes += _changes(label, was.build, now.build, suffix=" (to build)")
    shifts = tuple(
        Shift(variant=label, need=need, was=before, now=after) for need, before, after in _shifts(was, now, gpus)
    )
    # A record has a digest in place of files: where nothing else can be told apart, that still can.
    digests = (was.digest, now.digest) if recorded and not changes and not shifts else ()
    told = {digest() for digest in digests if digest is not None}
    files = len(told) > 1
    return _Difference(label=label, changes=tuple(changes), shifts=shifts, files=files)


def _changes(
    variant: str, was: Mapping[str, _Package], now: Mapping[str, _Package], *, suffix: str = ""
) -> Iterator[Change]:
    for name in sorted({*was, *now}):
        before, after = was.get(name), now.get(name)
        if not _alike(before, after):
            told = after.version if after else None
            if before and after and before.version == after.version:
                told = f"{after.version}, other files"
            yield Change(variant=variant, package=f"{name}{suffix}", was=before.version if before else None, now=told)


def _alike(before: _Package | None, after: _Package | None) -> bool:
    if before is None or after is None or before.version != after.version:
        return False
    return before.files is None or after.files is None or before.files == after.files


# ---- machines -----------------------------------------------------------------------------------------------------


def _shifts(was: _Variant, now: _Variant, gpus: Sequence[str]) -> Iterator[tuple[Need, str | None, str | None]]:
    """Yield what a machine needs otherwise: the need, what it was and what it is now."""
    old, new = was.floors, now.floors
    if old is None or new is None:
        return
    rows: tuple[tuple[Need, str | None, str | None], ...] = (
        ("driver", old.driver, new.driver),
        ("driver-windows", old.driver_windows, new.driver_windows),
        ("glibc", old.glibc, new.glibc),
    )
    yield from (row for row in rows if row[1] != row[2])
    lost, gained = _gpus(old.sm, new.sm, gpus), _gpus(new.sm, old.sm, gpus)
    if lost:
        yield "gpu-lost", lost, None
    if gained:
        yield "gpu-gained", None, gained
    told: tuple[tuple[Need, str | None, str | None], ...] = (
        ("python", was.python, now.python),
        ("platform", was.platform, now.platform),
    )
    yield from (row for row in told if None not in row and row[1] != row[2])


def _gpus(have: Sequence[str], lack: Sequence[str], gpus: Sequence[str]) -> str:
    """Return the compute capabilities that run on the one and not on the other; nothing where one is not known."""
    if not have or not lack:
        return ""
    known = {one for one in (*have, *lack, *gpus) if _CAPABILITY.fullmatch(one)}
    only = [one for one in known if drift.runs_on(one, have) and not drift.runs_on(one, lack)]
    return " ".join(sorted(only, key=lambda one: [int(part) for part in one.split(".")]))
