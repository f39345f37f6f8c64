"""Reading a machine: real files under a moved root, real programs on PATH, a small NVML that is really loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envlock import proc, sense
from envlock.model import Driver, Gpu, HostFacts

DATA = Path(__file__).parents[1] / "data" / "detect"
MODULE = "/proc/driver/nvidia/version"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="builds a small NVML with gcc")


def seen(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


class Machine:
    """A machine made of files and programs, read as if it were this one."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.programs = folder / "bin"
        self.home = folder / "home"
        for made in (self.root, self.programs, self.home):
            made.mkdir()
        self.environ = {"PATH": str(self.programs), "HOME": str(self.home)}

    def file(self, name: str, text: str = "") -> Path:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def link(self, name: str, target: str) -> None:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def smi(self, *answers: tuple[str, str], code: int = 0) -> None:
        """Put an `nvidia-smi` on PATH that answers an argument pattern with a kept text."""
        cases = "\n".join(f'{pattern}) /bin/cat "{DATA / file}" ;;' for pattern, file in answers)
        self.program("nvidia-smi", f'echo "$*" >> "{self.root}/asked"\ncase "$*" in\n{cases}\nesac\nexit {code}')

    @property
    def asked(self) -> list[str]:
        log = self.root / "asked"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def module(self, version: str = "535.183.01") -> None:
        self.file(MODULE, f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Sun May 12 19:39:15 UTC 2024\n")
        for node in ("nvidia0", "nvidiactl", "nvidia-uvm"):
            self.file(f"/dev/{node}")
        self.file("/dev/nvidia-caps/nvidia-cap1")

    def library(self, version: str = "535.183.01") -> None:
        for stem in ("libnvidia-ml.so", "libcuda.so"):
            self.file(f"{LIBRARIES}/{stem}.{version}")
            self.link(f"{LIBRARIES}/{stem}.1", f"{stem}.{version}")

    def pci(self, slot: str, vendor: str, device: str, kind: str) -> None:
        for name, text in (("vendor", vendor), ("device", device), ("class", kind)):
            self.file(f"/sys/bus/pci/devices/{slot}/{name}", f"{text}\n")

    def nvml(self, folder: Path, gpus: str, *, init: str = "0") -> None:
        """Let the loader of child processes find the small NVML, and the root know of it."""
        self.environ |= {"LD_LIBRARY_PATH": str(folder), "NVML_GPUS": gpus, "NVML_INIT": init}
        self.environ["NVML_DRIVER"] = "535.183.01"
        self.link(str(folder), str(folder))

    def read(self, *, limit: float = 20.0) -> HostFacts:
        return sense.read(run=proc.run, environ=self.environ, root=self.root, limit=limit)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture(scope="module")
def small_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(DATA / "nvml.c")], check=True)
    return folder


def test_a_machine_without_a_trace_of_nvidia_is_asked_nothing(machine: Machine) -> None:
    machine.program("nvidia-smi", f"touch '{machine.root}/asked'")
    facts = machine.read()
    assert (facts.driver, facts.gpus, facts.pci_gpus, facts.device_nodes) == (None, (), (), ())
    assert not machine.asked
    assert "driver" not in facts.sources


def test_the_machine_itself(machine: Machine) -> None:
    machine.file("/proc/sys/kernel/osrelease", "5.15.0-91-generic\n")
    machine.file("/.dockerenv")
    machine.environ |= {"CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": "/opt/a::/opt/b"}
    facts = machine.read()
    assert (facts.os, facts.arch) == (sys.platform, os.uname().machine)
    assert facts.kernel == "5.15.0-91-generic"
    assert facts.container == "docker"
    assert facts.cuda_visible_devices == ""
    assert facts.ld_library_path == ("/opt/a", "/opt/b")
    assert facts.sources["container"] == "/.dockerenv"
    assert facts.sources["kernel"] == "/proc/sys/kernel/osrelease"
    assert facts.sources["cuda_visible_devices"] == "CUDA_VISIBLE_DEVICES"


