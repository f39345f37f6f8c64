"""Choose a profile's backend for a machine, with a row for each rule that refused another. Pure.

The first backend in the profile's order that passes every rule on every machine wins.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from envlock import gpu_names, request, rules
from envlock.errors import Misuse, Problem
from envlock.facts import Capability, Facts, capability, runs
from envlock.model import BackendSpec, Caution, Cell, Decision, Floors, HostFacts, Policy, Precision, Profile, Refusal
from envlock.rules import RULES, Case, Finding

__all__ = ["backend", "floors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """What the rules say of one backend, over all machines."""

    spec: BackendSpec
    cells: tuple[Cell, ...]
    findings: tuple[Finding, ...]

    @property
    def fits(self) -> bool:
        return not any(finding.refusals for finding in self.findings)


def backend(
    profile: Profile,
    hosts: Sequence[HostFacts],
    facts: Facts,
    *,
    policy: Policy,
    only: str | None = None,
    offline: bool = False,
) -> Decision:
    """Return the choice that holds on all of `hosts`; `only` asks for one backend by name.

    Raises `Misuse` (`backend-unknown`). That nothing fits is a decision too: `backend` is then None.
    """
    _check_name(profile, only)
    case = partial(Case, profile=profile, facts=facts, policy=policy, offline=offline)
    judged = [
        _judge(spec, [case(spec=spec, host=host, named=only == spec.name) for host in hosts])
        for spec in profile.backends
    ]
    judged = [_in_common(each, hosts, facts, offline=offline) for each in judged]
    fitting = [each for each in judged if each.fits]
    chosen = next((each for each in fitting if only in (None, each.spec.name)), None)
    taken = chosen.findings if chosen else ()
    name = chosen.spec.name if chosen else None
    return Decision(
        profile=profile.name,
        backend=name,
        policy=policy,
        precision=_precision(chosen.spec, hosts, facts) if chosen else None,
        eligible=tuple(each.spec.name for each in fitting if each is not chosen),
        refused=tuple(dict.fromkeys(row for each in judged for finding in each.findings for row in finding.refusals)),
        warnings=tuple(
            dict.fromkeys(
                chain(
                    (caution for host in hosts for caution in (*_of_machine(host), *_of_processor(host, facts))),
                    (caution for finding in taken for caution in finding.cautions),
                )
            )
        ),
        table={each.spec.name: each.cells for each in judged},
    )


def floors(spec: BackendSpec, facts: Facts) -> Floors:
    """Return what a backend needs of a machine: its CUDA family's driver, glibc, a GPU that every build serves."""
    family = facts.family(spec.name)
    return Floors(
        driver=family.linux if family else None,
        driver_windows=family.windows if family else None,
        glibc=rules.glibc_floor(spec, facts),
        sm=tuple(f"{major}.{minor}" for major, minor in _served(spec, facts)),
    )


def _check_name(profile: Profile, only: str | None) -> None:
    known = [spec.name for spec in profile.backends]
    if only is None or only in known:
        return
    near = difflib.get_close_matches(only, known, n=1)
    expected = (f"`{near[0]}`? " if near else "") + f"one of {', '.join(known)}"
    problem = Problem(file=profile.file, key="backends", message=f"no backend `{only}`", expected=expected)
    hint = f"envlock plan {profile.typed}"
    raise Misuse("the profile has no such backend", code="backend-unknown", problems=(problem,), hint=hint)


def _judge(spec: BackendSpec, cases: Sequence[Case]) -> _Judged:
    columns = [[rule(case) for case in cases] for rule in RULES]
    cells = tuple(_worst([finding.cell for finding in column]) for column in columns)
    return _Judged(spec=spec, cells=cells, findings=tuple(chain.from_iterable(columns)))


def _in_common(judged: _Judged, hosts: Sequence[HostFacts], facts: Facts, *, offline: bool) -> _Judged:
    """Refuse what fits each machine by another Python: one environment for all of them has one."""
    common = rules.common_pythons(judged.spec, facts, hosts, offline=offline)
    if common or any(refusal.code == "python-unavailable" for each in judged.findings for refusal in each.refusals):
        return judged
    have = " / ".join(" ".join(host.pythons) or "none" for host in hosts)
    need = f"one of {' '.join(rules.pythons(judged.spec, facts))} on each"
    row = Refusal(backend=judged.spec.name, code="python-unavailable", have=have, need=need)
    cell = Cell(rule="python", ok=False, have=have, need=need)
    cells = tuple(cell if each.rule == "python" else each for each in judged.cells)
    return replace(judged, cells=cells, findings=(*judged.findings, Finding(cell=cell, refusals=(row,))))


