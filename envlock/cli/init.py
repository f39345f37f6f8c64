"""`envlock init`."""

from __future__ import annotations

from argparse import Namespace

from envlock.adopted import Adopted
from envlock.app import init
from envlock.app.world import World
from envlock.cli.arguments import Parser

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock init --from requirements.txt --name mine"


def options(parser: Parser) -> None:
    """Declare the file, and what it does not say itself."""
    parser.option(
        "--from",
        text="a requirements file, what `pip freeze` printed, a conda environment.yml, or a pyproject.toml; - is stdin",
        metavar="FILE",
        dest="source",
        required=True,
    )
    parser.option(
        "--name", text="what the profile is called (default: as the file says, or its folder)", metavar="NAME"
    )
    parser.option(
        "--python",
        text="the Python it is for (default: the file's, else the newest in common use that its torch is built for)",
        metavar="VERSION",
    )
    parser.option("-o", "--output", text="the file to write (default: profiles/NAME.toml); - is stdout", metavar="FILE")


def run(arguments: Namespace, world: World) -> Adopted:
    """Write a profile, or print it."""
    return init.run(world, arguments.source, name=arguments.name, python=arguments.python, output=arguments.output)
