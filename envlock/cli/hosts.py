"""The options that stand for a machine, shared by `plan` and `install`."""

from __future__ import annotations

from envlock import config
from envlock.cli.arguments import Parser, choice

__all__ = ["choosing", "machine"]

SECTION = "a machine that is not this one"


def machine(parser: Parser) -> None:
    """Declare `--host`, `--driver`, `--gpu` and `--glibc`."""
    parser.option(
        "--host",
        text="a host file, or all that `envlock detect --json` printed; may be repeated: all must fit",
        metavar="FILE",
        action="append",
        default=[],
        section=SECTION,
    )
    parser.option("--driver", text="NVIDIA driver version, or `none`", metavar="VERSION", section=SECTION)
    parser.option(
        "--gpu",
        text="a GPU by name or compute capability (`RTX 3090`, `8.6`) beside a driver; may be repeated",
        metavar="NAME|CC",
        action="append",
        default=[],
        section=SECTION,
    )
    parser.option("--glibc", text="glibc version", metavar="VERSION", section=SECTION)


def choosing(parser: Parser) -> None:
    """Declare `--backend`, `--driver-policy` and `--python`."""
    policies = config.CHOICES["driver-policy"]
    parser.option("--backend", text="take this backend or none: cpu, cu118, cu121, ...", metavar="NAME")
    parser.option(
        "--driver-policy",
        text="`strict` refuses a driver older than the CUDA release's own",
        env="ENVLOCK_DRIVER_POLICY",
        type=choice(*policies),
        metavar="|".join(policies),
    )
    parser.option("--python", text="the Python to take: 3.10, 3.11, ...", metavar="VERSION")
