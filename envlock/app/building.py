"""What the source-only packages of an answer need to be built: read from their sdists, and locked with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envlock import lock, net, request, sdist
from envlock.app.world import World
from envlock.engines.resolver import Resolved
from envlock.errors import Refused, WorldFailed
from envlock.model import LockedPackage, LockedVariant
from envlock.request import Resolution

__all__ = ["kept", "requirements"]


def kept(held: LockedVariant | None, answer: Resolved, pins: Mapping[str, str]) -> tuple[LockedPackage, ...] | None:
    """Return the build requirements as locked: they stay for the very same sdists, unless one was to be upgraded.

    None of them is asked for by the profile: a lock that says so does not know which sdist asks.
    """
    if held is None or any(package.name not in pins or request.ROOT in package.why for package in held.build):
        return None
    was, now = (lock.sources(packages) for packages in (held.packages, answer.packages))
    same = [package.artifacts for package in was] == [package.artifacts for package in now]
    return held.build if same else None


def requirements(
    world: World,
    asked: Resolution,
    answer: Resolved,
    pins: Mapping[str, str],
    *,
    indexed: Collection[str],
    ask: Callable[[Resolution], Resolved],
) -> tuple[LockedPackage, ...]:
    """Return what the sdists of `answer`, which is that to `asked`, need to be built; `ask` resolves.

    `indexed` are the packages that the variant's own index serves, if `asked` names one. Raise `WorldFailed`
    (`not-cached`), `Refused` (`sdist-invalid`) and what `ask` raises.
    """
    needs = {one.name: _needs(world, one, answer.urls) for one in lock.sources(answer.packages)}
    if not needs:
        return ()
    now = {package.name: package.version for package in answer.packages}
    wanted = {need for some in needs.values() for need in some}
    while True:
        question = request.building(asked, wanted, {**pins, **now}, indexed)
        found = ask(question).packages
        # A named index serves only what is asked for outright: what came in through another package is asked for, too.
        strays = (
            {one.name for one in found if one.name in indexed} - question.indexes.keys() if asked.indexes else set()
        )
        if not strays:
            return tuple(_explained(package, needs) for package in found)
        wanted |= strays


def _needs(world: World, package: LockedPackage, urls: Mapping[str, str]) -> tuple[str, ...]:
    """Read from its sdist what the package needs to be built."""
    file, url = package.artifacts[0], urls.get(package.name)
    if url is None or world.config.offline:
        message = f"what {file.file} needs to be built can only be read with a network"
        raise WorldFailed(message, code="not-cached")
    index = world.config.indexes.get(file.index)
    try:
        with net.fetch(url, sha256=file.sha256, environ=world.environ, what=file.file, index=index) as raw:
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
