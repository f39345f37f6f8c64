"""The values that travel between the layers. Data only: no I/O, no decisions.

All are frozen, slotted and keyword-only. Versions are text as their source prints them; whoever compares
them uses `packaging.version.Version`. Sizes are bytes unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

from envlock.adopted import Adopted
from envlock.errors import EnvlockError
from envlock.judgement import Violation

Source: TypeAlias = Literal["index", "pypi"]
Policy: TypeAlias = Literal["minor-version", "strict"]
Precision: TypeAlias = Literal["bf16", "fp16", "fp32"]
Level: TypeAlias = Literal["quick", "kernels"]
Status: TypeAlias = Literal["pass", "fail", "skip", "warn"]
Device: TypeAlias = Literal["cuda", "cpu"]
Format: TypeAlias = Literal["requirements", "pylock", "environment.yml", "wheelhouse"]
Need: TypeAlias = Literal["driver", "driver-windows", "glibc", "python", "platform", "gpu-gained", "gpu-lost"]
Verdict: TypeAlias = Literal["verified-on-gpu", "verified-on-cpu", "intact", "failed", "could-not-run"]

DEFAULT_INDEX: Final = "pypi"
"""What the index is called that is asked where no other is named."""

# ---- the machine ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The NVIDIA driver: `version` is the loaded kernel module's, `library` the user-space one's (null under WSL)."""

    version: str | None
    library: str | None = None
    numbering: Literal["linux", "windows"] = "linux"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One visible GPU; `compute_capability` as `"8.6"`, memory in MiB."""

    name: str
    compute_capability: str | None
    memory_mib: int | None = None
    mig: bool = False
    uuid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What detection saw, or what a host file says; `sources` maps a field to where it was read."""

    os: str = "linux"
    arch: str = "x86_64"
    glibc: str | None = None
    kernel: str | None = None
    wsl: bool = False
    container: str | None = None
    driver: Driver | None = None
    pci_gpus: tuple[str, ...] = ()
    device_nodes: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    cuda_visible_devices: str | None = None
    pythons: tuple[str, ...] = ()
    gcc: str | None = None
    nvcc: str | None = None
    ld_library_path: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


# ---- what is wanted -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpec:
    """One CUDA line of a profile, with the profile's own values filled in where the backend says nothing.

    `python` lists the Pythons locked from the backend's index, `pypi_python` those locked from PyPI's own build.
    """

    name: str
    python: tuple[str, ...]
    pypi_python: tuple[str, ...]
    requires: tuple[str, ...]
    exclude_newer: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A stack somebody wants; `backends` in order of preference, `digest` over what it means, not over its bytes.

    `asked` is the name or path by which somebody asked for it, quoted for a shell.
    """

    name: str
    summary: str
    file: str
    platforms: tuple[str, ...]
    backends: tuple[BackendSpec, ...]
    conda_requires: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    min_memory_mib: int = 0
    digest: str = ""
    asked: str = ""

    @property
    def typed(self) -> str:
        """What stands for the profile in a command."""
        return self.asked or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One resolvable thing: a backend, where torch comes from, a Python and a platform."""

    name: str
    backend: str
    source: Source
    python: str
    platform: str


