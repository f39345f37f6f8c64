"""The conda solver: py-rattler inside this process, which no other command loads; no conda program is needed."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib
import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from packaging.version import InvalidVersion, Version

from envlock.conda import Channel, Question, Record, Virtual
from envlock.engines import rattler_failures
from envlock.errors import EnvlockError, Problem, Refused, WorldFailed

if TYPE_CHECKING:
    from types import ModuleType

    from rattler import Gateway, RepoDataRecord

__all__ = ["INSTALL", "OLDEST", "Answer", "Bench", "cache", "mistakes", "require", "solve"]

OLDEST: Final = "0.28"
"""The oldest py-rattler whose interface this module knows."""

INSTALL: Final = f"python3 -m pip install 'py-rattler>={OLDEST},<1' 'conda-lock>=4'"
"""The command that brings what the conda part needs; conda-lock writes what this module finds."""

_PARTS: Final = ("rattler.exceptions", "rattler.networking.client", "rattler.repo_data.gateway")
_SOLVE_SECONDS: Final = 600.0
_REQUEST_SECONDS: Final = 300  # for all of one file: conda-forge's largest has some 50 MB
_RETRIES: Final = 3

Answer: TypeAlias = "tuple[Record, ...] | Refused"


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the solver may touch: a folder for what it reads of channels, and where they are.

    `addresses` maps the name of a channel to another address than everybody's. Seconds are for one request, and for
    one question.
    """

    cache: Path
    addresses: Mapping[str, str]
    offline: bool
    request_seconds: int = _REQUEST_SECONDS
    solve_seconds: float = _SOLVE_SECONDS
    retries: int = _RETRIES

    def address(self, channel: Channel) -> str:
        """Return where a channel is read, without a `/` at its end."""
        return self.addresses.get(channel.name, channel.url).rstrip("/")


def require() -> ModuleType:
    """Return py-rattler; raise `WorldFailed` (`engine-missing`) where it is not there, or too old."""
    try:
        found = importlib.import_module("rattler")
        for part in _PARTS:
            importlib.import_module(part)
        version = Version(importlib.metadata.version("py-rattler"))
    except (ImportError, InvalidVersion) as error:
        message = f"py-rattler, which the conda part is solved with, cannot be loaded: {error}"
        raise WorldFailed(message, code="engine-missing", hint=INSTALL) from error
    if version < Version(OLDEST):
        message = f"py-rattler {version} is too old to solve the conda part with: {OLDEST} is asked for"
        raise WorldFailed(message, code="engine-missing", hint=INSTALL)
    return found


def cache(environ: Mapping[str, str]) -> Path:
    """Return the folder that rattler's programs keep what they read of channels in."""
    own, shared = environ.get("RATTLER_CACHE_DIR"), environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own, "repodata")
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    return Path(shared or home / ".cache", "rattler", "cache", "repodata")


def mistakes(specs: Iterable[str]) -> dict[str, str]:
    """Return spec -> what is wrong with it, for those that conda could not read."""
    rattler = require()
    return {spec: mistake for spec in specs if (mistake := _mistake(rattler, spec))}


def solve(asked: Sequence[tuple[Question, Sequence[Record]]], bench: Bench) -> list[Answer]:
    """Return the newest answer to each question, by name, keeping those of the records beside it that still fit.

    For unchanged channels always the same one. Where nothing satisfies a question, its answer is the `Refused`
    (`unsatisfiable`) with both sides. Raise `Refused` (`hash-missing`) where a channel gives no md5 or sha256 of what
    is taken, and `WorldFailed` (`network`, `not-cached`, `channel-missing`, `channel-invalid`, `disk-full`,
    `cache-unusable`, `engine-missing`, `engine-failed`): that a question was not answered is never called a conflict.
    """
    rattler = require()
    action = "force-cache-only" if bench.offline else "cache-or-fetch"
    gateway = rattler.Gateway(
        cache_dir=bench.cache,
        default_config=rattler.repo_data.gateway.SourceConfig(cache_action=action),
        client=rattler.networking.client.Client.default_client(
            max_retries=bench.retries, timeout=bench.request_seconds
        ),
    )

    async def every() -> list[Answer | _Failure]:
        return await asyncio.gather(*(_attempt(rattler, gateway, *one, bench) for one in asked))

    outcomes = asyncio.run(every())
    failed = [one.error for one in outcomes if isinstance(one, _Failure)]
    if not failed:
        return [one for one in outcomes if not isinstance(one, _Failure)]
    first = min(failed, key=lambda error: rattler_failures.is_echo(str(error)))
    if isinstance(first, EnvlockError):
        raise first
    raise rattler_failures.explain(str(first), bench.cache) from first


