"""`envlock plan`: which backend fits these machines, and what installing it would bring. Nothing is changed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from envlock import choose, plan
from envlock.app import detect, reading
from envlock.app.world import World
from envlock.model import Plan, Planned, Policy, Setting

__all__ = ["run"]


def run(
    world: World,
    name: str,
    *,
    host_files: Sequence[Path] = (),
    driver: str | None = None,
    gpus: Sequence[str] = (),
    glibc: str | None = None,
    backend: str | None = None,
    policy: Policy | None = None,
    python: str | None = None,
    offline: bool | None = None,
) -> Planned:
    """Choose for the machines named, else for this one; `policy` and `offline` default to the settings.

    Raises `Misuse` for whatever was handed in and cannot be read: the profile, a lock, a host file, a fact.
    """
    apart = world.config.offline if offline is None else offline
    wanted, known = reading.profile(world, name), reading.facts()
    machines = detect.hosts(world, host_files=host_files, driver=driver, gpus=gpus, glibc=glibc, known=known)
    decision = choose.backend(
        wanted,
        machines,
        known,
        policy=policy or world.config.driver_policy,
        only=backend,
        offline=apart,
    )
    held = reading.lock(world, wanted)
    made = plan.variant(decision, wanted, held, machines, known, python=python, offline=apart)
    made = _asked(made, world.config.settings(), backend=backend, python=python)
    described = bool(host_files or driver or gpus or glibc)
    return Planned(plan=_placed(plan.current(made, wanted, held, known), elsewhere=described))


def _asked(made: Plan, settings: Sequence[Setting], *, backend: str | None, python: str | None) -> Plan:
    """Return the plan with a command that chooses again what was chosen here.

    It repeats the flags that narrowed the choice; what a variable or a file sets, holds for the next command as well.
    """
    if made.command is None or not made.command.startswith(plan.INSTALL):
        return made
    flags = [*_said("--backend", backend), *_said("--python", python)] if made.locked else []
    for setting in settings:
        if setting.origin == "flag" and setting.name == "driver-policy":
            flags += _said("--driver-policy", setting.value)
        elif setting.origin == "flag" and setting.name == "offline":
            flags.append("--offline")
    return replace(made, command=" ".join([made.command, *flags]))


def _said(flag: str, value: str | None) -> list[str]:
    return [] if value is None else [flag, shlex.quote(value)]


def _placed(made: Plan, *, elsewhere: bool) -> Plan:
    """Return the plan that says where its command belongs: a lock is made anywhere, what it names goes there."""
    return replace(made, elsewhere=elsewhere and made.command is not None and made.command.startswith(plan.INSTALL))
