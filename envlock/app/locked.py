"""A lock that is about to be used: whether it is what would be made today, and holds the variant that was chosen."""

from __future__ import annotations

from envlock import lock
from envlock.app import lock as locking
from envlock.app.world import World
from envlock.errors import Problem, Refused
from envlock.facts import Facts
from envlock.model import Caution, Lock, Profile

__all__ = ["missing", "stale"]


def stale(world: World, wanted: Profile, known: Facts, held: Lock, *, frozen: bool, done: str) -> tuple[Caution, ...]:
    """Return nothing for a lock that is current, a warning for one that is not and is used all the same (`frozen`).

    `done` says what was done with it then. Raise `Refused` (`lock-stale`) with the inputs that moved.
    """
    moved = lock.moved(held, locking.inputs(world, wanted, known, held.variants))
    if not moved:
        return ()
    message = f"the lock of `{wanted.name}` is out of date: {', '.join(moved)} moved"
    if frozen:
        return (Caution(code="lock-stale", message=f"{message}; {done} as it is"),)
    problems = tuple(Problem(message="moved since it was locked", key=name) for name in moved)
    raise Refused(message, code="lock-stale", problems=problems, hint=f"envlock lock {wanted.typed}")


def missing(variant: str, profile: str, held: Lock | None, *, hint: str | None) -> Refused:
    """Return the error for a variant that the lock does not hold."""
    there = ", ".join(row.variant.name for row in held.variants) if held else ""
    return Refused(
        f"`{variant}` of `{profile}` is not locked",
        code="variant-not-locked",
        problems=(Problem(message=f"locked: {there or 'nothing'}"),),
        hint=hint,
    )
