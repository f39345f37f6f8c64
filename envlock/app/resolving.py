"""Resolve several variants of a profile side by side: all of them, or none."""

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
from envlock.app.world import World
from envlock.engines.resolver import Resolved, Resolver, Workbench
from envlock.errors import EnvlockError, Interrupted, Refused, WorldFailed
from envlock.facts import Facts
from envlock.model import LockedPackage, LockedVariant, Profile, Variant
from envlock.proc import Command, Completed

__all__ = ["Task", "bench", "resolve"]

_AT_ONCE: Final = 4  # beyond that resolvers wait for the network and for each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The variants to resolve, how each is locked by now, and which packages need not keep their versions."""

    profile: Profile
    facts: Facts
    resolver: Resolver
    variants: Sequence[Variant]
    held: Mapping[str, LockedVariant]
    free: AbstractSet[str]


def bench(world: World, python: Path) -> Workbench:
    """Return what a resolver works with in this world."""
    url = world.config.index_url("pypi")
    return Workbench(
        run=world.run,
        environ=world.environ,
        python=python,
        indexes={"pypi": url} if url else {},
        offline=world.config.offline,
    )


def resolve(world: World, task: Task) -> tuple[LockedVariant, ...]:
    """Return each variant's answer, in the order of the task.

    If some fail, one error names them all: a failure of the world before a refusal. Raise `Interrupted` on Ctrl-C,
    after every resolver has been ended.
    """
    cancel = threading.Event()

    def run(command: Command) -> Completed:
        return world.run(replace(command, cancel=cancel))

    pythons = _pythons(world, {variant.python for variant in task.variants})
    benches = {version: replace(bench(world, path), run=run) for version, path in pythons.items()}
    pool = ThreadPoolExecutor(max_workers=_AT_ONCE)
    found: dict[str, LockedVariant] = {}
    try:
        for wave in _waves(task):
            asked = {one.name: pool.submit(_locked, world, task, one, benches[one.python]) for one in wave}
            failed = {name: error for name, one in asked.items() if (error := one.exception()) is not None}
            if failed:
                raise _together(task, failed)
            found |= {name: one.result() for name, one in asked.items()}
    except KeyboardInterrupt as error:
        message = f"interrupted: the lock of `{task.profile.name}` is as it was"
        raise Interrupted(message, code="interrupted", hint=f"envlock lock {task.profile.name}") from error
    finally:
        cancel.set()
        pool.shutdown(cancel_futures=True)
    return tuple(found[variant.name] for variant in task.variants)


def _waves(task: Task) -> list[list[Variant]]:
    """Return the first variant of each set of requirements, then the others: they find the metadata in the cache."""
    first: dict[object, Variant] = {}
    for variant in task.variants:
        spec = request.spec_of(task.profile, variant.backend)
        first.setdefault((spec.requires, spec.exclude_newer), variant)
    leading = list(first.values())
    return [wave for wave in (leading, [one for one in task.variants if one not in leading]) if wave]


def _locked(world: World, task: Task, variant: Variant, workbench: Workbench) -> LockedVariant:
    held = task.held.get(variant.name)
    pins = {name: version for name, version in lock.pins(held).items() if name not in task.free}
    asked = request.resolution(task.profile, variant, pins)
    answer = task.resolver.resolve(asked, workbench)
    build = _kept_build(held, answer, pins)
    if build is None:
        needs = {one.name: _build_requires(world, one, answer.urls) for one in lock.sources(answer.packages)}
        now = {package.name: package.version for package in answer.packages}
        question = request.building(asked, [need for some in needs.values() for need in some], {**pins, **now})
        found = task.resolver.resolve(question, workbench).packages if needs else ()
        build = tuple(_explained(package, needs) for package in found)
    floors = choose.floors(request.spec_of(task.profile, variant.backend), task.facts)
    return LockedVariant(variant=variant, floors=floors, packages=answer.packages, build=build)


def _kept_build(
    held: LockedVariant | None, answer: Resolved, pins: Mapping[str, str]
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


def _together(task: Task, failed: Mapping[str, BaseException]) -> BaseException:
    """Return one error for all the variants that failed; a bug of ours is not dressed up."""
    ours = {name: error for name, error in failed.items() if isinstance(error, EnvlockError)}
    if len(ours) < len(failed):
        return next(error for name, error in failed.items() if name not in ours)
    name, first = min(ours.items(), key=lambda row: not isinstance(row[1], WorldFailed))
    problems = tuple(replace(problem, key=of) for of, error in ours.items() for problem in error.problems)
    named = ", ".join([name, *(other for other in ours if other != name)])
    message = f"`{task.profile.name}` cannot be locked for {named}, and stays as it was: {first.message}"
    hint = (first.hint or "envlock lock PROFILE").replace("PROFILE", task.profile.name)
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
