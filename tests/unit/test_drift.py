from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from envlock import checks, drift
from envlock.model import Check, Driver, Floors, Gpu, HostFacts, Status

CU121 = Floors(
    driver="525.60.13",
    driver_windows="527.41",
    glibc="2.17",
    sm=("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"),
)
CPU = Floors(driver=None, driver_windows=None, glibc="2.28", sm=())

RTX_3090 = Gpu(name="NVIDIA GeForce RTX 3090", compute_capability="8.6", memory_mib=24576)
RTX_5090 = Gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0", memory_mib=32768)
T4 = Gpu(name="Tesla T4", compute_capability="7.5", memory_mib=15360)
K80 = Gpu(name="Tesla K80", compute_capability="3.7", memory_mib=11441)
NODES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")


def host(**changes: Any) -> HostFacts:
    """Return a workstation with one RTX 3090."""
    facts: dict[str, Any] = {
        "glibc": "2.35",
        "kernel": "5.15.0-91-generic",
        "driver": Driver(version="535.104.05", library="535.104.05"),
        "pci_gpus": ("10de:2204",),
        "device_nodes": NODES,
        "gpus": (RTX_3090,),
        "gcc": "11.4.0",
    }
    return HostFacts(**facts | changes)


def bare(**changes: Any) -> HostFacts:
    """Return a machine that never had a GPU."""
    return host(**{"driver": None, "pci_gpus": (), "device_nodes": (), "gpus": (), **changes})


def driver(version: str | None, library: str | None = None, **how: Any) -> Driver:
    return Driver(version=version, library=library or version, **how)


@dataclass(frozen=True)
class Pair:
    """A machine on two days: `differs` maps a check to what it then is; every other one passes."""

    name: str
    was: HostFacts
    now: HostFacts
    differs: dict[str, Status] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)
    fixes: dict[str, str] = field(default_factory=dict)
    floors: Floors = CU121
    gpu_drivers: dict[str, str] = field(default_factory=dict)


