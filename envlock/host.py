"""A machine as a file: read it with every mistake named, write it, and stand another machine in for this one.

The file is what `envlock detect --json` prints under `result`; the whole printed document is taken as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, Literal, NoReturn, cast

from envlock import document, facts, gpu_names
from envlock.document import Scope, Shape
from envlock.errors import Misuse, Problem
from envlock.model import Driver, Gpu, HostFacts

__all__ = ["SCHEMA", "dump", "name_capabilities", "override", "parse"]

SCHEMA = 1
FACTS = (
    "os",
    "arch",
    "glibc",
    "kernel",
    "wsl",
    "container",
    "driver",
    "pci_gpus",
    "device_nodes",
    "gpus",
    "cuda_visible_devices",
    "pythons",
    "gcc",
    "nvcc",
    "ld_library_path",
)

# A directory of a search path may be empty text: it means the current directory.
PATH = Shape(pattern=r".*", expected="a printable path")
# The first number has three digits since 2007; what has fewer is a CUDA version that took the wrong place.
DRIVER = Shape(
    pattern=r"[1-9][0-9]{2,}\.[0-9]+(\.[0-9]+)?",
    expected="two or three numbers, e.g. 550.54 or 535.104.05; read it with "
    "`nvidia-smi --query-gpu=driver_version --format=csv,noheader` "
    "or from /proc/driver/nvidia/version",
)
CUDA = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]+)?")
ASK = "`nvidia-smi --query-gpu=name,compute_cap --format=csv` prints both on its machine"
CAPABILITY = Shape(
    pattern=r"[1-9][0-9]?\.[0-9]", expected="e.g. 8.6; read it with `nvidia-smi --query-gpu=compute_cap --format=csv`"
)
AS_DRIVER = 'an object such as {"version": "535.104.05"}, or null'
GLIBC = Shape(pattern=r"[0-9]+\.[0-9]+(\.[0-9]+)?", expected="e.g. 2.35; read it with `ldd --version`")
PYTHON = Shape(pattern=r"[0-9]+\.[0-9]+(\.[0-9]+)?", expected="e.g. 3.10.13")
VERSION = Shape(pattern=r"[0-9]+(\.[0-9]+)*", expected="e.g. 11.4.0")
PCI = Shape(pattern=r"10de:[0-9a-f]{4}", expected="e.g. 10de:2204; read it with `lspci -n`")


def parse(text: str, file: str) -> HostFacts:
    """Read a host file, or all that `envlock detect --json` printed.

    Raises `Misuse` with every problem: `host-newer` for a schema this release does not know, else `host-invalid`.
    """
    read = document.decode(text, file)
    if isinstance(read, Problem):
        _refuse(file, (read,))
    top = Scope(values=read, path="", file=file, problems=[])
    scope: Scope | None = top
    if "result" in read or "command" in read:
        scope = _unwrap(top)
    elif "schema" not in read:
        top.complain("schema", "is missing", expected=str(SCHEMA))
    _check_schema(top)
    if scope and scope is not top:
        _check_schema(scope)
    host = _host(scope) if scope else HostFacts()
    if top.problems:
        _refuse(file, tuple(top.problems))
    return host


def dump(host: HostFacts) -> dict[str, Any]:
    """Return the host file's content, ready for JSON: `parse` of it gives the same host."""
    told = {name: getattr(host, name) for name in FACTS}
    told["driver"] = asdict(host.driver) if host.driver else None
    told["gpus"] = [asdict(gpu) for gpu in host.gpus]
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}
    return {"schema": SCHEMA, **listed, "sources": dict(host.sources)}


def override(
    host: HostFacts,
    *,
    driver: str | None,
    gpus: Sequence[str],
    glibc: str | None,
    gpu_cc: Mapping[str, str],
    gpu_arch: Mapping[str, str] = MappingProxyType({}),
) -> HostFacts:
    """Return the machine with what `--driver`, `--gpu` and `--glibc` say in place of what was read.

    `driver` is a version or `none`; each GPU a compute capability or a name that `gpu_cc` knows. Another driver is
    another machine: unless GPUs are named with it, they are unknown. So is a GPU that is built together with another
    processor, by its name or compute capability in `gpu_arch`. Raises `Misuse`, code `host-invalid` (also for a GPU
    where there is no driver), `gpu-unknown` or `gpu-ambiguous`.
    """
    if driver is not None:
        host = _with_driver(host, driver)
    if gpus:
        host = _with_gpus(host, tuple(_named(gpu, gpu_cc) for gpu in gpus), gpu_arch)
    if glibc is not None:
        host = _changed(host, "--glibc", glibc=_option("--glibc", glibc, GLIBC))
    return host


