"""Resolve several variants of a profile side by side; what cannot be satisfied keeps no other one from its answer."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from envlock import choose, interpreters, lock, request
from envlock.app import building, indexes
from envlock.app.indexes import Pages
from envlock.app.world import World
from envlock.engines import resolver, second_look
from envlock.engines.resolver import Resolver, Workbench
from envlock.errors import EnvlockError, Interrupted, Problem, Refused, WorldFailed
from envlock.facts import Facts
from envlock.model import Artifact, Caution, LockedPackage, LockedVariant, Profile, Variant
from envlock.proc import Command, Completed

__all__ = ["Resolved", "Task", "bench", "resolve", "unsatisfied", "with_python"]

_AT_ONCE: Final = 4  # beyond that resolvers wait for the network and for each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The variants to resolve, how each is locked by now, and which packages need not keep their versions.

    `addresses` are those of the indexes; `download` allows what an index gives no hash of to be fetched and hashed.
    """

    profile: Profile
    facts: Facts
    resolver: Resolver
    variants: Sequence[Variant]
    held: Mapping[str, LockedVariant]
    free: AbstractSet[str]
    addresses: Mapping[str, str]
    download: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The answers in the order of the task, and of each variant that has none why no versions satisfy it."""

    variants: tuple[LockedVariant, ...]
    refused: Mapping[str, Refused]


def bench(world: World, python: Path, addresses: Mapping[str, str]) -> Workbench:
    """Return what a resolver works with in this world."""
    return Workbench(
        run=world.run,
        environ=world.environ,
        python=python,
        indexes=addresses,
        offline=world.config.offline,
    )


def resolve(world: World, task: Task) -> Resolved:
    """Resolve every variant; that some cannot be satisfied is an answer while others can.

    Any other failure leaves nothing: one error names all that failed, a failure of the world before a refusal. Raise
    `Interrupted` on Ctrl-C, after every resolver has been ended.
    """
    listed = _pages(world, task)
    cancel = threading.Event()

    def run(command: Command) -> Completed:
        return world.run(replace(command, cancel=cancel))

    pythons = _pythons(world, {variant.python for variant in task.variants})
    benches = {version: replace(bench(world, path, task.addresses), run=run) for version, path in pythons.items()}
    pool = ThreadPoolExecutor(max_workers=_AT_ONCE)
    found: dict[str, LockedVariant] = {}
    failed: dict[str, BaseException] = {}
    try:
        for wave in _waves(task):
            asked = {one.name: pool.submit(_locked, world, task, one, benches[one.python], listed) for one in wave}
            failed |= {name: error for name, one in asked.items() if (error := one.exception()) is not None}
            if any(not _is_conflict(error) for error in failed.values()):
                break
            found |= {name: one.result() for name, one in asked.items() if name not in failed}
    except KeyboardInterrupt as error:
        message = f"interrupted: the lock of `{task.profile.name}` is as it was"
        raise Interrupted(message, code="interrupted", hint=f"envlock lock {task.profile.name}") from error
    finally:
        cancel.set()
        pool.shutdown(cancel_futures=True)
    refused = {name: error for name, error in failed.items() if isinstance(error, Refused) and _is_conflict(error)}
    if len(refused) < len(failed) or not found:
        raise _together(task.profile, failed)
    variants = tuple(found[one.name] for one in task.variants if one.name in found)
    _tell_unhashed(world, task, variants)
    return Resolved(variants=variants, refused=refused)


def _tell_unhashed(world: World, task: Task, variants: Sequence[LockedVariant]) -> None:
    """Say what the default index gives no hash of; raise `Refused` (`hash-missing`) where that may not be fetched."""
    bare = indexes.unhashed(world, variants, task.addresses, whole=not task.download)
    if bare and not task.download:
        problems = tuple(Problem(file=file, message="no sha256") for file in bare)
        raise Refused("an index gives no hash of what would be locked", code="hash-missing", problems=problems)
    if bare:
        index = request.DEFAULT_INDEX
        message = f"the index `{index}` gives no hash of {len(bare)} files: they were fetched and hashed"
        world.reporter.warn(Caution(code="hash-missing", message=message))


def with_python(world: World, variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """Return those variants whose very Python is on this machine: some resolvers know no other than they run on."""
    found = interpreters.find(
        run=world.run, environ=world.environ, only={one.python for one in variants}, note=world.reporter.log
    )
    return tuple(one for one in variants if interpreters.choose_for(one.python, found))


def _is_conflict(error: BaseException) -> bool:
    return isinstance(error, Refused) and error.code == "unsatisfiable"


def _pages(world: World, task: Task) -> Pages:
    """Return what the named indexes list of the packages that come from there, read once for all variants."""
    wanted = {
        (name, package): request.pin(request.spec_of(task.profile, variant.backend), package)
        for variant in task.variants
        for package, name in _asked(task, variant, {}).indexes.items()
    }
    return _read(world, task, wanted)


def _read(world: World, task: Task, wanted: Mapping[tuple[str, str], str | None]) -> Pages:
    """Read pages; of a file that no variant takes it does not matter what the index says."""
    targets = {(one.python, one.platform) for one in task.variants}

    def matters(file: str) -> bool:
        return any(lock.fits(file, *target) for target in targets)

    return indexes.pages(world, wanted, task.addresses, download=task.download, matters=matters) if wanted else {}


def _asked(task: Task, variant: Variant, pins: Mapping[str, str]) -> request.Resolution:
    return request.resolution(task.profile, variant, pins, _family(task, variant))


def _family(task: Task, variant: Variant) -> tuple[str, ...]:
    """Return the packages that the index of the variant's backend serves."""
    source = task.facts.torch_source(variant.backend)
    return source.packages if source else ()


