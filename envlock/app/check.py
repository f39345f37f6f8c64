"""`envlock check`: hold a requirements file that envlock did not write against its rules, and against machines."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from envlock import choose, conflicts, requirements_text, store
from envlock.app import detect, judging, reading
from envlock.app.world import World
from envlock.conflicts import Stack
from envlock.model import BackendSpec, Checked, Profile

__all__ = ["run"]

_PLATFORM = "linux-x86_64"


def run(
    world: World,
    name: str,
    *,
    host_files: Sequence[Path] = (),
    driver: str | None = None,
    gpus: Sequence[str] = (),
    glibc: str | None = None,
    python: str | None = None,
) -> Checked:
    """Judge the pinned packages of a requirements file or freeze, for the machines named, else for this one.

    `python` defaults to the one that runs envlock. Nothing is installed or asked of an index. Raises `Misuse` for
    whatever was handed in and cannot be read.
    """
    path = store.typed(name, world.cwd)
    shown = store.shown(path, world.cwd)
    wanted = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    found = requirements_text.parse(store.read_text(path, what="requirements file"), shown, wanted)
    known = reading.facts()
    ruled = judging.rules(known)
    stack = Stack(packages=found.pins, python=wanted)
    backend = conflicts.built_for(stack, known)
    decision = None
    if backend is not None:
        machines = detect.hosts(world, host_files=host_files, driver=driver, gpus=gpus, glibc=glibc, known=known)
        asked = _profile(shown, backend, found.pins, wanted)
        policy = world.config.driver_policy
        decision = choose.backend(asked, machines, known, policy=policy, only=backend, offline=False)
    return Checked(
        file=shown,
        python=wanted,
        packages=len(found.pins),
        left_open=found.left_open,
        backend=backend,
        violations=conflicts.violations(stack, ruled),
        decision=decision,
    )


def _profile(shown: str, backend: str, pins: Mapping[str, str], python: str) -> Profile:
    """Return the file as if it were a profile with the one backend that its torch is built for."""
    requires = tuple(f"{name}=={version}" for name, version in pins.items())
    spec = BackendSpec(name=backend, python=(python,), pypi_python=(), requires=requires, exclude_newer=None)
    return Profile(name=shown, summary="", file=shown, platforms=(_PLATFORM,), backends=(spec,))
