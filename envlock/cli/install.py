"""`envlock install PROFILE`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from envlock.app import install
from envlock.app.world import World
from envlock.cli import hosts
from envlock.cli.arguments import Parser, choice
from envlock.cli.verify import LEVELS
from envlock.model import Installed

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock install gemma-qlora"


def options(parser: Parser) -> None:
    """Declare the profile, the place, how to choose, and the machine."""
    parser.positional("profile", metavar="PROFILE", text="a name from `envlock profiles`, or a path")
    parser.option("--path", text="where (default .envlock/<profile>)", env="ENVLOCK_PATH", metavar="DIR")
    parser.option("--frozen", text="install the lock as it is, even where its inputs moved", action="store_true")
    parser.option("--no-verify", text="do not run the checks before the switch", action="store_true")
    parser.option(
        "--level", text="how much to verify", type=choice(*LEVELS), metavar="|".join(LEVELS), default="kernels"
    )
    hosts.choosing(parser)
    hosts.machine(parser)


def run(arguments: Namespace, world: World) -> Installed:
    """Build, verify and switch."""
    return install.run(
        world,
        arguments.profile,
        path=arguments.path,
        frozen=arguments.frozen,
        verify=not arguments.no_verify,
        level=arguments.level,
        host_files=tuple(map(Path, arguments.host)),
        driver=arguments.driver,
        gpus=tuple(arguments.gpu),
        glibc=arguments.glibc,
        backend=arguments.backend,
        python=arguments.python,
    )
