"""What is known about drivers, GPUs, torch and bitsandbytes: typed rows of `data/*.toml` and the look-ups over them.

Each row carries its source, the date it was read and a status: `verified` (read from the artifact itself), `sourced`
(read in a named document) or `claimed` (not checked).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar, get_type_hints

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envlock import request
from envlock.errors import EnvlockError, Problem
from envlock.model import BackendSpec, Profile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Capability", "Facts", "capability", "parse", "runs", "used_digest"]

Capability = tuple[int, int]
"""A compute capability or an architecture: `"8.6"` is `(8, 6)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fact's evidence."""

    source: str
    date: str
    status: Literal["verified", "sourced", "claimed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Row):
    """The oldest driver on which builds of one CUDA major run."""

    cuda: int
    linux: str
    windows: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit(Row):
    """The driver shipped with one CUDA toolkit, named x.y.z."""

    cuda: str
    linux: str
    windows: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(Row):
    """A GPU's name, or several apart by ` / `, and its compute capability.

    `arch` is the only processor that it is built together with; None for a card that goes into any machine.
    """

    gpu: str
    compute_capability: str
    arch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDriver(Row):
    """The first Linux driver that knows GPUs of a compute capability."""

    compute_capability: str
    linux: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBranch(Row):
    """The last branch of Linux drivers that knows GPUs of some compute capabilities: 580 of `580.65.06`."""

    compute_capability: tuple[str, ...]
    branch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Native(Row):
    """The compute capability from which a number format is native."""

    precision: Literal["bf16", "fp16"]
    compute_capability: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchPypi(Row):
    """PyPI's own build of one torch version: its backend, Pythons, glibc and architectures."""

    torch: str
    cuda: str
    python: tuple[str, ...]
    glibc: str
    sm: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchIndex(Row):
    """The PyTorch index's builds of one backend, for the torch versions in a specifier."""

    torch: str
    backend: str
    sm: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSource(Row):
    """The PyTorch index of one backend: its address, and the packages that are taken from there and nowhere else."""

    name: str
    url: str
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bitsandbytes(Row):
    """One bitsandbytes release: the CUDA versions (`"121"`) it has libraries for, and how it picks one."""

    bitsandbytes: str
    cuda: tuple[str, ...]
    selects: Literal["exact", "nearest"]
    glibc: str | None = None
    split: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Library(Row):
    """The architectures inside the libraries of one release."""

    bitsandbytes: str
    cuda: tuple[str, ...]
    nocublaslt: bool
    sm: tuple[str, ...]


AnyRow = TypeVar("AnyRow", bound=Row)
FILES: Final = ("drivers.toml", "gpus.toml", "torch.toml", "indexes.toml", "bitsandbytes.toml")
STATUSES: Final = ("verified", "sourced", "claimed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All rows, in the order of their files."""

    families: tuple[Family, ...]
    toolkits: tuple[Toolkit, ...]
    models: tuple[Model, ...]
    gpu_drivers: tuple[GpuDriver, ...]
    last_branches: tuple[LastBranch, ...]
    natives: tuple[Native, ...]
    torch_pypi: tuple[TorchPypi, ...]
    torch_index: tuple[TorchIndex, ...]
    torch_sources: tuple[TorchSource, ...]
    bitsandbytes: tuple[Bitsandbytes, ...]
    libraries: tuple[Library, ...]

    @property
    def gpu_capabilities(self) -> Mapping[str, str]:
        """GPU names (several apart by ` / `) to compute capabilities."""
        return {row.gpu: row.compute_capability for row in self.models}

    @property
    def gpu_archs(self) -> Mapping[str, str]:
        """GPU names, and compute capabilities all of whose GPUs are such, to the only processor they come with."""
        named = {row.gpu: row.arch for row in self.models if row.arch}
        anywhere = {row.compute_capability for row in self.models if not row.arch}
        return named | {
            row.compute_capability: row.arch
            for row in self.models
            if row.arch and row.compute_capability not in anywhere
        }

    def driver_floor(self, backend: str, *, windows: bool) -> tuple[Family, str, bool] | None:
        """Return the row, the oldest driver and whether it is known of this very CUDA major.

        Where it is not, the newest lower major's is a floor all the same: no later CUDA runs on less. None for `cpu`.
        """
        digits = _cuda(backend)[:-1]
        known = [
            (row, floor)
            for row in self.families
            if digits and row.cuda <= int(digits) and (floor := row.windows if windows else row.linux)
        ]
        row, floor = max(known, key=lambda pair: pair[0].cuda, default=(None, ""))
        return (row, floor, str(row.cuda) == digits) if row else None

    def family(self, backend: str) -> Family | None:
        """Return the driver floor of a backend's CUDA major; None for `cpu` and unknown majors."""
        return next((row for row in self.families if str(row.cuda) == _cuda(backend)[:-1]), None)

    def toolkit(self, backend: str) -> Toolkit | None:
        """Return the first release of a backend's toolkit: the driver from which nothing is limited."""
        digits = _cuda(backend)
        wanted = f"{digits[:-1]}.{digits[-1:]}."
        rows = [row for row in self.toolkits if row.cuda.startswith(wanted)]
        return min(rows, key=lambda row: Version(row.cuda), default=None)

    def gpu_driver(self, compute_capability: str) -> GpuDriver | None:
        """Return the driver floor of a GPU: its own row, else that of the next lower one of its major."""
        asked = capability(compute_capability)
        rows = [row for row in self.gpu_drivers if runs(capability(row.compute_capability), asked)]
        return max(rows, key=lambda row: capability(row.compute_capability), default=None)

    def last_branch(self, compute_capability: str) -> LastBranch | None:
        """Return the last branch of drivers that knows a GPU; None where none has dropped it."""
        return next((row for row in self.last_branches if compute_capability in row.compute_capability), None)

    def torch(self, version: str) -> TorchPypi | None:
        """Return PyPI's build of that version."""
        return next((row for row in self.torch_pypi if _same(row.torch, version)), None)

    def torch_sm(self, version: str, backend: str) -> TorchPypi | TorchIndex | None:
        """Return the row that lists the architectures of a torch build: PyPI's where it is that backend."""
        pypi = self.torch(version)
        if pypi is not None and pypi.cuda == backend:
            return pypi
        rows = (
            row
            for row in self.torch_index
            if row.backend == backend and SpecifierSet(row.torch).contains(_public(version))
        )
        return next(rows, None)

    def torch_source(self, backend: str) -> TorchSource | None:
        """Return the PyTorch index of a backend."""
        return next((row for row in self.torch_sources if row.name == backend), None)

    def release(self, version: str) -> Bitsandbytes | None:
        """Return the row of a bitsandbytes release."""
        return next((row for row in self.bitsandbytes if _same(row.bitsandbytes, version)), None)

    def loaded(self, release: Bitsandbytes, backend: str) -> str | None:
        """Return the CUDA version (`"121"`) of the library that a release loads for a backend; None if it has none."""
        cuda = _cuda(backend)
        if cuda in release.cuda:
            return cuda
        same = [other for other in release.cuda if other[:-1] == cuda[:-1]] if release.selects == "nearest" else []
        return min(same, key=lambda other: abs(int(other) - int(cuda)), default=None)

    def library(self, release: Bitsandbytes, cuda: str, highest: Capability) -> Library | None:
        """Return the library of a CUDA version that is loaded when `highest` is the best visible GPU."""
        plain = release.split is not None and highest < capability(release.split)
        rows = (
            row
            for row in self.libraries
            if row.bitsandbytes == release.bitsandbytes and cuda in row.cuda and row.nocublaslt == plain
        )
        return next(rows, None)


def parse(texts: Mapping[str, str]) -> Facts:
    """Read the data files (name -> TOML text); `EnvlockError` (`facts-invalid`) names the file and the row."""
    tables = {name: _toml(name, texts[name]) for name in FILES if name in texts}

    def rows(file: str, table: str, kind: type[AnyRow]) -> tuple[AnyRow, ...]:
        read = tables.get(file, {}).get(table, [])
        hints = get_type_hints(kind)
        return tuple(_row(kind, row, hints, f"{file}: {table} {number}") for number, row in enumerate(read, 1))

    return Facts(
        families=rows("drivers.toml", "family", Family),
        toolkits=rows("drivers.toml", "toolkit", Toolkit),
        models=rows("gpus.toml", "model", Model),
        gpu_drivers=rows("gpus.toml", "driver", GpuDriver),
        last_branches=rows("gpus.toml", "last", LastBranch),
        natives=rows("gpus.toml", "precision", Native),
        torch_pypi=rows("torch.toml", "pypi", TorchPypi),
        torch_index=rows("torch.toml", "index", TorchIndex),
        torch_sources=rows("indexes.toml", "index", TorchSource),
        bitsandbytes=rows("bitsandbytes.toml", "release", Bitsandbytes),
        libraries=rows("bitsandbytes.toml", "library", Library),
    )


def used_digest(profile: Profile, facts: Facts) -> str:
    """Return the sha256 over the rows that a lock of this profile rests on, so that other facts may move freely."""
    used = [row for spec in profile.backends for row in _used(spec, facts)]
    text = json.dumps([asdict(row) for row in used], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def capability(text: str) -> Capability:
    """Return `"8.6"` as `(8, 6)`."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def runs(sm: Capability, gpu: Capability) -> bool:
    """Return whether a GPU runs code built for an architecture: the same major, and none newer than itself."""
    return sm[0] == gpu[0] and sm[1] <= gpu[1]


def _used(spec: BackendSpec, facts: Facts) -> Sequence[Row]:
    torch, release = request.pin(spec, "torch"), request.pin(spec, "bitsandbytes")
    rows: list[Row | None] = [facts.family(spec.name)]
    if torch is not None:
        rows += [facts.torch(torch), facts.torch_sm(torch, spec.name)]
    if release is not None:
        rows.append(facts.release(release))
        rows += [row for row in facts.libraries if _same(row.bitsandbytes, release)]
    return [row for row in rows if row is not None]


@lru_cache(maxsize=4096)
def _public(version: str) -> Version:
    """Return the version without its local part: `2.4.1+cu121` and `v2.4.1` are both 2.4.1 here."""
    return Version(Version(version).public)


def _same(row: str, version: str) -> bool:
    return _public(row) == _public(version)


def _cuda(backend: str) -> str:
    """Return `cu121` as `121`; nothing for `cpu`."""
    return backend.removeprefix("cu") if backend.startswith("cu") else ""


def _toml(name: str, text: str) -> Mapping[str, Any]:
    try:
        table: Mapping[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _invalid(name, str(error)) from error
    return table


def _row(kind: type[AnyRow], raw: Mapping[str, Any], hints: Mapping[str, object], where: str) -> AnyRow:
    known = {field.name: field.default for field in fields(kind)}
    required = {name for name, value in known.items() if value is MISSING}
    if wrong := (raw.keys() - known.keys()) | (required - raw.keys()):
        raise _invalid(where, f"keys missing or unknown: {', '.join(sorted(wrong))}")
    if raw["status"] not in STATUSES:
        raise _invalid(where, f"status {raw['status']!r} is none of {', '.join(STATUSES)}")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
    for key, value in values.items():
        if not _fits(value, hints[key]):
            raise _invalid(where, f"{key} = {value!r} has the wrong type")
    return kind(**values)


def _fits(value: object, hint: object) -> bool:
    if isinstance(value, tuple):
        return hint == tuple[str, ...] and all(isinstance(item, str) for item in value)
    if isinstance(value, bool):
        return hint is bool
    return hint is int if isinstance(value, int) else isinstance(value, str) and hint not in (int, bool)


def _invalid(where: str, message: str) -> EnvlockError:
    problem = Problem(file=where, message=message)
    return EnvlockError("envlock's own data is broken", code="facts-invalid", problems=(problem,))
