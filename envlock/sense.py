"""Read this machine: files first, programs only for what no file says, and never torch.

In order: the kernel, WSL and container marks (files); the C library (asked of this process); the NVIDIA driver and
its GPUs (`nvidia`, which has an order of its own); the Pythons (`interpreters`); gcc and nvcc (`--version`, in
children with a time limit). CUDA_VISIBLE_DEVICES and LD_LIBRARY_PATH are reported as they stand. `sources` says where
each fact was read.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from envlock import files, interpreters, nvidia, system_text
from envlock.model import HostFacts
from envlock.proc import Command, Runner

__all__ = ["read"]

COMPILER_SECONDS = 5.0
CONTAINER_MARKS = ("/run/.containerenv", "/.dockerenv")


def read(
    *,
    run: Runner,
    environ: Mapping[str, str],
    root: Path = Path("/"),
    limit: float = nvidia.LIMIT_SECONDS,
    note: Callable[[str], None] = lambda _: None,
) -> HostFacts:
    """Return what this machine is; raises nothing.

    `root` is where the machine's files are looked for, `limit` how many seconds NVML and nvidia-smi may each take,
    `note` gets a line for each interpreter that was passed over.
    """
    kernel, kernel_source = _kernel(root)
    on_wsl = system_text.wsl(files.text(root / "proc/version") or kernel)
    card = nvidia.read(run=run, environ=environ, root=root, wsl=on_wsl, limit=limit)
    found = interpreters.find(run=run, environ=environ, note=note)
    glibc = system_text.libc_version(_confstr())
    container, container_source = _container(root, environ)
    gcc, gcc_source = _gcc(run, environ)
    nvcc, nvcc_source = _nvcc(run, environ, root)
    libraries = system_text.shown(environ.get("LD_LIBRARY_PATH", ""))
    devices = environ.get("CUDA_VISIBLE_DEVICES")
    read_here = {
        "os": "sys.platform",
        "arch": "uname",
        "glibc": "confstr(CS_GNU_LIBC_VERSION)" if glibc else "",
        "kernel": kernel_source,
        "wsl": "/proc/version" if on_wsl else "",
        "container": container_source,
        **card.sources,
        "cuda_visible_devices": "CUDA_VISIBLE_DEVICES" if devices is not None else "",
        "pythons": ", ".join(dict.fromkeys(interpreter.origin for interpreter in found)),
        "gcc": gcc_source,
        "nvcc": nvcc_source,
        "ld_library_path": "LD_LIBRARY_PATH" if libraries else "",
    }
    return HostFacts(
        os=sys.platform,
        arch=os.uname().machine,
        glibc=glibc,
        kernel=kernel,
        wsl=on_wsl,
        container=container,
        driver=card.driver,
        pci_gpus=card.pci_gpus,
        device_nodes=card.device_nodes,
        gpus=card.gpus,
        cuda_visible_devices=None if devices is None else system_text.shown(devices),
        pythons=tuple(dict.fromkeys(interpreter.version for interpreter in found)),
        gcc=gcc,
        nvcc=nvcc,
        ld_library_path=tuple(folder for folder in libraries.split(":") if folder),
        sources={fact: source for fact, source in read_here.items() if source},
    )


def _kernel(root: Path) -> tuple[str, str]:
    written = system_text.shown(files.text(root / "proc/sys/kernel/osrelease"))
    return (written, "/proc/sys/kernel/osrelease") if written else (os.uname().release, "uname")


def _confstr() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):  # musl has no such name
        return ""


def _container(root: Path, environ: Mapping[str, str]) -> tuple[str | None, str]:
    marks = [mark for mark in CONTAINER_MARKS if files.under(root, mark).exists()]
    return system_text.container(cgroup=files.text(root / "proc/1/cgroup"), files=marks, environ=environ)


def _gcc(run: Runner, environ: Mapping[str, str]) -> tuple[str | None, str]:
    program = shutil.which("gcc", path=environ.get("PATH", ""))
    # gcc before 7 knows only -dumpversion, which newer ones answer with the major number: given both, each is full.
    return _version(run, environ, program, ("-dumpfullversion", "-dumpversion"), system_text.gcc_version)


def _nvcc(run: Runner, environ: Mapping[str, str], root: Path) -> tuple[str | None, str]:
    """Ask the compiler that torch's extension builder would take: CUDA_HOME's, PATH's, then /usr/local/cuda's."""
    homes = [environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    places = [f"{home}/bin" for home in homes] + [environ.get("PATH", ""), str(root / "usr/local/cuda/bin")]
    programs = (shutil.which("nvcc", path=place) for place in places)
    return _version(run, environ, next(filter(None, programs), None), ("--version",), system_text.nvcc_version)


def _version(
    run: Runner,
    environ: Mapping[str, str],
    program: str | None,
    arguments: tuple[str, ...],
    parse: Callable[[str], str | None],
) -> tuple[str | None, str]:
    if program is None:
        return None, ""
    done = run(Command(argv=(program, *arguments), env=environ, timeout=COMPILER_SECONDS))
    version = parse(done.stdout) if done.code == 0 else None
    return version, program if version else f"{program}: no answer that can be read"