def test_what_a_variable_holds_can_not_move_the_cursor(machine: Machine) -> None:
    machine.environ |= {"CUDA_VISIBLE_DEVICES": "0\x1b[2J", "LD_LIBRARY_PATH": "/opt/\udcff"}
    facts = machine.read()
    assert facts.cuda_visible_devices == "0\ufffd[2J"
    assert facts.ld_library_path == ("/opt/\ufffd",)


def test_a_kernel_without_proc(machine: Machine) -> None:
    facts = machine.read()
    assert facts.kernel == os.uname().release
    assert facts.sources["kernel"] == "uname"


def test_compilers(machine: Machine) -> None:
    machine.program("gcc", "echo 11.4.0")
    machine.program("nvcc", f"/bin/cat '{DATA}/nvcc-13.0.txt'")
    facts = machine.read()
    assert (facts.gcc, facts.nvcc) == ("11.4.0", "13.0.88")
    assert facts.sources["gcc"] == f"{machine.programs}/gcc"


def test_the_compiler_torch_would_take(machine: Machine) -> None:
    machine.program("nvcc", f"/bin/cat '{DATA}/nvcc-13.0.txt'")
    chosen = machine.file("/opt/cuda/bin/nvcc", f"#!/bin/sh\n/bin/cat '{DATA}/nvcc-9.1.txt'\n")
    chosen.chmod(0o755)
    machine.environ["CUDA_HOME"] = f"{machine.root}/opt/cuda"
    assert machine.read().nvcc == "9.1.85"


def test_a_compiler_that_says_nothing(machine: Machine) -> None:
    machine.program("gcc", "echo hello")
    facts = machine.read()
    assert facts.gcc is None
    assert facts.sources["gcc"] == f"{machine.programs}/gcc: no answer that can be read"


def test_files_alone_name_the_driver(machine: Machine) -> None:
    machine.module()
    machine.library()
    machine.pci("0000:01:00.0", "0x10de", "0x2204", "0x030000")
    machine.pci("0000:01:00.1", "0x10de", "0x1aef", "0x040300")
    machine.pci("0000:02:00.0", "0x8086", "0x1533", "0x020000")
    facts = machine.read()
    assert facts.driver == Driver(version="535.183.01", library="535.183.01")
    assert facts.pci_gpus == ("10de:2204",)
    assert facts.device_nodes == ("/dev/nvidia0", "/dev/nvidia-uvm", "/dev/nvidiactl")
    assert facts.sources["driver"] == f"{MODULE}; library: {LIBRARIES}/libnvidia-ml.so.535.183.01"


def test_devices_are_in_counting_order(machine: Machine) -> None:
    for number in (10, 2, 0):
        machine.file(f"/dev/nvidia{number}")
    assert machine.read().device_nodes == ("/dev/nvidia0", "/dev/nvidia2", "/dev/nvidia10")


def test_the_module_in_sys_when_proc_is_hidden(machine: Machine) -> None:
    machine.file("/sys/module/nvidia/version", "570.26\n")
    facts = machine.read()
    assert facts.driver == Driver(version="570.26")
    assert facts.sources["driver"] == "/sys/module/nvidia/version"


@pytest.mark.parametrize("kept", sorted(path.name for path in DATA.glob("kernel-module-*")))
def test_each_kept_module_is_a_driver(machine: Machine, kept: str) -> None:
    machine.file(MODULE, seen(kept))
    driver = machine.read().driver
    assert driver is not None
    assert driver.version
    assert driver.version in kept


def test_a_library_newer_than_the_module(machine: Machine) -> None:
    machine.module("535.104.05")
    machine.library("535.129.03")
    machine.smi(("*", "smi-mismatch.txt"), code=18)
    facts = machine.read()
    assert facts.driver == Driver(version="535.104.05", library="535.129.03")
    assert facts.gpus == ()
    assert "Driver/library version mismatch" in facts.sources["gpus"]


