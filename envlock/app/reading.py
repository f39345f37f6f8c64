"""What a use case begins with: the profile that is named, the lock at hand, and what is known."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from envlock import facts as known
from envlock import lock as locks
from envlock import profile as profiles
from envlock import store
from envlock.app.world import World
from envlock.errors import Misuse
from envlock.facts import Facts
from envlock.model import Lock, Profile

__all__ = ["facts", "lock", "lock_at", "profile"]


def profile(world: World, name: str) -> Profile:
    """Return the profile of that name or path; raise `Misuse` for one that is not there, or is none.

    The hint is then to look at one without mistakes.
    """
    file = store.profile_file(name, world.cwd)
    text = store.profile_text(file)
    try:
        read = profiles.parse(text, store.shown(file, world.cwd))
    except Misuse as error:
        if error.hint is not None:
            raise
        hint = f"cat {shlex.quote(str(store.example()))}"
        raise Misuse(error.message, code=error.code, problems=error.problems, hint=hint) from error
    return replace(read, asked=shlex.quote(name))


def lock(world: World, wanted: Profile) -> Lock | None:
    """Return the lock of a profile that is found first, None where there is none; `Misuse` for what is no lock."""
    file = store.lock_file(wanted.name, world.cwd)
    return lock_at(world, file) if file else None


def lock_at(world: World, file: Path) -> Lock:
    """Return the lock in that file."""
    return locks.parse(store.read_text(file, what="lock"), store.shown(file, world.cwd))


def facts() -> Facts:
    """Return what is known about drivers, GPUs, torch and bitsandbytes."""
    return known.parse(store.facts_texts())
