"""`envlock detect`."""

from __future__ import annotations

from argparse import Namespace

from envlock.app import detect
from envlock.app.world import World
from envlock.cli.arguments import Parser
from envlock.model import Detected

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock detect --json > host.json"


def options(parser: Parser) -> None:
    """Declare nothing: detection has no choices of its own."""
    del parser


def run(arguments: Namespace, world: World) -> Detected:
    """Read this machine."""
    return detect.run(world, every_index=arguments.verbose > arguments.quiet and not arguments.json)
