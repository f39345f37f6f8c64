"""`envlock lock [PROFILE ...]`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from envlock.app import lock
from envlock.app.world import World
from envlock.cli.arguments import Parser, choice
from envlock.config import CHOICES
from envlock.errors import EnvlockError, Misuse, Problem, Refused
from envlock.model import Locked, LockedAll

__all__ = ["EXAMPLE", "options", "run"]

EXAMPLE = "envlock lock gemma-qlora --check"


def options(parser: Parser) -> None:
    """Declare the profiles and the mode."""
    parser.positional("profiles", metavar="PROFILE", text="names or paths", nargs="+")
    parser.option("--check", text="exit 1 if an input moved; without network, writes nothing", action="store_true")
    parser.option("--dry-run", text="resolve and show what would change; writes nothing", action="store_true")
    parser.option("--confirm", text="hold the hashes of the PyTorch indexes against their pages", action="store_true")
    parser.option(
        "--cross-check", text="resolve with each engine; exit 1 where they differ, writes nothing", action="store_true"
    )
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
        "--allow",
        text="lock what breaks this rule all the same, and record that; may be repeated",
        metavar="RULE",
        action="append",
        default=[],
    )
    parser.option("--no-download", text="refuse what an index gives no hash of", action="store_true")
    parser.option("--conda", text="lock the conda part too, or fail", action="store_true")
    parser.option("--no-conda", text="solve no conda part; one that still fits stays", action="store_true")
    parser.option(
        "--resolver",
        text="the engine that resolves",
        env="ENVLOCK_RESOLVER",
        type=choice(*CHOICES["resolver"]),
        metavar="|".join(CHOICES["resolver"]),
    )


def run(arguments: Namespace, world: World) -> LockedAll:
    """Lock each profile in turn; the first that fails ends it, those before it are written. `--check` sees them all.

    Where some were done and some not, both are in the answer; where none was, the failure is raised.
    """
    _require_fitting(arguments)
    answer = _checked(arguments.profiles, world) if arguments.check else _locked(arguments, world)
    if answer.failure and not answer.locks:
        raise answer.failure
    return answer


def _require_fitting(arguments: Namespace) -> None:
    """Raise `Misuse` for two flags of which one would do nothing."""
    moves = bool(arguments.upgrade or arguments.upgrade_package)
    modes = ("check", "confirm", "dry-run", "cross-check")
    said = {f"--{mode}": getattr(arguments, mode.replace("-", "_")) for mode in modes}
    alone = [flag for flag, set_ in {**said, "--upgrade": moves}.items() if set_]
    if len(alone) > 1 and alone not in (["--dry-run", "--upgrade"], ["--cross-check", "--upgrade"]):
        raise _both(*alone[:2])
    if arguments.conda and arguments.no_conda:
        raise _both("--conda", "--no-conda")
    solving = {"--conda": arguments.conda, "--no-conda": arguments.no_conda}
    resolving = {"--allow": arguments.allow, "--no-download": arguments.no_download, **solving}
    for mode, without in (("--check", resolving), ("--confirm", resolving), ("--cross-check", ("--allow", *solving))):
        idle = next((flag for flag in without if resolving[flag]), None)
        if said.get(mode) and idle:
            raise _both(mode, idle)


def _both(one: str, other: str) -> Misuse:
    return Misuse(f"`{one}` and `{other}` cannot both be said", code="usage", hint="envlock lock --help")


def _mode(arguments: Namespace) -> lock.Mode:
    if arguments.dry_run:
        return "dry-run"
    if arguments.cross_check:
        return "cross-check"
    return "confirm" if arguments.confirm else "write"


def _locked(arguments: Namespace, world: World) -> LockedAll:
    asked = partial(
        lock.run,
        world,
        mode=_mode(arguments),
        upgrade=arguments.upgrade,
        upgrade_packages=arguments.upgrade_package,
        download=not arguments.no_download,
        allow=arguments.allow,
        conda="always" if arguments.conda else "never" if arguments.no_conda else "auto",
    )
    done: list[Locked] = []
    for name in arguments.profiles:
        outcome = _outcome(asked, name)
        if not isinstance(outcome, Locked):
            return LockedAll(locks=tuple(done), failure=outcome)
        done.append(outcome)
        if outcome.failure:
            return LockedAll(locks=tuple(done), failure=outcome.failure)
    return LockedAll(locks=tuple(done))


def _checked(names: Sequence[str], world: World) -> LockedAll:
    asked = partial(lock.run, world, mode="check")
    outcomes = [(name, _outcome(asked, name)) for name in names]
    current = tuple(outcome for _, outcome in outcomes if isinstance(outcome, Locked))
    failed = {name: outcome for name, outcome in outcomes if not isinstance(outcome, Locked)}
    return LockedAll(locks=current, failure=_together(failed, of=len(names)) if failed else None)


def _outcome(asked: Callable[[str], Locked], name: str) -> Locked | EnvlockError:
    try:
        return asked(name)
    except EnvlockError as error:
        return error


def _together(failed: Mapping[str, EnvlockError], *, of: int) -> EnvlockError:
    """Return one error for all: a lock that cannot be judged goes before one that is not current."""
    first = min(failed.values(), key=lambda error: isinstance(error, Refused))
    if len(failed) == 1:
        return first
    problems = tuple(
        problem
        for name, error in failed.items()
        for problem in (error.problems or (Problem(message=error.message, file=name),))
    )
    hint = f"envlock lock {' '.join(failed)}" if isinstance(first, Refused) else first.hint
    message = f"{len(failed)} of {of} locks cannot be called current"
    return type(first)(message, code=first.code, problems=problems, hint=hint)
