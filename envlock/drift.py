"""Compare the machine with itself on the day of the install: does it still carry what is in the environment.

A check fails where the machine fell below a floor of the locked variant or lost what it had, it warns where it moved
and envlock cannot tell that nothing depends on that, and it passes, saying so, where it moved inside the floors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.version import Version

from envlock import checks
from envlock.model import Check, Driver, Floors, Gpu, HostFacts

__all__ = ["compare", "runs_on"]

_ARCH: Final = re.compile(r"(?:sm_)?(\d+)\.?(\d)([af]?)")  # `sm_86`, `8.6`, `sm_90a`
_COMPILER: Final = "sudo apt-get install gcc || sudo dnf install gcc"
_CONTAINER: Final = "docker run --gpus all IMAGE"
_DETECT: Final = "envlock detect"
_LOAD: Final = "sudo modprobe nvidia"
_REBOOT: Final = "sudo reboot"
_REBUILD: Final = "sudo dkms autoinstall && sudo modprobe nvidia"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One comparison; `gpu_drivers` are floors by compute capability, `plan` and `install` are commands."""

    was: HostFacts
    now: HostFacts
    floors: Floors
    variant: str
    gpu_drivers: Mapping[str, str]
    plan: str
    install: str

    @property
    def cuda(self) -> bool:
        """Say whether the variant computes on GPUs; to one that does not, driver and GPUs mean nothing."""
        return bool(self.floors.sm or self.floors.driver)


def compare(
    was: HostFacts,
    now: HostFacts,
    *,
    floors: Floors,
    variant: str,
    gpu_drivers: Mapping[str, str],
    plan: str,
    install: str,
) -> tuple[Check, ...]:
    """Return one check for each part of the machine in the order of `checks.DRIFT`; `was` is the day of the install.

    `gpu_drivers` maps a compute capability to the oldest Linux driver that knows such a GPU; `plan` and `install` are
    the commands that choose and install anew. A part that is gone because an earlier one failed is a `skip` that
    names it.
    """
    case = _Case(was=was, now=now, floors=floors, variant=variant, gpu_drivers=gpu_drivers, plan=plan, install=install)
    container, kernel = _container(case), _kernel(case)
    loss = _failed(container) or _failed(kernel)
    driver = _driver(case, loss)
    loss = loss or (_failed(driver) if _number(now.driver) is None else None)
    library = _library(case, loss)
    gpus = _gpus(case, loss or _failed(library))
    return (_platform(case), container, kernel, driver, library, gpus, _glibc(case), _gcc(case))


def runs_on(compute_capability: str, sm: Iterable[str]) -> bool:
    """Say whether a GPU X.Y can run one of these builds: it runs sm_X.Z with Z ≤ Y, never one of another major.

    A build with a letter (`sm_90a`) runs on that very architecture only.
    """
    here = _arch(compute_capability)
    builds = [arch for arch in map(_arch, sm) if arch]
    return here is not None and any(
        major == here[0] and (minor == here[1] if letter else minor <= here[1]) for major, minor, letter in builds
    )


def _arch(text: str) -> tuple[int, int, str] | None:
    match = _ARCH.fullmatch(text)
    return (int(match[1]), int(match[2]), match[3]) if match else None


# ---- the machine under the driver ---------------------------------------------------------------------------------


def _platform(case: _Case) -> Check:
    was, now = _machine(case.was), _machine(case.now)
    if (case.was.os, case.was.arch) != (case.now.os, case.now.arch):
        message = f"{was} → {now}: this environment was built for another machine"
        return Check(id="drift.platform", status="fail", have=now, want=was, message=message, fix=case.install)
    if case.was.wsl != case.now.wsl:
        message = f"{was} → {now}: the driver is another one there"
        return Check(id="drift.platform", status="warn", have=now, want=was, message=message, fix=case.plan)
    return _same("drift.platform", now)


def _machine(host: HostFacts) -> str:
    return f"{host.os} {host.arch}" + (" under WSL" if host.wsl else "")


def _container(case: _Case) -> Check:
    was, now = case.was.container, case.now.container
    if case.cuda and now and case.was.device_nodes and not case.now.device_nodes:
        message = f"{_or_none(was)} → {now}: this container was given no GPU"
        return Check(id="drift.container", status="fail", have="no /dev/nvidia*", message=message, fix=_CONTAINER)
    return _moved("drift.container", was, now)


