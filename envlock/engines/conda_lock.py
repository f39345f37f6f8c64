"""`conda-lock.yml` (v1), written and read with conda-lock's own models, so that conda-lock and micromamba take it."""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packaging.version import InvalidVersion, Version

from envlock import conda, scratch
from envlock.conda import Channel, Question, Record
from envlock.engines.rattler import INSTALL
from envlock.errors import Misuse, Problem, WorldFailed

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["OLDEST", "content", "read", "require"]

OLDEST: Final = "4"
"""The oldest conda-lock whose models this module knows."""

_PARTS: Final = (
    "conda_lock.content_hash",
    "conda_lock.lockfile",
    "conda_lock.lockfile.v2prelim.models",
    "conda_lock.src_parser",
    "conda_lock.virtual_package",
)
_CATEGORY: Final = "main"  # conda-lock's word for what is always installed


def require() -> ModuleType:
    """Return conda-lock; raise `WorldFailed` (`engine-missing`) where it is not there, or too old."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it says of the parts of conda that it carries is for its authors
            found = importlib.import_module("conda_lock")
            for part in _PARTS:
                importlib.import_module(part)
        version = Version(importlib.metadata.version("conda-lock"))
    except (ImportError, InvalidVersion) as error:
        message = f"conda-lock, which the conda part is written with, cannot be loaded: {error}"
        raise WorldFailed(message, code="engine-missing", hint=INSTALL) from error
    if version < Version(OLDEST):
        message = f"conda-lock {version} is too old to write the conda part with: {OLDEST} is asked for"
        raise WorldFailed(message, code="engine-missing", hint=INSTALL)
    return found


def content(
    asked: Question, records: Sequence[Record], *, head: Sequence[str], source: str, custom: Mapping[str, str]
) -> bytes:
    """Return the file for an answer: always the same bytes for the same one, without the time of day.

    The lines of `head` stand above it as comments. `source` is what it was made from, and `custom` what else it is to
    carry. Its content hash is the one that `conda-lock --check-input-hash` computes of the question.
    """
    tool = require()
    models = tool.lockfile.v2prelim.models
    with scratch.folder() as folder:
        spec, hashes = _inputs(tool, asked, folder)
        meta = models.LockMeta(
            content_hash=hashes,
            channels=list(spec.channels),
            platforms=[asked.subdir],
            sources=[source],
            custom_metadata=dict(sorted(custom.items())),
        )
        made = models.Lockfile(package=[_locked(models, record, asked.subdir) for record in records], metadata=meta)
        file = folder / "conda-lock.yml"
        tool.lockfile.write_conda_lock_file(made, file, metadata_choices=frozenset(), include_help_text=False)
        return "".join(f"# {line}\n" for line in head).encode() + file.read_bytes()


def read(data: bytes, file: str, channels: Sequence[Channel]) -> tuple[Record, ...]:
    """Return the conda packages of a `conda-lock.yml` by name; sizes are not in it.

    Raise `Misuse` (`conda-lock-invalid`) for what is none, and for a package of none of these channels.
    """
    tool = require()
    try:
        with scratch.folder() as folder:
            (folder / "conda-lock.yml").write_bytes(data)
            held = tool.lockfile.parse_conda_lock_file(folder / "conda-lock.yml")
        found = [_record(one, channels) for one in held.package if one.manager == "conda"]
    except (ValueError, TypeError, KeyError, AttributeError, importlib.import_module("yaml").YAMLError) as error:
        said = str(error).splitlines()
        problem = Problem(file=file, message=said[0] if said else "is empty", expected="a conda-lock.yml, version 1")
        raise Misuse("the file is no conda-lock.yml", code="conda-lock-invalid", problems=(problem,)) from error
    return tuple(sorted(found, key=lambda record: record.name))


def _inputs(tool: ModuleType, asked: Question, folder: Path) -> tuple[Any, Mapping[str, str]]:
    """Return the question as conda-lock reads it from its files, and its hash by platform."""
    environment, machine = folder / "environment.yml", folder / "virtual-packages.yml"
    environment.write_text(conda.environment(asked), encoding="utf-8")
    machine.write_text(conda.virtual_packages(asked), encoding="utf-8")
    spec = tool.src_parser.make_lock_spec(src_files=[environment], mapping_url="")  # only for packages of pip's
    given = tool.virtual_package.virtual_package_repo_from_specification(machine)
    return spec, tool.content_hash.compute_content_hashes(spec, given)


def _locked(models: ModuleType, record: Record, subdir: str) -> Any:
    return models.LockedDependency(
        name=record.name,
        version=record.version,
        build=record.build,
        manager="conda",
        platform=subdir,
        dependencies=_dependencies(record),
        url=record.url,
        hash=models.HashModel(md5=record.md5, sha256=record.sha256),
        categories={_CATEGORY},
    )


def _dependencies(record: Record) -> dict[str, str]:
    """Return name -> version of what a record depends on, as conda-lock writes it: without builds, each name once."""
    found: dict[str, list[str]] = {}
    for one in record.depends:
        name, _, rest = one.partition(" ")
        found.setdefault(name, []).extend(rest.split(" ")[:1] if rest else [])
    return {name: ",".join(versions) for name, versions in found.items()}


def _record(one: Any, channels: Sequence[Channel]) -> Record:
    channel = next((channel for channel in channels if one.url.startswith(f"{channel.url}/")), None)
    if channel is None or one.hash.sha256 is None:
        message = f"{one.url} {'is of another channel' if channel is None else 'has no sha256'}"
        raise ValueError(message)
    subdir, _, file = one.url.removeprefix(f"{channel.url}/").partition("/")
    return Record(
        name=one.name,
        version=one.version,
        build=one.build or "",
        channel=channel,
        subdir=subdir,
        file=file,
        md5=one.hash.md5,
        sha256=one.hash.sha256,
        size=None,
        depends=tuple(f"{name} {version}".strip() for name, version in one.dependencies.items()),
    )
