"""What a pip-compile that failed means: one error of ours, with pip's own words beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from envlock.errors import EnvlockError, Problem, Refused, WorldFailed
from envlock.proc import Completed

__all__ = ["explain"]

_TAIL: Final = 12  # lines of pip's message that are shown
_TRACEBACK: Final = "Traceback (most recent call last)"
# An index that does not answer is no reason to stop for pip: it goes on as if nothing were listed there. Only its log
# says so; that a page is not there (404, 410) is an answer.
_UNREAD: Final = re.compile(r"Could not fetch URL (?P<url>\S+): (?P<why>(?!(?:404|410) Client Error).+) - skipping")
# Who wants what stands in the log too, each line behind its time.
_CAUSE: Final = re.compile(r"The conflict is caused by:\n(?P<rows>(?:\S+,\d{3} {7,}\S.*\n)+)")
_TIME: Final = re.compile(r"^\S+,\d{3} +", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meaning:
    """What `pattern` in pip's words stands for."""

    code: str
    pattern: re.Pattern[str]
    message: str
    kind: type[EnvlockError] = WorldFailed


# The first that is found decides: what cannot be downloaded or built also ends as "no matching distribution".
_MEANINGS: Final = (
    _Meaning(
        code="disk-full",
        pattern=re.compile(r"No space left on device|Disk quota exceeded"),
        message="no space left on the disk: resolving stopped",
    ),
    _Meaning(
        code="build-failed",
        pattern=re.compile(r"subprocess-exited-with-error|metadata-generation-failed|Failed to build"),
        message="what a source package needs could not be read: it does not build here",
    ),
    _Meaning(
        code="network",
        pattern=re.compile(r"NetworkConnectionError|ConnectionError|Timeout|ProtocolError|IncompleteRead|HTTPError"),
        message="the network failed: resolving stopped",
    ),
    _Meaning(
        code="unsatisfiable",
        pattern=re.compile(r"ResolutionImpossible|No matching distribution found|Could not find a version"),
        message="no set of versions satisfies the requirements",
        kind=Refused,
    ),
)


def explain(done: Completed, log: str, *, again: str) -> EnvlockError | None:
    """Return what went wrong, None for an answer that can be used; `log` is what pip wrote with `--log`.

    `again` is the command to try once more.
    """
    unread = {row["url"]: row["why"] for row in _UNREAD.finditer(log)}
    if unread:
        rows = tuple(Problem(message=f"{url}: {why}") for url, why in list(unread.items())[:_TAIL])
        return WorldFailed("the index did not answer pip", code="network", problems=rows, hint=again)
    if done.code == 0 and not done.timed_out:
        return None
    said = done.stderr or done.stdout
    told = tuple(Problem(message=line) for line in _conflict(log) or _sentences(said))
    meaning = None if done.timed_out else next((one for one in _MEANINGS if one.pattern.search(said)), None)
    if meaning:
        return meaning.kind(meaning.message, code=meaning.code, problems=told, hint=again)
    ended = "did not end in time" if done.timed_out else f"failed (exit {done.code})"
    return WorldFailed(f"pip-compile {ended}", code="engine-failed", problems=told, hint=again)


def _conflict(log: str) -> list[str]:
    """Return both sides of the conflict that ended it, as pip puts them; empty for any other end."""
    found = list(_CAUSE.finditer(log))
    return _TIME.sub("", found[-1]["rows"]).splitlines() if found else []


def _sentences(said: str) -> list[str]:
    """Return pip's own message, which stands before the traceback of pip-tools; else the end of that."""
    lines = [[line.strip() for line in part.splitlines() if line.strip()] for part in said.split(_TRACEBACK)]
    told = lines[0] or lines[-1]
    return [line.removeprefix("ERROR: ") for line in told[-_TAIL:]]
