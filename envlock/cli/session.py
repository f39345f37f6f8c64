"""One verb at work: the world it gets, the call, and the answer made fit to be shown."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TextIO, cast

from envlock import ambient, config, proc, store
from envlock.app import indexes, reading
from envlock.app.world import World
from envlock.cli import outcome, redact, registry, terminal
from envlock.cli.invocation import Invocation, Peek
from envlock.cli.progress import Progress
from envlock.cli.terminal import Colour
from envlock.errors import EnvlockError
from envlock.model import Answer
from envlock.proc import Command, Completed, Runner

__all__ = ["Done", "perform"]

# The options that are settings too: the others have no variable and no key in [tool.envlock].
SETTINGS = ("offline", "driver_policy", "resolver", "path", "color")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An answer, the error beside it where the answer is no, and the colour that the settings ask for."""

    answer: Answer
    error: EnvlockError | None
    colour: Colour


def perform(asked: Invocation, peek: Peek, *, environ: Mapping[str, str], cwd: Path, stderr: TextIO) -> Done:
    """Do what the verb does, with credentials taken out of all it returns; raises whatever the verb raises."""
    settings = _config(asked.arguments, environ=environ, cwd=cwd)
    colour = cast("Colour", settings.entries["color"][0])
    look = terminal.look(stderr, mode=colour, environ=environ)
    reporter = Progress(stderr, terminal=look, verbosity=peek.verbosity, silent=peek.json)
    with reporter:
        world = World(
            run=_importing("envlock.wire" if peek.json else "envlock.report"),
            environ=environ,
            cwd=cwd,
            now=lambda: datetime.now(timezone.utc),
            clock=time.monotonic,
            reporter=reporter,
            config=settings,
        )
        answer = registry.load(asked.verb).run(asked.arguments, world)
    error = outcome.judge(answer)
    return Done(answer=redact.value(answer), error=error and redact.error(error), colour=colour)


def _importing(module: str) -> Runner:
    """Return a runner that imports what the answer will be shown with while the first program runs."""
    once = iter([partial(import_module, module)])

    def run(command: Command) -> Completed:
        return proc.run(command, meanwhile=next(once, None))

    return run


def _config(arguments: Namespace, *, environ: Mapping[str, str], cwd: Path) -> config.Config:
    flags: dict[str, object] = {
        name: value for name in SETTINGS if (value := getattr(arguments, name, None)) is not None
    }
    table, file = ({}, None) if arguments.no_config else store.config_table(cwd)
    return config.resolve(
        flags=flags,
        environ=environ,
        table=table,
        table_file=file,
        ambient=ambient.read(environ, cwd, with_files=not arguments.no_config),
        names=indexes.names(reading.facts()) if config.names_index(environ, table) else None,
    )
