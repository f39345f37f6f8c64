"""Resolve several variants of a profile side by side; what cannot be satisfied keeps no other one from its answer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envlock import choose, interpreters, lock, net, request, sdist
from envlock.app import indexes
from envlock.app.indexes import Pages
from envlock.app.world import World
from envlock.engines import resolver
from envlock.engines.resolver import Resolver, Workbench
from envlock.errors import EnvlockError, Interrupted, Refused, WorldFailed
from envlock.facts import Facts
from envlock.model import LockedPackage, LockedVariant, Profile, Variant
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
        raise _together(task.profile.name, failed)
    return Resolved(variants=tuple(found[one.name] for one in task.variants if one.name in found), refused=refused)


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
    return indexes.pages(world, wanted, task.addresses, download=task.download) if wanted else {}


def _asked(task: Task, variant: Variant, pins: Mapping[str, str]) -> request.Resolution:
    source = task.facts.torch_source(variant.backend)
    return request.resolution(task.profile, variant, pins, source.packages if source else ())


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
    answer = task.resolver.resolve(asked, workbench)
    packages = tuple(indexes.evident(package, listed, task.addresses) for package in answer.packages)
    build = _kept_build(held, answer, pins)
    if build is None:
        needs = {one.name: _build_requires(world, one, answer.urls) for one in lock.sources(answer.packages)}
        now = {package.name: package.version for package in answer.packages}
        question = request.building(asked, [need for some in needs.values() for need in some], {**pins, **now})
        found = task.resolver.resolve(question, workbench).packages if needs else ()
        build = tuple(_explained(package, needs) for package in found)
    floors = choose.floors(request.spec_of(task.profile, variant.backend), task.facts)
    return LockedVariant(variant=variant, floors=floors, packages=packages, build=build)


def _kept_build(
    held: LockedVariant | None, answer: resolver.Resolved, pins: Mapping[str, str]
) -> tuple[LockedPackage, ...] | None:
    """Return the build requirements as locked: they stay for the very same sdists, unless one was to be upgraded.

    None of them is asked for by the profile: a lock that says so does not know which sdist asks.
    """
    if held is None or any(package.name not in pins or request.ROOT in package.why for package in held.build):
        return None
    was, now = (lock.sources(packages) for packages in (held.packages, answer.packages))
    same = [package.artifacts for package in was] == [package.artifacts for package in now]
    return held.build if same else None


def _build_requires(world: World, package: LockedPackage, urls: Mapping[str, str]) -> tuple[str, ...]:
    """Read from its sdist what the package needs to be built."""
    file, url = package.artifacts[0], urls.get(package.name)
    if url is None or world.config.offline:
        message = f"what {file.file} needs to be built can only be read with a network"
        raise WorldFailed(message, code="not-cached")
    raw = net.fetch(url, sha256=file.sha256, environ=world.environ, what=file.file)
    try:
        return sdist.build_requires(raw)
    except ValueError as error:
        raise Refused(f"`{file.file}` is no source distribution: {error}", code="sdist-invalid") from error


def _explained(package: LockedPackage, needs: Mapping[str, Sequence[str]]) -> LockedPackage:
    """Say which sdists ask for a build requirement, where the resolver could only say that it was asked."""
    asking = {
        name
        for name, some in needs.items()
        if package.name in {canonicalize_name(Requirement(one).name) for one in some}
    }
    others = set(package.why) - {request.ROOT}
    return replace(package, why=tuple(sorted(others | asking)))


def unsatisfied(profile: str, refused: Mapping[str, Refused]) -> Refused | None:
    """Return one error for the variants that could not be satisfied, where others could."""
    if not refused:
        return None
    problems = tuple(replace(problem, key=name) for name, error in refused.items() for problem in error.problems)
    message = f"`{profile}` is locked without {', '.join(refused)}: no versions satisfy what is asked there"
    return Refused(message, code="unsatisfiable", problems=problems, hint=f"envlock plan {profile}")


def _together(profile: str, failed: Mapping[str, BaseException]) -> BaseException:
    """Return one error for all the variants that failed; a bug of ours is not dressed up."""
    ours = {name: error for name, error in failed.items() if isinstance(error, EnvlockError)}
    if len(ours) < len(failed):
        return next(error for name, error in failed.items() if name not in ours)
    name, first = min(ours.items(), key=lambda row: not isinstance(row[1], WorldFailed))
    problems = tuple(replace(problem, key=of) for of, error in ours.items() for problem in error.problems)
    named = ", ".join([name, *(other for other in ours if other != name)])
    message = f"`{profile}` cannot be locked for {named}, and stays as it was: {first.message}"
    hint = (first.hint or "envlock lock PROFILE").replace("PROFILE", profile)
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
