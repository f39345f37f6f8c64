"""What kernels, C libraries, compilers and containers say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlock import system_text

DATA = Path(__file__).parents[1] / "data" / "detect"


def seen(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("glibc 2.36", "2.36"),
        ("glibc 2.17.1\n", "2.17.1"),
        (seen("ldd-debian.txt"), "2.36"),
        (seen("ldd-eglibc.txt"), "2.15"),
        ("ldd (GNU libc) 2.34\n", "2.34"),
        (seen("ldd-musl.txt"), None),
        ("", None),
        ("glibc", None),
    ],
)
def test_the_c_library(text: str, version: str | None) -> None:
    assert system_text.libc_version(text) == version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (seen("gcc-dumpfullversion.txt"), "12.2.0"),
        (seen("gcc-version-debian.txt"), "12.2.0"),
        ("gcc (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)\n", "4.8.5"),
        ("13\n", "13"),
        ("Apple clang version 15.0.0", None),
        ("", None),
    ],
)
def test_gcc(text: str, version: str | None) -> None:
    assert system_text.gcc_version(text) == version


@pytest.mark.parametrize(
    ("text", "version"), [(seen("nvcc-9.1.txt"), "9.1.85"), (seen("nvcc-13.0.txt"), "13.0.88"), ("nvcc fatal", None)]
)
def test_nvcc(text: str, version: str | None) -> None:
    assert system_text.nvcc_version(text) == version


@pytest.mark.parametrize(
    ("text", "is_wsl"),
    [
        (seen("proc-version-wsl1.txt"), True),
        (seen("proc-version-wsl2.txt"), True),
        (seen("proc-version-ubuntu.txt"), False),
        ("", False),
    ],
)
def test_wsl(text: str, is_wsl: bool) -> None:
    assert system_text.wsl(text) is is_wsl


@pytest.mark.parametrize(
    ("cgroup", "files", "environ", "kind", "mark"),
    [
        (seen("cgroup-docker.txt"), (), {}, "docker", "/proc/1/cgroup"),
        (seen("cgroup-kubernetes.txt"), (), {}, "kubernetes", "/proc/1/cgroup"),
        (seen("cgroup-lxc.txt"), (), {}, "lxc", "/proc/1/cgroup"),
        (seen("cgroup-host.txt"), (), {}, None, ""),
        (seen("cgroup-host-running-docker.txt"), (), {}, None, ""),
        ("0::/\n", ("/.dockerenv",), {}, "docker", "/.dockerenv"),
        ("0::/\n", ("/run/.containerenv",), {"container": "oci"}, "podman", "/run/.containerenv"),
        ("", ("/.dockerenv",), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes", "KUBERNETES_SERVICE_HOST"),
        ("", (), {"SINGULARITY_NAME": "train.sif"}, "apptainer", "SINGULARITY_NAME"),
        ("", (), {"container": "systemd-nspawn"}, "systemd-nspawn", "container"),
        ("", (), {"container": "\x1b[31m"}, None, ""),
    ],
)
def test_containers(cgroup: str, files: tuple[str, ...], environ: dict[str, str], kind: str | None, mark: str) -> None:
    assert system_text.container(cgroup=cgroup, files=files, environ=environ) == (kind, mark)


def test_where_the_loader_looks() -> None:
    text = "include /etc/ld.so.conf.d/*.conf\n# a comment\n/usr/local/lib   # ours\nrelative\n\nhwcap 1 nosegneg\n"
    assert system_text.ld_directories(text) == (("/usr/local/lib",), ("/etc/ld.so.conf.d/*.conf",))


def test_every_kept_text_is_tested() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    kept = {path.name for pattern in ("cgroup-*", "proc-*", "ldd-*", "gcc-*", "nvcc-*") for path in DATA.glob(pattern)}
    assert kept
    assert {name for name in kept if name not in tested} == set()
