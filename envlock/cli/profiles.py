"""`envlock profiles`."""

from __future__ import annotations

from argparse import Namespace

from envlock.app import profiles
from envlock.app.world import World
from envlock.cli.arguments import Parser
from envlock.model import Listed

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock profiles"


def options(parser: Parser) -> None:
    """Declare nothing: every profile is listed."""
    del parser


def run(arguments: Namespace, world: World) -> Listed:
    """List what can be named here."""
    del arguments
    return profiles.run(world)