def _kernel(case: _Case) -> Check:
    was, now = case.was.kernel, case.now.kernel
    if case.cuda and was != now and case.now.container is None and _loaded(case.was) and not _loaded(case.now):
        message = f"{_or_none(was)} → {_or_none(now)}: no NVIDIA module is loaded in the new kernel"
        return Check(id="drift.kernel", status="fail", have=now, want=was, message=message, fix=_REBUILD)
    return _moved("drift.kernel", was, now)


def _loaded(host: HostFacts) -> bool:
    return host.driver is not None and host.driver.version is not None


def _glibc(case: _Case) -> Check:
    was, now, floor = case.was.glibc, case.now.glibc, case.floors.glibc
    want = f">= {floor}" if floor else None
    if floor and now is None:
        message = f"{_or_none(was)} → unknown: the floor {floor} cannot be checked"
        return Check(id="drift.glibc", status="warn", want=want, message=message, fix=_DETECT)
    if floor and now and _older(now, floor):
        message = f"{_step(was, now)}: {case.variant} needs at least {floor}"
        return Check(id="drift.glibc", status="fail", have=now, want=want, message=message, fix=case.install)
    return _moved("drift.glibc", was, now, floor=floor)


def _gcc(case: _Case) -> Check:
    was, now = case.was.gcc, case.now.gcc
    if case.cuda and was and now is None:
        message = f"{was} → none: Triton compiles its launchers with it"
        return Check(id="drift.gcc", status="warn", have="none", want="a C compiler", message=message, fix=_COMPILER)
    return _moved("drift.gcc", was, now)


# ---- driver and GPUs ----------------------------------------------------------------------------------------------


def _driver(case: _Case, loss: str | None) -> Check:
    was, now = _number(case.was.driver), _number(case.now.driver)
    if not case.cuda:
        return _moved("drift.driver", was, now)
    if now is None:
        if was is None:
            return Check(id="drift.driver", status="pass", message="none, as at install: no GPU can be used here")
        message, fix = f"{was} → none: the driver is gone", _LOAD if case.now.pci_gpus else _DETECT
        return _lost(Check(id="drift.driver", status="fail", have="none", want=was, message=message, fix=fix), loss)
    who, floor = _floor(case)
    want = f">= {floor}" if floor else None
    if floor and _older(now, floor):
        message = f"{_step(was, now)}: {who} needs at least {floor}"
        return Check(id="drift.driver", status="fail", have=now, want=want, message=message, fix=case.install)
    if was and was != now and (floor is None or _older(now, was)):
        held = f"older than at install, still at or above the floor {floor}"
        message = f"{was} → {now}: " + (held if floor else f"from which driver on {case.variant} runs is not known")
        return Check(id="drift.driver", status="warn", have=now, want=want, message=message, fix=case.plan)
    return _moved("drift.driver", was, now, floor=floor)


def _floor(case: _Case) -> tuple[str, str | None]:
    """Return the highest floor and whose it is: the variant's, or a GPU's own, which has Linux numbers only."""
    if case.now.driver is not None and case.now.driver.numbering == "windows":
        return case.variant, case.floors.driver_windows
    own = ((gpu.name, case.gpu_drivers.get(gpu.compute_capability or "")) for gpu in case.now.gpus)
    known = [(who, floor) for who, floor in ((case.variant, case.floors.driver), *own) if floor]
    return max(known, key=lambda row: Version(row[1]), default=(case.variant, None))


def _number(driver: Driver | None) -> str | None:
    """Return the module's number, or the library's where none is loaded: it is what the next start will load."""
    return (driver.version or driver.library) if driver else None


def _library(case: _Case, loss: str | None) -> Check:
    was, now = _split(case.was.driver), _split(case.now.driver)
    both = case.now.driver and case.now.driver.version and case.now.driver.library
    if now is None and not both:
        return Check(id="drift.driver-library", status="skip", message="no two versions to compare")
    if not case.cuda or now is None:
        message = f"{now}: nothing here computes on a GPU" if now else f"both {both}"
        return Check(id="drift.driver-library", status="pass", message=message)
    module = case.now.driver and case.now.driver.version
    why = "the old module stays loaded until a reboot" if module else "no module is loaded"
    check = Check(
        id="drift.driver-library",
        status="warn" if now == was else "fail",
        have=now,
        want="the same version",
        message=f"{now}: {why}",
        fix=_REBOOT if module else _LOAD,
    )
    return _lost(check, loss)


