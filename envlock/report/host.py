"""The face of `envlock detect`."""

from __future__ import annotations

from envlock.model import Detected, Gpu, HostFacts
from envlock.report.canvas import Canvas, Cell

__all__ = ["draw"]


def draw(canvas: Canvas, answer: Detected, *, verbose: bool) -> None:
    """Draw each fact with its source; `verbose` adds the settings in force."""
    rows = [(name, value or "none", answer.host.sources.get(field, "")) for name, field, value in _facts(answer.host)]
    canvas.table([_row(*row) for row in rows], header=("this machine", "", "read from"), indent=0)
    if verbose and answer.settings:
        canvas.gap()
        settings = [_row(one.name, one.value or "not set", one.origin) for one in answer.settings]
        canvas.table(settings, header=("setting", "", "set by"), indent=0, whole=True)


def _row(name: str, value: str, source: str) -> tuple[Cell, ...]:
    return ((name,), ((value, "" if value not in ("none", "not set") else "dim"),), ((source, "dim"),))


def _facts(host: HostFacts) -> list[tuple[str, str, str | None]]:
    """Return (what a person calls it, the field, its value), in the order a person asks."""
    gpus: list[tuple[str, str, str | None]]
    gpus = [(f"GPU {place}", "gpus", _gpu(gpu)) for place, gpu in enumerate(host.gpus)] or [("GPU", "gpus", None)]
    hidden = [("GPU on PCI", "pci_gpus", " ".join(host.pci_gpus))] if host.pci_gpus and not host.gpus else []
    return [
        ("driver", "driver", _driver(host)),
        *gpus,
        *hidden,
        ("CUDA_VISIBLE_DEVICES", "cuda_visible_devices", _set(host.cuda_visible_devices)),
        ("system", "os", _system(host)),
        ("glibc", "glibc", host.glibc),
        ("container", "container", host.container),
        ("Python", "pythons", " ".join(host.pythons) or None),
        ("gcc", "gcc", host.gcc),
        ("nvcc", "nvcc", host.nvcc),
        ("LD_LIBRARY_PATH", "ld_library_path", ":".join(host.ld_library_path) or "not set"),
    ]


def _set(value: str | None) -> str:
    # An empty list hides every GPU: it is not the same as none at all.
    return "not set" if value is None else value or '""'


def _driver(host: HostFacts) -> str | None:
    driver = host.driver
    if driver is None:
        return None
    if driver.version is None:
        return f"not loaded (library {driver.library})"
    differs = driver.library is not None and driver.library != driver.version
    numbers = " (Windows numbers)" if driver.numbering == "windows" else ""
    return f"{driver.version}{numbers}" + (f", library {driver.library}: reboot" if differs else "")


def _gpu(gpu: Gpu) -> str:
    memory = f"{gpu.memory_mib} MiB" if gpu.memory_mib is not None else None
    capability = f"compute {gpu.compute_capability}" if gpu.compute_capability else None
    return ", ".join(part for part in (gpu.name, capability, memory, "MIG" if gpu.mig else None) if part)


def _system(host: HostFacts) -> str:
    kernel = f", kernel {host.kernel}" if host.kernel else ""
    return f"{host.os}-{host.arch}{kernel}{', WSL' if host.wsl else ''}"
