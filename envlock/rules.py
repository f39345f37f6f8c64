"""The rules that a backend must pass on one machine. Pure; each rule gives one `Finding`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from packaging.version import Version

from envlock import request
from envlock.facts import Facts, Library, capability, runs
from envlock.model import BackendSpec, Caution, Cell, Driver, Gpu, HostFacts, Policy, Profile, Refusal

__all__ = ["RULES", "Case", "Finding", "common_pythons", "glibc_floor", "pythons"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One backend on one machine; `named` says that it was asked for by name."""

    profile: Profile
    spec: BackendSpec
    host: HostFacts
    facts: Facts
    policy: Policy
    named: bool
    offline: bool

    @property
    def torch(self) -> str | None:
        """The pinned torch version; None for a profile without torch, to which no torch rule applies."""
        return request.pin(self.spec, "torch")

    @property
    def cpu(self) -> bool:
        """Whether the backend computes on the CPU alone."""
        return self.spec.name == "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule says: a cell of the plan's table, a row per failure, and what to mind if the backend is taken."""

    cell: Cell
    refusals: tuple[Refusal, ...] = ()
    cautions: tuple[Caution, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """What a package was built for; `where` says of which of its libraries that is told."""

    package: str
    sm: Sequence[str]
    source: str
    where: str = ""


def driver(case: Case) -> Finding:
    """Hold the driver against the floors of the CUDA family, of each GPU, and (if strict) of the toolkit."""
    have = _driver_version(case.host.driver)
    windows = case.host.driver is not None and case.host.driver.numbering == "windows"
    known = case.facts.driver_floor(case.spec.name, windows=windows)
    if case.cpu:
        return _driver_on_cpu(case, have)
    if have is None:
        return _no_driver(case, known[1] if known else None)
    rows = [*_below_gpu_floors(case, have), *_above_gpu_branches(case, have)] if not windows else []
    if known and Version(have) < Version(known[1]):
        rows.insert(0, _too_old(case, have, known[1], known[0].source))
        return Finding(cell=Cell(rule="driver", ok=False, have=have, need=known[1]), refusals=tuple(rows))
    exact = known is not None and known[2]
    limited, cautions = _toolkit(case, have, windows=windows) if exact else _unknown_floor(case, have)
    refusals = (*rows, *limited)
    need = refusals[0].need if refusals else known[1] if known and exact else None
    ok = False if refusals else True if exact else None
    return Finding(cell=Cell(rule="driver", ok=ok, have=have, need=need), refusals=refusals, cautions=cautions)


def gpu(case: Case) -> Finding:
    """Ask torch's build, and the bitsandbytes library that would be loaded, for machine code for every GPU."""
    known = [each for each in case.host.gpus if each.compute_capability]
    have = ", ".join(dict.fromkeys(str(each.compute_capability) for each in known)) or None
    unseen = Finding(cell=Cell(rule="gpu", ok=None, have=have))
    if case.cpu or case.torch is None:
        return unseen
    builds, refusals, cautions = list[_Build](), list[Refusal](), list[Caution]()
    if row := case.facts.torch_sm(case.torch, case.spec.name):
        builds.append(_Build(package="torch", sm=row.sm, source=row.source))
    else:
        cautions.append(_unknown_build(case, f"torch {case.torch} for {case.spec.name}"))
    library = _bitsandbytes(case, known, refusals, cautions)
    if library is not None:
        where = _chosen_by(case, library)
        builds.append(_Build(package="bitsandbytes", sm=library.sm, source=library.source, where=where))
    for build in builds:
        refusals += _unserved(case, known, build)
    need = " ".join(builds[0].sm) if builds else None
    ok = False if refusals else True if known and builds else None
    return Finding(
        cell=Cell(rule="gpu", ok=ok, have=have, need=need), refusals=tuple(refusals), cautions=tuple(cautions)
    )


def glibc(case: Case) -> Finding:
    """Hold the machine's glibc against what torch's and bitsandbytes' wheels ask for."""
    needs = [(package, need, source) for package, need, source in _glibc_floors(case.spec, case.facts) if need]
    highest = max((need for _, need, _ in needs), key=Version, default=None)
    have = case.host.glibc
    if have is None or highest is None:
        told = "the machine's glibc is not known"
        cautions = (Caution(code="glibc-unknown", message=told, backend=case.spec.name),) if highest else ()
        return Finding(cell=Cell(rule="glibc", ok=None, have=have, need=highest), cautions=cautions)
    refusals = tuple(
        Refusal(backend=case.spec.name, code="glibc-too-old", package=package, have=have, need=need, source=source)
        for package, need, source in needs
        if Version(have) < Version(need)
    )
    return Finding(cell=Cell(rule="glibc", ok=not refusals, have=have, need=highest), refusals=refusals)


def python(case: Case) -> Finding:
    """Ask for an interpreter that the backend is locked for: one that is there, or one that can be fetched."""
    built = case.facts.torch(case.torch) if case.torch else None
    wanted = pythons(case.spec, case.facts)
    need = " ".join(wanted) or "none"
    here = [each for each in case.host.pythons if each.rpartition(".")[0] in wanted]
    ok = bool(here or (wanted and not case.offline))
    have = " ".join(here or case.host.pythons) or "none"
    cell = Cell(rule="python", ok=ok, have=have if here or not ok else "to fetch", need=need)
    if ok:
        return Finding(cell=cell)
    package = None if wanted else "torch"
    source = None if wanted or built is None else built.source
    row = Refusal(
        backend=case.spec.name, code="python-unavailable", package=package, have=have, need=need, source=source
    )
    return Finding(cell=cell, refusals=(row,))


def platform(case: Case) -> Finding:
    """Ask whether the profile is made for this operating system and processor."""
    have, need = f"{case.host.os}-{case.host.arch}", " ".join(case.profile.platforms)
    if have in case.profile.platforms:
        return Finding(cell=Cell(rule="platform", ok=True, have=have, need=need))
    row = Refusal(backend=case.spec.name, code="platform-unsupported", have=have, need=need, source=case.profile.file)
    return Finding(cell=Cell(rule="platform", ok=False, have=have, need=need), refusals=(row,))


RULES: Final[Sequence[Callable[[Case], Finding]]] = (driver, gpu, glibc, python, platform)


def pythons(spec: BackendSpec, facts: Facts) -> tuple[str, ...]:
    """Return every Python a backend is locked for and its torch is built for, those of its index first."""
    torch = request.pin(spec, "torch")
    built = facts.torch(torch) if torch else None
    listed = dict.fromkeys((*spec.python, *spec.pypi_python))
    return tuple(each for each in listed if built is None or each in built.python)


def common_pythons(spec: BackendSpec, facts: Facts, hosts: Sequence[HostFacts], *, offline: bool) -> tuple[str, ...]:
    """Return the Pythons that serve on all of these machines, in the order to take them.

    Those that every one of them has come first; then, but for `offline`, those that can be fetched.
    """
    here = [{each.rpartition(".")[0] for each in host.pythons} for host in hosts]
    accepted = pythons(spec, facts)
    everywhere = [each for each in accepted if all(each in versions for versions in here)]
    return tuple(dict.fromkeys([*everywhere, *(() if offline else accepted)]))


def _driver_version(found: Driver | None) -> str | None:
    """Return the version to decide by: the loaded module's, else the library's, which the module will be."""
    return None if found is None else found.version or found.library


def _driver_on_cpu(case: Case, have: str | None) -> Finding:
    if have is None or case.named or case.torch is None:
        return Finding(cell=Cell(rule="driver", ok=True if have is None else None, have=have or "none"))
    told = "no NVIDIA driver, or `--backend cpu`"
    row = Refusal(backend=case.spec.name, code="gpu-present", have=f"driver {have}", need=told)
    return Finding(cell=Cell(rule="driver", ok=False, have=have, need="none"), refusals=(row,))


def _no_driver(case: Case, floor: str | None) -> Finding:
    if case.named:
        told = "there is no NVIDIA driver here: this environment is for another machine"
        caution = Caution(code="no-driver", message=told, backend=case.spec.name)
        return Finding(cell=Cell(rule="driver", ok=None, have="none", need=floor), cautions=(caution,))
    row = Refusal(backend=case.spec.name, code="no-driver", have="none", need=floor)
    return Finding(cell=Cell(rule="driver", ok=False, have="none", need=floor), refusals=(row,))


def _too_old(case: Case, have: str, need: str, source: str) -> Refusal:
    return Refusal(backend=case.spec.name, code="driver-too-old", have=have, need=need, source=source)


def _below_gpu_floors(case: Case, have: str) -> Iterator[Refusal]:
    floors = {
        (each.name, row.linux, row.source)
        for each in case.host.gpus
        if each.compute_capability and (row := case.facts.gpu_driver(each.compute_capability))
    }
    for name, floor, source in sorted(floors):
        if Version(have) < Version(floor):
            yield _too_old(case, have, f"{floor} for {name}", source)


def _above_gpu_branches(case: Case, have: str) -> Iterator[Refusal]:
    last = {
        (each.name, row.branch, row.source)
        for each in case.host.gpus
        if each.compute_capability and (row := case.facts.last_branch(each.compute_capability))
    }
    for name, branch, source in sorted(last):
        if Version(have).major > branch:
            need = f"branch {branch} or older for {name}"
            yield Refusal(backend=case.spec.name, code="driver-too-new", have=have, need=need, source=source)


def _toolkit(case: Case, have: str, *, windows: bool) -> tuple[tuple[Refusal, ...], tuple[Caution, ...]]:
    toolkit = case.facts.toolkit(case.spec.name)
    full = None if toolkit is None else toolkit.windows if windows else toolkit.linux
    if toolkit is None or full is None:
        return (_unknown_full(case, have),) if case.policy == "strict" else (), ()
    if Version(have) >= Version(full):
        return (), ()
    if case.policy == "strict":
        return (_too_old(case, have, full, f"{toolkit.source}; policy strict"),), ()
    told = f"driver {have} runs {case.spec.name} by minor version compatibility; nothing is limited from {full} on"
    return (), (Caution(code="minor-version-compatibility", message=told, backend=case.spec.name),)


def _unknown_floor(case: Case, have: str) -> tuple[tuple[Refusal, ...], tuple[Caution, ...]]:
    if case.policy == "strict":
        return (_unknown_full(case, have),), ()
    told = f"the oldest driver for {case.spec.name} is not known"
    return (), (Caution(code="driver-floor-unknown", message=told, backend=case.spec.name),)


def _unknown_full(case: Case, have: str) -> Refusal:
    """Refuse under the strict policy what cannot be told: from which driver on nothing is limited."""
    return _too_old(case, have, f"the driver of {case.spec.name}'s own toolkit, which is not known", "policy strict")


def _bitsandbytes(case: Case, known: Sequence[Gpu], refusals: list[Refusal], cautions: list[Caution]) -> Library | None:
    version = request.pin(case.spec, "bitsandbytes")
    if version is None:
        return None
    release = case.facts.release(version)
    if release is None:
        cautions.append(_unknown_build(case, f"bitsandbytes {version}"))
        return None
    loaded = case.facts.loaded(release, case.spec.name)
    if loaded is None:
        row = Refusal(
            backend=case.spec.name,
            code="gpu-arch-missing",
            package="bitsandbytes",
            have=f"libraries for CUDA {' '.join(release.cuda)}",
            need=f"one for {case.spec.name}",
            source=release.source,
        )
        refusals.append(row)
        return None
    highest = max((capability(str(each.compute_capability)) for each in known), default=None)
    library = case.facts.library(release, loaded, highest) if highest else None
    if highest and library is None:
        cautions.append(_unknown_build(case, f"bitsandbytes {version}'s library for {case.spec.name}"))
    return library


def _unknown_build(case: Case, what: str) -> Caution:
    return Caution(
        code="build-unknown", message=f"which GPUs {what} was built for is not known", backend=case.spec.name
    )


def _chosen_by(case: Case, library: Library) -> str:
    """Return in words which of two libraries this one is, where the best GPU decides which is loaded."""
    release = case.facts.release(library.bitsandbytes)
    if release is None or release.split is None:
        return ""
    best = "below" if library.nocublaslt else "at least"
    return f" in the library it loads where the best GPU is {best} {release.split}"


def _unserved(case: Case, known: Sequence[Gpu], build: _Build) -> list[Refusal]:
    unserved = {
        f"{each.compute_capability} ({each.name})"
        for each in known
        if not any(runs(capability(one), capability(str(each.compute_capability))) for one in build.sm)
    }
    return [
        Refusal(
            backend=case.spec.name,
            code="gpu-arch-missing",
            package=build.package,
            have=have,
            need=" ".join(build.sm) + build.where,
            source=build.source,
        )
        for have in sorted(unserved)
    ]


def _glibc_floors(spec: BackendSpec, facts: Facts) -> Iterator[tuple[str, str | None, str]]:
    torch, bitsandbytes = request.pin(spec, "torch"), request.pin(spec, "bitsandbytes")
    if torch and (built := facts.torch(torch)):
        yield "torch", built.glibc, built.source
    if bitsandbytes and (release := facts.release(bitsandbytes)):
        yield "bitsandbytes", release.glibc, release.source


def glibc_floor(spec: BackendSpec, facts: Facts) -> str | None:
    """Return the oldest glibc on which a backend's torch and bitsandbytes load."""
    return max((need for _, need, _ in _glibc_floors(spec, facts) if need), key=Version, default=None)
