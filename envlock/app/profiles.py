"""`envlock profiles`: the profiles that can be named here, and what the lock at hand holds of each."""

from __future__ import annotations

from envlock import lock, profile, store
from envlock.app.world import World
from envlock.model import Listed, ProfileRow

__all__ = ["run"]


def run(world: World) -> Listed:
    """Read every profile that a name finds; raises `Misuse` for one with mistakes, or a broken lock."""
    return Listed(rows=tuple(_row(world, name) for name in store.profile_names(world.cwd)))


def _row(world: World, name: str) -> ProfileRow:
    file = store.profile_file(name, world.cwd)
    read = profile.parse(store.read_text(file, what="profile"), store.shown(file, world.cwd))
    path = store.lock_file(read.name, world.cwd)
    if path is None:
        return ProfileRow(profile=read, locked=())
    held = lock.parse(store.read_text(path, what="lock"), store.shown(path, world.cwd))
    return ProfileRow(profile=read, locked=tuple(each.variant.name for each in held.variants))
