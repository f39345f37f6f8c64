"""`envlock check`: hold a requirements file that envlock did not write against its rules, and against machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from packaging.version import Version

from envlock import choose, conflicts, requirements_text, store
from envlock.app import detect, judging, reading
from envlock.app.world import World
from envlock.conflicts import Rules, Stack, Violation
from envlock.facts import Facts
from envlock.model import BackendSpec, Caution, Checked, HostFacts, Profile
from envlock.requirements_text import Requirements, Source

__all__ = ["run"]

_PLATFORM: Final = "linux-x86_64"
_FROM_STDIN: Final = "-"


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
    """Judge the pinned packages of a requirements file or freeze (`-`: stdin), for the machines named, else this one.

    `python` defaults to the one that runs envlock. Nothing is installed or asked of an index. Raises `Misuse` for
    whatever was handed in and cannot be read.
    """
    source = _source(world, name)
    wanted = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    found = requirements_text.parse(source, wanted, partial(_beside, world))
    known = reading.facts()
    ruled = judging.rules(known)
    stack = Stack(packages=conflicts.as_indexed(found.pins, found.indexes, known), python=wanted)
    backend = conflicts.built_for(stack, known)
    named = bool(host_files or driver or gpus or glibc)
    machines: Sequence[HostFacts] = ()
    if backend or named:
        machines = detect.hosts(world, host_files=host_files, driver=driver, gpus=gpus, glibc=glibc, known=known)
    decision = None
    if backend:
        asked = _profile(source.file, backend, stack.packages, wanted)
        policy = world.config.driver_policy
        decision = choose.backend(asked, machines, known, policy=policy, only=backend, offline=False)
    broken = conflicts.violations(stack, ruled)
    unsaid = None if backend else _unsaid(stack, found, named=named)
    warnings = [*_unseen(broken, found, ruled), *_aside(stack, found, known)]
    rules = conflicts.judged(stack, ruled)
    unanswered = bool(unsaid and (named or not rules))
    if unsaid and not unanswered:
        warnings.append(Caution(code="machine-not-judged", message=unsaid))
    return Checked(
        file=source.file,
        python=wanted,
        packages=len(found.pins),
        left_open=found.left_open,
        unjudged=(*found.unjudged, *_strange_indexes(stack, found, known)),
        backend=backend,
        violations=tuple(row for row in broken if row.have is not None),
        decision=decision,
        warnings=tuple(warnings),
        rules=rules,
        unanswered=unsaid if unanswered else None,
    )


def _source(world: World, name: str) -> Source:
    stdin = name == _FROM_STDIN
    path = Path("/dev/stdin") if stdin else store.typed(name, world.cwd)
    shown = store.STDIN if stdin else store.shown(path, world.cwd)
    text = store.read_text(path, what="requirements file", piped=True)
    return Source(text=text, file=shown, place=str(path.resolve()))


def _beside(world: World, source: Source, name: str) -> Source:
    """Return the file that another one names, from that one's folder on, as pip reads it."""
    path = (world.cwd / source.file).parent / name
    text = store.read_text(path, what="requirements file")
    return Source(text=text, file=store.shown(path, world.cwd), place=str(path.resolve()))


def _profile(shown: str, backend: str, pins: Mapping[str, str], python: str) -> Profile:
    """Return the file as if it were a profile with the one backend that its torch is built for."""
    requires = tuple(f"{name}=={version}" for name, version in pins.items())
    spec = BackendSpec(name=backend, python=(python,), pypi_python=(), requires=requires, exclude_newer=None)
    return Profile(name=shown, summary="", file=shown, platforms=(_PLATFORM,), backends=(spec,))


# ---- what cannot be said ------------------------------------------------------------------------------------------


def _unsaid(stack: Stack, found: Requirements, *, named: bool) -> str | None:
    """Return why nothing can be said of a machine; None where no torch is there and nobody asked."""
    torch = stack.packages.get("torch")
    if torch is None:
        reason = "no version of torch is pinned"
    elif local := Version(torch).local:
        reason = f"torch {torch} is built for {local}, of which nothing is known"
    else:
        reason = f"torch {torch} is not known"
    asked = named or torch or "torch" in found.open_names
    return f"{reason}: whether this machine can run it cannot be said" if asked else None


def _unseen(broken: Sequence[Violation], found: Requirements, ruled: Rules) -> Iterator[Caution]:
    """Tell what must be there and is not named: a file need not name all that is installed."""
    reasons = {rule.id: rule.unseen for rule in ruled.rules}
    for row in broken:
        if row.have is None and row.package not in found.open_names:
            why = reasons[row.rule] or "another package may bring it"
            told = f"{row.package} is not named, so whether it is there cannot be told ({why}): {row.because}"
            yield Caution(code="package-unseen", message=f"{told} [{row.rule}]")


def _aside(stack: Stack, found: Requirements, known: Facts) -> Iterator[Caution]:
    if found.constrained:
        told = f"pinned as a constraint only, and not judged: {', '.join(found.constrained)}"
        yield Caution(code="constraint-only", message=told)
    torch = stack.packages.get("torch")
    named = conflicts.backends(found.indexes, known)
    if torch and named and Version(torch).local is None:
        told = f"no build of torch {torch} for {', '.join(named)} is known: it was taken for PyPI's own"
        yield Caution(code="index-without-torch", message=told)


def _strange_indexes(stack: Stack, found: Requirements, known: Facts) -> Iterator[str]:
    """Yield the indexes of which nobody knows what they serve, where they may serve torch."""
    if "torch" in stack.packages and Version(stack.packages["torch"]).local is None:
        yield from (option for address, option in found.indexes.items() if not conflicts.backends([address], known))
