"""One answer of each kind, and of each outcome that looks different: what the golden faces show."""

from __future__ import annotations

from dataclasses import replace

from envlock.adopted import Adopted, Build, Dropped
from envlock.errors import Problem, WorldFailed
from envlock.judgement import Given, Violation
from envlock.model import (
    Answer,
    BackendSpec,
    Caution,
    Cell,
    Change,
    Check,
    Checked,
    Decision,
    Detected,
    Diffed,
    Driver,
    Exported,
    Floors,
    Gpu,
    Held,
    HostFacts,
    Installed,
    Listed,
    Locked,
    LockedAll,
    Plan,
    Planned,
    Profile,
    ProfileRow,
    Refusal,
    Setting,
    Shift,
    Side,
    Variant,
    Verified,
)

__all__ = ["ANSWERS"]

RTX = Gpu(name="NVIDIA GeForce RTX 3090", compute_capability="8.6", memory_mib=24576)
WORKSTATION = Detected(
    host=HostFacts(
        glibc="2.35",
        kernel="5.15.0-91-generic",
        driver=Driver(version="535.104.05", library="535.104.05"),
        pci_gpus=("10de:2204",),
        device_nodes=("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"),
        gpus=(RTX, RTX),
        cuda_visible_devices="0",
        pythons=("3.10.13", "3.12.1"),
        gcc="11.4.0",
        sources={
            "driver": "/proc/driver/nvidia/version",
            "gpus": "NVML",
            "glibc": "confstr",
            "gcc": "gcc -dumpfullversion",
            "pythons": "PATH, pyenv",
            "cuda_visible_devices": "environment",
        },
    ),
    settings=(
        Setting(name="offline", value=None, origin="default"),
        Setting(name="driver-policy", value="strict", origin="ENVLOCK_DRIVER_POLICY"),
    ),
)
REBOOT = Detected(
    host=HostFacts(
        glibc="2.39",
        kernel="6.8.0-40-generic",
        wsl=True,
        container="docker",
        driver=Driver(version="550.54.14", library="550.120"),
        pci_gpus=("10de:2684",),
        ld_library_path=("/usr/local/cuda-11.8/lib64", "/opt/lib"),
    )
)
NO_GPU = Detected(host=HostFacts(glibc="2.31", pythons=("3.10.13",)))

CU121 = BackendSpec(
    name="cu121", python=("3.10",), pypi_python=("3.10",), requires=("torch==2.4.1",), exclude_newer=None
)
CU128 = BackendSpec(
    name="cu128", python=("3.10", "3.12"), pypi_python=("3.10",), requires=("torch==2.8.0",), exclude_newer=None
)
GEMMA = Profile(
    name="gemma-qlora",
    summary="QLoRA fine-tuning of Gemma with PEFT and bitsandbytes",
    file="profiles/gemma-qlora.toml",
    platforms=("linux-x86_64",),
    backends=(CU121, CU128),
)
LISTED = Listed(
    rows=(
        ProfileRow(profile=GEMMA, locked=("cu121-pypi", "cu128-py310-pypi")),
        ProfileRow(
            profile=Profile(
                name="mine",
                summary="a stack of one's own",
                file="mine.toml",
                platforms=("linux-x86_64",),
                backends=(CU121,),
            ),
            locked=(),
            own=True,
        ),
    )
)


def _cells(driver: Cell, gpu: Cell) -> tuple[Cell, ...]:
    return (
        driver,
        gpu,
        Cell(rule="glibc", ok=True, have="2.35", need="2.17"),
        Cell(rule="python", ok=True, have="3.10", need="3.10"),
        Cell(rule="platform", ok=True, have="linux-x86_64", need="linux-x86_64"),
    )


def _driver(need: str, *, ok: bool) -> Cell:
    return Cell(rule="driver", ok=ok, have="535.104.05", need=need)


