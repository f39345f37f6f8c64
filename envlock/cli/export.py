"""`envlock export PROFILE`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from envlock.app import export
from envlock.app.world import World
from envlock.cli import hosts
from envlock.cli.arguments import Parser, choice
from envlock.errors import Misuse
from envlock.exports import FORMATS
from envlock.model import Exported

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock export gemma-qlora --format environment.yml -o environment.yml"


def options(parser: Parser) -> None:
    """Declare the profile, the format, the place, how to choose, and the machine."""
    parser.positional("profile", metavar="PROFILE", text="a name from `envlock profiles`, or a path")
    parser.option(
        "--format",
        text=f"{', '.join(FORMATS)} (default {FORMATS[0]})",
        type=choice(*FORMATS),
        metavar="FORMAT",
        default=FORMATS[0],
    )
    parser.option(
        "-o",
        "--output",
        text="a file, or a folder for it (default: stdout); of a wheelhouse, the folder itself",
        metavar="PATH",
    )
    parser.option("--force", text="replace a file there that is no export", action="store_true")
    parser.option("--frozen", text="export the lock as it is, even where its inputs moved", action="store_true")
    parser.option("--variant", text="this variant, whatever machine it is for", metavar="NAME")
    hosts.choosing(parser)
    hosts.machine(parser)


def run(arguments: Namespace, world: World) -> Exported:
    """Export one variant."""
    choosing = ("backend", "python", "host", "driver", "gpu", "glibc")
    both = next((name for name in choosing if getattr(arguments, name)), None)
    if arguments.variant and both:
        message = f"`--variant` and `--{both}` cannot both be said: a variant is of one backend and one Python"
        raise Misuse(message, code="usage", hint="envlock export --help")
    return export.run(
        world,
        arguments.profile,
        kind=arguments.format,
        variant=arguments.variant,
        output=arguments.output,
        force=arguments.force,
        frozen=arguments.frozen,
        host_files=tuple(map(Path, arguments.host)),
        driver=arguments.driver,
        gpus=tuple(arguments.gpu),
        glibc=arguments.glibc,
        backend=arguments.backend,
        python=arguments.python,
    )
