"""What a uv process that failed means: one error of ours, with uv's own words beside it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from envlock.engines.uv_binary import UPGRADE
from envlock.errors import EnvlockError, Problem, Refused, WorldFailed
from envlock.proc import Completed

__all__ = ["explain"]

_TAIL: Final = 12  # lines of uv's message that are shown
_NOT_STARTED: Final = 127
_FULL: Final = r"(?:No space left on device|os error 28\b|Disk quota exceeded|os error 122\b)"
# uv names the file before the reason or after it; it may be its cache's, the environment's or a temporary one.
_FULL_AT: Final = re.compile(rf"[`\"](?P<before>/[^`\"\n]+)[`\"].*{_FULL}|{_FULL}.*[`\"](?P<after>/[^`\"\n]+)[`\"]")
_CACHE: Final = r"Failed to (?:write to|read from|walk|acquire lock on) the (?:client|distribution) cache"
_BUCKET: Final = r"/[a-z]+-v\d+/"  # a folder of the cache, such as `simple-v28`
_DENIED: Final = r"\(os error (?:5|13|17|20|21|30|40)\)"  # EIO EACCES EEXIST ENOTDIR EISDIR EROFS ELOOP


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meaning:
    """What `pattern` in uv's words stands for.

    `{what}` is the pattern's group of that name, else the work at hand; `{again}` the command that wanted it done.
    """

    code: str
    pattern: re.Pattern[str]
    message: str
    hint: str
    kind: type[EnvlockError] = WorldFailed
    offline: bool = False


# uv has one exit status for all of this; its words, as of 0.13, tell them apart. The first that is found decides:
# a full disk also shows as a failed download, a file that is not cached also as a failed build.
_MEANINGS: Final = (
    _Meaning(
        code="disk-full",
        pattern=re.compile(_FULL),
        message="no space left on the disk: {what} stopped",
        hint="df -h {place}",
    ),
    _Meaning(
        code="limit-reached",
        pattern=re.compile(r"Too many open files|os error 24\b"),
        message="uv may not open any more files: {what} stopped",
        hint="ulimit -n",
    ),
    _Meaning(
        code="cache-unusable",
        # A download that breaks off is a failed write to the cache too: only the system's own word tells.
        pattern=re.compile(
            rf"Failed to initialize cache|(?:{_CACHE}|Could not acquire lock)(?=[\s\S]*{_DENIED})|{_BUCKET}.*{_DENIED}"
        ),
        message="uv's cache cannot be used: {what} stopped",
        hint="UV_CACHE_DIR=FOLDER {again}",
    ),
    _Meaning(
        code="hash-mismatch",
        pattern=re.compile(r"Hash mismatch for package metadata at `(?P<what>[^`\n]+)"),
        message="the index serves other METADATA than its page names: {what}",
        hint="envlock detect -v",
        kind=Refused,
    ),
    _Meaning(
        code="hash-mismatch",
        pattern=re.compile(r"Hash mismatch for `?(?P<what>[^`\n]+)"),
        message="the index serves other bytes than the lock names: {what}",
        hint="envlock lock PROFILE --check",
        kind=Refused,
    ),
    _Meaning(
        code="not-cached",
        pattern=re.compile(r"[Nn]etwork (?:connectivity )?(?:is|was) disabled|not found in the cache|no versions? of"),
        message="{what} needs files that uv's cache does not hold",
        hint="{again}",
        offline=True,
    ),
    _Meaning(
        code="build-failed",
        pattern=re.compile(
            r"Failed to build `(?P<what>[^`]+)`(?=[\s\S]*build backend)|build backend returned an error"
        ),
        message="{what} could not be built",
        hint="{again} -vv",
    ),
    _Meaning(
        code="network",
        pattern=re.compile(
            r"Failed to (?:fetch|download)|error sending request|dns error|Connection (?:refused|reset)|timed? ?out"
            r"|Request failed after|end of file before message length|HTTP status (?:client|server) error",
            re.IGNORECASE,
        ),
        message="the network failed: {what} stopped",
        hint="{again}",
    ),
    _Meaning(
        code="artifact-missing",
        pattern=re.compile(r"not found in the package registry|there (?:is|are) no versions? of|no usable wheels"),
        message="the index lacks a file that the lock names: {what} stopped",
        hint="envlock lock PROFILE",
    ),
)


def explain(
    done: Completed, *, what: str, place: Path, offline: bool, again: str = "envlock install PROFILE"
) -> EnvlockError:
    """Return the error for `done`, a failed uv process that was to do `what` for an environment at `place`.

    `again` is the command that it was done for, as hints repeat it.
    """
    said = done.stderr.strip() or done.stdout.strip()
    problems = tuple(Problem(message=line.rstrip()) for line in said.splitlines()[-_TAIL:] if line.strip())
    if done.code == _NOT_STARTED:
        return WorldFailed(f"uv cannot be started: {said}", code="engine-missing", hint=UPGRADE)
    for meaning in _MEANINGS:
        found = meaning.pattern.search(said)
        if found and (offline or not meaning.offline):
            subject = found.groupdict().get("what") or what
            return meaning.kind(
                meaning.message.format(what=subject),
                code=meaning.code,
                problems=problems,
                hint=meaning.hint.format(place=shlex.quote(str(_disk(said, place.parent))), again=again),
            )
    message = f"uv failed (exit {done.code}): {what}"
    return WorldFailed(message, code="engine-failed", problems=problems, hint=f"{again} -vv")


def _disk(said: str, otherwise: Path) -> Path:
    """Return a folder on the disk that uv found full: what it was writing is gone by now, and maybe its folder too."""
    found = _FULL_AT.search(said)
    if found is None:
        return otherwise
    file = Path(found["before"] or found["after"])
    return next((folder for folder in file.parents if folder.is_dir()), otherwise)
