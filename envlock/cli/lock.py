"""`envlock lock [PROFILE ...]`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from envlock.app import lock
from envlock.app.world import World
from envlock.cli.arguments import Parser, choice
from envlock.errors import Misuse, Problem, Refused
from envlock.model import Locked, LockedAll

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock lock gemma-qlora --check"
RESOLVERS = ("uv",)


def options(parser: Parser) -> None:
    """Declare the profiles and the mode."""
    parser.positional("profiles", metavar="PROFILE", text="names or paths", nargs="+")
    parser.option("--check", text="exit 1 if an input moved; without network, writes nothing", action="store_true")
    parser.option("--dry-run", text="resolve and show what would change; writes nothing", action="store_true")
    parser.option("--upgrade", text="take the newest versions the profile allows", action="store_true")
    parser.option(
        "-P",
        "--upgrade-package",
        text="take the newest of this package only; may be repeated",
        metavar="NAME",
        action="append",
        default=[],
    )
    parser.option(
        "--resolver",
        text="the engine that resolves",
        env="ENVLOCK_RESOLVER",
        type=choice(*RESOLVERS),
        metavar="|".join(RESOLVERS),
    )


def run(arguments: Namespace, world: World) -> LockedAll:
    """Lock each profile in turn; the first that fails ends it, those before it are written. `--check` sees them all."""
    moves = arguments.upgrade or arguments.upgrade_package
    if arguments.check and (arguments.dry_run or moves):
        other = "--dry-run" if arguments.dry_run else "--upgrade"
        raise Misuse(f"`--check` and `{other}` cannot both be said", code="usage", hint="envlock lock --help")
    if arguments.check:
        return LockedAll(locks=_checked(arguments.profiles, world))
    locks = tuple(
        lock.run(
            world,
            name,
            mode="dry-run" if arguments.dry_run else "write",
            upgrade=arguments.upgrade,
            upgrade_packages=tuple(arguments.upgrade_package),
        )
        for name in arguments.profiles
    )
    return LockedAll(locks=locks)


def _checked(names: Sequence[str], world: World) -> tuple[Locked, ...]:
    outcomes = {name: _check(name, world) for name in names}
    stale = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Refused)}
    if not stale:
        return tuple(outcome for outcome in outcomes.values() if isinstance(outcome, Locked))
    first = next(iter(stale.values()))
    if len(stale) == 1:
        raise first
    problems = tuple(
        problem
        for name, outcome in stale.items()
        for problem in (outcome.problems or (Problem(message=outcome.message, file=name),))
    )
    message = f"{len(stale)} of {len(outcomes)} locks are not current"
    raise Refused(message, code=first.code, problems=problems, hint=f"envlock lock {' '.join(stale)}")


def _check(name: str, world: World) -> Locked | Refused:
    try:
        return lock.run(world, name, mode="check")
    except Refused as refused:
        return refused
