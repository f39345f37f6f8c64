"""`envlock export --format wheelhouse`: a folder with every file of a variant, which installs without a network."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from envlock import env, exports, hashes, index, lock, staging, store
from envlock.app import pythons
from envlock.app.located import Located
from envlock.app.world import World
from envlock.env import Tools
from envlock.errors import EnvlockError, Problem, Refused, WorldFailed
from envlock.index import Index
from envlock.model import Artifact, LockedPackage, LockedVariant

__all__ = ["Order", "put"]

_TRIES: Final = 3  # of one file, where the network fails
_SHOWN_BYTES: Final = 100_000_000  # a smaller file is here before its name is read
_CHUNK: Final = 1 << 20
_MAKING: Final = ".making"  # in the folder, and gone before it takes its place


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to stand at `target`: `locate` says where its files are, asked only once the place is known to be free.

    `again` is the command that asks for it.
    """

    target: Path
    profile: str
    locked: LockedVariant
    locate: Callable[[], Located]
    again: str


def put(world: World, order: Order) -> tuple[str, ...]:
    """Fill a folder and put it in its place, where an earlier one or an empty folder may stand, and nothing else.

    Return the names of the files in it. Call it under `writing.hold`.

    Raises `WorldFailed` (`target-foreign`, `network`, `disk-full`, `not-writable`, `python-missing`, …), `Refused`
    (`hash-mismatch`, `platform-unsupported`, `build-failed`, …).
    """
    _refuse_foreign(order.target)
    order = replace(order, locked=replace(order.locked, packages=lock.needed(order.locked)))
    sources = lock.sources(order.locked.packages)
    if sources:
        _require_same_platform(order.locked, sources)
    located = order.locate()
    _require_space(order)
    with staging.folder(order.target) as made:
        return _Filling(world, order, located, made).fill(sources)


class _Filling:
    """One wheelhouse in the making, at `made`."""

    def __init__(self, world: World, order: Order, located: Located, made: Path) -> None:
        self._world = world
        self._order = order
        self._located = located
        self._made = made
        self._making = made / _MAKING

    def fill(self, sources: Sequence[LockedPackage]) -> tuple[str, ...]:
        """Fetch what is locked, build what comes as source, list all of it, and return the names."""
        self._making.mkdir()
        wheels = [package for package in self._order.locked.packages if package not in sources]
        files = [file for package in wheels for file in package.artifacts]
        sdists = {package.name: package.artifacts[0] for package in sources}
        known = sum(file.size or 0 for file in (*files, *sdists.values()))
        size = f" ({known / 1e9:.1f} GB)" if known >= _SHOWN_BYTES else ""
        self._world.reporter.stage(f"Fetching {len(files) + len(sdists)} files{size}")
        for file in files:
            self._fetch(file, self._made)
        for file in sdists.values():
            self._fetch(file, self._making)
        built = self._built(sdists) if sdists else {}
        shutil.rmtree(self._making)
        packages = [built.get(package.name, package) for package in self._order.locked.packages]
        return self._listed(packages, {built[name].artifacts[0].file: file.file for name, file in sdists.items()})

    def _listed(self, packages: Sequence[LockedPackage], built: Mapping[str, str]) -> tuple[str, ...]:
        held = replace(self._order.locked, packages=tuple(packages))
        text = exports.wheelhouse(held, self._order.profile, built)
        digests = {file.file: file.sha256 for package in packages for file in package.artifacts}
        digests[exports.REQUIREMENTS] = hashlib.sha256(text.encode()).hexdigest()
        (self._made / exports.REQUIREMENTS).write_text(text, encoding="utf-8")
        (self._made / exports.SUMS).write_text(exports.sums(digests), encoding="utf-8")
        return tuple(sorted((*digests, exports.SUMS)))

    def _fetch(self, file: Artifact, folder: Path) -> None:
        """Put a file there: the one of an earlier wheelhouse where it is sound, else the index's."""
        place = folder / file.file
        if _sound(self._order.target / file.file, file.sha256):
            shutil.copyfile(self._order.target / file.file, place)
            return
        if (file.size or 0) >= _SHOWN_BYTES:
            self._world.reporter.stage(f"Fetching {file.file} ({(file.size or 0) / 1e9:.1f} GB)")
        self._world.reporter.log(file.file)
        self._download(file, place, tries=_TRIES)

    def _download(self, file: Artifact, place: Path, *, tries: int) -> None:
        listed = self._located.files[file.index, file.file]
        where = Index(name=file.index, url=self._located.addresses[file.index])
        try:
            index.download(listed, where, place, sha256=file.sha256, environ=self._world.environ)
        except WorldFailed as error:
            if error.code != "network" or tries == 1:
                raise
            self._world.reporter.log(f"{error.message}; once more")
            self._download(file, place, tries=tries - 1)

    def _built(self, sdists: Mapping[str, Artifact]) -> dict[str, LockedPackage]:
        """Return the packages with the wheels that were built in the place of their sources."""
        locked = self._order.locked
        tools = Tools(
            run=self._world.run,
            environ=self._world.environ,
            indexes=self._located.addresses,
            offline=self._world.config.offline,
            stage=self._world.reporter.stage,
            log=self._world.reporter.log,
            hashes=hashes.place(self._world.environ),
        )
        place = self._making / "build"
        place.mkdir()
        wanted = env.Build(
            root=place,
            python=pythons.find(self._world, locked.variant.python, tools, near=place),
            prompt=self._order.profile,
            profile=self._order.profile,
            locked=locked,
            glibc=None,
        )
        try:
            wheels = env.build_wheels(wanted, {name: self._making / file.file for name, file in sdists.items()}, tools)
        except EnvlockError as error:
            raise _again(error, self._order) from error
        sources = {package.name: package for package in locked.packages if package.name in wheels}
        return {name: self._taken(sources[name], wheel) for name, wheel in wheels.items()}

    def _taken(self, package: LockedPackage, wheel: Path) -> LockedPackage:
        raw = wheel.read_bytes()
        wheel.rename(self._made / wheel.name)
        file = Artifact(index="wheelhouse", file=wheel.name, sha256=hashlib.sha256(raw).hexdigest(), size=len(raw))
        return replace(package, artifacts=(file,))