def test_the_complaint_names_a_library_that_was_not_found(machine: Machine) -> None:
    machine.module("580.173.02")
    machine.smi(("*", "smi-mismatch-580.178.txt"), code=18)
    facts = machine.read()
    assert facts.driver == Driver(version="580.173.02", library="580.178")
    assert facts.sources["driver"] == f"{MODULE}; library: nvidia-smi"


def test_the_library_that_is_opened_not_the_leftover_beside_it(machine: Machine) -> None:
    machine.module()
    machine.file(f"{LIBRARIES}/libnvidia-ml.so.999.10")
    machine.library("535.183.01")
    driver = machine.read().driver
    assert driver is not None
    assert driver.library == "535.183.01"


def test_the_compat_library_of_an_image_is_not_the_drivers(machine: Machine) -> None:
    machine.module("535.183.01")
    machine.file("/usr/local/cuda/compat/libcuda.so.550.54.15")
    machine.file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    machine.file("/etc/ld.so.conf.d/00-compat.conf", "/usr/local/cuda/compat\n")
    assert machine.read().driver == Driver(version="535.183.01")


def test_a_folder_that_only_the_loaders_configuration_names(machine: Machine) -> None:
    machine.module()
    machine.file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\ninclude /etc/ld.so.conf\n")
    machine.file("/etc/ld.so.conf.d/nvidia.conf", "/opt/nvidia/lib\n")
    machine.file("/opt/nvidia/lib/libcuda.so.535.183.01")
    driver = machine.read().driver
    assert driver is not None
    assert driver.library == "535.183.01"


def test_a_module_that_is_not_loaded(machine: Machine) -> None:
    machine.library()
    machine.pci("0000:01:00.0", "0x10de", "0x2204", "0x030000")
    machine.smi(("*", "smi-driver-not-loaded.txt"), code=9)
    facts = machine.read()
    assert facts.driver == Driver(version=None, library="535.183.01")
    assert facts.sources["driver"].startswith("no module is loaded; library: ")
    assert "couldn't communicate with the NVIDIA driver" in facts.sources["gpus"]


def test_a_gpu_without_any_driver(machine: Machine) -> None:
    machine.pci("0000:01:00.0", "0x10de", "0x2684", "0x030000")
    facts = machine.read()
    assert (facts.driver, facts.pci_gpus) == (None, ("10de:2684",))


def test_a_library_on_a_machine_that_has_no_gpu_is_a_leftover(machine: Machine) -> None:
    machine.library()
    machine.pci("0000:02:00.0", "0x8086", "0x1533", "0x020000")
    facts = machine.read()
    assert facts.driver is None
    assert facts.sources["driver"].startswith("none: ")


def test_a_container_without_devices(machine: Machine) -> None:
    machine.file(MODULE, seen("kernel-module-515.65.01.txt"))
    machine.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", seen("gpu-information-3090.txt"))
    machine.file("/.dockerenv")
    machine.smi(("*", "smi-unknown-error.txt"), code=255)
    facts = machine.read()
    assert facts.driver == Driver(version="515.65.01")
    assert facts.gpus == ()
    assert facts.sources["gpus"] == (
        "nothing answers; nvml: libnvidia-ml.so.1 is not there; nvidia-smi: Failed to initialize NVML: Unknown Error"
    )


def test_the_modules_own_names_when_nobody_else_answers(machine: Machine) -> None:
    machine.module()
    machine.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", seen("gpu-information-3090.txt"))
    machine.file("/proc/driver/nvidia/gpus/0000:02:00.0/information", "")
    (gpu,) = machine.read().gpus
    assert (gpu.name, gpu.compute_capability) == ("NVIDIA GeForce RTX 3090", None)


