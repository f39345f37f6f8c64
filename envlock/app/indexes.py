"""The indexes of the day: where each name leads, what a page lists for the torch family, and whether one answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from packaging.version import Version

from envlock import index
from envlock.app.world import World
from envlock.engines import uv_index
from envlock.errors import EnvlockError, Misuse, Problem, Refused, WorldFailed
from envlock.facts import Facts
from envlock.index import Index
from envlock.index_page import IndexFile, release
from envlock.model import Artifact, LockedPackage, LockedVariant, Setting
from envlock.request import DEFAULT_INDEX

__all__ = [
    "Pages",
    "addresses",
    "answers",
    "canonical",
    "evident",
    "names",
    "pages",
    "readable",
    "require_described",
    "settings",
    "unhashed",
]

Pages: TypeAlias = Mapping[tuple[str, str], Sequence[IndexFile]]
"""What an index lists of a package, by both names."""

_AT_ONCE: Final = 8
_PATIENCE_SECONDS: Final = 2.0  # for a first byte, where there is another way


def canonical(known: Facts) -> dict[str, str]:
    """Return name -> address of each named index, as everybody has them."""
    return {row.name: row.url for row in known.torch_sources}


def addresses(world: World, known: Facts) -> dict[str, str]:
    """Return name -> address of each index as the settings have it, with a login if it needs one.

    The default index is missing where nobody sets it: the engines know their own. Raise `Misuse` (`config-invalid`)
    where settings of uv's or pip's that would say it are wrong.
    """
    for one in world.config.unused:
        world.reporter.log(f"{one.name}, set by {one.origin}: {one.value}")
    return canonical(known) | dict(world.config.indexes)


def readable(world: World, known: Facts) -> dict[str, str]:
    """Return the addresses of indexes whose pages are to be read; `Misuse` (`config-invalid`) where one has none."""
    where = addresses(world, known)
    if urlsplit(where.get(DEFAULT_INDEX, "")).scheme == "file":
        name = f"index.{DEFAULT_INDEX}"
        value, origin = world.config.entries[name]
        problem = Problem(message=f"is {value}", file=origin, key=name, expected="an http or https URL")
        message = "the default index is a folder, which only `install` takes files from: it has no pages to read"
        raise Misuse(message, code="config-invalid", problems=(problem,), hint="envlock detect -v")
    return where


def names(known: Facts) -> frozenset[str]:
    """Return what an index can be called: the default one, and those of the backends that are known."""
    return frozenset({DEFAULT_INDEX, *canonical(known)})


def settings(world: World, known: Facts) -> tuple[Setting, ...]:
    """Return the settings in force, with the address of every index, by whoever knows it."""
    found = world.config.settings()
    said = {one.name for one in found}
    rows = (Setting(name=f"index.{name}", value=url, origin="default") for name, url in canonical(known).items())
    others = [one for one in rows if one.name not in said]
    if f"index.{DEFAULT_INDEX}" not in said:
        others.append(_default(world))
    return tuple(sorted((*found, *others), key=lambda one: one.name))


def _default(world: World) -> Setting:
    name = f"index.{DEFAULT_INDEX}"
    try:
        return Setting(name=name, value=uv_index.default(world.run, world.environ), origin="default")
    except WorldFailed as error:
        return Setting(name=name, value=None, origin=f"default, which uv does not tell: {error.message}")


def pages(
    world: World,
    wanted: Mapping[tuple[str, str], str | None],
    where: Mapping[str, str],
    *,
    download: bool,
    matters: Callable[[str], bool] = lambda _: True,
    only: Mapping[tuple[str, str], Collection[str]] = MappingProxyType({}),
) -> Pages:
    """Read the page of each (index, package), side by side; `wanted` maps them to the version that is pinned.

    `only` maps them to the names of the files that matter, where not all do.

    What an index gives no hash of may be fetched and hashed if `download` says so, files that `matters` holds true for
    being those that it is asked for. Raise `Refused` (`hash-missing`,
    `index-unknown`), `WorldFailed` (`not-cached`, offline), and what `index.files` raises.
    """
    names = ", ".join(sorted({name for name, _ in wanted}))
    if world.config.offline:
        raise WorldFailed(f"offline, the indexes cannot be read: {names}", code="not-cached")
    world.reporter.stage(f"Reading the indexes {names}")
    asked = sorted(wanted)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda pair: _listed(world, pair, where, only.get(pair)), asked)
        listed = dict(zip(asked, found, strict=True))
    bare = sorted(
        {
            file.file
            for pair, files in listed.items()
            for file in files
            if _lacks_hash(file, wanted[pair]) and matters(file.file)
        }
    )
    if bare and not download:
        problems = tuple(Problem(file=file, message="no sha256") for file in bare)
        raise Refused("an index gives no hash of what would be locked", code="hash-missing", problems=problems)
    if bare:
        world.reporter.stage(f"Fetching to hash it, since its index gives no hash: {', '.join(bare)}")
    return listed


def _listed(
    world: World, pair: tuple[str, str], where: Mapping[str, str], only: Collection[str] | None
) -> Sequence[IndexFile]:
    try:
        return index.files(pair[1], _index(pair[0], where), environ=world.environ, only=only)
    except WorldFailed as error:
        if error.code != "network":
            raise
        told = Problem(message=f"{_variable(pair[0])}=ADDRESS takes this index from elsewhere, a mirror for one")
        raise WorldFailed(error.message, code=error.code, problems=(*error.problems, told), hint=error.hint) from error


def _variable(name: str) -> str:
    return f"ENVLOCK_INDEX_{name.upper().replace('-', '_')}"


def _lacks_hash(file: IndexFile, pin: str | None) -> bool:
    found = release(file.file)
    return (
        file.sha256 is None
        and found is not None
        and pin is not None
        and Version(found[1].public) == Version(Version(pin).public)
    )


def evident(package: LockedPackage, listed: Pages, where: Mapping[str, str]) -> LockedPackage:
    """Hold what a resolver took from a named index against that index's page, and say where each hash was read.

    A mirror may tell sizes, the index itself does not: there is none in the answer. Raise `Refused` (`index-changed`)
    with both hashes where they differ.
    """
    (name, *_) = {file.index for file in package.artifacts}
    page = {file.file: file for file in listed.get((name, package.name), ())}
    if not page:
        return package
    index.unchanged({file.file: file.sha256 for file in package.artifacts}, page.values(), _index(name, where))
    files = (replace(file, size=None, evidence=_evidence(file, page[file.file])) for file in package.artifacts)
    return replace(package, artifacts=tuple(files))


def unhashed(world: World, variants: Sequence[LockedVariant], where: Mapping[str, str], *, whole: bool) -> list[str]:
    """Return the files from the default index that it gives no hash of, so that they were fetched to learn it.

    One page tells for all of them, unless the `whole` index is to be read. Everybody's own index gives them: only one
    that the settings name is asked. Raise what `index.files` does.
    """
    if DEFAULT_INDEX not in where or world.config.offline:
        return []
    place = _index(DEFAULT_INDEX, where)
    every = [package for one in variants for package in (*one.packages, *one.build)]
    wanted = {package.name: package for package in every if package.artifacts[0].index == DEFAULT_INDEX}
    first = sorted(wanted)[:1]
    if not whole and all(file.sha256 for name in first for file in index.files(name, place, environ=world.environ)):
        return []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        pages = pool.map(lambda name: index.files(name, place, environ=world.environ), wanted)
        bare = {file.file for page in pages for file in page if not file.sha256}
    return sorted({file.file for package in every for file in package.artifacts if file.index == DEFAULT_INDEX} & bare)


def require_described(world: World, package: LockedPackage, listed: Pages, where: Mapping[str, str]) -> None:
    """Raise what `index.metadata` does, unless each file from a named index is described as what it is named for."""
    for file in package.artifacts:
        row = next((one for one in listed.get((file.index, package.name), ()) if one.file == file.file), None)
        if row and row.metadata:
            index.metadata(row, _index(file.index, where), environ=world.environ)


def _evidence(known: Artifact, listed: IndexFile) -> str:
    return listed.evidence if listed.sha256 else known.evidence or index.DOWNLOADED


def answers(world: World, name: str, package: str, where: Mapping[str, str]) -> str | None:
    """Return None if the index answers for a package within two seconds, else why it does not."""
    try:
        index.files(package, _index(name, where), environ=world.environ, seconds=_PATIENCE_SECONDS)
    except EnvlockError as error:
        return error.message
    return None


def _index(name: str, where: Mapping[str, str]) -> Index:
    if name not in where:
        raise Refused(
            f"the index `{name}` is none that this envlock knows",
            code="index-unknown",
            hint="envlock detect -v",
        )
    return Index(name=name, url=where[name])
