"""What a use case may touch: handed in by the command line, so that tests can hand in another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from envlock.config import Config
from envlock.model import Caution
from envlock.proc import Runner

__all__ = ["Reporter", "World"]


class Reporter(Protocol):
    """Where a use case says how far it is. Everything here goes to stderr, or nowhere."""

    def stage(self, text: str) -> None:
        """Say that a stage begins: one line each, or one spinner that changes its text."""

    def warn(self, caution: Caution) -> None:
        """Show a warning at once."""

    def log(self, text: str) -> None:
        """Say a detail that only `-v` shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The machine as one run of envlock sees it."""

    run: Runner
    environ: Mapping[str, str]
    cwd: Path
    now: Callable[[], datetime]
    clock: Callable[[], float]
    reporter: Reporter
    config: Config
