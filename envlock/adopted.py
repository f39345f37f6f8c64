"""What `envlock init` says: the profile that came of a file, and what of the file it did not keep. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Adopted", "Build", "Dropped", "Kind"]

Kind: TypeAlias = Literal["requirements", "environment.yml", "pyproject.toml"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Something that a file asks for and its profile does not say, or says otherwise; `line` counts from 1."""

    what: str
    why: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A backend that the profile takes, and why; `index` and `pypi` say where its torch is found."""

    name: str
    why: str
    index: bool = True
    pypi: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """`envlock init`: `text` is the profile itself, None where it was written to `path`.

    `kept` are its requirements, those that were `added` for a rule's sake among them; `reason` says where the Python
    comes from, `notes` what a lock of it will run into. `command` is what to run next.
    """

    profile: str
    file: str
    kind: Kind
    text: str | None
    path: str | None
    python: str
    reason: str
    builds: tuple[Build, ...]
    kept: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    added: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    command: str | None = None