GPU_FITS = Cell(rule="gpu", ok=True, have="8.6", need="sm_80")
CHOSEN = Planned(
    plan=Plan(
        decision=Decision(
            profile="gemma-qlora",
            backend="cu121",
            policy="minor-version",
            precision="bf16",
            eligible=("cu118",),
            refused=(
                Refusal(
                    backend="cu130",
                    code="driver-too-old",
                    package="CUDA 13",
                    have="535.104.05",
                    need="580.65.06",
                    source="https://docs.nvidia.com/deploy/cuda-compatibility/",
                ),
                Refusal(backend="cpu", code="gpu-present", have="535.104.05"),
            ),
            warnings=(
                Caution(
                    code="minor-version-compatibility",
                    backend="cu121",
                    message="driver 535.104.05 runs CUDA 12.4 by minor-version compatibility",
                ),
            ),
            table={
                "cu121": _cells(_driver("525.60.13", ok=True), GPU_FITS),
                "cu118": _cells(_driver("450.80.02", ok=True), GPU_FITS),
                "cu130": _cells(_driver("580.65.06", ok=False), GPU_FITS),
                "cpu": (
                    Cell(rule="driver", ok=False, have="535.104.05", need="none"),
                    Cell(rule="gpu", ok=None),
                    *_cells(_driver("", ok=True), GPU_FITS)[2:],
                ),
            },
        ),
        variant=Variant(name="cu121-pypi", backend="cu121", source="pypi", python="3.10", platform="linux-x86_64"),
        locked=True,
        torch="2.4.1",
        packages=75,
        download=2_812_345_678,
        command="envlock install gemma-qlora",
    )
)
REFUSED = Planned(
    plan=Plan(
        decision=Decision(
            profile="gemma-qlora",
            backend=None,
            policy="strict",
            precision="fp32",
            eligible=(),
            refused=(
                Refusal(
                    backend="cu121",
                    code="gpu-arch-missing",
                    package="bitsandbytes 0.43.3",
                    have="sm_120",
                    need="sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_89 sm_90",
                    source="cuobjdump --list-elf of the wheel's libraries",
                ),
                Refusal(backend="cu121", code="glibc-too-old", package="torch 2.4.1", have="2.12", need="2.17"),
            ),
            warnings=(),
            table={
                "cu121": (
                    _driver("525.60.13", ok=True),
                    Cell(rule="gpu", ok=False, have="sm_120", need="sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_89 sm_90"),
                    Cell(rule="glibc", ok=False, have="2.12", need="2.17"),
                    Cell(rule="python", ok=True, have="3.10", need="3.10"),
                    Cell(rule="platform", ok=True, have="linux-x86_64", need="linux-x86_64"),
                ),
            },
        ),
        variant=None,
        locked=False,
    )
)

WRITTEN = Locked(
    profile="gemma-qlora",
    path="lockfiles/gemma-qlora.lock",
    mode="write",
    changed=True,
    moved=("profile",),
    changes=(
        Change(variant="cu121-pypi", package="peft", was="0.12.0", now="0.13.0"),
        Change(variant="cu121-pypi", package="einops", was=None, now="0.8.0"),
        Change(variant="cpu-py310-pypi", package="wheel", was="0.44.0", now=None),
    ),
    variants=("cu121-pypi", "cpu-py310-pypi"),
    absent={"cu118": "no index of PyTorch is configured, and PyPI has no cu118 build"},
    conda=("cu121-pypi",),
    conda_absent={"cpu-py310-pypi": "no packages of conda-forge satisfy `python 3.10.*`, `gcc_linux-64 11.*`, `pip`"},
    seconds=3.24,
)
SAME = Locked(
    profile="xtuner-internlm2",
    path="lockfiles/xtuner-internlm2.lock",
    mode="check",
    changed=False,
    moved=(),
    changes=(),
    variants=("cu121-pypi",),
    absent={},
    seconds=0.02,
)
CURRENT = Locked(
    profile="qwen2.5",
    path="lockfiles/qwen2.5.lock",
    mode="check",
    changed=False,
    moved=(),
    changes=(),
    variants=("cu124-pypi",),
    absent={},
)
BUSY = WorldFailed(
    "another envlock is at work on this lock",
    code="lock-busy",
    problems=(Problem(message="is being written", file="/home/me/lockfiles/qwen2.5.lock"),),
    hint="envlock lock qwen2.5",
)

