"""A lock that is about to be used: whether it is what would be made today, and holds the variant that was chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from envlock import env, lock, store
from envlock.app import judging, reading
from envlock.app import lock as locking
from envlock.app.world import World
from envlock.errors import EnvlockError, Problem, Refused
from envlock.facts import Facts
from envlock.model import Caution, Check, Lock, LockedVariant, Profile
from envlock.record import Record

__all__ = ["MOVED", "missing", "moved", "own", "stale"]

MOVED: Final = "drift.lock"
"""The check that tells whether the lock at hand is still the one that an environment was installed from."""


def stale(world: World, wanted: Profile, known: Facts, held: Lock, *, frozen: bool, done: str) -> tuple[Caution, ...]:
    """Return nothing for a lock that is current, a warning for one that is not and is used all the same (`frozen`).

    `done` says what was done with it then. Raise `Refused` (`lock-stale`) with the inputs that moved.
    """
    moved = lock.moved(held, locking.inputs(world, wanted, known, held.variants, ruled=judging.rules(known)))
    if not moved:
        return ()
    message = f"the lock of `{wanted.name}` is out of date: {', '.join(moved)} moved"
    if frozen:
        return (Caution(code="lock-stale", message=f"{message}; {done} as it is"),)
    problems = tuple(Problem(message="moved since it was locked", key=name) for name in moved)
    raise Refused(message, code="lock-stale", problems=problems, hint=f"envlock lock {wanted.typed}")


def own(held: Lock, locked: LockedVariant) -> str | None:
    """Return the name of the variant that is the same but for torch, PyPI's own build; None if there is none."""
    same = replace(locked.variant, name="", source="pypi")
    return next((row.variant.name for row in held.variants if replace(row.variant, name="") == same), None)


def moved(world: World, kept: Record, *, install: str) -> tuple[Check, ...]:
    """Return a check that warns where the lock at hand holds something else than was installed; none without a lock.

    The environment is what was locked then, so nothing about it is wrong. `install` is the command that makes it anew.
    """
    file = store.lock_file(kept.profile, world.cwd)
    if file is None:
        return ()
    shown = store.shown(file, world.cwd)
    try:
        held = reading.lock_at(world, file)
    except EnvlockError as error:
        return (Check(id=MOVED, status="warn", message=f"cannot be compared: {error.message}", fix=error.hint),)
    digests = {row.variant.name: env.digest(row) for row in held.variants}
    if digests.get(kept.variant) == kept.lock:
        return (Check(id=MOVED, status="pass", message=f"{shown} is what was installed"),)
    what = "holds another one now" if kept.variant in digests else "holds none of that name now"
    message = f"installed from an earlier lock of {kept.variant}: {shown} {what}"
    return (Check(id=MOVED, status="warn", message=message, fix=install),)


def missing(variant: str, profile: str, held: Lock | None, *, hint: str | None) -> Refused:
    """Return the error for a variant that the lock does not hold."""
    there = ", ".join(row.variant.name for row in held.variants) if held else ""
    return Refused(
        f"`{variant}` of `{profile}` is not locked",
        code="variant-not-locked",
        problems=(Problem(message=f"locked: {there or 'nothing'}"),),
        hint=hint,
    )