def test_nvidia_smi_answers(machine: Machine) -> None:
    machine.module("570.86.15")
    machine.smi(("--query-gpu=*", "query-titan-v-and-5880.csv"))
    facts = machine.read()
    assert [gpu.compute_capability for gpu in facts.gpus] == ["7.0", "8.9"]
    assert facts.sources["gpus"] == "nvidia-smi; nvml: libnvidia-ml.so.1 is not there"
    assert machine.asked == [
        "--query-gpu=name,compute_cap,memory.total,uuid,mig.mode.current,driver_version --format=csv,noheader,nounits"
    ]


def test_nvidia_smi_lists_mig_devices(machine: Machine) -> None:
    machine.module("535.216.01")
    machine.smi(("-L", "smi-list-mig-a100.txt"), ("*", "query-mig-a100.csv"))
    assert [gpu.mig for gpu in machine.read().gpus] == [True] * 4 + [False]


def test_an_nvidia_smi_that_knows_fewer_fields(machine: Machine) -> None:
    machine.module("470.82.01")
    machine.program(
        "nvidia-smi",
        f'case "$1" in *compute_cap*) /bin/cat "{DATA}/smi-unknown-field.txt"; exit 2 ;; esac\n'
        'echo "Tesla K80, 11441, GPU-1, [N/A], 470.82.01"',
    )
    assert machine.read().gpus == (Gpu(name="Tesla K80", compute_capability=None, memory_mib=11441, uuid="GPU-1"),)


def test_the_driver_that_only_nvidia_smi_knows(machine: Machine) -> None:
    machine.file("/dev/nvidia0")
    machine.smi(("--query-gpu=*", "query-gb10.csv"))
    facts = machine.read()
    assert facts.driver == Driver(version="580.95.05")
    assert facts.sources["driver"] == "nvidia-smi"


def test_the_table_when_the_query_says_nothing(machine: Machine) -> None:
    machine.file("/dev/nvidia0")
    machine.smi(('""', "smi-331.62.txt"))
    facts = machine.read()
    assert facts.driver == Driver(version="331.62")
    assert "nvidia-smi: lists no GPU" in facts.sources["gpus"]


def test_an_nvidia_smi_that_prints_garbage(machine: Machine) -> None:
    machine.module()
    noise = r"i=0; while [ $i -lt 4000 ]; do printf '\377\000 %s, \033[2J \001\r,' $i; i=$((i + 1)); done"
    machine.program("nvidia-smi", f"{noise}; echo; echo , , , , , ,; exit 0")
    facts = machine.read()
    assert (facts.driver, facts.gpus) == (Driver(version="535.183.01"), ())
    assert facts.sources["gpus"].endswith("nvidia-smi: prints nothing that can be read")


def test_an_nvidia_smi_that_hangs(machine: Machine) -> None:
    machine.module()
    machine.program("nvidia-smi", "exec /bin/sleep 60")
    started = time.monotonic()
    facts = machine.read(limit=0.3)
    assert time.monotonic() - started < 5
    assert facts.driver == Driver(version="535.183.01")
    assert facts.sources["gpus"].endswith("nvidia-smi: no answer in 0.3 s")


def test_wsl(machine: Machine) -> None:
    machine.file("/proc/version", seen("proc-version-wsl2.txt"))
    machine.file("/dev/dxg")
    machine.file("/usr/lib/wsl/lib/libcuda.so.1.1")
    machine.program("nvidia-smi", 'echo "NVIDIA GeForce RTX 3060 Laptop GPU, 8.6, 6144, GPU-1, [N/A], 546.80"')
    facts = machine.read()
    assert facts.wsl
    assert facts.driver == Driver(version="546.80", library=None, numbering="windows")
    assert [gpu.compute_capability for gpu in facts.gpus] == ["8.6"]
    assert facts.device_nodes == ("/dev/dxg",)
    assert facts.sources["driver"] == "nvidia-smi"


def test_wsl_without_an_nvidia_driver_on_windows(machine: Machine) -> None:
    machine.file("/proc/version", seen("proc-version-wsl2.txt"))
    machine.file("/dev/dxg")
    facts = machine.read()
    assert (facts.wsl, facts.driver, facts.gpus) == (True, None, ())