NO_TWO = "no two versions to compare"
PAIRS = (
    Pair("nothing moved", host(), host()),
    Pair(
        "driver upgraded",
        host(),
        host(driver=driver("550.54.15")),
        says={"driver": "535.104.05 → 550.54.15, inside the floor 525.60.13"},
    ),
    Pair(
        "driver downgraded inside the floor",
        host(),
        host(driver=driver("530.41.03")),
        {"driver": "warn"},
        {"driver": "older than at install"},
        {"driver": "envlock plan gemma"},
    ),
    Pair(
        "driver below the floor",
        host(),
        host(driver=driver("515.105.01")),
        {"driver": "fail"},
        {"driver": "535.104.05 → 515.105.01: cu121 needs at least 525.60.13"},
        {"driver": "envlock install gemma"},
    ),
    Pair(
        "driver gone, and the GPU with it",
        host(),
        host(driver=None, gpus=(), device_nodes=()),
        {"driver": "fail", "gpus": "skip"},
        {"driver": "535.104.05 → none", "gpus": "follows from drift.driver"},
        {"driver": "sudo modprobe nvidia"},
    ),
    Pair(
        "card pulled",
        host(),
        bare(),
        {"driver": "fail", "gpus": "skip"},
        fixes={"driver": "envlock detect"},
    ),
    Pair(
        "upgraded and not rebooted",
        host(),
        host(driver=driver("535.104.05", "550.54.15"), gpus=()),
        {"driver-library": "fail", "gpus": "skip"},
        {"driver-library": "module 535.104.05, library 550.54.15", "gpus": "follows from drift.driver-library"},
        {"driver-library": "sudo reboot"},
    ),
    Pair(
        "not rebooted then, not rebooted now",
        host(driver=driver("535.104.05", "550.54.15"), gpus=()),
        host(driver=driver("535.104.05", "550.54.15"), gpus=()),
        {"driver-library": "warn"},
    ),
    Pair(
        "module not loaded any more",
        host(),
        host(driver=driver(None, "535.104.05"), gpus=()),
        {"driver-library": "fail", "gpus": "skip"},
        {"driver-library": "no module is loaded"},
        {"driver-library": "sudo modprobe nvidia"},
    ),
    Pair(
        "new kernel without the module",
        host(),
        host(kernel="6.8.0-40-generic", driver=driver(None, "535.104.05"), gpus=()),
        {"kernel": "fail", "driver-library": "skip", "gpus": "skip"},
        {"kernel": "5.15.0-91-generic → 6.8.0-40-generic", "gpus": "follows from drift.kernel"},
        {"kernel": "sudo dkms autoinstall && sudo modprobe nvidia"},
    ),
    Pair("new kernel with the module", host(), host(kernel="6.8.0-40-generic"), says={"kernel": "→ 6.8.0-40-generic"}),
    Pair(
        "another GPU with code for it",
        host(),
        host(gpus=(T4,)),
        {"gpus": "warn"},
        {"gpus": "NVIDIA GeForce RTX 3090 8.6 → Tesla T4 7.5: cu121 runs there"},
    ),
    Pair(
        "another GPU without code for it",
        host(),
        host(gpus=(RTX_5090,)),
        {"gpus": "fail"},
        {"gpus": "holds no code for NVIDIA GeForce RTX 5090 12.0"},
        {"gpus": "envlock install gemma"},
    ),
    Pair("an old GPU put in beside", host(), host(gpus=(RTX_3090, K80)), {"gpus": "fail"}, {"gpus": "Tesla K80 3.7"}),
    Pair("one GPU of two gone", host(gpus=(RTX_3090, RTX_3090)), host(), {"gpus": "warn"}, {"gpus": "2 x NVIDIA"}),
    Pair("a second one of the same", host(), host(gpus=(RTX_3090, RTX_3090))),
    Pair("the same two in another order", host(gpus=(RTX_3090, T4)), host(gpus=(T4, RTX_3090))),
    Pair("GPU hidden", host(), host(gpus=()), {"gpus": "fail"}, {"gpus": "no GPU is visible"}),
    Pair(
        "GPU of unknown capability",
        host(),
        host(gpus=(Gpu(name="NVIDIA GeForce RTX 3090", compute_capability=None),)),
        {"gpus": "warn"},
    ),
    Pair(
        "MIG switched on",
        host(),
        host(gpus=(Gpu(name=RTX_3090.name, compute_capability="8.6", mig=True),)),
        {"gpus": "warn"},
    ),
    Pair(
        "no GPU then, none now", bare(), bare(), says={"driver": "none, as at install", "gpus": "none, as at install"}
    ),
    Pair("no GPU then, one now", bare(), host(), says={"driver": "none → 535.104.05", "gpus": "none → NVIDIA"}),
    Pair("no GPU then, one without code now", bare(), host(gpus=(RTX_5090,)), {"gpus": "fail"}),
    Pair("glibc upgraded", host(), host(glibc="2.39"), says={"glibc": "2.35 → 2.39, inside the floor 2.17"}),
    Pair(
        "glibc below the floor",
        host(),
        host(glibc="2.12"),
        {"glibc": "fail"},
        {"glibc": "cu121 needs at least 2.17"},
        {"glibc": "envlock install gemma"},
    ),
    Pair("glibc not to be read", host(), host(glibc=None), {"glibc": "warn"}, {"glibc": "2.35 → unknown"}),
    Pair("gcc upgraded", host(), host(gcc="13.2.0"), says={"gcc": "11.4.0 → 13.2.0"}),
    Pair("gcc gone", host(), host(gcc=None), {"gcc": "warn"}, {"gcc": "11.4.0 → none"}),
    Pair("gcc gone, on a CPU variant", bare(), bare(gcc=None), floors=CPU),
    Pair("into a container with GPUs", host(), host(container="docker"), says={"container": "none → docker"}),
    Pair(
        "into a container without GPUs",
        host(),
        host(container="docker", driver=None, gpus=(), device_nodes=()),
        {"container": "fail", "driver": "skip", "gpus": "skip"},
        {"container": "none → docker", "driver": "follows from drift.container"},
        {"container": "docker run --gpus all IMAGE"},
    ),
    Pair(
        "another architecture",
        bare(),
        bare(arch="aarch64"),
        {"platform": "fail"},
        {"platform": "linux x86_64 → linux aarch64"},
        {"platform": "envlock install gemma"},
        CPU,
    ),
    Pair(
        "into WSL, whose numbers are others",
        host(),
        host(wsl=True, driver=Driver(version="531.14", numbering="windows")),
        {"platform": "warn", "driver": "warn"},
    ),
    Pair(
        "under WSL below the floor of its own",
        host(wsl=True, driver=Driver(version="531.14", numbering="windows")),
        host(wsl=True, driver=Driver(version="526.98", numbering="windows")),
        {"driver": "fail"},
        {"driver": "needs at least 527.41"},
    ),
    Pair(
        "a driver above the variant's floor and below its GPU's",
        host(driver=driver("570.124.06"), gpus=(RTX_5090,)),
        host(driver=driver("565.57.01"), gpus=(RTX_5090,)),
        {"driver": "fail"},
        {"driver": "NVIDIA GeForce RTX 5090 needs at least 570.26"},
        floors=replace(CU121, sm=("12.0",)),
        gpu_drivers={"12.0": "570.26"},
    ),
    Pair(
        "a floor that is not known holds nothing",
        host(wsl=True, driver=Driver(version="580.88", numbering="windows")),
        host(wsl=True, driver=Driver(version="581.15", numbering="windows")),
        {"driver": "warn"},
        {"driver": "580.88 → 581.15: from which driver on cu121 runs is not known"},
        floors=replace(CU121, driver_windows=None),
    ),
    Pair(
        "a floor that is not known, and nothing moved",
        host(wsl=True, driver=Driver(version="580.88", numbering="windows")),
        host(wsl=True, driver=Driver(version="580.88", numbering="windows")),
        floors=replace(CU121, driver_windows=None),
    ),
    Pair("a CPU variant does not ask for drivers", host(), bare(), floors=CPU),
    Pair("a CPU variant does not ask for GPUs", host(), host(gpus=(K80,)), floors=CPU),
    Pair("a CPU variant has a glibc floor", bare(), bare(glibc="2.17"), {"glibc": "fail"}, floors=CPU),
    Pair("a driver that is no number", host(), host(driver=driver("garbage")), says={"driver": "→ garbage"}),
)