CHECKS = (
    Check(id="drift.driver", status="pass", have="535.104.05", want="535.104.05"),
    Check(id="integrity.versions", status="pass", seconds=0.04, have="75", want="75"),
    Check(id="integrity.record", status="pass", seconds=2.31, message="41,233 files"),
    Check(id="import.torch", status="pass", seconds=3.5, have="2.4.1"),
)
ON_GPU = Verified(
    path=".envlock/gemma-qlora",
    profile="gemma-qlora",
    variant="cu121-pypi",
    level="kernels",
    device="cuda",
    verdict="verified-on-gpu",
    checks=(*CHECKS, Check(id="kernels.nf4", status="pass", seconds=0.8, have="0.0912", want="<= 0.1")),
)
ON_CPU = Verified(
    path=".envlock/gemma-qlora",
    profile="gemma-qlora",
    variant="cpu-py310-pypi",
    level="kernels",
    device="cpu",
    verdict="verified-on-cpu",
    checks=(
        *CHECKS,
        Check(id="kernels.gemm-fp32", status="pass", seconds=0.1),
        Check(id="kernels.triton", status="skip", message="no GPU"),
    ),
)
FAILED = Verified(
    path=".envlock/gemma-qlora",
    profile="gemma-qlora",
    variant="cu121-pypi",
    level="kernels",
    device=None,
    verdict="failed",
    checks=(
        Check(id="drift.driver", status="warn", have="550.54.14", want="535.104.05", message="the driver moved"),
        Check(
            id="integrity.record",
            status="fail",
            seconds=1.2,
            have="sha256:1f2e",
            want="sha256:9a8b",
            message="peft/__init__.py was changed",
            fix="envlock install gemma-qlora",
        ),
        Check(id="import.peft", status="skip", message="not run: follows from integrity.record"),
    ),
)
INTACT = Verified(
    path=".envlock/gemma-qlora",
    profile="gemma-qlora",
    variant="cu121-pypi",
    level="kernels",
    device=None,
    verdict="intact",
    checks=CHECKS,
    only=("drift", "integrity", "import.torch"),
    skip=("integrity.strangers",),
)
COULD_NOT_RUN = Verified(
    path="/data/env",
    profile="gemma-qlora",
    variant="cu121-pypi",
    level="kernels",
    device=None,
    verdict="could-not-run",
    checks=(Check(id="import.torch", status="skip", message="the interpreter of the environment does not start"),),
)

INSTALLED = Installed(
    profile="gemma-qlora",
    variant="cpu-py310-pypi",
    path=".envlock/gemma-qlora",
    generation="3f9c2a1b-2",
    previous="3f9c2a1b-1",
    installed=True,
    packages=75,
    seconds={"download": 21.4, "install": 8.3, "verify": 71.6},
    verify=ON_CPU,
    warnings=(Caution(code="no-driver", message="no NVIDIA driver: the cpu build was taken"),),
)
NOT_SWITCHED = Installed(
    profile="gemma-qlora",
    variant="cu121-pypi",
    path="/data/env",
    generation="3f9c2a1b-2",
    previous="3f9c2a1b-1",
    installed=False,
    packages=75,
    seconds={"download": 21.4, "install": 8.3, "verify": 71.6},
    verify=FAILED,
    warnings=(Caution(code="not-switched", message="`/data/env` still is 3f9c2a1b-1"),),
)
UNMOVED = Installed(
    profile="gemma-qlora",
    variant="cu121-pypi",
    path="/data/env",
    generation="3f9c2a1b-1",
    previous=None,
    installed=False,
    packages=75,
    seconds={},
    verify=None,
)

