"""What the system and its compilers print, read into values. Pure: text in, value or None out, nothing raised."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

__all__ = ["container", "gcc_version", "ld_directories", "libc_version", "nvcc_version", "shown", "wsl"]

_VARIABLES = (
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ("APPTAINER_NAME", "apptainer"),
    ("SINGULARITY_NAME", "apptainer"),
)
_FILES = (("/run/.containerenv", "podman"), ("/.dockerenv", "docker"))
_CGROUPS = (("kubepods", "kubernetes"), ("/docker/", "docker"), ("/libpod", "podman"), ("/lxc/", "lxc"))


def libc_version(text: str) -> str | None:
    """Read `glibc 2.36`, or the first line of `ldd --version`; None for another C library."""
    first = text.partition("\n")[0]
    found = re.search(r"(?:glibc|\(.*(?:GLIBC|GNU libc).*\)) ([0-9]+\.[0-9]+(?:\.[0-9]+)?)\s*$", first)
    return found[1] if found else None


def gcc_version(text: str) -> str | None:
    """Read `gcc -dumpfullversion`, or the first line of `gcc --version`."""
    first = text.partition("\n")[0]
    found = re.search(r"(?:^|\) )([0-9]+(?:\.[0-9]+){0,2})(?:\s|$)", first)
    return found[1] if found else None


def nvcc_version(text: str) -> str | None:
    """Read `nvcc --version`: the toolkit's full number, `12.1.105`."""
    found = re.search(r"release [0-9.]+, V([0-9]+(?:\.[0-9]+){1,2})(?:\s|$)", text)
    return found[1] if found else None


def wsl(proc_version: str) -> bool:
    """Return whether `/proc/version` (or the kernel's release) is that of the Windows Subsystem for Linux."""
    return "microsoft" in proc_version.lower()


def container(*, cgroup: str, files: Collection[str], environ: Mapping[str, str]) -> tuple[str | None, str]:
    """Return what kind of container this is (`kubernetes`, `docker`, `podman`, `apptainer`, `lxc`, …), and its mark.

    `files` are the marker files that are there, `cgroup` is `/proc/1/cgroup`: the first process's own groups, since
    a host that runs a docker daemon has groups of that name too.
    """
    for name, kind in _VARIABLES:
        if name in environ:
            return kind, name
    for name, kind in _FILES:
        if name in files:
            return kind, name
    paths = [line.rpartition(":")[2] for line in cgroup.splitlines()]
    for mark, kind in _CGROUPS:
        if any(mark in path for path in paths):
            return kind, "/proc/1/cgroup"
    declared = environ.get("container", "")
    return (declared, "container") if re.fullmatch(r"[a-z][a-z-]*", declared) else (None, "")


def shown(text: str) -> str:
    """Return the text without surrounding space, and with a mark in place of what a terminal would act on."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text.strip())


def ld_directories(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read one `ld.so.conf`: the directories it names, and the patterns of files it includes."""
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    directories = tuple(words[0] for words in lines if len(words) == 1 and words[0].startswith("/"))
    included = tuple(word for words in lines if words[:1] == ["include"] for word in words[1:])
    return directories, included
