"""`envlock plan PROFILE`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from envlock.app import plan
from envlock.app.world import World
from envlock.cli import hosts
from envlock.cli.arguments import Parser
from envlock.model import Planned

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock plan gemma-qlora --driver 535.104.05 --gpu 8.6"


def options(parser: Parser) -> None:
    """Declare the profile, how to choose, and the machine."""
    parser.positional("profile", metavar="PROFILE", text="a name from `envlock profiles`, or a path")
    hosts.choosing(parser)
    hosts.machine(parser)


def run(arguments: Namespace, world: World) -> Planned:
    """Choose, without changing anything."""
    return plan.run(
        world,
        arguments.profile,
        host_files=tuple(map(Path, arguments.host)),
        driver=arguments.driver,
        gpus=tuple(arguments.gpu),
        glibc=arguments.glibc,
        backend=arguments.backend,
        python=arguments.python,
    )