COMMITTED = Side(asked="HEAD~1:gemma-qlora", file="HEAD~1:./lockfiles/gemma-qlora.lock", profile="gemma-qlora")
AT_HAND = Side(asked="gemma-qlora", file="lockfiles/gemma-qlora.lock", profile="gemma-qlora")
PLACED = Side(asked="/data/env", file="/data/env", profile="gemma-qlora")
CU118 = Held(
    variant="cu118",
    python="3.10",
    platform="linux-x86_64",
    floors=Floors(driver="450.80.02", driver_windows="452.39", glibc="2.24", sm=("3.7", "5.0", "8.6")),
    packages={"bitsandbytes": "0.43.3", "torch": "2.4.1+cu118"},
)
DIFFERENT = Diffed(
    before=COMMITTED,
    after=AT_HAND,
    moved=("profile", "facts"),
    came=(
        Held(
            variant="cpu-py311-pypi",
            python="3.11",
            platform="linux-x86_64",
            floors=Floors(driver=None, driver_windows=None, glibc="2.28", sm=()),
            packages={"torch": "2.8.0"},
        ),
    ),
    went=(CU118,),
    same=("cpu-py310-pypi",),
    changes=(
        Change(variant="cu121-pypi", package="peft", was="0.12.0", now="0.13.0"),
        Change(variant="cu121-pypi", package="wheel (to build)", was="0.44.0", now=None),
        Change(variant="cu128-py310-pypi", package="einops", was=None, now="0.8.0"),
        Change(variant="cu128-py310-pypi", package="peft", was="0.12.0", now="0.13.0"),
        Change(variant="cu128-py310-pypi", package="triton", was="3.4.0", now="3.4.0, other files"),
    ),
    shifts=(
        Shift(variant="cu121-pypi", need="driver", was="525.60.13", now="570.26"),
        Shift(variant="cu121-pypi", need="driver-windows", was=None, now="570.65"),
        Shift(variant="cu121-pypi", need="glibc", was="2.24", now="2.28"),
        Shift(variant="cu128-py310-pypi", need="glibc", was="2.24", now="2.28"),
        Shift(variant="cu128-py310-pypi", need="gpu-lost", was="5.0 5.2 6.0", now=None),
        Shift(variant="cu128-py310-pypi", need="gpu-gained", was=None, now="12.0"),
        Shift(variant="cu128-py310-pypi", need="python", was="3.10", now="3.11"),
        Shift(variant="cu128-py310-pypi", need="platform", was="linux-x86_64", now="linux-aarch64"),
    ),
    strict=True,
)

PRINTED = Exported(
    profile="gemma-qlora",
    variant="cu121-pypi",
    format="environment.yml",
    text='name: "gemma-qlora"\nchannels:\n  - conda-forge\n',
    path=None,
    files=("environment.yml",),
    packages=75,
    warnings=(Caution(code="no-driver", message="there is no NVIDIA driver here", backend="cu121"),),
)
PUT = Exported(
    profile="xtuner-internlm2",
    variant="cu121-pypi",
    format="environment.yml",
    text=None,
    path="out/environment.yml",
    files=("out/environment.yml", "out/requirements.txt", "out/build-requirements.txt"),
    packages=215,
    built=("deepspeed", "timeout-decorator"),
    command="conda env create -f out/environment.yml",
)

CHECKED = Checked(
    file="requirements.txt",
    python="3.10",
    packages=4,
    left_open=("transformers>=4.40", "datasets"),
    backend="cu124",
    rules=7,
    violations=(
        Violation(
            rule="bitsandbytes-triton-ops",
            package="bitsandbytes",
            have="0.43.1",
            floor=">=0.45.1",
            ceiling=None,
            holes=None,
            nearest="0.45.1",
            beside=(Given(name="triton", have="3.2.0", when=">=3.2"),),
            because="bitsandbytes before 0.45.1 imports triton.ops, which triton 3.2 no longer has",
            evidence="import bitsandbytes 0.43.1 beside triton 3.2.0: No module named 'triton.ops'",
        ),
        Violation(
            rule="undeclared-setuptools",
            package="setuptools",
            have=None,
            floor=None,
            ceiling=None,
            holes=None,
            nearest=None,
            beside=(),
            because="triton before 3.2 imports setuptools without declaring it",
            evidence="the wheel of triton 3.0.0",
        ),
    ),
    decision=replace(REFUSED.plan.decision, warnings=()),
    unjudged=("--no-binary torch",),
)
UNSEEN = Caution(code="package-unseen", message="setuptools is not named, so whether it is there cannot be told")
DOUBTFUL = Caution(code="build-unknown", message="which GPUs torch 9.9 for cu121 was built for is not known")
UNSAID = "torch 9.9 is not known: whether this machine can run it cannot be said"

