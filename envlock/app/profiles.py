"""`envlock profiles`: the profiles that can be named here, and what the lock at hand holds of each."""

from __future__ import annotations

from envlock import store
from envlock.app import reading
from envlock.app.world import World
from envlock.model import Listed, ProfileRow

__all__ = ["run"]


def run(world: World) -> Listed:
    """Read every profile that a name finds; raises `Misuse` for one with mistakes, or a broken lock."""
    return Listed(rows=tuple(_row(world, name) for name in store.profile_names(world.cwd)))


def _row(world: World, name: str) -> ProfileRow:
    read = reading.profile(world, name)
    held = reading.lock(world, read)
    own = not store.is_bundled(store.profile_file(name, world.cwd))
    return ProfileRow(profile=read, locked=tuple(each.variant.name for each in held.variants) if held else (), own=own)
