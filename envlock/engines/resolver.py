"""What a resolver is to envlock, and what it works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from envlock.model import LockedPackage
from envlock.proc import Runner
from envlock.request import Resolution

__all__ = ["Resolved", "Resolver", "Workbench"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What a resolver may touch: processes, their environment, an interpreter, and where the indexes are.

    `indexes` maps an index name to its URL; a name that is missing means the engine's own default.
    """

    run: Runner
    environ: Mapping[str, str]
    python: Path
    indexes: Mapping[str, str]
    offline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """An answer: packages by name, and for each that comes as source only the URL of the day."""

    packages: tuple[LockedPackage, ...]
    urls: Mapping[str, str]


class Resolver(Protocol):
    """An engine that answers a `Resolution`; a module with these two functions is one."""

    def series(self, bench: Workbench) -> str:
        """Return engine and major version, such as `uv-0`: another series may resolve the same inputs differently.

        Raise `WorldFailed`: `engine-missing`, also for a version that is too old.
        """

    def resolve(self, asked: Resolution, bench: Workbench) -> Resolved:
        """Return the newest answer that fits, keeping the pins that do; for unchanged inputs always the same one.

        Raise `Refused` (`unsatisfiable`) with both sides of the conflict, or `WorldFailed` (`network`, `not-cached`,
        `build-failed`, `cache-unusable`, `disk-full`, `not-writable`, `engine-missing`, `engine-failed`). `PROFILE` in
        a hint stands for the name, which a resolver does not know.
        """
