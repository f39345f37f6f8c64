"""`envlock check FILE`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from envlock.app import check
from envlock.app.world import World
from envlock.cli import hosts
from envlock.cli.arguments import Parser
from envlock.model import Checked

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock check requirements.txt --driver 535.104.05 --gpu 8.6"


def options(parser: Parser) -> None:
    """Declare the file, its Python, and the machine."""
    parser.positional("file", metavar="FILE", text="a requirements file, or what `pip freeze` printed; `-` reads stdin")
    parser.option(
        "--python", text="the Python it is for: 3.10, 3.11, ... (default: the one envlock runs on)", metavar="VERSION"
    )
    hosts.machine(parser)


def run(arguments: Namespace, world: World) -> Checked:
    """Judge, without changing anything."""
    return check.run(
        world,
        arguments.file,
        host_files=tuple(map(Path, arguments.host)),
        driver=arguments.driver,
        gpus=tuple(arguments.gpu),
        glibc=arguments.glibc,
        python=arguments.python,
    )
