"""`envlock plan`: which backend fits these machines, and what installing it would bring. Nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from envlock import choose, plan
from envlock.app import detect, reading
from envlock.app.world import World
from envlock.model import Plan, Planned, Policy

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
    made = plan.variant(decision, wanted, reading.lock(world, wanted), machines, known, python=python, offline=apart)
    return Planned(plan=_asked(made, backend=backend, python=python))


def _asked(made: Plan, *, backend: str | None, python: str | None) -> Plan:
    """Return the plan with a command that chooses again what was asked for here."""
    if not made.locked or made.command is None:
        return made
    flags = (("--backend", backend), ("--python", python))
    said = "".join(f" {flag} {value}" for flag, value in flags if value is not None)
    return replace(made, command=made.command + said)
