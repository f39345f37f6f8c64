"""Where each file of a locked variant is today: what the pages of its indexes say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envlock import index
from envlock.app import indexes
from envlock.app.world import World
from envlock.engines import uv_binary, uv_index
from envlock.facts import Facts
from envlock.index import Index
from envlock.index_page import IndexFile
from envlock.model import LockedVariant
from envlock.request import DEFAULT_INDEX

__all__ = ["Located", "locate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """`files` by the names of their index and their own, `addresses` of the indexes, with a login if they need one."""

    files: Mapping[tuple[str, str], IndexFile]
    addresses: Mapping[str, str]

    def plain(self) -> dict[str, str]:
        """Return the addresses without a login."""
        return {name: uv_binary.without_login(address)[0] for name, address in self.addresses.items()}


def locate(world: World, locked: LockedVariant, known: Facts) -> Located:
    """Read the page of every package, and hold each file that is locked against it.

    Raise `WorldFailed` (`not-cached`) offline, `Refused` (`index-changed`) with both hashes where a page says another,
    and what reading a page raises.
    """
    where = indexes.readable(world, known)
    if DEFAULT_INDEX not in where:
        where[DEFAULT_INDEX] = uv_index.default(world.run, world.environ)
    wanted = {
        (name, package.name): {file.file: file.sha256 for file in package.artifacts if file.index == name}
        for package in locked.packages
        for name in {file.index for file in package.artifacts}
    }
    listed = indexes.pages(world, dict.fromkeys(wanted), where, download=False, only=wanted)
    files: dict[tuple[str, str], IndexFile] = {}
    for (name, package), hashes in wanted.items():
        page = listed[name, package]
        index.unchanged(hashes, page, Index(name=name, url=where[name]))
        files |= {(name, file.file): file for file in page if file.file in hashes}
    named = {DEFAULT_INDEX, *(name for name, _ in wanted)}
    return Located(files=files, addresses={name: where[name] for name in named})
