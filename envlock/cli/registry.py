"""The verbs: a name, one line about it, and the module that is imported only when the verb is chosen."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from envlock.cli.arguments import Parser

if TYPE_CHECKING:  # both are a good part of what a start costs, and help needs neither
    from envlock.app.world import World
    from envlock.model import Answer

__all__ = ["VERBS", "Verb", "VerbModule", "load"]


class VerbModule(Protocol):
    """What the module of a verb offers: its options, and the call it makes."""

    EXAMPLE: str

    def options(self, parser: Parser) -> None:
        """Declare the verb's arguments."""

    def run(self, arguments: Namespace, world: World) -> Answer:
        """Call the use case with plain values and return its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One line of `envlock --help`."""

    module: str
    summary: str


VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        "detect": Verb(
            module="envlock.cli.detect",
            summary="what this machine is: driver, GPUs, glibc, Pythons, compilers, each with its source",
        ),
        "profiles": Verb(module="envlock.cli.profiles", summary="the profiles that can be named here"),
        "init": Verb(
            module="envlock.cli.init",
            summary="a profile from a requirements file, a freeze, an environment.yml or a pyproject.toml",
        ),
        "plan": Verb(
            module="envlock.cli.plan",
            summary="which backend fits, why, and why not the others; nothing is changed",
        ),
        "lock": Verb(
            module="envlock.cli.lock",
            summary="resolve every variant of a profile, and write lockfiles/",
        ),
        "diff": Verb(
            module="envlock.cli.diff",
            summary="what differs between two locks, or an environment and its lock, and what machines need then",
        ),
        "check": Verb(
            module="envlock.cli.check",
            summary="a requirements file or freeze of anybody's: what of it breaks in use, and does it run here",
        ),
        "export": Verb(
            module="envlock.cli.export",
            summary="one variant for other tools: requirements.txt, pylock.toml, environment.yml, a wheelhouse",
        ),
        "install": Verb(
            module="envlock.cli.install",
            summary="a fresh environment from the lock, proven before it is switched to",
        ),
        "verify": Verb(
            module="envlock.cli.verify",
            summary="host drift, integrity, imports and kernels of an environment",
        ),
    }
)


def load(name: str) -> VerbModule:
    """Import the module of a verb; `KeyError` for a name that is none."""
    return cast("VerbModule", import_module(VERBS[name].module))
