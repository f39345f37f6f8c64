"""Ask every resolver the same question and compare the answers: what they do not agree on, one of them has wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from envlock import lock
from envlock.app import resolving
from envlock.app.resolving import Resolved, Task
from envlock.app.world import World
from envlock.engines import uv_binary
from envlock.engines.resolvers import RESOLVERS
from envlock.errors import Refused, WorldFailed
from envlock.model import Change, Inputs, Lock

__all__ = ["Crossed", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """Where two engines differ: `changes` lead from the first one's answer to the other's.

    `compared` are the variants that both have answered, `absent` maps each other one to the reason.
    """

    engines: tuple[str, str]
    compared: tuple[str, ...]
    changes: tuple[Change, ...]
    absent: Mapping[str, str]
    failure: Refused | None


def compare(world: World, task: Task) -> Crossed:
    """Resolve with the engine of the settings, then with the other one, every variant whose Python is here.

    That one of them alone finds no answer is a difference too. Raise `WorldFailed` (`python-missing`) where no variant
    can be compared, and what `resolving.resolve` raises.
    """
    first = world.config.resolver
    engines = (first, next(name for name in RESOLVERS if name != first))
    here = resolving.with_python(world, task.variants)
    if not here:
        wanted = ", ".join(sorted({one.python for one in task.variants}))
        message = f"nothing can be compared: there is no Python {wanted} here"
        hint = uv_binary.command(world.environ, "python", "install", wanted.partition(",")[0])
        raise WorldFailed(message, code="python-missing", hint=hint)
    mine, other = (_answers(world, replace(task, variants=here), name) for name in engines)
    missing = {one.name: f"there is no Python {one.python} here" for one in task.variants if one not in here}
    alone = _alone(engines, mine, other)
    changes = lock.diff(_both(task, mine, other), _both(task, other, mine))
    return Crossed(
        engines=engines,
        compared=tuple(one.variant.name for one in _both(task, mine, other).variants),
        changes=changes,
        absent={**missing, **alone},
        failure=_failure(task, engines, changes, {**mine.refused, **other.refused}),
    )


def _answers(world: World, task: Task, engine: str) -> Resolved:
    """Return one engine's answers; that it has none at all is one of them."""
    world.reporter.stage(f"Resolving with {engine}")
    try:
        return resolving.resolve(world, replace(task, resolver=RESOLVERS[engine]))
    except Refused as error:
        if error.code != "unsatisfiable":
            raise
        return Resolved(variants=(), refused={one.name: error for one in task.variants})


def _alone(engines: tuple[str, str], mine: Resolved, other: Resolved) -> dict[str, str]:
    """Return why a variant is not compared: one engine has no answer there, or neither has."""
    found = {}
    for name in {**mine.refused, **other.refused}:
        without = [engine for engine, one in zip(engines, (mine, other), strict=True) if name in one.refused]
        found[name] = f"no versions satisfy what is asked there, says {' and '.join(without)}"
    return found


def _both(task: Task, answers: Resolved, others: Resolved) -> Lock:
    """Return a lock of the variants that both have answered, which only serves to be compared."""
    common = {one.variant.name for one in others.variants}
    variants = tuple(one for one in answers.variants if one.variant.name in common)
    nothing = Inputs(profile="", facts="", rules="", engine="")
    return Lock(profile=task.profile.name, inputs=nothing, variants=variants, allowed={})


def _failure(
    task: Task, engines: tuple[str, str], changes: tuple[Change, ...], refused: Mapping[str, Refused]
) -> Refused | None:
    differing = sorted({change.variant for change in changes} | set(refused))
    if not differing:
        return None
    problems = tuple(replace(one, key=name) for name, error in refused.items() for one in error.problems)
    return Refused(
        f"{' and '.join(engines)} do not agree on `{task.profile.name}`: {', '.join(differing)}",
        code="resolvers-differ",
        problems=problems,
        hint=f"envlock lock {task.profile.name} --cross-check -v",
    )