def _mistake(rattler: ModuleType, spec: str) -> str | None:
    try:
        rattler.MatchSpec(spec, strict=False)
    except rattler.exceptions.InvalidMatchSpecError as error:
        return str(error).partition("\n")[0]
    return None


async def _attempt(
    rattler: ModuleType, gateway: Gateway, question: Question, kept: Sequence[Record], bench: Bench
) -> Answer | _Failure:
    """Return the answer, or why there is none: what is raised would end the others, who would find the loop gone."""
    try:
        return await _solved(rattler, gateway, question, kept, bench)
    except (rattler.exceptions.GatewayError, EnvlockError) as error:
        return _Failure(error)


async def _solved(
    rattler: ModuleType, gateway: Gateway, question: Question, kept: Sequence[Record], bench: Bench
) -> Answer:
    try:
        found = await rattler.solve(
            sources=[rattler.Channel(bench.address(channel)) for channel in question.channels],
            specs=[rattler.MatchSpec(spec, strict=False) for spec in question.specs],
            gateway=gateway,
            platforms=_platforms(rattler, question),
            virtual_packages=[_virtual(rattler, one) for one in question.virtual],
            locked_packages=await _still_there(rattler, gateway, question, kept, bench),
            channel_priority=rattler.ChannelPriority.Strict,
            channel_relations="disabled",  # what a channel says of others is not what was asked for
            timeout=dt.timedelta(seconds=bench.solve_seconds),
        )
    except rattler.exceptions.SolverError as error:
        await _require_listed(rattler, gateway, question, bench)
        return rattler_failures.refusal(str(error), question)
    records = (_record(one, question, bench) for one in found)
    return tuple(sorted(records, key=lambda record: record.name))


async def _require_listed(rattler: ModuleType, gateway: Gateway, question: Question, bench: Bench) -> None:
    """Raise `WorldFailed` (`channel-missing`) where no channel lists anything: py-rattler calls that a conflict."""
    sources = [rattler.Channel(bench.address(channel)) for channel in question.channels]
    if not await gateway.names(sources, [rattler.Subdir(question.subdir)], channel_relations="disabled"):
        raise rattler_failures.nothing(question.subdir, [bench.address(channel) for channel in question.channels])


async def _still_there(
    rattler: ModuleType, gateway: Gateway, question: Question, kept: Sequence[Record], bench: Bench
) -> list[RepoDataRecord]:
    """Return those of the records that their channels still list with the same bytes."""
    if not kept:
        return []
    wanted = {(record.subdir, record.file): record.sha256 for record in kept}
    listed = await gateway.query(
        sources=[rattler.Channel(bench.address(channel)) for channel in question.channels],
        platforms=_platforms(rattler, question),
        specs=sorted({record.name for record in kept}),
        recursive=False,
        channel_relations="disabled",
    )
    return [one for some in listed for one in some if wanted.get((one.subdir, one.file_name)) == _hex(one.sha256)]


def _platforms(rattler: ModuleType, question: Question) -> list[Any]:
    return [rattler.Subdir(question.subdir), rattler.Subdir("noarch")]


def _virtual(rattler: ModuleType, one: Virtual) -> Any:
    return rattler.GenericVirtualPackage(
        rattler.PackageName(one.name), rattler.Version(one.version), rattler.BuildString(one.build)
    )


def _record(found: RepoDataRecord, question: Question, bench: Bench) -> Record:
    md5, sha256 = _hex(found.md5), _hex(found.sha256)
    if md5 is None or sha256 is None:
        problem = Problem(file=found.file_name, message=f"no {'md5' if md5 is None else 'sha256'}")
        raise Refused(
            "a channel does not give the md5 and the sha256 of what would be locked",
            code="hash-missing",
            problems=(problem,),
        )
    channel = next(one for one in question.channels if found.url.startswith(f"{bench.address(one)}/"))
    return Record(
        name=found.name.normalized,
        version=str(found.version),
        build=str(found.build),
        channel=channel,
        subdir=found.subdir,
        file=found.file_name,
        md5=md5,
        sha256=sha256,
        size=found.size,
        depends=tuple(found.depends),
    )


def _hex(digest: bytes | None) -> str | None:
    return digest.hex() if digest else None