def name_capabilities(host: HostFacts, gpu_cc: Mapping[str, str]) -> HostFacts:
    """Return the host with the compute capability of each GPU whose name gives it away, where the driver did not."""
    if all(gpu.compute_capability for gpu in host.gpus):
        return host
    gpus = tuple(
        gpu if gpu.compute_capability else replace(gpu, compute_capability=gpu_names.capability(gpu.name, gpu_cc))
        for gpu in host.gpus
    )
    source = f"{host.sources.get('gpus', 'host file')}; compute capability from the GPU's name"
    return replace(host, gpus=gpus, sources={**host.sources, "gpus": source}) if gpus != host.gpus else host


def _unwrap(top: Scope) -> Scope | None:
    top.know("schema", "command", "exit", "result", "error")
    command = top.values.get("command")
    if command != "detect":
        top.complain(
            "command", f"is {document.quoted(command)}", expected='"detect": the output of `envlock detect --json`'
        )
        return None
    return top.inner("result", required=True)


def _check_schema(scope: Scope) -> None:
    schema = scope.values.get("schema", SCHEMA)
    if isinstance(schema, int) and not isinstance(schema, bool) and schema > SCHEMA:
        raise Misuse(
            f"{scope.file} was written by a newer envlock",
            code="host-newer",
            problems=(
                Problem(
                    message=f"is {schema}",
                    file=scope.file,
                    key=scope.at("schema"),
                    expected=f"{SCHEMA} at the most here",
                ),
            ),
            hint="envlock --version",
        )
    if isinstance(schema, bool) or schema != SCHEMA:
        scope.complain("schema", f"is {document.quoted(schema)}", expected=str(SCHEMA))


def _host(scope: Scope) -> HostFacts:
    scope.know("schema", *FACTS, "sources")
    wsl = scope.flag("wsl")
    return HostFacts(
        os=scope.text("os") or "linux",
        arch=scope.text("arch") or "x86_64",
        glibc=scope.text("glibc", GLIBC),
        kernel=scope.text("kernel"),
        wsl=wsl,
        container=scope.text("container"),
        driver=_driver(scope.inner("driver", expected=AS_DRIVER), wsl=wsl),
        pci_gpus=scope.texts("pci_gpus", PCI),
        device_nodes=scope.texts("device_nodes"),
        gpus=tuple(_gpu(gpu) for gpu in scope.each("gpus")),
        cuda_visible_devices=scope.text("cuda_visible_devices", PATH),
        pythons=scope.texts("pythons", PYTHON),
        gcc=scope.text("gcc", VERSION),
        nvcc=scope.text("nvcc", VERSION),
        ld_library_path=scope.texts("ld_library_path", PATH),
        sources=_sources(scope.inner("sources")),
    )


def _driver(scope: Scope | None, *, wsl: bool) -> Driver | None:
    if scope is None:
        return None
    scope.know("version", "library", "numbering")
    driver = Driver(
        version=scope.text("version", DRIVER),
        library=scope.text("library", DRIVER),
        numbering=cast(
            "Literal['linux', 'windows']",
            scope.word("numbering", "windows" if wsl else "linux", "linux", "windows"),
        ),
    )
    if scope.values.get("version") is None and scope.values.get("library") is None:
        scope.complain(
            "version", "is missing, and so is `library`", expected="one of them; `driver` is null without a driver"
        )
    return driver


def _gpu(scope: Scope) -> Gpu:
    scope.know("name", "compute_capability", "memory_mib", "mig", "uuid")
    if scope.values.get("name") is None:
        scope.complain("name", "is missing", expected="e.g. NVIDIA GeForce RTX 3090")
    return Gpu(
        name=scope.text("name") or "",
        compute_capability=scope.text("compute_capability", CAPABILITY),
        memory_mib=scope.count("memory_mib"),
        mig=scope.flag("mig"),
        uuid=scope.text("uuid"),
    )


def _sources(scope: Scope | None) -> dict[str, str]:
    if scope is None:
        return {}
    scope.know(*FACTS)
    return {key: scope.text(key) or "" for key in scope.values if key in FACTS and scope.values[key] is not None}


def _with_driver(host: HostFacts, driver: str) -> HostFacts:
    if driver == "none":
        given = None
    else:
        version = _option("--driver", driver, DRIVER)
        numbering = host.driver.numbering if host.driver else ("windows" if host.wsl else "linux")
        given = Driver(version=version, library=version if numbering == "linux" else None, numbering=numbering)
    return _changed(host, "--driver", driver=given, gpus=(), pci_gpus=(), device_nodes=(), cuda_visible_devices=None)


