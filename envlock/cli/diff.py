"""`envlock diff A [B]`."""

from __future__ import annotations

from argparse import Namespace

from envlock.app import diff
from envlock.app.world import World
from envlock.cli.arguments import Parser
from envlock.model import Diffed

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock diff HEAD~1:gemma-qlora gemma-qlora"


def options(parser: Parser) -> None:
    """Declare the two sides."""
    a = "a profile (its lock), a lock file, REV:PROFILE or REV:FILE as git keeps it, or the path of an environment, "
    a += "whose packages are compared as they are in it"
    b = "another; left out: the lock at hand of the same profile, and A, if it is that one, as HEAD has it"
    parser.positional("before", metavar="A", text=a)
    parser.positional("after", metavar="B", text=b, nargs="?")
    parser.option("--exit-code", text="exit 1 where they differ", action="store_true")


def run(arguments: Namespace, world: World) -> Diffed:
    """Compare, without changing anything."""
    return diff.run(world, arguments.before, arguments.after, strict=arguments.exit_code)
