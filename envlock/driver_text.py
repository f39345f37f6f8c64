"""What NVIDIA's driver and its tools print, read into values. Pure: text in, value or None out, nothing raised.

The texts differ from one driver branch to the next; those the rules come from are kept in `tests/data/detect`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envlock import system_text
from envlock.model import Gpu

__all__ = [
    "QUERY",
    "MigDevice",
    "SmiRow",
    "gpu_information",
    "is_version",
    "kernel_module",
    "library",
    "mismatched_library",
    "module_version",
    "pci_gpu",
    "smi_driver",
    "smi_failure",
    "smi_list",
    "smi_rows",
    "unknown_field",
    "visible",
]

VERSION = r"[0-9]+\.[0-9]+(?:\.[0-9]+)?"

# The fields asked of `nvidia-smi --query-gpu`. Branches before 510 know no compute_cap, those before 450 no MIG.
QUERY = ("name", "compute_cap", "memory.total", "uuid", "mig.mode.current", "driver_version")

# The proprietary module says "x86_64 Kernel Module  535.104.05", the open one "Kernel Module for x86_64  565.57.01".
_MODULE = re.compile(rf"^NVRM version:.*?Kernel Module(?: for \S+)?\s+({VERSION})(?:\s|$)", re.MULTILINE)
# The number beside "NVIDIA-SMI" is the tool's own; under WSL and in snaps it differs from the driver's.
_SMI_DRIVER = re.compile(rf"Driver Version: ({VERSION})(?:\s|$)")
_LIST_GPU = re.compile(r"^GPU (\d+): .*\(UUID: ([^)\s]+)\)\s*$", re.ASCII)
_LIST_MIG = re.compile(r"^\s+MIG (\S+)\s+Device\s+\d+: \(UUID: ([^)\s]+)\)\s*$", re.ASCII)
_FAILURES = (
    "Failed to initialize NVML",
    "NVIDIA-SMI has failed",
    "NVIDIA-SMI couldn't find",
    "No devices were found",
    "Unable to determine the device handle",
    "Unable to detect the device handle",
)
_MEMORY = re.compile(r"([0-9]{1,9})(?: MiB)?")
_CAPABILITY = re.compile(r"[1-9][0-9]?\.[0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiRow:
    """One GPU as `nvidia-smi --query-gpu` prints it; `mig` says whether its MIG mode is on."""

    gpu: Gpu
    mig: bool
    driver: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevice:
    """One MIG device as `nvidia-smi -L` prints it; `parent` is the UUID of its GPU."""

    parent: str
    profile: str
    uuid: str


def is_version(text: str) -> bool:
    """Return whether this is a driver version of two or three numbers, such as `525.53` or `535.104.05`."""
    return re.fullmatch(VERSION, text) is not None


def kernel_module(text: str) -> str | None:
    """Read `/proc/driver/nvidia/version`."""
    found = _MODULE.search(text)
    return found[1] if found else None


def module_version(text: str) -> str | None:
    """Read `/sys/module/nvidia/version`, which holds the number alone."""
    return text.strip() if is_version(text.strip()) else None


def library(file_name: str) -> str | None:
    """Read the driver version from the name of one of its user-space libraries: `libcuda.so.535.104.05`."""
    found = re.fullmatch(rf"lib(?:nvidia-ml|cuda)\.so\.({VERSION})", file_name)
    # Under WSL the library is called libcuda.so.1.1: a version of its interface, not of the driver.
    return found[1] if found and not found[1].startswith("1.") else None


def gpu_information(text: str) -> Gpu | None:
    """Read `/proc/driver/nvidia/gpus/*/information`, which names the GPU but not what it can compute."""
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    name = system_text.shown(fields.get("Model", ""))
    return Gpu(name=name, compute_capability=None, uuid=_uuid(fields.get("GPU UUID", ""))) if name else None


def pci_gpu(*, vendor: str, device: str, kind: str) -> str | None:
    """Read the files `vendor`, `device` and `class` of a PCI device; None where it is no NVIDIA GPU.

    10de is NVIDIA's vendor number; class 0x03 holds display controllers, also those without a display (0x0302).
    """
    if vendor.strip() != "0x10de" or not kind.strip().startswith("0x03"):
        return None
    found = re.fullmatch(r"0x([0-9a-f]{4})", device.strip())
    return f"10de:{found[1]}" if found else None


def smi_driver(text: str) -> str | None:
    """Read the driver version from the table that `nvidia-smi` prints."""
    found = _SMI_DRIVER.search(text)
    return found[1] if found else None


def smi_failure(text: str) -> str | None:
    """Return the sentence with which `nvidia-smi` gave up, on one line; None where it says nothing known."""
    for line in text.splitlines():
        if line.startswith(_FAILURES):
            return system_text.shown(line.partition(". ")[0])
    return None


def mismatched_library(text: str) -> str | None:
    """Read the library's version from the complaint that it differs from the loaded module's."""
    found = re.search(rf"^NVML library version: ({VERSION})\s*$", text, re.MULTILINE)
    return found[1] if found else None


def unknown_field(text: str) -> str | None:
    """Return the field of a query that this `nvidia-smi` is too old to know."""
    found = re.search(r'^Field "([\w.]+)" is not a valid field to query', text, re.MULTILINE)
    return found[1] if found else None


def smi_rows(text: str, fields: Sequence[str] = QUERY) -> tuple[SmiRow, ...]:
    """Read `nvidia-smi --query-gpu=<fields> --format=csv,noheader,nounits`; lines of another shape are left out."""
    rows = (_row(line, fields) for line in text.splitlines())
    return tuple(row for row in rows if row)


def smi_list(text: str) -> tuple[MigDevice, ...]:
    """Read the MIG devices from `nvidia-smi -L`."""
    devices: list[MigDevice] = []
    parent: str | None = None
    for line in text.splitlines():
        if gpu := _LIST_GPU.match(line):
            parent = gpu[2]
        elif (mig := _LIST_MIG.match(line)) and parent:
            devices.append(MigDevice(parent=parent, profile=mig[1], uuid=mig[2]))
    return tuple(devices)


def visible(rows: Sequence[SmiRow], devices: Sequence[MigDevice]) -> tuple[Gpu, ...]:
    """Return the GPUs a program can use: a GPU with MIG on stands for its devices, or for itself if it has none."""
    gpus: list[Gpu] = []
    for row in rows:
        parts = [device for device in devices if device.parent == row.gpu.uuid] if row.mig else []
        gpus += [
            Gpu(
                name=f"{row.gpu.name} MIG {device.profile}",
                compute_capability=row.gpu.compute_capability,
                mig=True,
                uuid=device.uuid,
            )
            for device in parts
        ] or [row.gpu]
    return tuple(gpus)


def _row(line: str, fields: Sequence[str]) -> SmiRow | None:
    values = [system_text.shown(value) for value in line.split(",")]
    if len(values) != len(fields):
        return None
    said = {field: value for field, value in zip(fields, values, strict=True) if not value.startswith("[")}
    name, memory = said.get("name"), _MEMORY.fullmatch(said.get("memory.total", ""))
    if not name:
        return None
    capability, driver = said.get("compute_cap", ""), said.get("driver_version", "")
    mig = said.get("mig.mode.current") == "Enabled"
    gpu = Gpu(
        name=name,
        compute_capability=capability if _CAPABILITY.fullmatch(capability) else None,
        memory_mib=int(memory[1]) or None if memory else None,
        mig=mig,
        uuid=_uuid(said.get("uuid", "")),
    )
    return SmiRow(gpu=gpu, mig=mig, driver=driver if is_version(driver) else None)


def _uuid(text: str) -> str | None:
    return text if re.fullmatch(r"(?:GPU|MIG)-[\w/-]+", text, re.ASCII) else None
