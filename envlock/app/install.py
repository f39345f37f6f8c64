"""`envlock install`: choose, take what the lock names for that choice, build it, prove it, switch to it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from envlock import choose, env, generations, hashes, lock, plan, store
from envlock.app import detect, indexes, placement, pythons, reading
from envlock.app import locked as locks
from envlock.app import verify as verifying
from envlock.app.world import World
from envlock.env import Tools
from envlock.errors import EnvlockError, Problem, Refused
from envlock.model import (
    Caution,
    Decision,
    HostFacts,
    Installed,
    Level,
    Lock,
    LockedVariant,
    Plan,
    Policy,
    Profile,
    Refusal,
    Verified,
)
from envlock.request import DEFAULT_INDEX

__all__ = ["HOME", "run"]

HOME: Final = Path(".envlock")  # where an environment goes that is given no path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What was asked for, and for which machine."""

    name: str
    path: str | Path | None
    host_files: Sequence[Path]
    driver: str | None
    gpus: Sequence[str]
    glibc: str | None
    backend: str | None
    policy: Policy
    python: str | None
    offline: bool
    frozen: bool

    @property
    def elsewhere(self) -> bool:
        """Whether it is for a machine that is not this one."""
        return bool(self.host_files or self.driver or self.gpus or self.glibc)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What was chosen, from which lock, for which path, and `here`: this machine, which it need not be chosen for.

    `addresses` are those of the indexes.
    """

    profile: Profile
    plan: Plan
    locked: LockedVariant
    here: HostFacts
    path: Path
    addresses: Mapping[str, str]
    warnings: tuple[Caution, ...]


def run(
    world: World,
    name: str,
    *,
    path: str | Path | None = None,
    host_files: Sequence[Path] = (),
    driver: str | None = None,
    gpus: Sequence[str] = (),
    glibc: str | None = None,
    backend: str | None = None,
    policy: Policy | None = None,
    python: str | None = None,
    offline: bool | None = None,
    frozen: bool = False,
    verify: bool = True,
    level: Level = "kernels",
) -> Installed:
    """Install a profile; `policy`, `offline` and `path` default to the settings, the path then to `.envlock/<profile>`.

    An environment that fails its verification is in the answer, and not switched to. Raises `Refused`
    (`no-compatible-backend`, `variant-not-locked`, `lock-stale`, `hash-mismatch`, `integrity-failed`, …), `WorldFailed`
    (`python-missing`, `target-busy`, `target-foreign`, `network`, `disk-full`, …), `Misuse` for what cannot be read.
    """
    asked = _Asked(
        name=name,
        path=path,
        host_files=host_files,
        driver=driver,
        gpus=gpus,
        glibc=glibc,
        backend=backend,
        policy=policy or world.config.driver_policy,
        python=python,
        offline=world.config.offline if offline is None else offline,
        frozen=frozen,
    )
    world.reporter.stage(f"Choosing a build of {name}")
    choice = _choose(world, asked)
    world.reporter.stage(_said(choice))
    for warning in choice.warnings:
        world.reporter.warn(warning)
    try:
        done = _put(world, choice, offline=asked.offline, proven=verify, level=level)
    except EnvlockError as error:
        path = store.shown(choice.path, world.cwd) if asked.path else None
        raise _named(error, name, path, world, offline=asked.offline) from error
    return replace(done, warnings=(*choice.warnings, *done.warnings))


# ---- choosing -----------------------------------------------------------------------------------------------------


def _choose(world: World, asked: _Asked) -> _Choice:
    wanted, known = reading.profile(world, asked.name), reading.facts()
    machines = detect.hosts(
        world, host_files=asked.host_files, driver=asked.driver, gpus=asked.gpus, glibc=asked.glibc, known=known
    )
    (here,) = detect.hosts(world, known=known) if asked.elsewhere else machines
    decision = choose.backend(wanted, machines, known, policy=asked.policy, only=asked.backend, offline=asked.offline)
    if decision.backend is None:
        raise _incompatible(decision)
    held = reading.lock(world, wanted)
    chosen = plan.variant(decision, wanted, held, machines, known, python=asked.python, offline=asked.offline)
    locked = _locked(held, chosen, wanted)
    stale = locks.stale(world, wanted, known, held, frozen=asked.frozen, done="installed") if held else ()
    path = store.typed(asked.path or world.config.path or HOME / wanted.name, world.cwd)
    where = indexes.addresses(world, known)
    locked, instead = _reachable(world, held, locked, path, where, offline=asked.offline)
    warnings = (*decision.warnings, *chosen.warnings, *stale, *instead)
    return _Choice(
        profile=wanted,
        plan=chosen,
        locked=locked,
        here=here,
        path=path,
        addresses=where,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _reachable(
    world: World,
    held: Lock | None,
    locked: LockedVariant,
    path: Path,
    where: Mapping[str, str],
    *,
    offline: bool,
) -> tuple[LockedVariant, tuple[Caution, ...]]:
    """Return the variant, or PyPI's own build of it where the index that it comes from does not answer.

    What is built already needs no index; offline, what is built of the two decides.
    """
    named, own = lock.indexed((*locked.packages, *locked.build)), locked.variant
    instead = locks.own(held, locked) if held else None
    other = next((row for row in (held.variants if held else ()) if row.variant.name == instead), None)
    if not named or other is None or _is_built(path, locked) or (offline and not _is_built(path, other)):
        return locked, ()
    some = {index: package for package, index in named.items()}  # one package of each
    answers = ("offline" if offline else indexes.answers(world, index, some[index], where) for index in some)
    why = next((each for each in answers if each), None)
    if why is None:
        return locked, ()
    message = f"PyPI's own build stands in for {own.name}: {why}"
    return other, (Caution(code="index-unreachable", message=message, backend=own.backend),)


def _is_built(path: Path, locked: LockedVariant) -> bool:
    return generations.find(generations.locate(path), env.digest(locked)) is not None


def _locked(held: Lock | None, chosen: Plan, wanted: Profile) -> LockedVariant:
    found = next((row for row in (held.variants if held else ()) if row.variant == chosen.variant), None)
    if found is None:
        name = chosen.variant.name if chosen.variant else "the chosen variant"
        raise locks.missing(name, wanted.name, held, hint=chosen.command)
    return found


def _incompatible(decision: Decision) -> Refused:
    return Refused(
        f"no backend of `{decision.profile}` fits this machine",
        code="no-compatible-backend",
        problems=tuple(_refusal(row) for row in decision.refused),
        hint=f"envlock plan {decision.profile}",
    )


def _refusal(row: Refusal) -> Problem:
    what = f"{row.code} ({row.package})" if row.package else row.code
    return Problem(message=f"{what}, have {row.have}" if row.have else what, key=row.backend, expected=row.need)


def _said(choice: _Choice) -> str:
    """Return in words which build is taken, and why that one."""
    variant = choice.locked.variant
    if variant.backend != "cpu":
        driver = choice.here.driver.version or choice.here.driver.library if choice.here.driver else None
        return f"Taking {variant.name}: " + (f"driver {driver}" if driver else "for a machine with a GPU, not this one")
    reason = "asked for by name" if choice.here.driver else "no NVIDIA driver here"
    return f"Taking {variant.name}, a build that computes on the CPU: {reason}"


# ---- doing --------------------------------------------------------------------------------------------------------


def _put(world: World, choice: _Choice, *, offline: bool, proven: bool, level: Level) -> Installed:
    path, named = choice.path, {DEFAULT_INDEX, *lock.indexed((*choice.locked.packages, *choice.locked.build)).values()}
    tools = Tools(
        run=world.run,
        environ=world.environ,
        indexes={name: url for name, url in choice.addresses.items() if name in named},
        offline=offline,
        stage=world.reporter.stage,
        log=world.reporter.log,
        hashes=hashes.place(world.environ),
    )

    def prove(root: Path, depth: Level) -> Verified:
        return verifying.check(world, root, level=depth, path=path, host=choice.here)

    wanted = placement.Wanted(
        path=path,
        profile=choice.profile.name,
        locked=choice.locked,
        host=choice.here,
        python=lambda: pythons.find(world, choice.locked.variant.python, tools, near=path.parent),
        prove=prove if proven else None,
        level=level,
    )
    return placement.put(world, wanted, tools)


def _named(error: EnvlockError, name: str, path: str | None, world: World, *, offline: bool) -> EnvlockError:
    """Return the error with the profile's name, and the path that was typed, in its hint: who raises knows neither.

    What is missing offline is fetched by the same command on a network, where a setting does not forbid it again.
    """
    hint, message = error.hint, error.message
    if hint and path and "--path" not in hint:
        hint = hint.replace("install PROFILE", f"install PROFILE --path {shlex.quote(path)}")
    hint = hint and hint.replace("PROFILE", shlex.quote(name))
    if error.code == "not-cached" and offline and hint:
        message = f"{message}, and offline none is fetched"
        hint = hint if world.config.entries["offline"][1] == "flag" else f"ENVLOCK_OFFLINE=false {hint}"
    return type(error)(message, code=error.code, problems=error.problems, hint=hint)