def _waves(task: Task) -> list[list[Variant]]:
    """Return the first variant of each set of requirements, then the others: they find the metadata in the cache."""
    first: dict[object, Variant] = {}
    for variant in task.variants:
        spec = request.spec_of(task.profile, variant.backend)
        first.setdefault((spec.requires, spec.exclude_newer), variant)
    leading = list(first.values())
    return [wave for wave in (leading, [one for one in task.variants if one not in leading]) if wave]


def _locked(world: World, task: Task, variant: Variant, workbench: Workbench, listed: Pages) -> LockedVariant:
    held = task.held.get(variant.name)
    pins = {name: version for name, version in lock.pins(held).items() if name not in task.free}
    asked = _asked(task, variant, pins)
    answer = _answer(task, asked, workbench)
    packages = _evident(world, task, answer.packages, listed)
    build = building.kept(held, answer, pins)
    if build is None:
        found = building.requirements(
            world,
            asked,
            answer,
            pins,
            indexed=_family(task, variant),
            ask=lambda question: _answer(task, question, workbench),
        )
        build = _evident(world, task, found, listed)
    floors = choose.floors(request.spec_of(task.profile, variant.backend), task.facts)
    made = LockedVariant(variant=variant, floors=floors, packages=packages, build=build)
    return _held_to(task, held, made) if held else made


def _answer(task: Task, asked: request.Resolution, workbench: Workbench) -> resolver.Resolved:
    try:
        return task.resolver.resolve(asked, workbench)
    except EnvlockError as error:
        raise second_look.find(error, asked, workbench) or _with_origins(error, task.profile, asked) from error


def _with_origins(error: EnvlockError, profile: Profile, asked: request.Resolution) -> EnvlockError:
    """Return a conflict that calls the profile by its name, and says of what comes from a named index where from."""
    if not _is_conflict(error):
        return error
    told = [replace(one, message=one.message.replace(asked.root, f"`{profile.name}`")) for one in error.problems]
    concerned = [name for name in asked.indexes if any(re.search(rf"\b{name}\b", one.message) for one in told)]
    origins = [Problem(message=f"`{name}` comes from the index `{asked.indexes[name]}` alone") for name in concerned]
    return Refused(error.message, code=error.code, problems=(*told, *origins), hint=error.hint)


