"""What this machine's NVIDIA driver and GPUs are, read in the order of what each way costs and risks.

1. Files: `/proc/driver/nvidia/version`, else `/sys/module/nvidia/version` (the loaded module); the file names of
   `libnvidia-ml.so` and `libcuda.so` (the user-space library); `/sys/bus/pci` (GPUs, also without any driver);
   `/dev/nvidia*`. A machine whose files show no trace of NVIDIA is asked nothing more.
2. NVML through `nvidia-ml-py`, in a child with a time limit, so that a driver in trouble can't take envlock along.
3. `nvidia-smi` with the same limit, where NVML gave no answer. It is not asked after NVML hung: it loads the same
   library.
4. `/proc/driver/nvidia/gpus`: the names of the GPUs, where the module answers nobody but has made its devices.

`sources` keeps what was read where, and why the earlier ways gave nothing.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from envlock import driver_text, files, nvml, system_text
from envlock.model import Driver, Gpu
from envlock.proc import Command, Runner

__all__ = ["LIMIT_SECONDS", "Nvidia", "read"]

# A driver without persistence mode wakes its GPUs on the first question: seconds on a machine with eight.
LIMIT_SECONDS = 15.0

WSL_LIBRARIES = "/usr/lib/wsl/lib"
# Where loaders look beside ld.so.conf: the usual folders, GKE's driver mount, NixOS's.
LIBRARY_FOLDERS = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvidia:
    """The NVIDIA part of a machine's facts; `sources` as in `HostFacts`."""

    driver: Driver | None
    pci_gpus: tuple[str, ...]
    device_nodes: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    """What the files say."""

    module: str | None
    module_file: str
    library: str | None
    library_file: str
    nvml: bool
    pci_listed: bool
    pci_gpus: tuple[str, ...]
    device_nodes: tuple[str, ...]

    @property
    def alive(self) -> bool:
        """Whether something here could answer a question about GPUs."""
        return bool(self.module or self.device_nodes or self.pci_gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one way of asking gave: `failures` say why it, and those before it, gave less than all."""

    source: str = ""
    driver: str | None = None
    library: str | None = None
    gpus: tuple[Gpu, ...] = ()
    failures: tuple[str, ...] = ()
    hung: bool = False


def read(
    *,
    run: Runner,
    environ: Mapping[str, str],
    root: Path = Path("/"),
    wsl: bool = False,
    limit: float = LIMIT_SECONDS,
) -> Nvidia:
    """Read driver and GPUs; `limit` is in seconds for each program that is asked. Raises nothing."""
    trace = _trace(root, environ, wsl=wsl)
    answer = _Answer()
    if trace.alive or (wsl and trace.nvml):
        answer = _ask(run, environ, trace, limit, wsl=wsl)
        if not answer.gpus and trace.module and any(re.search(r"nvidia\d", node) for node in trace.device_nodes):
            answer = _from_module(root, answer)
    driver, sources = _driver(trace, answer, wsl=wsl)
    if trace.pci_gpus:
        sources["pci_gpus"] = "/sys/bus/pci/devices"
    if trace.device_nodes:
        sources["device_nodes"] = "/dev"
    if answer.gpus or answer.failures:
        sources["gpus"] = "; ".join([answer.source or "nothing answers", *answer.failures])
    return Nvidia(
        driver=driver,
        pci_gpus=trace.pci_gpus,
        device_nodes=trace.device_nodes,
        gpus=answer.gpus,
        sources=sources,
    )


# ---- files ----------------------------------------------------------------------------------------------------


def _trace(root: Path, environ: Mapping[str, str], *, wsl: bool) -> _Trace:
    module, module_file = _module(root)
    library, library_file, nvml_there = _libraries(root, environ)
    return _Trace(
        module=module,
        module_file=module_file,
        library=None if wsl else library,
        library_file=library_file,
        nvml=nvml_there,
        pci_listed=(root / "sys/bus/pci/devices").is_dir(),
        pci_gpus=_pci(root),
        device_nodes=_nodes(root),
    )


def _module(root: Path) -> tuple[str | None, str]:
    for name, parse in (
        ("/proc/driver/nvidia/version", driver_text.kernel_module),
        ("/sys/module/nvidia/version", driver_text.module_version),
    ):
        if version := parse(files.text(files.under(root, name))):
            return version, name
    return None, ""


def _libraries(root: Path, environ: Mapping[str, str]) -> tuple[str | None, str, bool]:
    """Return the library's version, the file that says so, and whether NVML is there to be asked.

    NVML's file decides before libcuda's: a CUDA image may bring a newer libcuda of its own (its `compat` folder).
    """
    folders = _folders(root, environ)
    there = any(files.under(root, f"{folder}/libnvidia-ml.so.1").exists() for folder in folders)
    for stem in ("libnvidia-ml.so", "libcuda.so"):
        for folder in folders:
            if "compat" in Path(folder).parts:
                continue
            for name in _opened_first(files.under(root, folder), stem):
                if version := driver_text.library(name):
                    return version, f"{folder}/{name}", there
    return None, "", there


def _opened_first(folder: Path, stem: str) -> list[str]:
    """Return the library's versioned files, that which its link `.so.1` names first: leftovers may lie beside it."""
    names = sorted((path.name for path in files.matching(folder, f"{stem}.*")), reverse=True)
    opened = files.link_target(folder / f"{stem}.1")
    return [opened, *names] if opened else names


def _folders(root: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders a loader searches, in its order."""
    given = [folder for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    configured: list[str] = []
    waiting = ["/etc/ld.so.conf"]
    for name in waiting:
        directories, included = system_text.ld_directories(files.text(files.under(root, name)))
        configured += directories
        for pattern in included:
            folder, _, glob = pattern.rpartition("/")
            found = files.matching(files.under(root, folder), glob) if folder.startswith("/") else []
            waiting += [f"{folder}/{path.name}" for path in found if f"{folder}/{path.name}" not in waiting]
    return tuple(dict.fromkeys([*given, WSL_LIBRARIES, *configured, *LIBRARY_FOLDERS]))


def _pci(root: Path) -> tuple[str, ...]:
    devices = files.matching(root / "sys/bus/pci/devices", "*")
    found = (
        driver_text.pci_gpu(
            vendor=files.text(device / "vendor"),
            device=files.text(device / "device"),
            kind=files.text(device / "class"),
        )
        for device in devices
    )
    return tuple(gpu for gpu in found if gpu)


def _nodes(root: Path) -> tuple[str, ...]:
    """Return the device files: those a CUDA program opens, and WSL's one."""
    nodes = [path for pattern in ("nvidia*", "dxg") for path in files.matching(root / "dev", pattern)]
    return tuple(f"/dev/{path.name}" for path in nodes if not path.is_dir())


# ---- questions ------------------------------------------------------------------------------------------------


def _ask(run: Runner, environ: Mapping[str, str], trace: _Trace, limit: float, *, wsl: bool) -> _Answer:
    answer = _nvml(run, environ, limit) if trace.nvml else _Answer(failures=("nvml: libnvidia-ml.so.1 is not there",))
    if answer.source or answer.hung:
        return answer
    program = shutil.which("nvidia-smi", path=environ.get("PATH", ""))
    if program is None and wsl:
        program = shutil.which("nvidia-smi", path=WSL_LIBRARIES)
    if program is None:
        return answer
    return _smi(partial(_run_smi, run, Command(argv=(program,), env=environ, timeout=limit)), answer)


def _nvml(run: Runner, environ: Mapping[str, str], limit: float) -> _Answer:
    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        return _Answer(failures=("nvml: the package nvidia-ml-py is not installed",))
    argv = (sys.executable, "-I", nvml.__file__, str(Path(spec.origin).parent))
    done = run(Command(argv=argv, env=environ, timeout=limit))
    if done.timed_out:
        return _Answer(failures=(f"nvml: no answer in {limit:g} s",), hung=True)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        return _Answer(failures=(f"nvml: ended with {done.code}",))
    if said["error"]:
        return _Answer(failures=(f"nvml: {said['error']}",))
    gpus = tuple(Gpu(**{**gpu, "name": system_text.shown(gpu["name"])}) for gpu in said["gpus"])
    driver = said["driver"] if driver_text.is_version(said["driver"] or "") else None
    return _Answer(source="nvml", driver=driver, gpus=gpus, failures=tuple(said["lost"]))


def _smi(ask: Callable[..., tuple[str, str | None]], before: _Answer) -> _Answer:
    said, failure, rows = _query(ask)
    if rows:
        devices = driver_text.smi_list(ask("-L")[0]) if any(row.mig for row in rows) else ()
        return _Answer(
            source="nvidia-smi",
            driver=rows[0].driver,
            gpus=driver_text.visible(rows, devices),
            failures=(*before.failures, failure) if failure else before.failures,
        )
    driver = None
    if failure is None:
        driver = driver_text.smi_driver(ask()[0])
        failure = "nvidia-smi: lists no GPU" if driver else "nvidia-smi: prints nothing that can be read"
    library = driver_text.mismatched_library(said)
    return _Answer(driver=driver, library=library, failures=(*before.failures, failure))


def _query(ask: Callable[..., tuple[str, str | None]]) -> tuple[str, str | None, tuple[driver_text.SmiRow, ...]]:
    """Ask for all fields, then without each that this release does not know."""
    fields = list(driver_text.QUERY)
    while True:
        said, failure = ask(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        unknown = driver_text.unknown_field(said)
        if failure or unknown not in fields:
            return said, failure, driver_text.smi_rows(said, fields)
        fields.remove(unknown)


def _run_smi(run: Runner, command: Command, *arguments: str) -> tuple[str, str | None]:
    done = run(replace(command, argv=(*command.argv, *arguments)))
    said = f"{done.stdout}\n{done.stderr}"
    if done.timed_out:
        return said, f"nvidia-smi: no answer in {command.timeout:g} s"
    failure = driver_text.smi_failure(said)
    return said, f"nvidia-smi: {failure}" if failure else None


def _from_module(root: Path, before: _Answer) -> _Answer:
    texts = [files.text(path / "information") for path in files.matching(root / "proc/driver/nvidia/gpus", "*")]
    gpus = tuple(gpu for gpu in map(driver_text.gpu_information, texts) if gpu)
    if not gpus:
        return before
    return replace(before, source="/proc/driver/nvidia/gpus", gpus=gpus)


# ---- the driver -----------------------------------------------------------------------------------------------


def _driver(trace: _Trace, answer: _Answer, *, wsl: bool) -> tuple[Driver | None, dict[str, str]]:
    """Put the driver together.

    A library on a machine whose PCI bus is listed and holds no NVIDIA GPU is a leftover (or an image's), no driver.
    """
    version = trace.module or answer.driver
    library = trace.library or answer.library
    asked = answer.source or "nvidia-smi"
    if wsl:
        if version:
            return Driver(version=version, numbering="windows"), {"driver": trace.module_file or asked}
        missing = {"driver": "none: libnvidia-ml.so.1 is there, but says no version"} if trace.nvml else {}
        return None, missing
    if version is None and library and trace.pci_listed and not trace.alive:
        return None, {"driver": f"none: {trace.library_file} is there, but no NVIDIA GPU is on the PCI bus"}
    if version is None and library is None:
        return None, {}
    parts = [
        (trace.module_file if trace.module else asked) if version else "no module is loaded",
        f"library: {trace.library_file if trace.library else 'nvidia-smi'}" if library else "",
    ]
    return Driver(version=version, library=library), {"driver": "; ".join(part for part in parts if part)}
