"""`envlock verify [PROFILE|PATH]`."""

from __future__ import annotations

from argparse import Namespace
from itertools import groupby

from envlock.app import verify
from envlock.app.world import World
from envlock.cli.arguments import Parser, choice, number
from envlock.model import Verified

__all__ = ["EXAMPLE", "LEVELS", "options", "run"]

EXAMPLE = "envlock verify gemma-qlora --level kernels --require gpu"
LEVELS = ("quick", "kernels")


def options(parser: Parser) -> None:
    """Declare what to verify, how much of it, and what counts."""
    parser.positional(
        "target",
        metavar="PROFILE|PATH",
        text="an environment, by its profile or its path (default: the only one under .envlock/)",
        nargs="?",
    )
    parser.option(
        "--level",
        text="`quick` starts nothing inside the environment (default kernels)",
        type=choice(*LEVELS),
        metavar="|".join(LEVELS),
        default="kernels",
    )
    once = f"this check or group only; may be repeated. {_catalogue()}"
    parser.option("--only", text=once, metavar="ID", action="append", default=[])
    parser.option("--skip", text="not this check or group; may be repeated", metavar="ID", action="append", default=[])
    parser.option("--require", text="a skipped GPU check is a failure", type=choice("gpu"), metavar="gpu")
    parser.option("--deep", text="hash every byte, also of files hashed before", action="store_true")
    parser.option("--timeout", text="limit for each check", metavar="SECONDS", type=number)


def _catalogue() -> str:
    """Name every group and what is in it."""
    grouped = groupby(verify.KNOWN, key=lambda check: check.partition(".")[0])
    groups = {group: ", ".join(check.partition(".")[2] for check in members) for group, members in grouped}
    named = "; ".join(f"`{group}`: {names}" for group, names in groups.items())
    return f"Groups, and the names in each: {named}; `import`: any package. One of them is GROUP.NAME"


def run(arguments: Namespace, world: World) -> Verified:
    """Check, from the root causes to their consequences."""
    return verify.run(
        world,
        arguments.target,
        level=arguments.level,
        only=tuple(arguments.only),
        skip=tuple(arguments.skip),
        require_gpu=arguments.require == "gpu",
        deep=arguments.deep,
        timeout=arguments.timeout,
    )