def _split(driver: Driver | None) -> str | None:
    """Describe a module and a library that do not belong together; None where they do, or one cannot be read."""
    if driver is None or driver.library is None or driver.version == driver.library:
        return None
    return f"module {_or_none(driver.version)}, library {driver.library}"


def _gpus(case: _Case, loss: str | None) -> Check:
    was, now = _listed(case.was.gpus), _listed(case.now.gpus)
    if not case.cuda:
        return _moved("drift.gpus", was, now)
    if now is not None:
        return _present(case, was, now)
    if was is None:
        return Check(id="drift.gpus", status="pass", message="none, as at install")
    message = f"{was} → none: no GPU is visible"
    return _lost(Check(id="drift.gpus", status="fail", have="none", want=was, message=message, fix=_DETECT), loss)


def _present(case: _Case, was: str | None, now: str) -> Check:
    gpus, sm = case.now.gpus, case.floors.sm
    built, step = ", ".join(sm) or None, _step(was, now)
    bare = _listed(gpu for gpu in gpus if sm and gpu.compute_capability and not runs_on(gpu.compute_capability, sm))
    if bare:
        message = f"{step}: {case.variant} holds no code for {bare}"
        return Check(id="drift.gpus", status="fail", have=bare, want=built, message=message, fix=case.install)
    if any(gpu.compute_capability is None for gpu in gpus):
        message = f"{step}: not every compute capability is known"
        return Check(id="drift.gpus", status="warn", have=now, want=built, message=message, fix=_DETECT)
    if was and not _covered(case.was.gpus, gpus):
        message = f"{step}: {case.variant} runs there; memory and precision may differ"
        return Check(id="drift.gpus", status="warn", have=now, want=was, message=message, fix=case.plan)
    message = f"{now}, as at install" if was == now else f"{step}: {case.variant} holds code for it"
    return Check(id="drift.gpus", status="pass", have=now, want=built, message=message)


def _kinds(gpus: Iterable[Gpu]) -> Counter[str]:
    return Counter(f"{gpu.name} {gpu.compute_capability or '?'}" + (" MIG" if gpu.mig else "") for gpu in gpus)


def _covered(was: Iterable[Gpu], now: Iterable[Gpu]) -> bool:
    """Say whether what was there is still there, and nothing of another kind beside it."""
    before, after = _kinds(was), _kinds(now)
    return before.keys() == after.keys() and all(after[kind] >= count for kind, count in before.items())


def _listed(gpus: Iterable[Gpu]) -> str | None:
    kinds = sorted(_kinds(gpus).items())
    return ", ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in kinds) or None


# ---- the words ----------------------------------------------------------------------------------------------------


def _same(check: str, value: str | None) -> Check:
    return Check(id=check, status="pass", have=value, message=f"{_or_none(value)}, as at install")


def _moved(check: str, was: str | None, now: str | None, *, floor: str | None = None) -> Check:
    """Pass: unchanged, or changed where the floor, if there is one, still holds."""
    inside = f", inside the floor {floor}" if floor and now else ""
    message = f"{_step(was, now)}{inside}" if was != now else f"{_or_none(now)}, as at install"
    return Check(id=check, status="pass", have=now, want=f">= {floor}" if floor else None, message=message)


def _lost(check: Check, loss: str | None) -> Check:
    """Turn a failure into the consequence of an earlier one, if there is one."""
    return checks.skip_after(loss, [check.id])[0] if loss and check.status == "fail" else check


def _failed(check: Check) -> str | None:
    return check.id if check.status == "fail" else None


def _step(was: str | None, now: str | None) -> str:
    return f"{_or_none(was)} → {_or_none(now)}" if was != now else _or_none(now)


def _or_none(value: str | None) -> str:
    return value or "none"


def _older(one: str, other: str) -> bool:
    """Compare two versions; one that is no version is never older."""
    try:
        return Version(one) < Version(other)
    except ValueError:  # also for a number of more digits than Python reads
        return False
