"""One verb at work: the world it gets, the call, and the answer made fit to be shown."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

from envlock import config, proc, store
from envlock.app.world import World
from envlock.cli import outcome, redact, registry, terminal
from envlock.cli.invocation import Invocation, Peek
from envlock.cli.progress import Progress
from envlock.errors import EnvlockError
from envlock.model import Answer

__all__ = ["perform"]

# The options that are settings too: the others have no variable and no key in [tool.envlock].
SETTINGS = ("offline", "driver_policy", "resolver", "path")


def perform(
    asked: Invocation, peek: Peek, *, environ: Mapping[str, str], cwd: Path, stderr: TextIO
) -> tuple[Answer, EnvlockError | None]:
    """Return the verb's answer, and the error beside it where the answer is no; raises whatever the verb raises."""
    look = terminal.look(stderr, mode=peek.colour, environ=environ)
    reporter = Progress(stderr, terminal=look, verbosity=peek.verbosity, silent=peek.json)
    with reporter:
        world = World(
            run=proc.run,
            environ=environ,
            cwd=cwd,
            now=lambda: datetime.now(timezone.utc),
            clock=time.monotonic,
            reporter=reporter,
            config=_config(asked.arguments, environ=environ, cwd=cwd),
        )
        answer = registry.load(asked.verb).run(asked.arguments, world)
    error = outcome.judge(answer)
    return redact.value(answer), error and redact.error(error)


def _config(arguments: Namespace, *, environ: Mapping[str, str], cwd: Path) -> config.Config:
    flags: dict[str, Any] = {name: value for name in SETTINGS if (value := getattr(arguments, name, None)) is not None}
    table, file = ({}, None) if arguments.no_config else store.config_table(cwd)
    return config.resolve(flags=flags, environ=environ, table=table, table_file=file)
