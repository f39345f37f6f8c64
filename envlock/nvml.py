"""Ask the driver's own library (NVML) for its GPUs, and print one JSON object.

`nvidia` runs this file in a child, `python -I nvml.py DIRECTORY` with the folder that holds `pynvml`: a driver in
trouble can hang or kill whoever loads its library. Exits 0 also when NVML refuses: then `error` says why.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main(folder: str) -> None:
    """Print `{"driver", "gpus", "lost", "error"}`; sizes in MiB, null where the driver does not say."""
    sys.path.insert(0, folder)
    json.dump(_read(), sys.stdout)


def _read() -> dict[str, Any]:
    import pynvml  # noqa: PLC0415 (its folder is known only now)

    said: dict[str, Any] = {"driver": None, "gpus": [], "lost": [], "error": None}
    try:
        pynvml.nvmlInit()
        said["driver"] = _text(pynvml.nvmlSystemGetDriverVersion())
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return {**said, "error": str(error)}
    for index in range(count):
        _add(pynvml, index, said)
    return said


def _add(pynvml: Any, index: int, said: dict[str, Any]) -> None:
    """Add one GPU, or why it answers nothing: one that fell off the bus must not hide the others."""
    try:
        said["gpus"] += _gpus(pynvml, pynvml.nvmlDeviceGetHandleByIndex(index))
    except pynvml.NVMLError as error:
        said["lost"].append(f"GPU {index}: {error}")


def _gpus(pynvml: Any, handle: Any) -> list[dict[str, Any]]:
    """Return a GPU, or its MIG devices where it is split; a GPU with MIG on and no device stands for itself."""
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    capability = f"{major}.{minor}"
    mode = _ask(pynvml, pynvml.nvmlDeviceGetMigMode, handle)
    if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return [_gpu(pynvml, handle, capability, mig=False)]
    parts = range(_ask(pynvml, pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0)
    devices = [_ask(pynvml, pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, part) for part in parts]
    found = [_gpu(pynvml, device, capability, mig=True) for device in devices if device]
    return found or [_gpu(pynvml, handle, capability, mig=True)]


def _gpu(pynvml: Any, handle: Any, capability: str, *, mig: bool) -> dict[str, Any]:
    memory = _ask(pynvml, pynvml.nvmlDeviceGetMemoryInfo, handle)
    return {
        "name": _text(pynvml.nvmlDeviceGetName(handle)),
        "compute_capability": capability,
        "memory_mib": memory.total // 2**20 or None if memory else None,
        "mig": mig,
        "uuid": _text(_ask(pynvml, pynvml.nvmlDeviceGetUUID, handle)),
    }


def _ask(pynvml: Any, question: Any, *what: Any) -> Any:
    """Return the answer, or None where this driver or GPU has none."""
    try:
        return question(*what)
    except pynvml.NVMLError:
        return None


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    main(sys.argv[1])
