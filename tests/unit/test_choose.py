"""The rules one by one, and what a choice makes of them; with facts made up for the purpose, so that each is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envlock import choose, facts, store
from envlock.errors import Misuse
from envlock.facts import Facts
from envlock.model import BackendSpec, Decision, Driver, Gpu, HostFacts, Profile, Refusal

KNOWN = facts.parse(store.facts_texts())
REQUIRES = ("torch==2.4.1", "bitsandbytes==0.43.3")
MODERN = ("torch==2.8.0", "bitsandbytes==0.50.2")
RTX_3090 = Gpu(name="NVIDIA GeForce RTX 3090", compute_capability="8.6")
T4 = Gpu(name="Tesla T4", compute_capability="7.5")
K80 = Gpu(name="Tesla K80", compute_capability="3.7")
V100 = Gpu(name="Tesla V100", compute_capability="7.0")
P40 = Gpu(name="Tesla P40", compute_capability="6.1")
RTX_5090 = Gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0")
UNKNOWN = Gpu(name="NVIDIA Something", compute_capability=None)


def backend(name: str, requires: tuple[str, ...] = REQUIRES, python: tuple[str, ...] = ("3.10",)) -> BackendSpec:
    return BackendSpec(name=name, python=python, pypi_python=(), requires=requires, exclude_newer=None)


def profile(*backends: BackendSpec) -> Profile:
    return Profile(
        name="demo", summary="", file="profiles/demo.toml", platforms=("linux-x86_64",), backends=backends or ALL
    )


ALL = (backend("cu121"), backend("cu118"), backend("cu128", MODERN), backend("cpu", MODERN))


def driver(version: str | None, library: str | None = None, **how: Any) -> Driver:
    return Driver(version=version, library=library or version, **how)


def host(**changes: Any) -> HostFacts:
    """Return a workstation with one RTX 3090 and an old enough everything."""
    return replace(
        HostFacts(glibc="2.35", driver=driver("535.104.05"), gpus=(RTX_3090,), pythons=("3.10.13",)), **changes
    )


def decide(*hosts: HostFacts, wanted: Profile | None = None, known: Facts = KNOWN, **how: Any) -> Decision:
    return choose.backend(
        wanted or profile(), hosts or (host(),), known, policy=how.pop("policy", "minor-version"), **how
    )


def refusals(decision: Decision, name: str) -> list[tuple[str, str | None, str | None]]:
    return [(row.code, row.have, row.need) for row in decision.refused if row.backend == name]


def cautions(decision: Decision) -> list[str]:
    return [caution.code for caution in decision.warnings]


# ---- the choice ---------------------------------------------------------------------------------------------------


def test_the_first_backend_that_fits_wins_and_the_others_are_eligible_or_refused() -> None:
    made = decide()
    assert (made.backend, made.eligible, made.precision) == ("cu121", ("cu118", "cu128"), "bf16")
    assert made.refused == (
        Refusal(
            backend="cpu",
            code="gpu-present",
            have="driver 535.104.05",
            need="no NVIDIA driver, or `--backend cpu`",
        ),
    )
    assert set(made.table) == {"cu121", "cu118", "cu128", "cpu"}
    assert all(
        [cell.rule for cell in cells] == ["driver", "gpu", "glibc", "python", "platform"]
        for cells in made.table.values()
    )


def test_one_that_is_asked_for_is_taken_or_nothing_is() -> None:
    assert decide(only="cu118").backend == "cu118"
    assert decide(only="cpu").backend == "cpu"
    assert decide(host(driver=driver("470.82.01")), only="cu121").backend is None
    with pytest.raises(Misuse) as caught:
        decide(only="cu112")
    assert (caught.value.code, caught.value.hint) == ("backend-unknown", "envlock plan demo")
    assert caught.value.problems[0].expected == "`cu128`? one of cu121, cu118, cu128, cpu"
    with pytest.raises(Misuse) as caught:
        decide(only="rocm")
    assert caught.value.problems[0].expected == "one of cu121, cu118, cu128, cpu"


# ---- the driver ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "chosen"),
    [("525.60.12", "cu118"), ("525.60.13", "cu121"), ("450.80.02", "cu118"), ("450.80.01", None), ("600.1", "cu121")],
)
def test_the_floor_of_the_cuda_family(version: str, chosen: str | None) -> None:
    assert decide(host(driver=driver(version))).backend == chosen


def test_every_failed_rule_has_its_row() -> None:
    made = decide(host(driver=driver("400.1"), gpus=(RTX_5090,), glibc="2.5"))
    assert [code for code, _, _ in refusals(made, "cu128")] == [
        "driver-too-old",
        "driver-too-old",
        "glibc-too-old",
        "glibc-too-old",
    ]
    assert [row.package for row in made.refused if row.code == "glibc-too-old"][-2:] == ["torch", "bitsandbytes"]
    assert refusals(made, "cu128")[:2] == [
        ("driver-too-old", "400.1", "525.60.13"),
        ("driver-too-old", "400.1", "570.26 for NVIDIA GeForce RTX 5090"),
    ]
    assert {code for code, _, _ in refusals(made, "cu121")} == {"driver-too-old", "gpu-arch-missing", "glibc-too-old"}
    assert made.backend is None
    assert made.precision is None


def test_below_the_toolkit_s_own_driver_it_runs_with_a_word_or_not_at_all() -> None:
    old = host(driver=driver("525.105.17"))
    assert cautions(decide(old)) == ["minor-version-compatibility"]
    assert cautions(decide(host(driver=driver("530.30.02")))) == []
    strict = decide(old, policy="strict")
    assert refusals(strict, "cu121") == [("driver-too-old", "525.105.17", "530.30.02")]
    assert strict.refused[0].source is not None
    assert strict.refused[0].source.endswith("; policy strict")
    assert strict.backend == "cu118"


@pytest.mark.parametrize(
    ("gpu", "version", "refused"),
    [
        (P40, "590.44.01", True),
        (V100, "595.58.03", True),
        (P40, "580.126.09", False),
        (T4, "590.44.01", False),
        (K80, "495.29.05", True),
    ],
)
def test_a_driver_that_dropped_the_gpu_is_refused(gpu: Gpu, version: str, *, refused: bool) -> None:
    made = decide(host(driver=driver(version), gpus=(gpu,)), wanted=profile(backend("cu118", ("torch==2.4.1",))))
    branch = "470" if gpu is K80 else "580"
    told = ("driver-too-new", version, f"branch {branch} or older for {gpu.name}")
    assert (told in refusals(made, "cu118")) is refused


def test_under_wsl_no_branch_of_linux_drivers_is_held_against_windows_numbers() -> None:
    assert decide(replace(WSL, driver=Driver(version="591.44", numbering="windows"), gpus=(P40,))).backend == "cu121"


WSL = host(wsl=True, driver=Driver(version="580.88", numbering="windows"))


@pytest.mark.parametrize(("version", "fits"), [("527.40", False), ("527.41", True), ("451.0", False)])
def test_under_wsl_windows_numbers_hold(version: str, *, fits: bool) -> None:
    made = decide(replace(WSL, driver=Driver(version=version, numbering="windows")), only="cu121")
    assert (made.backend is not None) is fits
    floors = [code for code, _, _ in refusals(made, "cu121")]
    assert floors == ([] if fits else ["driver-too-old"])


def test_under_wsl_the_gpu_s_own_floor_is_not_held_against_windows_numbers() -> None:
    made = decide(replace(WSL, driver=Driver(version="530.10", numbering="windows"), gpus=(RTX_5090,)), only="cu128")
    assert made.backend == "cu128"


CU130 = profile(backend("cu130", ("torch==2.9.0",)))


def test_a_floor_that_is_not_known_is_at_least_that_of_the_cuda_before() -> None:
    made = decide(WSL, wanted=CU130)
    assert (made.backend, cautions(made)) == ("cu130", ["driver-floor-unknown", "build-unknown"][: len(made.warnings)])
    assert made.table["cu130"][0].ok is None
    old = decide(replace(WSL, driver=Driver(version="526.0", numbering="windows")), wanted=CU130)
    assert refusals(old, "cu130") == [("driver-too-old", "526.0", "527.41")]


def test_what_is_not_known_is_no_under_the_strict_policy() -> None:
    made = decide(WSL, wanted=CU130, policy="strict")
    assert [(code, have) for code, have, _ in refusals(made, "cu130")] == [("driver-too-old", "580.88")]
    unknown = replace(KNOWN, toolkits=())
    assert decide(wanted=profile(backend("cu121")), known=unknown).backend == "cu121"
    assert [row.code for row in decide(wanted=profile(backend("cu121")), known=unknown, policy="strict").refused] == [
        "driver-too-old"
    ]


def test_a_backend_of_no_cuda_that_is_known_is_taken_with_a_word() -> None:
    made = decide(wanted=profile(backend("cu99", ("numpy",))), known=replace(KNOWN, families=()))
    assert (made.backend, cautions(made)) == ("cu99", ["driver-floor-unknown"])


def test_without_a_driver_only_cpu_is_taken_unasked() -> None:
    bare = host(driver=None, gpus=())
    made = decide(bare)
    assert (made.backend, made.eligible, made.precision) == ("cpu", (), "fp32")
    assert refusals(made, "cu121") == [("no-driver", "none", "525.60.13")]
    asked = decide(bare, only="cu121")
    assert (asked.backend, cautions(asked), asked.precision) == ("cu121", ["no-driver"], "fp32")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"driver": None, "gpus": (), "pci_gpus": ("10de:2204",)}, "gpu-without-driver"),
        ({"driver": Driver(version=None, library="535.104.05"), "gpus": ()}, "driver-not-loaded"),
        ({"driver": driver("535.104.05", "550.54.14")}, "driver-library-mismatch"),
        ({"gpus": ()}, "no-visible-gpu"),
        ({"gpus": (), "cuda_visible_devices": ""}, "no-visible-gpu"),
        ({"gpus": (UNKNOWN,)}, "gpu-unknown"),
        ({"gpus": (Gpu(name="NVIDIA GH200 480GB", compute_capability="9.0"),)}, "gpu-of-another-processor"),
        ({"gpus": (Gpu(name="Orin", compute_capability="8.7"),)}, "gpu-of-another-processor"),
    ],
)
def test_what_is_odd_about_a_machine_is_said(changes: dict[str, Any], says: str) -> None:
    assert says in cautions(decide(host(**changes)))


def test_a_gpu_beside_its_own_processor_is_nothing_odd() -> None:
    beside = host(arch="aarch64", gpus=(Gpu(name="NVIDIA GH200 480GB", compute_capability="9.0"),))
    assert "gpu-of-another-processor" not in cautions(decide(beside))
    assert "gpu-of-another-processor" not in cautions(decide())


def test_a_library_without_its_module_decides() -> None:
    made = decide(host(driver=Driver(version=None, library="470.82.01"), gpus=()))
    assert made.backend == "cu118"


# ---- the GPU ------------------------------------------------------------------------------------------------------


def test_a_gpu_without_code_is_refused_and_the_package_named() -> None:
    made = decide(host(gpus=(K80, RTX_3090)))
    rows = [row for row in made.refused if row.backend == "cu121"]
    assert {(row.code, row.package, row.have) for row in rows} == {
        ("driver-too-new", None, "535.104.05"),
        ("gpu-arch-missing", "torch", "3.7 (Tesla K80)"),
        ("gpu-arch-missing", "bitsandbytes", "3.7 (Tesla K80)"),
    }


def test_the_best_gpu_decides_which_library_must_serve_the_weakest() -> None:
    wanted = profile(backend("cu118", ("torch==2.1.2", "bitsandbytes==0.41.2.post2")))
    assert decide(host(gpus=(V100,)), wanted=wanted).backend == "cu118"
    beside = decide(host(gpus=(V100, RTX_3090)), wanted=wanted)
    assert [(row.package, row.have) for row in beside.refused] == [("bitsandbytes", "7.0 (Tesla V100)")]


def test_of_two_libraries_the_refusal_says_which_one_it_speaks_of() -> None:
    wanted = profile(backend("cu118", ("torch==2.1.2", "bitsandbytes==0.41.2.post2")))
    made = decide(host(driver=driver("570.26"), gpus=(RTX_5090,)), wanted=wanted)
    (need,) = [row.need for row in made.refused if row.package == "bitsandbytes"]
    assert need == "7.5 8.0 8.6 8.9 9.0 in the library it loads where the best GPU is at least 7.5"
    below = decide(host(gpus=(K80,)), wanted=wanted)
    (need,) = [row.need for row in below.refused if row.package == "bitsandbytes"]
    assert (need or "").endswith("in the library it loads where the best GPU is below 7.5")
    alone = decide(host(driver=driver("570.26"), gpus=(RTX_5090,)), wanted=profile(backend("cu118", MODERN)))
    assert {row.need for row in alone.refused if row.package == "bitsandbytes" and "where" in str(row.need)} == set()


def test_a_library_that_is_not_in_the_wheel_is_refused() -> None:
    made = decide(wanted=profile(backend("cu126", ("torch==2.6.0", "bitsandbytes==0.43.3"))))
    (row,) = [row for row in made.refused if row.package == "bitsandbytes"]
    assert (row.code, row.need) == ("gpu-arch-missing", "one for cu126")


@pytest.mark.parametrize(
    ("requires", "known"),
    [
        (("torch==2.4.1", "bitsandbytes==0.0.1"), KNOWN),
        (("torch==0.0.1",), KNOWN),
        (REQUIRES, replace(KNOWN, libraries=())),
    ],
)
def test_a_build_that_is_not_known_is_taken_with_a_word(requires: tuple[str, ...], known: Facts) -> None:
    made = decide(wanted=profile(backend("cu121", requires)), known=known)
    assert (made.backend, cautions(made)) == ("cu121", ["build-unknown"])


def test_no_bitsandbytes_asks_nothing_of_it() -> None:
    made = decide(wanted=profile(backend("cu121", ("torch==2.4.1",))))
    assert (made.backend, made.warnings) == ("cu121", ())


@pytest.mark.parametrize(
    ("gpus", "precision"),
    [((RTX_3090,), "bf16"), ((RTX_3090, T4), "fp16"), ((P40,), "fp16"), ((), None), ((UNKNOWN,), None)],
)
def test_the_precision_is_the_weakest_gpu_s(gpus: tuple[Gpu, ...], precision: str | None) -> None:
    assert decide(host(gpus=gpus), wanted=profile(backend("cu118", ("torch==2.4.1",)))).precision == precision


def test_a_gpu_older_than_every_format_trains_in_fp32() -> None:
    gpus = (Gpu(name="Tesla M40", compute_capability="5.2"),)
    assert decide(host(gpus=gpus), wanted=profile(backend("cu118", ("torch==2.4.1",)))).precision == "fp32"


# ---- the rest -----------------------------------------------------------------------------------------------------


def test_glibc() -> None:
    made = decide(host(glibc="2.10"), wanted=profile(backend("cu121")))
    assert ("glibc-too-old", "2.10") in {(row.code, row.have) for row in made.refused}
    unknown = decide(host(glibc=None), wanted=profile(backend("cu121")))
    assert (unknown.backend, cautions(unknown)) == ("cu121", ["glibc-unknown"])
    nothing = decide(host(glibc=None), wanted=profile(backend("cu121", ("numpy",))))
    assert (nothing.backend, nothing.warnings) == ("cu121", ())


def test_the_platform_is_the_profile_s() -> None:
    made = decide(host(arch="aarch64"), wanted=profile(backend("cu121")))
    assert refusals(made, "cu121") == [("platform-unsupported", "linux-aarch64", "linux-x86_64")]
    assert made.refused[0].source == "profiles/demo.toml"


def test_a_python_that_can_be_fetched_is_one() -> None:
    bare = host(pythons=())
    assert decide(bare).backend == "cu121"
    made = decide(bare, offline=True)
    assert made.backend is None
    assert ("python-unavailable", "none", "3.10") in refusals(made, "cu121")


def test_a_python_that_torch_was_not_built_for_is_none() -> None:
    made = decide(wanted=profile(backend("cu121", python=("3.13",))))
    assert [(row.code, row.package, row.need) for row in made.refused] == [("python-unavailable", "torch", "none")]


# ---- several machines ---------------------------------------------------------------------------------------------


def test_all_machines_must_fit() -> None:
    made = decide(host(), host(driver=driver("470.82.01"), gpus=(T4,)))
    assert (made.backend, made.precision) == ("cu118", "fp16")
    assert refusals(made, "cu121") == [("driver-too-old", "470.82.01", "525.60.13")]
    assert made.table["cu121"][0].have == "470.82.01"


def test_offline_all_machines_need_a_python_in_common() -> None:
    wanted = profile(backend("cu121", python=("3.10", "3.11")))
    one, other = host(pythons=("3.10.13",)), host(pythons=("3.11.9",))
    assert decide(one, other, wanted=wanted).backend == "cu121"
    made = decide(one, other, wanted=wanted, offline=True)
    assert refusals(made, "cu121") == [("python-unavailable", "3.10.13 / 3.11.9", "one of 3.10 3.11 on each")]
    assert next(cell for cell in made.table["cu121"] if cell.rule == "python").ok is False
    assert decide(one, one, wanted=wanted, offline=True).backend == "cu121"


# ---- a profile without torch --------------------------------------------------------------------------------------


def test_no_rule_of_torch_applies_without_it() -> None:
    made = decide(host(gpus=(K80,)), wanted=profile(backend("cpu", ("numpy",))))
    assert (made.backend, made.refused, made.precision) == ("cpu", (), None)


# ---- floors -------------------------------------------------------------------------------------------------------


def test_the_floors_of_a_backend() -> None:
    found = choose.floors(backend("cu121"), KNOWN)
    assert (found.driver, found.driver_windows) == ("525.60.13", "527.41")
    assert found.glibc is not None
    # From 7.5 on another library of bitsandbytes is loaded, which has no code for what is below; alone, each is served.
    assert {"6.0", "7.0", "7.5", "8.6", "9.0"} <= set(found.sm)
    assert "12.0" not in found.sm


def test_the_floors_of_what_is_not_known_are_none() -> None:
    found = choose.floors(backend("cu99", ("torch==0.0.1",)), replace(KNOWN, families=()))
    assert (found.driver, found.driver_windows, found.glibc, found.sm) == (None, None, None, ())
    assert choose.floors(backend("cu121", ("torch==2.4.1",)), KNOWN).sm[-1] == "9.0"
    assert choose.floors(backend("cpu", MODERN), KNOWN).driver is None
    lone = choose.floors(backend("cu121"), replace(KNOWN, libraries=()))
    assert lone.sm == choose.floors(backend("cu121", ("torch==2.4.1",)), KNOWN).sm