# ---- the choice -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why one backend does not fit: one row per failed rule."""

    backend: str
    code: str
    package: str | None = None
    have: str | None = None
    need: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """A warning that does not change the answer."""

    code: str
    message: str
    backend: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One field of the plan table: `ok` is None where the rule does not apply."""

    rule: Literal["driver", "gpu", "glibc", "python", "platform"]
    ok: bool | None
    have: str | None = None
    need: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The chosen backend, and a reason for each other one; `table` maps a backend to its cells, in profile order."""

    profile: str
    backend: str | None
    policy: Policy
    precision: Precision | None
    eligible: tuple[str, ...]
    refused: tuple[Refusal, ...]
    warnings: tuple[Caution, ...]
    table: Mapping[str, tuple[Cell, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decision carried to a variant: `locked` says whether the lock holds it; sizes in bytes, None if unknown.

    `torch` is the version that is locked, else pinned; None where there is none. `evidence` maps a package of a named
    index to where its hash was read. `elsewhere` says that `command` is to be run on the machine that was described,
    which is not this one.
    """

    decision: Decision
    variant: Variant | None
    locked: bool
    torch: str | None = None
    packages: int | None = None
    download: int | None = None
    evidence: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[Caution, ...] = ()
    command: str | None = None
    elsewhere: bool = False


# ---- the lock -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file: identity is index name + sha256; `size` is None where the index gives none.

    `evidence` says where the hash of a file of a named index was read; None for the default one, whose own it is.
    """

    index: str
    file: str
    sha256: str
    size: int | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    """A package of a variant; `why` names the packages that ask for it, `profile` for the profile itself."""

    name: str
    version: str
    artifacts: tuple[Artifact, ...]
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """What the variant needs of a machine: driver numbers, glibc, and the GPU architectures its builds hold."""

    driver: str | None
    driver_windows: str | None
    glibc: str | None
    sm: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaPart:
    """A `conda-lock.yml`: the sha256 of what it was made from, and of its bytes."""

    inputs: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedVariant:
    """The exact artifacts of one variant; `build` are the build requirements of its sdist-only packages.

    `conda` is None where the conda part is not locked, or none is asked for.
    """

    variant: Variant
    floors: Floors
    packages: tuple[LockedPackage, ...]
    build: tuple[LockedPackage, ...] = ()
    conda: CondaPart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a lock was made from; it is stale when one of these moved. `rules`: what its packages were held against."""

    profile: str
    facts: str
    rules: str
    engine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """`lockfiles/<profile>.lock`; `allowed` maps a rule to the variants that break it and are locked all the same."""

    profile: str
    inputs: Inputs
    variants: tuple[LockedVariant, ...]
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between two locks: `was` or `now` is None when the package came or went."""

    variant: str
    package: str
    was: str | None
    now: str | None


# ---- the proof ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One verification result; `id` is `group.name`, seconds are wall time."""

    id: str
    status: Status
    seconds: float = 0.0
    have: str | None = None
    want: str | None = None
    message: str | None = None
    fix: str | None = None


# ---- the answers: a closed union, rendered by `report` for people and by `wire` for programs ----------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One effective setting and where it came from (`flag`, `ENVLOCK_X`, a file, `default`)."""

    name: str
    value: str | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """`envlock detect`."""

    host: HostFacts
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """One line of `envlock profiles`; `locked` names its variants in the lock at hand. `own`: not one of envlock's."""

    profile: Profile
    locked: tuple[str, ...]
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """`envlock profiles`."""

    rows: tuple[ProfileRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """`envlock plan`."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One profile's part of `envlock lock`: `moved` names the inputs that differ.

    `absent` maps an unlocked variant to the reason, `failure` is the error where that is one. Of a cross-check,
    `engines` are the two that were compared, and `changes` lead from the first one's answer to the other's.
    `unconfirmed` names the files whose hash `confirm` could not hold against their index, which gives none. `conda`
    names the variants whose conda part is locked, `conda_absent` maps the others that ask for one to the reason.
    """

    profile: str
    path: str
    mode: Literal["write", "check", "dry-run", "confirm", "cross-check"]
    changed: bool
    moved: tuple[str, ...]
    changes: tuple[Change, ...]
    variants: tuple[str, ...]
    absent: Mapping[str, str]
    engines: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()
    conda_absent: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    failure: EnvlockError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedAll:
    """`envlock lock`: one row for each profile that was done; `failure` is why the others were not."""

    locks: tuple[Locked, ...]
    failure: EnvlockError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """`envlock verify`: the first `fail` in `checks` is the root cause; `device` is None where nothing was computed.

    `only` and `skip` name the checks and groups that it was narrowed to, or that were left out.
    """

    path: str
    profile: str
    variant: str
    level: Level
    device: Device | None
    verdict: Verdict
    checks: tuple[Check, ...]
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """`envlock install`: seconds of each stage; `installed` is False when nothing had to be done."""

    profile: str
    variant: str
    path: str
    generation: str
    previous: str | None
    installed: bool
    packages: int
    seconds: Mapping[str, float]
    verify: Verified | None
    warnings: tuple[Caution, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """`envlock check`: `left_open` are the requirements without a version, which were not judged.

    Nor were the options in `unjudged`, which may change what is installed. `backend` is what torch was built for;
    without one there is no `decision` on machines, and `unanswered` says why where that was asked, or all there was to
    ask. `rules` are those that say something of what is pinned.
    """

    file: str
    python: str
    packages: int
    left_open: tuple[str, ...]
    backend: str | None
    rules: int
    violations: tuple[Violation, ...]
    decision: Decision | None
    unjudged: tuple[str, ...] = ()
    warnings: tuple[Caution, ...] = ()
    unanswered: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of `envlock diff`: what was asked for, what it was read from, and of which profile that is."""

    asked: str
    file: str
    profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A variant that only one side of `envlock diff` holds; `packages` maps names to versions.

    A record does not say its Python and platform.
    """

    variant: str
    python: str | None
    platform: str | None
    floors: Floors
    packages: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What a variant needs of a machine otherwise than before; of GPUs, the compute capabilities apart by a blank."""

    variant: str
    need: Need
    was: str | None
    now: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diffed:
    """`envlock diff`: `moved` names the inputs that differ, `changes` are those of the variants that both sides hold.

    `files` names the variants with the same versions of other files, where a record does not say which; `strict` that
    a difference is a no.
    """

    before: Side
    after: Side
    moved: tuple[str, ...] = ()
    came: tuple[Held, ...] = ()
    went: tuple[Held, ...] = ()
    same: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    files: tuple[str, ...] = ()
    shifts: tuple[Shift, ...] = ()
    strict: bool = False

    @property
    def differ(self) -> bool:
        """Whether the two sides do not name the same files and needs."""
        return bool(self.came or self.went or self.changes or self.files or self.shifts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """`envlock export`: `text` is the export itself, None where it was written to `path`, the first of `files`.

    Of a wheelhouse, `path` is the folder. `built` names the packages that come as source, `command` is what takes the
    export.
    """

    profile: str
    variant: str
    format: Format
    text: str | None
    path: str | None
    files: tuple[str, ...]
    packages: int
    built: tuple[str, ...] = ()
    command: str | None = None
    warnings: tuple[Caution, ...] = ()


Answer: TypeAlias = (
    Adopted | Detected | Listed | Planned | LockedAll | Installed | Verified | Checked | Diffed | Exported
)