def _worst(cells: Sequence[Cell]) -> Cell:
    """Return the cell that decides for all machines: a failed one, else one that was judged."""
    return min(cells, key=lambda cell: (cell.ok is not False, cell.ok is None))


def _of_machine(host: HostFacts) -> Iterator[Caution]:
    driver = host.driver
    if driver is None:
        if host.pci_gpus:
            told = f"an NVIDIA GPU is there ({', '.join(host.pci_gpus)}) and no driver: only `cpu` can be chosen"
            yield Caution(code="gpu-without-driver", message=told)
        return
    if driver.version is None and driver.library is not None:
        told = f"driver {driver.library} is installed and its module is not loaded: reboot, or see Secure Boot"
        yield Caution(code="driver-not-loaded", message=told)
    elif driver.version and driver.library and driver.version != driver.library:
        told = f"the loaded module is {driver.version}, the library {driver.library}: CUDA fails until a reboot"
        yield Caution(code="driver-library-mismatch", message=told)
    elif not host.gpus:
        hidden = host.cuda_visible_devices is not None
        why = f"CUDA_VISIBLE_DEVICES is {host.cuda_visible_devices!r}" if hidden else "the driver shows none"
        yield Caution(code="no-visible-gpu", message=f"no GPU is visible ({why}): chosen by the driver alone")
    for gpu in host.gpus:
        if gpu.compute_capability is None:
            told = f"the compute capability of {gpu.name} is not known: no build was held against it"
            yield Caution(code="gpu-unknown", message=told)


def _of_processor(host: HostFacts, facts: Facts) -> Iterator[Caution]:
    archs = facts.gpu_archs
    for gpu in host.gpus:
        only = gpu_names.processor(gpu, archs)
        if only not in (None, host.arch):
            told = f"{gpu.name} is built together with {only}, and the machine is said to be {host.arch}"
            yield Caution(code="gpu-of-another-processor", message=told)


def _precision(spec: BackendSpec, hosts: Sequence[HostFacts], facts: Facts) -> Precision | None:
    """Return the best number format that the weakest GPU has.

    None where a driver is there and no GPU is known, and for a profile without torch, which computes in none.
    """
    if not request.names(spec, "torch"):
        return None
    if spec.name == "cpu" or any(host.driver is None for host in hosts):
        return "fp32"
    known = [[capability(gpu.compute_capability) for gpu in host.gpus if gpu.compute_capability] for host in hosts]
    if not all(known):
        return None
    weakest = min(chain.from_iterable(known))
    natives = sorted(facts.natives, key=lambda row: capability(row.compute_capability), reverse=True)
    return next((row.precision for row in natives if weakest >= capability(row.compute_capability)), "fp32")


def _served(spec: BackendSpec, facts: Facts) -> list[Capability]:
    """Return the architectures that torch's build and bitsandbytes' library both serve."""
    torch, version = request.pin(spec, "torch"), request.pin(spec, "bitsandbytes")
    row = facts.torch_sm(torch, spec.name) if torch else None
    if row is None:
        return []
    built = {capability(sm) for sm in row.sm}
    release = facts.release(version) if version else None
    loaded = facts.loaded(release, spec.name) if release else None
    if release is None or loaded is None:
        return sorted(built)
    libraries = [row for row in facts.libraries if row.bitsandbytes == version and loaded in row.cuda]
    candidates = built | {capability(sm) for library in libraries for sm in library.sm}

    def served(gpu: Capability) -> bool:
        library = facts.library(release, loaded, gpu)
        theirs = {capability(sm) for sm in library.sm} if library else built
        return any(runs(sm, gpu) for sm in built) and any(runs(sm, gpu) for sm in theirs)

    return sorted(gpu for gpu in candidates if served(gpu))