ADOPTED = Adopted(
    profile="llava",
    file="environment.yml",
    kind="environment.yml",
    text=None,
    path="profiles/llava.toml",
    python="3.10",
    reason="3.10.13 in environment.yml",
    builds=(
        Build(name="cu121", why="named by the build py3.10_cuda12.1_cudnn8.9.2_0", pypi=True),
        Build(name="cu118", why="built too"),
        Build(name="cpu", why="for machines without a GPU", pypi=True),
    ),
    kept=("torch==2.1.2", "numpy==1.26.*", "transformers==4.37.2", "setuptools<82"),
    added=("setuptools<82",),
    dropped=(
        Dropped(what="python h955ad1f_0", why="a build of conda's", file="environment.yml", line=4),
        Dropped(what="openssl=3.0", why="part of conda's Python, or of the system", file="environment.yml", line=5),
        Dropped(what="xz=5.4", why="part of conda's Python, or of the system", file="environment.yml", line=6),
        Dropped(what="tk=8.6", why="part of conda's Python, or of the system", file="environment.yml", line=7),
        Dropped(what="zlib=1.2", why="part of conda's Python, or of the system", file="environment.yml", line=8),
        Dropped(what="bzip2=1.0", why="part of conda's Python, or of the system", file="environment.yml", line=9),
        Dropped(what="--pre", why="an option of pip's", file="req/base.txt", line=2),
        Dropped(what="backend cu126", why="bitsandbytes 0.41.1 has no library for it"),
    ),
    notes=("`numpy` may need <2: torch before 2.3 is built against NumPy 1 [torch-numpy]",),
    command="envlock lock llava",
)
ANSWERS: dict[str, Answer] = {
    "init-written": ADOPTED,
    "init-whole": replace(
        ADOPTED, kind="requirements", file="requirements.txt", kept=ADOPTED.kept[:1], added=(), dropped=(), notes=()
    ),
    "init-printed": replace(ADOPTED, text='schema = 1\nname = "llava"\n', path=None, command=None),
    "check-no": CHECKED,
    "check-yes": replace(
        CHECKED, left_open=(), unjudged=(), violations=(), decision=CHOSEN.plan.decision, warnings=(UNSEEN,)
    ),
    "check-doubtful": replace(
        CHECKED, left_open=(), violations=(), decision=replace(CHOSEN.plan.decision, warnings=(DOUBTFUL,))
    ),
    "check-plain": replace(CHECKED, backend=None, rules=0, left_open=(), unjudged=(), violations=(), decision=None),
    "check-unanswered": replace(CHECKED, backend=None, violations=(), decision=None, unanswered=UNSAID),
    "check-nothing": replace(
        CHECKED, packages=0, backend=None, rules=0, violations=(), decision=None, warnings=(UNSEEN,)
    ),
    "detect-workstation": WORKSTATION,
    "detect-reboot": REBOOT,
    "detect-no-gpu": NO_GPU,
    "profiles": LISTED,
    "profiles-none": Listed(rows=()),
    "plan-chosen": CHOSEN,
    "plan-refused": REFUSED,
    "lock-written": LockedAll(locks=(WRITTEN,)),
    "lock-dry-run": LockedAll(locks=(replace(WRITTEN, mode="dry-run"), replace(SAME, mode="write"))),
    "lock-partly": LockedAll(locks=(WRITTEN,), failure=BUSY),
    "lock-check": LockedAll(locks=(SAME, CURRENT)),
    "lock-confirmed": LockedAll(
        locks=(
            replace(SAME, mode="confirm"),
            replace(CURRENT, mode="confirm", unconfirmed=("torch-2.4.1+cu124-cp311-cp311-linux_x86_64.whl",)),
        )
    ),
    "diff-moved": DIFFERENT,
    "diff-same": Diffed(before=COMMITTED, after=AT_HAND, same=("cu121-pypi", "cpu-py310-pypi"), strict=True),
    "diff-environment": Diffed(before=PLACED, after=AT_HAND, files=("cu121-pypi",)),
    "export-printed": PRINTED,
    "export-beside": PUT,
    "export-one": replace(PUT, format="requirements", path="req.txt", files=("req.txt",), built=(), command=None),
    "export-wheelhouse": replace(
        PUT,
        format="wheelhouse",
        path="house",
        files=("house/SHA256SUMS", "house/deepspeed-0.14.4-py3-none-any.whl", "house/requirements.txt"),
        command="uv venv --python 3.11 .venv-x && uv pip sync --python .venv-x --no-index --find-links house "
        "--require-hashes house/requirements.txt",
    ),
    "install-cpu": INSTALLED,
    "install-not-switched": NOT_SWITCHED,
    "install-unmoved": UNMOVED,
    "verify-gpu": ON_GPU,
    "verify-cpu": ON_CPU,
    "verify-failed": FAILED,
    "verify-intact": INTACT,
    "verify-could-not-run": COULD_NOT_RUN,
}