def _evident(world: World, task: Task, packages: Sequence[LockedPackage], listed: Pages) -> tuple[LockedPackage, ...]:
    """Hold what comes from a named index against its page and its METADATA, and say where each hash was read."""
    wanted = {
        (file.index, package.name): package.version
        for package in packages
        for file in package.artifacts
        if file.index != request.DEFAULT_INDEX
    }
    missing = {pair: version for pair, version in wanted.items() if pair not in listed}
    known = {**listed, **_read(world, task, missing)}
    for package in packages:
        indexes.require_described(world, package, known, task.addresses)
    return tuple(indexes.evident(package, known, task.addresses) for package in packages)


def _held_to(task: Task, held: LockedVariant, made: LockedVariant) -> LockedVariant:
    """Return what was made, with the sizes that are known of the same bytes, though an index may not tell them.

    Raise `Refused` (`index-changed`) where an index gives a file that is locked another hash. No index replaces a file
    by intent: whoever knows better names the package as one to upgrade.
    """
    known = {(file.index, file.file): file for package in _every(held) for file in package.artifacts}
    changed = [
        (package.name, file, known[file.index, file.file])
        for package in _every(made)
        for file in package.artifacts
        if package.name not in task.free and known.get((file.index, file.file), file).sha256 != file.sha256
    ]
    if changed:
        problems = tuple(
            Problem(file=now.file, message=f"has sha256 {now.sha256} on the index `{now.index}`", expected=was.sha256)
            for _, now, was in changed
        )
        again = " ".join(f"-P {name}" for name in dict.fromkeys(name for name, *_ in changed))
        message = f"an index gives other bytes than those that are locked for {made.variant.name}"
        raise Refused(message, code="index-changed", problems=problems, hint=f"envlock lock PROFILE {again}")
    packages, build = (tuple(_sized(package, known) for package in some) for some in (made.packages, made.build))
    return replace(made, packages=packages, build=build)


def _every(locked: LockedVariant) -> Iterable[LockedPackage]:
    return (*locked.packages, *locked.build)


def _sized(package: LockedPackage, known: Mapping[tuple[str, str], Artifact]) -> LockedPackage:
    files = (
        replace(file, size=file.size or known.get((file.index, file.file), file).size) for file in package.artifacts
    )
    return replace(package, artifacts=tuple(files))


def unsatisfied(profile: Profile, refused: Mapping[str, Refused]) -> Refused | None:
    """Return one error for the variants that could not be satisfied, where others could."""
    if not refused:
        return None
    problems = tuple(replace(problem, key=name) for name, error in refused.items() for problem in error.problems)
    message = f"`{profile.name}` is locked without {', '.join(refused)}: no versions satisfy what is asked there"
    return Refused(message, code="unsatisfiable", problems=problems, hint=_cure(profile))


def _cure(profile: Profile) -> str:
    return f"change what {profile.file} requires, then: envlock lock {profile.typed}"


def _together(profile: Profile, failed: Mapping[str, BaseException]) -> BaseException:
    """Return one error for all the variants that failed; a bug of ours is not dressed up."""
    ours = {name: error for name, error in failed.items() if isinstance(error, EnvlockError)}
    if len(ours) < len(failed):
        return next(error for name, error in failed.items() if name not in ours)
    name, first = min(ours.items(), key=lambda row: not isinstance(row[1], WorldFailed))
    problems = tuple(replace(problem, key=of) for of, error in ours.items() for problem in error.problems)
    named = ", ".join([name, *(other for other in ours if other != name)])
    message = f"`{profile.name}` cannot be locked for {named}, and stays as it was: {first.message}"
    hint = _cure(profile) if _is_conflict(first) else first.hint or "envlock lock PROFILE"
    hint = hint.replace("PROFILE", profile.typed)
    return type(first)(message, code=first.code, problems=problems, hint=hint)


def _pythons(world: World, versions: set[str]) -> dict[str, Path]:
    """Return an interpreter for each version; this one stands in where the machine has none.

    An interpreter only computes the metadata of source packages: which Python is locked for is said apart.
    """
    here = Path(sys.executable)
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if versions <= {running}:
        return dict.fromkeys(versions, here)
    found = interpreters.find(run=world.run, environ=world.environ, only=versions, note=world.reporter.log)
    chosen = {version: interpreters.choose_for(version, found) for version in versions}
    return {version: one.path if one else here for version, one in chosen.items()}