def _changed(host: HostFacts, option: str, **changes: Any) -> HostFacts:
    """Return the host with these facts, each said to come from the option, or from nowhere once emptied."""
    kept = {key: source for key, source in host.sources.items() if key not in changes}
    said = {key: option for key, value in changes.items() if value or key == "driver"}
    return replace(host, **changes, sources={**kept, **said})


def _with_gpus(host: HostFacts, gpus: tuple[Gpu, ...], gpu_arch: Mapping[str, str]) -> HostFacts:
    if host.driver is None:
        expected = "`--driver VERSION` beside it"
        problem = Problem(message="names a GPU, and there is no NVIDIA driver", key="--gpu", expected=expected)
        raise Misuse("without a driver no GPU computes", code="host-invalid", problems=(problem,))
    found = (gpu_names.processor(gpu, gpu_arch) for gpu in gpus)
    arch = next((each for each in found if each), host.arch)
    host = host if arch == host.arch else _changed(host, "--gpu", arch=arch)
    return _changed(host, "--gpu", gpus=gpus, pci_gpus=(), device_nodes=(), cuda_visible_devices=None)


def _named(gpu: str, gpu_cc: Mapping[str, str]) -> Gpu:
    if re.fullmatch(r"[0-9]+\.[0-9]+", gpu):
        capability = _made(_option("--gpu", gpu, CAPABILITY), gpu_cc)
        return Gpu(name=f"compute capability {capability}", compute_capability=capability)
    found = gpu_names.capability(gpu, gpu_cc)
    if found and gpu.isprintable():
        return Gpu(name=gpu_names.canonical(gpu, gpu_cc), compute_capability=found)
    raise _no_gpu(gpu, gpu_cc)


def _no_gpu(gpu: str, gpu_cc: Mapping[str, str]) -> Misuse:
    """Return the error for a name that stands for no GPU, or for several that differ."""
    shown, several = document.safe(gpu), gpu_names.meant(gpu, gpu_cc)
    if several:
        expected = " or ".join(f"`{name}` ({found})" for name, found in several.items())
        problem = Problem(message="is not one GPU", key="--gpu", expected=expected)
        return Misuse(f"`{shown}` may be several GPUs", code="gpu-ambiguous", problems=(problem,))
    near = gpu_names.similar(gpu, gpu_cc)
    expected = f"a name that NVIDIA gave, or a compute capability such as 8.6; {ASK}"
    if "," in gpu:
        expected = f"one GPU, and `--gpu` again for the next; {ASK}"
    if gpu_names.is_foreign(gpu):
        message = f"`{shown}` is no GPU of NVIDIA's, and envlock knows no others"
    else:
        message = f"`{shown}` is no GPU that envlock knows" + (f"; did you mean {_either(near)}?" if near else "")
    return Misuse(
        message, code="gpu-unknown", problems=(Problem(message="is unknown", key="--gpu", expected=expected),)
    )


def _made(capability: str, gpu_cc: Mapping[str, str]) -> str:
    """Return the compute capability; raise `Misuse` (`gpu-unknown`) for one that lies among those there are."""
    known = sorted({facts.capability(each) for each in gpu_cc.values()})
    asked = facts.capability(capability)
    if known and known[0] < asked < known[-1] and asked not in known:
        expected = f"one of {', '.join(f'{major}.{minor}' for major, minor in known)}"
        problem = Problem(message=f"is {capability}", key="--gpu", expected=expected)
        raise Misuse(f"no GPU has compute capability {capability}", code="gpu-unknown", problems=(problem,))
    return capability


def _option(option: str, value: str, shape: Shape) -> str:
    if re.fullmatch(shape.pattern, value):
        return value
    message = f"is {document.quoted(value)}"
    if shape is DRIVER and CUDA.fullmatch(value):
        message += ", which looks like a version of CUDA"
    problem = Problem(message=message, key=option, expected=shape.expected)
    what = {DRIVER: "version of NVIDIA's driver", GLIBC: "version of glibc", CAPABILITY: "compute capability"}[shape]
    raise Misuse(f"`{document.safe(value)}` is no {what}", code="host-invalid", problems=(problem,))


def _refuse(file: str, problems: tuple[Problem, ...]) -> NoReturn:
    message = f"{file} is not a host file"
    raise Misuse(message, code="host-invalid", problems=problems, hint="envlock detect --json")


def _either(words: Iterable[str]) -> str:
    return " or ".join(f"`{word}`" for word in words)
