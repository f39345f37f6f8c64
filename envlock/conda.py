"""The conda part of a variant: what is asked of a solver, and what its answer holds. Pure.

conda brings the interpreter, pip and a compiler; wheels bring torch. The virtual packages of a question are those of a
machine that only just meets the floors of the variant, never those of the machine at hand.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from packaging.version import Version

from envlock.errors import EnvlockError, Problem
from envlock.facts import Facts
from envlock.model import Floors, Profile, Variant
from envlock.request import GLIBC

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "ENGINE",
    "FILE",
    "Channel",
    "Known",
    "Question",
    "Record",
    "Virtual",
    "digest",
    "environment",
    "name",
    "parse",
    "question",
    "specs",
    "virtual_packages",
]

FILE: Final = "conda.toml"
ENGINE: Final = "rattler-0"
"""The solver and its major version: another one may answer the same question differently."""

_TABLES: Final[Mapping[str, frozenset[str]]] = {
    "channel": frozenset({"name", "url", "default"}),
    "platform": frozenset({"name", "subdir", "archspec"}),
    "kernel": frozenset({"glibc", "linux"}),
}
_EVIDENCE: Final = frozenset({"source", "date", "status"})
# `conda-forge::gcc_linux-64 >=11,<13`: a channel may stand before the name, a version or a build after it.
_SPEC: Final = re.compile(r"\s*(?:[^\s\[]*::)?(?P<name>[A-Za-z0-9_.-]+)(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel by its name, and where everybody finds it; the address has no `/` at its end."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The rows of `data/conda.toml`: channels by name, platforms to (subdir, archspec), glibc to the oldest kernel."""

    channels: Mapping[str, Channel]
    default: tuple[str, ...]
    platforms: Mapping[str, tuple[str, str]]
    kernels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Virtual:
    """A virtual package: something of the machine that packages may depend on."""

    name: str
    version: str
    build: str = "0"

    def __str__(self) -> str:
        """Return it as conda lists it: `__archspec 1 x86_64`."""
        return f"{self.name} {self.version}{'' if self.build == '0' else f' {self.build}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question to a solver; `subdir` is conda's name of the platform, `channels` in order of strict priority."""

    subdir: str
    channels: tuple[Channel, ...]
    specs: tuple[str, ...]
    virtual: tuple[Virtual, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One file of a channel, named as the channel names it; `subdir` may be `noarch`. The size is bytes."""

    name: str
    version: str
    build: str
    channel: Channel
    subdir: str
    file: str
    md5: str
    sha256: str
    size: int | None
    depends: tuple[str, ...]

    @property
    def url(self) -> str:
        """Where everybody finds it, whatever mirror it was read from."""
        return f"{self.channel.url}/{self.subdir}/{self.file}"


def parse(texts: Mapping[str, str]) -> Known:
    """Read the data files (name -> TOML text); `EnvlockError` (`facts-invalid`) names the file and the row."""
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = tomllib.loads(texts[FILE])
    for table, rows in tables.items():
        for number, row in enumerate(rows, 1):
            if row.keys() - {"default"} != (_TABLES.get(table, frozenset()) | _EVIDENCE) - {"default"}:
                problem = Problem(file=f"{FILE}: {table} {number}", message="holds other keys")
                raise EnvlockError("envlock's own data is broken", code="facts-invalid", problems=(problem,))
    return Known(
        channels={row["name"]: Channel(name=row["name"], url=row["url"]) for row in tables["channel"]},
        default=tuple(row["name"] for row in tables["channel"] if row.get("default")),
        platforms={row["name"]: (row["subdir"], row["archspec"]) for row in tables["platform"]},
        kernels={row["glibc"]: row["linux"] for row in tables["kernel"]},
    )


def question(profile: Profile, variant: Variant, floors: Floors, facts: Facts, known: Known) -> Question:
    """Return what is asked for the conda part of a variant; two variants may ask the same."""
    subdir, archspec = known.platforms[variant.platform]
    glibc = _glibc(floors.glibc, known)
    given = {"__unix": "0", "__linux": _kernel(glibc, known), "__glibc": glibc, "__cuda": _cuda(floors.driver, facts)}
    virtual = [Virtual(name=name, version=version) for name, version in given.items() if version]
    return Question(
        subdir=subdir,
        channels=tuple(known.channels[name] for name in known.default),
        specs=specs(profile, variant.python),
        virtual=(*virtual, Virtual(name="__archspec", version="1", build=archspec)),
    )


def specs(profile: Profile, python: str) -> tuple[str, ...]:
    """Return what conda is asked for beside a Python such as `"3.10"`: pip too, without which no wheel gets there.

    What the profile says of Python holds for the one it says it of; the others are locked as they are.
    """
    own = [one for one in profile.conda_requires if name(one) == "python" and _names(one, python)]
    others = [one for one in profile.conda_requires if name(one) != "python"]
    pip = [] if "pip" in map(name, others) else ["pip"]
    return (*(own or [f"python {python}.*"]), *others, *pip)


def name(spec: str) -> str:
    """Return the package that a spec is about; nothing for what is no spec."""
    found = _SPEC.match(spec)
    return found["name"].lower() if found else ""


def digest(asked: Question) -> str:
    """Return the sha256 over a question and who answers it: the answer is stale when this moved."""
    text = json.dumps([ENGINE, asdict(asked)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def environment(asked: Question) -> str:
    """Return the question as an `environment.yml`, as conda-lock takes it."""
    lines = [
        "channels:",
        *(f"  - {json.dumps(channel.url)}" for channel in asked.channels),
        "dependencies:",
        *(f"  - {json.dumps(spec)}" for spec in asked.specs),
        "platforms:",
        f"  - {asked.subdir}",
    ]
    return "\n".join(lines) + "\n"


def virtual_packages(asked: Question) -> str:
    """Return the virtual packages as the `virtual-packages.yml` of conda-lock."""
    rows = (
        f"      {one.name}: {json.dumps(one.version if one.build == '0' else f'{one.version} {one.build}')}"
        for one in asked.virtual
    )
    return "\n".join(["subdirs:", f"  {asked.subdir}:", "    packages:", *rows]) + "\n"


def _names(spec: str, python: str) -> bool:
    """Say whether what a spec says of Python is about this one: `python 3.10.*` and `python=3.10.14` about 3.10."""
    found = _SPEC.match(spec)
    return bool(found and re.match(rf"[\s=~]*{re.escape(python)}(?!\d)", found["rest"]))


def _glibc(floor: str | None, known: Known) -> str:
    """Return the glibc of the machine: wheels may do with an older one than the oldest that conda builds for."""
    return max(floor or ".".join(map(str, GLIBC)), min(known.kernels, key=Version), key=Version)


def _kernel(glibc: str, known: Known) -> str:
    """Return the oldest kernel that goes with a glibc."""
    return known.kernels[max((row for row in known.kernels if Version(row) <= Version(glibc)), key=Version)]


def _cuda(driver: str | None, facts: Facts) -> str | None:
    """Return the newest CUDA that a driver carries, as it says itself; None without one."""
    if driver is None:
        return None
    first: dict[str, Version] = {}
    for row in sorted(facts.toolkits, key=lambda row: Version(row.cuda), reverse=True):
        first[row.cuda.rpartition(".")[0]] = Version(row.linux)
    carried: Iterable[str] = (cuda for cuda, oldest in first.items() if oldest <= Version(driver))
    return max(carried, key=Version, default=None)