def compared(pair: Pair) -> dict[str, Check]:
    found = drift.compare(
        pair.was,
        pair.now,
        floors=pair.floors,
        variant="cu121",
        gpu_drivers=pair.gpu_drivers,
        plan="envlock plan gemma",
        install="envlock install gemma",
    )
    return {check.id.removeprefix("drift."): check for check in found}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_pairs(pair: Pair) -> None:
    found = compared(pair)
    assert tuple(found) == checks.DRIFT
    differing = {name: check.status for name, check in found.items() if check.status != "pass"}
    if found["driver-library"].message == NO_TWO:
        assert differing.pop("driver-library") == "skip"
    assert differing == pair.differs
    assert all(text in (found[name].message or "") for name, text in pair.says.items()), found
    assert {name: found[name].fix for name in pair.fixes} == pair.fixes


@pytest.mark.parametrize(
    ("now", "floors", "status", "says"),
    [
        (host(), CU121, "pass", "both 535.104.05"),
        (bare(), CU121, "skip", NO_TWO),
        (bare(), CPU, "skip", NO_TWO),
        (host(driver=Driver(version="580.88", numbering="windows")), CU121, "skip", NO_TWO),
        (host(driver=driver("535.104.05", "550.54.15")), CPU, "pass", "module 535.104.05, library 550.54.15"),
    ],
)
def test_two_versions_are_only_said_to_agree_where_there_are_two(
    now: HostFacts, floors: Floors, status: Status, says: str
) -> None:
    found = compared(Pair("", now, now, floors=floors))["driver-library"]
    assert found.status == status
    assert (found.message or "").startswith(says)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_what_does_not_pass_says_what_to_run(pair: Pair) -> None:
    assert all(check.fix for check in compared(pair).values() if check.status in {"fail", "warn"})
    assert all(check.message for check in compared(pair).values())


@pytest.mark.parametrize(
    ("capability", "sm", "runs"),
    [
        ("8.6", ("sm_80",), True),
        ("8.0", ("sm_86",), False),
        ("8.9", ("sm_80", "sm_90"), True),
        ("9.0", ("sm_80", "sm_86"), False),
        ("12.0", ("sm_120",), True),
        ("12.1", ("sm_100", "sm_120"), True),
        ("10.0", ("sm_120",), False),
        ("9.0", ("sm_90a",), True),
        ("9.1", ("sm_90a",), False),
        ("8.6", ("8.0", "9.0"), True),
        ("8.6", ("compute_86",), False),
        ("8.6", (), False),
        ("unknown", ("sm_86",), False),
    ],
)
def test_runs_on(capability: str, sm: tuple[str, ...], *, runs: bool) -> None:
    assert drift.runs_on(capability, sm) is runs
