"""What py-rattler's words mean: a conflict with both sides, or what failed before there could be an answer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from envlock.conda import Question
from envlock.errors import EnvlockError, Problem, Refused, WorldFailed

__all__ = ["explain", "is_echo", "nothing", "refusal"]

_CONFLICT: Final = "Cannot solve the request because of:"
_VIRTUAL: Final = re.compile(r"\b__[a-z]+")
_MISSING: Final = "channel-missing"
_NO_CHANNEL: Final = "there is no such channel where it is said to be"
_AGAIN: Final = "envlock lock PROFILE"

# py-rattler has one error for all that happens on the way to a channel's repodata; its words, as of 0.28, tell them
# apart. The first that is found decides.
_MEANINGS: Final = (
    (
        "disk-full",
        r"No space left on device|os error 28\b|Disk quota exceeded|os error 122\b",
        "no space left for what is read of channels",
        "df -h {cache}",
    ),
    (
        "cache-unusable",
        r"\(os error (?:5|13|17|20|21|30|40)\)",
        "the folder for what is read of channels cannot be used",
        "RATTLER_CACHE_DIR=FOLDER {again}",
    ),
    (
        "not-cached",
        r"no usable repodata cache|offline",
        "a channel was never read on this machine, and the network is not to be used",
        "{again}",
    ),
    (
        _MISSING,
        r"could not find subdir|404 Not Found",
        _NO_CHANNEL,
        "{again} --no-conda",
    ),
    (
        "channel-invalid",
        r"failed to (?:parse|extract)|invalid type|missing field|error decoding",
        "what a channel lists cannot be read: the answer was cut short, or is none",
        "{again}",
    ),
    (
        "network",
        r"error sending request|HTTP status|timed? ?out|end of file before message length|connection|to download",
        "the network failed: a channel could not be read",
        "{again} --no-conda",
    ),
)
# What was cut off on the way was parsed by nobody.
_CUT: Final = re.compile(r"end of file before message length|error reading a body|connection (?:reset|closed)")


def is_echo(said: str) -> bool:
    """Say whether this only repeats that another question's request for the same file failed."""
    return said.startswith("a coalesced request failed")


def refusal(said: str, asked: Question) -> Refused:
    """Return the conflict that py-rattler tells, a line each; raise `WorldFailed` (`engine-failed`) for any other word.

    Where the machine is one side of it, what was given of that stands beside it.
    """
    head, found, tail = said.partition(_CONFLICT)
    if head.strip() or not found:
        problems = tuple(Problem(message=line) for line in said.splitlines() if line.strip())
        message = "py-rattler gave up: whether the conda part can be had is not known"
        raise WorldFailed(message, code="engine-failed", problems=problems, hint=f"{_AGAIN} --no-conda")
    lines = [line.rstrip() for line in tail.strip().splitlines() if line.strip()]
    told = set(_VIRTUAL.findall(tail))
    given = ", ".join(map(str, asked.virtual))
    beside = [f"given, as the floors of the variant have it: {given}"] if told else []
    channels = ", ".join(channel.name for channel in asked.channels)
    return Refused(
        f"no packages of {channels} satisfy {', '.join(f'`{spec}`' for spec in asked.specs)}",
        code="unsatisfiable",
        problems=tuple(Problem(message=line) for line in (*lines, *beside)),
        hint=_AGAIN,
    )


def nothing(subdir: str, addresses: Sequence[str]) -> WorldFailed:
    """Return the error for channels of which none lists anything for a platform."""
    problems = tuple(Problem(file=one, message=f"lists nothing for {subdir}") for one in addresses)
    return WorldFailed(_NO_CHANNEL, code=_MISSING, problems=problems, hint=f"{_AGAIN} --no-conda")


def explain(said: str, cache: Path) -> EnvlockError:
    """Return the error for repodata that could not be had, with py-rattler's words; `cache` is where it is kept."""
    problems = tuple(Problem(message=line) for line in said.splitlines() if line.strip())
    for code, pattern, message, hint in _MEANINGS:
        if re.search(pattern, said, re.IGNORECASE) and not (code == "channel-invalid" and _CUT.search(said)):
            filled = hint.format(cache=shlex.quote(str(cache)), again=_AGAIN)
            return WorldFailed(message, code=code, problems=problems, hint=filled)
    message = "py-rattler could not read a channel"
    return WorldFailed(message, code="engine-failed", problems=problems, hint=f"{_AGAIN} -vv")
