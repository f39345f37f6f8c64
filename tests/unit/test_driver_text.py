"""Real texts of drivers and their tools (tests/data/detect), and what is read from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlock import driver_text
from envlock.driver_text import MigDevice
from envlock.model import Gpu

DATA = Path(__file__).parents[1] / "data" / "detect"


def seen(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("kernel-module-384.98.txt", "384.98"),
        ("kernel-module-515.65.01.txt", "515.65.01"),
        ("kernel-module-580.173.02.txt", "580.173.02"),
        ("kernel-module-open-525.60.11.txt", "525.60.11"),
        ("kernel-module-open-540.4.0-aarch64.txt", "540.4.0"),
        ("kernel-module-open-555.58-localised.txt", "555.58"),
        ("kernel-module-open-565.57.01.txt", "565.57.01"),
        ("kernel-module-jetson-35.3.1.txt", "35.3.1"),
        ("smi-580.95.05-gb10.txt", None),
    ],
)
def test_the_loaded_module(file: str, version: str | None) -> None:
    assert driver_text.kernel_module(seen(file)) == version


def test_no_kept_text_is_left_untested() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    kept = {path.name for pattern in ("kernel-*", "gpu-*", "smi-*", "query-*") for path in DATA.glob(pattern)}
    assert kept
    assert {name for name in kept if name not in tested} == set()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  N/A",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05-custom",
        "GCC version:  gcc version 12.2.0",
    ],
)
def test_no_module_is_made_up(text: str) -> None:
    assert driver_text.kernel_module(text) is None


@pytest.mark.parametrize(
    ("text", "version"), [("535.183.01\n", "535.183.01"), ("570.26", "570.26"), ("", None), ("535\n", None)]
)
def test_the_module_in_sys(text: str, version: str | None) -> None:
    assert driver_text.module_version(text) == version


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libcuda.so.535.104.05", "535.104.05"),
        ("libnvidia-ml.so.570.26", "570.26"),
        ("libcuda.so.1", None),
        ("libcuda.so.1.1", None),
        ("libcuda.so", None),
        ("libcudart.so.12.1.105", None),
        ("libnvidia-ml.so.535.104.05.bak", None),
    ],
)
def test_the_library_by_its_file_name(name: str, version: str | None) -> None:
    assert driver_text.library(name) == version


@pytest.mark.parametrize(
    ("file", "gpu"),
    [
        (
            "gpu-information-3090.txt",
            Gpu(
                name="NVIDIA GeForce RTX 3090",
                compute_capability=None,
                uuid="GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584",
            ),
        ),
        (
            "gpu-information-k80.txt",
            Gpu(name="Tesla K80", compute_capability=None, uuid="GPU-c6398fd0-9366-8e15-5d6a-369da852f85b"),
        ),
        ("smi-no-devices.txt", None),
    ],
)
def test_what_the_module_calls_a_gpu(file: str, gpu: Gpu | None) -> None:
    assert driver_text.gpu_information(seen(file)) == gpu


@pytest.mark.parametrize(
    ("vendor", "device", "kind", "gpu"),
    [
        ("0x10de\n", "0x2204\n", "0x030000\n", "10de:2204"),
        ("0x10de\n", "0x2330\n", "0x030200\n", "10de:2330"),
        ("0x10de\n", "0x1aef\n", "0x040300\n", None),
        ("0x1002\n", "0x744c\n", "0x030000\n", None),
        ("0x10de\n", "garbage", "0x030000\n", None),
        ("", "", "", None),
    ],
    ids=["display", "without-display", "its-sound-device", "amd", "garbage", "nothing"],
)
def test_a_gpu_on_the_bus(vendor: str, device: str, kind: str, gpu: str | None) -> None:
    assert driver_text.pci_gpu(vendor=vendor, device=device, kind=kind) == gpu


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("smi-331.62.txt", "331.62"),
        ("smi-470.256.02-in-snap.txt", "580.95.05"),
        ("smi-520.61.05-mig.txt", "520.61.05"),
        ("smi-545.46-wsl.txt", "546.80"),
        ("smi-555.52.01-wsl.txt", "555.99"),
        ("smi-580.95.05-gb10.txt", "580.95.05"),
        ("smi-no-devices.txt", None),
        ("smi-driver-not-loaded.txt", None),
    ],
)
def test_the_drivers_number_not_the_tools(file: str, version: str | None) -> None:
    assert driver_text.smi_driver(seen(file)) == version


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (
            "smi-driver-not-loaded.txt",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
        ),
        ("smi-mismatch.txt", "Failed to initialize NVML: Driver/library version mismatch"),
        ("smi-mismatch-580.178.txt", "Failed to initialize NVML: Driver/library version mismatch"),
        ("smi-unknown-error.txt", "Failed to initialize NVML: Unknown Error"),
        ("smi-blocked.txt", "Failed to initialize NVML: GPU access blocked by the operating system"),
        ("smi-no-devices.txt", "No devices were found"),
        ("smi-lost-gpu.txt", "Unable to determine the device handle for GPU0000:07:00.0: Unknown Error"),
        ("smi-580.95.05-gb10.txt", None),
        ("query-gb10.csv", None),
    ],
)
def test_how_nvidia_smi_gives_up(file: str, sentence: str | None) -> None:
    assert driver_text.smi_failure(seen(file)) == sentence


def test_the_library_that_does_not_fit() -> None:
    assert driver_text.mismatched_library(seen("smi-mismatch-580.178.txt")) == "580.178"
    assert driver_text.mismatched_library(seen("smi-mismatch.txt")) is None


def test_a_field_the_tool_is_too_old_for() -> None:
    assert driver_text.unknown_field(seen("smi-unknown-field.txt")) == "compute_cap"
    assert driver_text.unknown_field(seen("query-gb10.csv")) is None


def test_a_query_of_two_gpus() -> None:
    titan, ada = driver_text.smi_rows(seen("query-titan-v-and-5880.csv"))
    assert titan.driver == "570.86.15"
    assert titan.gpu == Gpu(
        name="NVIDIA TITAN V",
        compute_capability="7.0",
        memory_mib=12288,
        uuid="GPU-b5169cef-2205-c30e-f2b3-220cfa14bafd",
    )
    assert (ada.gpu.name, ada.gpu.compute_capability, ada.mig) == ("NVIDIA RTX 5880 Ada Generation", "8.9", False)


def test_what_the_tool_can_not_say_is_none() -> None:
    (gb10,) = driver_text.smi_rows(seen("query-gb10.csv"))
    assert (gb10.gpu.memory_mib, gb10.mig, gb10.gpu.compute_capability) == (None, False, "12.1")
    (old,) = driver_text.smi_rows(seen("query-not-supported.csv"))
    assert old.gpu == Gpu(name="GeForce GTX 680", compute_capability=None, memory_mib=4095)
    assert old.driver == "331.62"
    assert driver_text.smi_rows(seen("query-lost-gpu.csv")) == ()


@pytest.mark.parametrize(
    "text", ["", "\n\n", "Killed", "a, b", seen("smi-580.95.05-gb10.txt"), ", 8.6, 24576, GPU-1, Disabled, 535.1"]
)
def test_lines_of_another_shape_are_left_out(text: str) -> None:
    assert driver_text.smi_rows(text) == ()


def test_a_query_without_the_fields_an_old_tool_lacks() -> None:
    (row,) = driver_text.smi_rows(
        "Tesla K80, 11441, GPU-1, 470.82.01\n", ("name", "memory.total", "uuid", "driver_version")
    )
    assert row.gpu == Gpu(name="Tesla K80", compute_capability=None, memory_mib=11441, uuid="GPU-1")


def test_a_name_can_not_move_the_cursor() -> None:
    (row,) = driver_text.smi_rows("\x1b[2Jbad, 8.6, 1, GPU-1, Disabled, 535.104.05")
    assert row.gpu.name == "\ufffd[2Jbad"


def test_mig_devices_stand_for_their_gpu() -> None:
    rows = driver_text.smi_rows(seen("query-mig-a100.csv"))
    devices = driver_text.smi_list(seen("smi-list-mig-a100.txt"))
    gpus = driver_text.visible(rows, devices)
    assert [(gpu.name, gpu.mig, gpu.compute_capability) for gpu in gpus] == [
        *[("NVIDIA A100-SXM4-80GB MIG 1g.20gb", True, "8.0")] * 4,
        ("NVIDIA A100-SXM4-80GB", False, "8.0"),
    ]
    assert gpus[0].uuid == "MIG-ce861fb0-a248-58ce-a9a8-f9adbc22a66a"
    assert len({gpu.uuid for gpu in gpus}) == 5


def test_a_gpu_with_mig_on_and_no_devices_stands_for_itself() -> None:
    gpus = driver_text.visible(driver_text.smi_rows(seen("query-mig-a100.csv")), ())
    assert [gpu.mig for gpu in gpus] == [True, False]


def test_the_list_of_an_older_branch() -> None:
    parent = "GPU-932bfb2c-849a-2a22-1e84-9eff6bc02b39"
    assert driver_text.smi_list(seen("smi-list-mig-450.txt")) == (
        MigDevice(parent=parent, profile="3g.20gb", uuid=f"MIG-{parent}/1/0"),
    )
    assert driver_text.smi_list(seen("smi-list-plain.txt")) == ()


def test_a_mig_device_without_its_gpu_is_left_out() -> None:
    assert driver_text.smi_list("  MIG 1g.5gb     Device  0: (UUID: MIG-1)\n") == ()