# ---- before anything is fetched -----------------------------------------------------------------------------------


def _refuse_foreign(target: Path) -> None:
    """Raise `target-foreign` unless there is nothing, an empty folder, or a wheelhouse without anything added to it."""
    if not os.path.lexists(target):
        return
    what = "not a folder"
    if target.is_dir() and not target.is_symlink():
        names = {one.name for one in target.iterdir()}
        listed = exports.summed((store.content(target / exports.SUMS) or b"").decode("utf-8", "replace").splitlines())
        ours = exports.is_export(store.content(target / exports.REQUIREMENTS) or b"")
        others = sorted(names - listed - {exports.SUMS}) if ours else sorted(names)
        if not others:
            return
        what = f"a folder with files that envlock did not put there, `{others[0]}` for one"
    raise WorldFailed(
        f"`{target}` is {what}; it is left alone",
        code="target-foreign",
        hint=f"ls -la {shlex.quote(str(target))}",
    )


def _require_same_platform(locked: LockedVariant, sources: Sequence[LockedPackage]) -> None:
    here = f"{sys.platform}-{platform.machine()}"
    if locked.variant.platform != here:
        names = ", ".join(package.name for package in sources)
        problem = Problem(message=f"this machine is {here}", expected=locked.variant.platform)
        message = f"what comes as source can only be built where it will run: {names}"
        raise Refused(message, code="platform-unsupported", problems=(problem,), hint="envlock detect")


def _require_space(order: Order) -> None:
    files = [file for package in order.locked.packages for file in package.artifacts]
    there = order.target if order.target.is_dir() else None
    needed = sum(file.size or 0 for file in files if not (there and (there / file.file).exists()))
    near = next(folder for folder in order.target.parents if folder.is_dir())
    free = shutil.disk_usage(near).free
    if needed > free:
        message = f"the disk is too small: {needed:,} bytes to fetch, {free:,} bytes free at `{near}`"
        raise WorldFailed(message, code="disk-full", hint=f"df -h {shlex.quote(str(near))}")


def _sound(path: Path, sha256: str) -> bool:
    digest = hashlib.sha256()
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return False
    return digest.hexdigest() == sha256


def _again(error: EnvlockError, order: Order) -> EnvlockError:
    """Return the error with a hint that asks for the wheelhouse: what builds is told of installs."""
    hint = error.hint and error.hint.replace("envlock install PROFILE", order.again).replace("PROFILE", order.profile)
    return type(error)(error.message, code=error.code, problems=error.problems, hint=hint)