@needs_gcc
def test_nvml_answers_for_all_gpus(machine: Machine, small_nvml: Path) -> None:
    machine.module()
    machine.nvml(small_nvml, "pmeu")
    machine.program("nvidia-smi", f"touch '{machine.root}/asked'")
    facts = machine.read()
    assert facts.gpus == (
        Gpu(name="NVIDIA A100-SXM4-80GB", compute_capability="8.0", memory_mib=81920, uuid="GPU-0"),
        *(
            Gpu(
                name="NVIDIA A100-SXM4-80GB MIG 3g.40gb",
                compute_capability="8.0",
                memory_mib=40192,
                mig=True,
                uuid=f"MIG-1-{part}",
            )
            for part in (0, 1)
        ),
        Gpu(name="NVIDIA A100-SXM4-80GB", compute_capability="8.0", memory_mib=81920, mig=True, uuid="GPU-2"),
        Gpu(name="NVIDIA GB10", compute_capability="12.1", uuid="GPU-3"),
    )
    assert facts.sources["gpus"] == "nvml"
    assert not (machine.root / "asked").exists()


@needs_gcc
def test_cuda_visible_devices_is_no_index(machine: Machine, small_nvml: Path) -> None:
    machine.module()
    machine.nvml(small_nvml, "pp")
    machine.environ["CUDA_VISIBLE_DEVICES"] = "1"
    facts = machine.read()
    assert (len(facts.gpus), facts.cuda_visible_devices) == (2, "1")


@needs_gcc
def test_a_lost_gpu_does_not_hide_the_others(machine: Machine, small_nvml: Path) -> None:
    machine.module()
    machine.nvml(small_nvml, "plp")
    facts = machine.read()
    assert [gpu.uuid for gpu in facts.gpus] == ["GPU-0", "GPU-2"]
    assert facts.sources["gpus"] == "nvml; GPU 1: GPU is lost"


@needs_gcc
def test_nvml_names_a_driver_whose_files_are_hidden(machine: Machine, small_nvml: Path) -> None:
    machine.file("/dev/nvidia0")
    machine.nvml(small_nvml, "p")
    facts = machine.read()
    assert facts.driver == Driver(version="535.183.01")
    assert facts.sources["driver"] == "nvml"


@needs_gcc
def test_nvml_on_a_machine_with_no_gpu_left(machine: Machine, small_nvml: Path) -> None:
    machine.module()
    machine.nvml(small_nvml, "")
    assert machine.read().gpus == ()


@needs_gcc
@pytest.mark.parametrize(
    ("init", "failure"),
    [
        ("18", "nvml: RM has detected an NVML/RM version mismatch."),
        ("9", "nvml: Driver Not Loaded"),
        ("77", "nvml: said by the library"),
        ("crash", "nvml: ended with -11"),
        ("noise", "nvml: ended with 0"),
    ],
)
def test_nvidia_smi_follows_where_nvml_fails(machine: Machine, small_nvml: Path, init: str, failure: str) -> None:
    machine.module()
    machine.nvml(small_nvml, "p", init=init)
    machine.smi(("--query-gpu=*", "query-gb10.csv"))
    facts = machine.read()
    assert [gpu.name for gpu in facts.gpus] == ["NVIDIA GB10"]
    assert facts.sources["gpus"] == f"nvidia-smi; {failure}"


@needs_gcc
def test_nvml_that_hangs_is_left_behind(machine: Machine, small_nvml: Path) -> None:
    machine.module()
    machine.nvml(small_nvml, "p", init="hang")
    machine.program("nvidia-smi", f"touch '{machine.root}/asked'; exec /bin/sleep 60")
    started = time.monotonic()
    facts = machine.read(limit=0.5)
    assert time.monotonic() - started < 5
    assert facts.driver == Driver(version="535.183.01")
    assert facts.sources["gpus"] == "nothing answers; nvml: no answer in 0.5 s"
    assert not (machine.root / "asked").exists()
