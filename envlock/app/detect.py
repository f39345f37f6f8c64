"""`envlock detect`: what this machine is, and the machines other commands decide for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from envlock import host, sense, store
from envlock.app import indexes, reading
from envlock.app.world import World
from envlock.facts import Facts
from envlock.model import Detected, HostFacts

__all__ = ["hosts", "run"]


def run(world: World, *, every_index: bool = False) -> Detected:
    """Read this machine, and list the settings in force: of `every_index`, or of those that are set."""
    known = reading.facts()
    settings = indexes.settings(world, known) if every_index else world.config.settings()
    return Detected(host=_sensed(world, known.gpu_capabilities), settings=settings)


def hosts(
    world: World,
    *,
    host_files: Sequence[Path] = (),
    driver: str | None = None,
    gpus: Sequence[str] = (),
    glibc: str | None = None,
    known: Facts | None = None,
) -> tuple[HostFacts, ...]:
    """Return the machines to decide for: those of the host files, else this one, each with what the options say.

    `known` spares reading the facts again where the caller has them. Raises `Misuse` for a file that can't be read
    or is no host file, an impossible version, or an unknown GPU.
    """
    known = known or reading.facts()
    gpu_cc, gpu_arch = known.gpu_capabilities, known.gpu_archs
    if host_files:
        read = [
            host.parse(store.read_text(world.cwd / file, what="host file", piped=True), str(file))
            for file in host_files
        ]
        machines = [host.name_capabilities(machine, gpu_cc) for machine in read]
    else:
        machines = [_sensed(world, gpu_cc)]
    return tuple(
        host.override(machine, driver=driver, gpus=gpus, glibc=glibc, gpu_cc=gpu_cc, gpu_arch=gpu_arch)
        for machine in machines
    )


def _sensed(world: World, gpu_cc: Mapping[str, str]) -> HostFacts:
    machine = sense.read(run=world.run, environ=world.environ, note=world.reporter.log)
    return host.name_capabilities(machine, gpu_cc)
