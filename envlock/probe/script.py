"""The code that runs inside the environment under test: `python -I -X faulthandler script.py --report R --request Q`.

Standard library only, syntax of Python 3.8; torch and the rest are reached through `importlib` inside functions, so
that one mypy run covers this file although none of them is installed where envlock is developed.

Three processes deep: a supervisor that imports nothing, a worker that imports every package once, and one child of
the worker for each check, forked before a CUDA context or a thread pool exists. A crash, a hang or a poisoned CUDA
context ends in the child it happened in. The report is one JSON document, written whole at the end:

    {"schema": 1, "device", "versions": {name: version}, "cpu_flags": [...], "notes": [...],
     "checks": [{"id", "status", "seconds", "have", "want", "message", "fix"}]}

Each number is compared with a reference that shares no code with what it judges (numpy in float64). Tolerances are
relative to the largest reference value unless said otherwise; "bnb" is bitsandbytes' test suite at commit 95f9af309,
"measured" means seen on CPUs with and without avx512_bf16, with a margin of at least 2.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import functools
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, NoReturn

    Row = dict[str, Any]
    Say = Callable[[Row], None]

SCHEMA = 1
SILENT = "no sign of life"  # begins what is said of a child that was stopped at its limit
TAIL_LINES = 8
LINE_CHARS = 240
REAP_SECONDS = 2.0
CONTEXT_SECONDS = 60.0  # creating a CUDA context takes a second or two, more on machines with many GPUs
PR_SET_PDEATHSIG = 1  # linux/prctl.h
NO_ROOM = 74  # the exit code of a probe that could not write what it found; EX_IOERR of sysexits.h
FULL = (errno.ENOSPC, errno.EDQUOT)

# ---- the harness: children that cannot hurt their parent ------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """How a child ended: what it said, its exit code or signal, and the end of what it printed."""

    said: tuple[Row, ...]
    code: int
    signal: str | None
    silent: bool
    limit: float
    seconds: float
    tail: str

    @property
    def death(self) -> str | None:
        """Why it did not end by itself, or None if it did."""
        if self.silent:
            return f"{SILENT} for {self.limit:g} s: stopped"
        return f"killed by {self.signal}" if self.signal else None

    def heard(self, key: str) -> list[Any]:
        """Return every value said under that key, in order."""
        return [line[key] for line in self.said if key in line]


def fork(task: Callable[[Say], None], limit: float) -> Ended:
    """Run `task` in a child; it is killed, with all it started, when it says nothing for `limit` seconds.

    Raises `OSError` (ENOSPC) where a full disk took what it had to say.
    """
    started = heard = time.monotonic()
    with tempfile.TemporaryFile() as journal, tempfile.TemporaryFile() as noise:
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            _live(task, journal.fileno(), noise.fileno(), parent)
        size, status, silent = 0, None, False
        while status is None and not silent:
            status = _poll(child, 0.02)
            now = time.monotonic()
            grown = os.fstat(journal.fileno()).st_size
            if grown > size:
                size, heard = grown, now
            silent = status is None and now - heard > limit
        _kill_group(child)
        if silent:
            status = _poll(child, REAP_SECONDS)
        code = 1 if status is None else os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        if code == NO_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return Ended(
            said=_lines(_contents(journal.fileno())),
            code=code,
            signal=signal.Signals(-code).name if code < 0 and not silent else None,
            silent=silent,
            limit=limit,
            seconds=time.monotonic() - started,
            tail=tail(_contents(noise.fileno())),
        )


def _live(task: Callable[[Say], None], journal: int, noise: int, parent: int) -> NoReturn:
    """Be the child. `os._exit` in any case: the parent's cleanup is the parent's."""
    code = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:  # else it died before prctl could tell
            os.dup2(noise, 1)
            os.dup2(noise, 2)
            task(lambda line: _write(journal, line))
            code = 0
    except OSError as error:
        traceback.print_exc()
        code = NO_ROOM if error.errno in FULL else 1
    except BaseException:  # noqa: BLE001 - whatever it was, the parent reads it from the child's stderr
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _write(journal: int, line: Row) -> None:
    os.write(journal, json.dumps(line).encode() + b"\n")


def _poll(child: int, seconds: float) -> int | None:
    """Wait that long at most; return the wait status, None while the child lives."""
    deadline = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.002)


def _kill_group(child: int) -> None:
    """End what the child started and left behind (compilers, loaders), and the child."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _contents(handle: int) -> str:
    return os.pread(handle, os.fstat(handle).st_size, 0).decode("utf-8", "replace")


def _lines(text: str) -> tuple[Row, ...]:
    """Parse the journal; a last line cut short by a crash is dropped."""
    return tuple(json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n"))


def tail(text: str) -> str:
    """Return what matters of a child's stderr: from faulthandler's headline on, else the last lines."""
    lines = [line[:LINE_CHARS] for line in text.splitlines() if line.strip()]
    fatal = [number for number, line in enumerate(lines) if line.startswith("Fatal Python error")]
    return "\n".join(lines[fatal[-1] :][:TAIL_LINES] if fatal else lines[-TAIL_LINES:])


def explain(error: BaseException) -> str:
    """Return type, first line and place of an exception, in one line."""
    text = (str(error).strip().splitlines() or [""])[0][:LINE_CHARS]
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({'/'.join(Path(frames[-1].filename).parts[-2:])}:{frames[-1].lineno})" if frames else ""
    return type(error).__name__ + (f": {text}" if text else "") + place


def import_id(name: str) -> str:
    """Return the id of a distribution's import check."""
    return f"import.{name}"


def row(identity: str, status: str, **fields: Any) -> Row:
    """Return one line of the report."""
    empty = {"seconds": 0.0, "have": None, "want": None, "message": None, "fix": None}
    return {"id": identity, "status": status, **empty, **fields}


# ---- imports --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """A distribution of the request that is installed here, and the names of the others that it requires."""

    name: str
    module: str
    version: str
    requires: tuple[str, ...]


def installed(wanted: Sequence[dict[str, str]]) -> tuple[Import, ...]:
    """Return those of the wanted distributions that are here, in the order asked for."""
    found = []
    for item in wanted:
        try:
            here = importlib.metadata.distribution(item["distribution"])
        except importlib.metadata.PackageNotFoundError:
            continue
        lines = [line for line in here.requires or () if "extra ==" not in line]
        names = tuple(canonical(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines)
        found.append(Import(canonical(item["distribution"]), item["module"], here.version, names))
    return tuple(found)


def canonical(name: str) -> str:
    """Return the name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def blocked(item: Import, failed: Sequence[str], every: dict[str, Import]) -> str | None:
    """Return the failed distribution that this one requires, directly or not."""
    seen, open_ = set(), list(item.requires)
    while open_:
        name = open_.pop()
        if name in failed:
            return name
        if name in every and name not in seen:
            seen.add(name)
            open_.extend(every[name].requires)
    return None


def import_alone(item: Import, limit: float) -> Row:
    """Import one package in an interpreter that has imported nothing else."""

    def task(say: Say) -> None:
        try:
            importlib.import_module(item.module)
        except BaseException as error:  # noqa: BLE001 - an import may raise anything, SystemExit too
            traceback.print_exc()
            say({"error": explain(error)})

    ended = fork(task, limit)
    errors = ended.heard("error")
    identity, seconds = import_id(item.name), round(ended.seconds, 3)
    if not errors and ended.code == 0:
        return row(identity, "pass", seconds=seconds, have=item.version)
    reason = errors[0] if errors else ended.death or f"ended with code {ended.code}"
    message = reason if errors or not ended.tail else reason + "\n" + ended.tail
    return row(identity, "fail", seconds=seconds, have=item.version, message=message)


def work(imports: Sequence[Import], say: Say) -> Row:
    """Be the worker: import everything once, and say what this environment computes on."""
    facts, restore = describe(None), None
    for item in imports:
        say({"importing": item.name})
        started = time.monotonic()
        module = importlib.import_module(item.module)
        if item.module == "torch":
            restore = remember_capabilities(module)
            facts = describe(module)
        say({"imported": [item.name, time.monotonic() - started]})
    if restore:
        restore()
    facts["clean"] = facts["device"] == "cpu" or forkable(sys.modules["torch"])
    say({"facts": facts})
    return facts


def remember_capabilities(torch: Any) -> Callable[[], None] | None:
    """Let a child ask the GPUs for their compute capability; answer from that until the returned function is called.

    bitsandbytes asks on import, which would create a CUDA context in the process that every check is forked from,
    and a forked child cannot use CUDA after that.
    """
    ask = torch.cuda.get_device_capability

    def all_gpus(say: Say) -> None:
        if torch.cuda.is_available():
            say({"known": [ask(index) for index in range(torch.cuda.device_count())]})

    known = fork(all_gpus, CONTEXT_SECONDS).heard("known")
    if not known:  # no GPU, or one that kernels.cuda will find as broken and name
        return None

    def remembered(device: Any = None) -> tuple[int, int]:
        device = torch.device(device) if isinstance(device, str) else device
        index = device if isinstance(device, int) else getattr(device, "idx", getattr(device, "index", None))
        major, minor = known[0][index or 0]
        return major, minor

    def restore() -> None:
        torch.cuda.get_device_capability = ask

    torch.cuda.get_device_capability = remembered
    return restore


def forkable(torch: Any) -> bool:
    """Tell whether a child of this process can use CUDA: torch keeps a flag that says it cannot."""
    poisoned = getattr(torch.cuda, "_is_in_bad_fork", bool)
    return not torch.cuda.is_initialized() and fork(lambda say: say({"poisoned": poisoned()}), CONTEXT_SECONDS).heard(
        "poisoned"
    ) == [False]


def describe(torch: Any) -> Row:
    """Return device, versions and what else explains the numbers below."""
    toolkit = torch.version.cuda if torch else None
    return {
        "device": "cuda" if toolkit and torch.cuda.is_available() else "cpu",
        "versions": {"python": ".".join(map(str, sys.version_info[:3])), **({"cuda": toolkit} if toolkit else {})},
        "cpu_flags": cpu_flags(),
        "clean": True,
    }


def cpu_flags() -> list[str]:
    """Return the CPU's vector extensions that decide which kernels run."""
    with contextlib.suppress(OSError):
        found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if found:
            return [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in found.group(1).split()]
    return []


# ---- what a check works with ----------------------------------------------------------------------------------


class Wrong(Exception):
    """The environment computes wrongly, or lacks what it needs."""

    def __init__(self, message: str, have: str = "", want: str = "", fix: str | None = None) -> None:
        """Keep the parts apart, as the report has them."""
        super().__init__(message)
        self.have, self.want, self.fix = have, want, fix


class Absent(Exception):
    """This cannot be checked here; the text says why."""


class Lab:
    """The libraries, the device, and the readings taken so far."""

    def __init__(self, device: str) -> None:
        """Start without readings; `device` is "cuda" or "cpu"."""
        self.device = device
        self.have: list[str] = []
        self.want: list[str] = []

    @property
    def torch(self) -> Any:
        """torch, already imported by the worker."""
        return importlib.import_module("torch")

    @property
    def numpy(self) -> Any:
        """numpy, for the references."""
        return importlib.import_module("numpy")

    @property
    def bnb(self) -> Any:
        """bitsandbytes, under the name its own documentation gives it."""
        return importlib.import_module("bitsandbytes")

    @property
    def cuda(self) -> bool:
        """Whether this runs on a GPU."""
        return self.device == "cuda"

    def normal(self, *shape: int, seed: int = 0, dtype: Any = None) -> Any:
        """Return standard normal numbers, the same on every machine, on the CPU."""
        values = self.torch.randn(*shape, generator=self.torch.Generator().manual_seed(seed))
        return values if dtype is None else values.to(dtype)

    def exact(self, tensor: Any) -> Any:
        """Return the tensor as numpy float64, from wherever it is."""
        return tensor.detach().cpu().double().numpy()

    def apart(self, got: Any, want: Any) -> float:
        """Return the largest difference, relative to the largest wanted value; `want` is float64."""
        return float(abs(self.exact(got) - want).max() / abs(want).max())

    def note(self, text: str) -> None:
        """Add something seen that has no limit."""
        self.have.append(text)

    def within(self, what: str, value: float, limit: float) -> None:
        """Take a reading; not a number is out of bounds."""
        have, want = f"{what} {value:.2g}", f"{what} <= {limit:.4g}"
        if not value <= limit:
            raise Wrong(f"{what} is {value:.3g}, at most {limit:.4g} is allowed", have, want)
        self.have.append(have)
        self.want.append(want)

    def holds(self, what: str, *, true: bool) -> None:
        """Take a reading that is yes or no."""
        if not true:
            raise Wrong("not so: " + what, "no", what)
        self.have.append(what)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Call into bitsandbytes; where it says that it has no CPU kernel for this, the check is absent, not wrong."""
        try:
            yield
        except (NotImplementedError, AssertionError, RuntimeError) as error:
            if self.cuda or not declines_cpu(error):
                raise
            version = importlib.metadata.version("bitsandbytes")
            raise Absent(f"bitsandbytes {version} has no CPU kernels") from error


def declines_cpu(error: BaseException) -> bool:
    """Tell whether this is bitsandbytes (0.41 to 0.49) refusing a CPU tensor, by its own words.

    0.41-0.43: `Device type not supported for FP4 quantization: cpu`, `assert device.type == "cuda"`, or torch's own
    complaint when it asks for a CUDA device; 0.44 on: the stand-ins for a missing native library; 0.46 on: torch's
    dispatcher, which knows no CPU kernel of that name.
    """
    text = str(error)
    if isinstance(error, AssertionError) and not text:
        text = traceback.extract_tb(error.__traceback__)[-1].line or ""
    words = (
        r"Device type not supported",
        r"Found no NVIDIA driver",
        r"Torch not compiled with CUDA",
        r"No CUDA GPUs are available",
        r"Cannot re-initialize CUDA in forked subprocess",
        r"""^assert .*\.type == ["']cuda["']""",
        r"not available in CPU-only version of bitsandbytes",
        r"native library functionality but it's not available",
        r"Could not run 'bitsandbytes::",
    )
    return any(re.search(word, text) for word in words)


# ---- kernels: torch -------------------------------------------------------------------------------------------

MIB = 1 << 20


def cuda(lab: Lab) -> None:
    """Ask every GPU for a context, the bytes it was given, and a computation by code built for it."""
    torch = lab.torch
    built = [tuple(map(int, found)) for found in re.findall(r"sm_(\d+)(\d)\b", " ".join(torch.cuda.get_arch_list()))]
    data = torch.randint(0, 256, (16 * MIB,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for index in range(torch.cuda.device_count()):
        name, (major, minor) = torch.cuda.get_device_name(index), torch.cuda.get_device_capability(index)
        # Code for X.Y runs on X.Z with Z >= Y, never on another X (CUDA C++ Programming Guide, Binary Compatibility).
        if not any(x == major and y <= minor for x, y in built):
            have = " ".join(f"{x}.{y}" for x, y in built)
            raise Wrong(f"torch has no code for {name}", have, f"{major}.{minor}")
        there = data.to(f"cuda:{index}")
        lab.holds(f"{name} ({major}.{minor}) returns what it was given", true=torch.equal(there.cpu(), data))
        lab.holds("and computes", true=torch.equal((there ^ 255).cpu(), data ^ 255))


def _gemm(lab: Lab, dtype: Any, limit: float) -> float:
    left, right = lab.normal(256, 512, seed=1, dtype=dtype), lab.normal(512, 128, seed=2, dtype=dtype)
    try:
        got = left.to(lab.device) @ right.to(lab.device)
    except RuntimeError as error:
        if lab.cuda or "not implemented for 'Half'" not in str(error):
            raise
        raise Absent(f"torch {lab.torch.__version__} has no fp16 GEMM on the CPU") from error
    apart = lab.apart(got, lab.exact(left) @ lab.exact(right))
    lab.within("error", apart, limit)
    return apart


# Limits of the four: an output rounded to p bits is off by 2^-p of itself, a sum of 512 products in fp32 by some
# 1e-7 * sqrt(512). fp32 5e-6; tf32 rounds each input to 11 bits, 2e-3; bf16 has 8 bits, 1.2e-2; fp16 11 bits, 4e-3
# (cuBLAS may add partial sums in fp16). Measured on CPUs: 2e-7, -, 2e-3, 3e-4.
FP32, TF32, BF16, FP16 = 5e-6, 2e-3, 1.2e-2, 4e-3


def gemm_fp32(lab: Lab) -> None:
    """Multiply two matrices in full precision."""
    lab.torch.backends.cuda.matmul.allow_tf32 = False
    _gemm(lab, lab.torch.float32, FP32)


def gemm_tf32(lab: Lab) -> None:
    """See that TF32 is used when it is switched on, and only then."""
    lab.torch.backends.cuda.matmul.allow_tf32 = False
    plain = _gemm(lab, lab.torch.float32, FP32)
    lab.torch.backends.cuda.matmul.allow_tf32 = True
    fast = _gemm(lab, lab.torch.float32, TF32)
    if lab.torch.cuda.get_device_capability(0) < (8, 0):  # TF32 came with sm_80
        lab.note("this GPU has no TF32")
    else:
        lab.holds("TF32 differs from fp32 where it is on", true=fast > 4 * plain)


def gemm_bf16(lab: Lab) -> None:
    """Multiply two bfloat16 matrices."""
    _gemm(lab, lab.torch.bfloat16, BF16)


def gemm_fp16(lab: Lab) -> None:
    """Multiply two half-precision matrices."""
    _gemm(lab, lab.torch.float16, FP16)


def conv2d(lab: Lab) -> None:
    """Compare a 3x3 convolution (cuDNN on a GPU) with nine shifted products."""
    torch, numpy = lab.torch, lab.numpy
    torch.backends.cudnn.allow_tf32 = False
    kinds = [(torch.float32, FP32)] + ([(torch.float16, FP16), (torch.bfloat16, BF16)] if lab.cuda else [])
    for dtype, limit in kinds:
        image, kernel = lab.normal(2, 16, 20, 20, seed=3, dtype=dtype), lab.normal(8, 16, 3, 3, seed=4, dtype=dtype)
        x, w = lab.exact(image), lab.exact(kernel)
        want = sum(
            numpy.einsum("nchw,oc->nohw", x[:, :, i : i + 18, j : j + 18], w[:, :, i, j])
            for i in range(3)
            for j in range(3)
        )
        got = torch.nn.functional.conv2d(image.to(lab.device), kernel.to(lab.device))
        lab.within(str(dtype)[6:], lab.apart(got, want), limit)
    if lab.cuda:
        lab.note(f"cuDNN {torch.backends.cudnn.version()}")


SDPA = {"math": "MATH", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION"}


@contextlib.contextmanager
def _only_backend(torch: Any, backend: str) -> Iterator[None]:
    """Allow one SDPA backend, in the words of torch 2.3 and later or of 2.0 to 2.2."""
    try:
        attention = importlib.import_module("torch.nn.attention")
    except ImportError:
        flags = {"math": "enable_math", "flash": "enable_flash", "efficient": "enable_mem_efficient"}
        with torch.backends.cuda.sdp_kernel(**{flag: name == backend for name, flag in flags.items()}):
            yield
    else:
        with attention.sdpa_kernel(getattr(attention.SDPBackend, SDPA[backend])):
            yield


def _attend(torch: Any, backend: str, tensors: Sequence[Any]) -> Any:
    """Return causal attention by that backend, None where torch has it not for these tensors."""
    try:
        with _only_backend(torch, backend):
            return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True)
    except AttributeError:  # a backend younger than this torch
        return None
    except RuntimeError as error:
        if re.search(r"No available kernel|No viable backend|Invalid backend", str(error)):
            return None
        raise


def sdpa(lab: Lab) -> None:
    """Send causal attention through each backend that takes it; the plain one must."""
    torch, numpy = lab.torch, lab.numpy
    dtype, limit = (torch.bfloat16, 2e-2) if lab.cuda else (torch.float32, 1e-5)  # measured on CPUs: 5e-7
    query, key, value = tensors = [lab.normal(2, 4, 64, 32, seed=seed, dtype=dtype) for seed in (5, 6, 7)]
    scores = lab.exact(query) @ lab.exact(key).swapaxes(-1, -2) / numpy.sqrt(32)
    weights = numpy.exp(numpy.where(numpy.tri(64, dtype=bool), scores, -numpy.inf))
    want = weights / weights.sum(-1, keepdims=True) @ lab.exact(value)
    for backend in SDPA:
        got = _attend(torch, backend, [tensor.to(lab.device) for tensor in tensors])
        if got is not None:
            lab.within(backend, lab.apart(got, want), limit)
        elif backend == "math":
            raise Wrong("torch has no plain attention for this device", "none", "math")
        else:
            lab.note(f"{backend} unavailable")


def index_guard(lab: Lab) -> None:
    """See that a token id beyond the embedding is an error, not a read of foreign memory."""
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    table = lab.torch.nn.Embedding(32, 8).to(lab.device)
    try:
        table(lab.torch.tensor([32], device=lab.device)).sum().item()
    except (IndexError, RuntimeError) as error:
        expected = isinstance(error, IndexError) if not lab.cuda else "device-side assert" in str(error)
        lab.holds("index 32 of 32 is refused", true=expected)
    else:
        raise Wrong("an index out of range was read", "a value", "an error")


def collective(lab: Lab) -> None:
    """Let one rank sum and broadcast with itself, exactly."""
    torch, backend = lab.torch, "nccl" if lab.cuda else "gloo"
    distributed = importlib.import_module("torch.distributed")
    if not distributed.is_available() or not getattr(distributed, f"is_{backend}_available", lambda: True)():
        raise Absent(f"this torch is built without {backend}")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a host name that does not resolve is not this check's matter
    with tempfile.TemporaryDirectory() as folder:
        distributed.init_process_group(backend, init_method=f"file://{folder}/rank", rank=0, world_size=1)
        sent = torch.arange(1024, dtype=torch.float32, device=lab.device)
        got = sent.clone()
        distributed.all_reduce(got)
        distributed.broadcast(got, 0)
        lab.holds(f"{backend} returns what one rank sent", true=torch.equal(sent, got))
        distributed.destroy_process_group()


def _need_compiler() -> None:
    """Triton builds a small C file against Python.h at run time: say what is missing before it says so in 80 lines."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if not compiler or not shutil.which(compiler.split()[0]):
        raise Wrong("Triton needs a C compiler", "none", "gcc or clang", "sudo apt-get install gcc")
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if not header.is_file():
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-dev"
        raise Wrong("Triton needs Python's headers", "no " + str(header), "Python.h", "sudo apt-get install " + package)


tl: Any = None  # triton.language: Triton looks this name up among the globals of the kernel below


def _add_kernel(x: Any, y: Any, out: Any, n: Any, BLOCK: tl.constexpr) -> None:  # noqa: N803 - Triton's custom
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside)


def triton(lab: Lab) -> None:
    """Compile a vector addition with Triton from a cold cache, and add."""
    if lab.torch.cuda.get_device_capability(0) < (7, 0):
        raise Absent("Triton needs compute capability 7.0")  # triton README, "Supported Platforms"
    _need_compiler()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        globals()["tl"] = importlib.import_module("triton.language")
        _add_kernel.__annotations__["BLOCK"] = tl.constexpr  # text until here, and Triton 3.0 does not read text
        kernel = importlib.import_module("triton").jit(_add_kernel)
        left, right = lab.normal(1000, seed=8).to(lab.device), lab.normal(1000, seed=9).to(lab.device)
        out = lab.torch.zeros_like(left)
        kernel[(4,)](left, right, out, 1000, BLOCK=256)
        lab.within("error", lab.apart(out, lab.exact(left) + lab.exact(right)), 1e-6)  # one fp32 rounding: 6e-8


def compile_(lab: Lab) -> None:
    """Compile a fused kernel with torch.compile from a cold cache, and run it."""
    torch, numpy = lab.torch, lab.numpy
    if torch.cuda.get_device_capability(0) < (7, 0):
        raise Absent("Triton needs compute capability 7.0")
    _need_compiler()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.environ["TRITON_CACHE_DIR"] = cache
        function = torch.compile(lambda x: torch.sin(x) + torch.cos(x), fullgraph=True)
        x = lab.normal(64, 64, seed=10)
        lab.within(
            "error", lab.apart(function(x.to(lab.device)), numpy.sin(lab.exact(x)) + numpy.cos(lab.exact(x))), FP32
        )
        # Where Dynamo gives up it runs the function as it stands, which is right, and proves nothing.
        lab.holds("code was generated", true=any(Path(cache).rglob("*.py")))


# ---- kernels: bitsandbytes ------------------------------------------------------------------------------------

# The codebooks, from the QLoRA paper (appendix E) and bitsandbytes' csrc; FP4 keeps its sign in the high bit.
NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
FP4 = tuple(sign * value / 12 for sign in (1, -1) for value in (0, 0.0625, 8, 12, 4, 6, 2, 3))
BLOCK = 64


def _codes(lab: Lab, packed: Any) -> Any:
    """Unpack two codes a byte, the high nibble first."""
    flat = packed.detach().cpu().numpy().view("uint8").ravel()
    return lab.numpy.stack([flat >> 4, flat & 15], 1).reshape(-1, BLOCK)


def _scales(lab: Lab, state: Any) -> Any:
    """Return each block's largest magnitude in float64, undoing the second quantisation."""
    if not state.nested:
        return lab.exact(state.absmax)
    inner = state.state2
    table, outer = lab.exact(inner.code), lab.exact(inner.absmax)
    coded = state.absmax.detach().cpu().numpy().ravel()
    return table[coded] * outer.repeat(inner.blocksize)[: coded.size] + float(state.offset)


def _decode(lab: Lab, packed: Any, state: Any, codebook: tuple[float, ...]) -> Any:
    """Dequantise in numpy alone."""
    table = lab.numpy.array(codebook, "float32").astype("float64")
    return (table[_codes(lab, packed)] * _scales(lab, state)[:, None]).reshape(tuple(state.shape))


def _four_bits(lab: Lab, kind: str, codebook: tuple[float, ...], limit: float) -> None:
    weights = lab.normal(1024, 1024)
    functional = lab.bnb.functional
    with lab.asking():
        packed, state = functional.quantize_4bit(weights.to(lab.device), blocksize=BLOCK, quant_type=kind)
    got = lab.exact(functional.dequantize_4bit(packed, state))
    blocks = weights.numpy().reshape(-1, BLOCK)
    largest = abs(blocks).max(1)
    distance = abs((blocks / largest[:, None])[..., None] - lab.numpy.array(codebook, "float32"))
    codes = _codes(lab, packed)
    chosen = lab.numpy.take_along_axis(distance, codes[..., None].astype("int64"), -1)[..., 0]
    # Ties and the last bit of a division may fall either way; more than 1 in 10^4 is another codebook.
    lab.within("codes not the nearest", float((chosen > distance.min(-1) + 1e-6).mean()), 1e-4)
    lab.within("block maxima off by", float(abs(lab.exact(state.absmax) - largest).max()), 0.0)
    lab.within("dequantised off by", float(abs(got - _decode(lab, packed, state, codebook)).max()), 1e-6)
    lab.within("mean error", float(abs(got - lab.exact(weights)).mean()), limit)


def nf4(lab: Lab) -> None:
    """Compare NF4, block 64, with the nearest codeword; bnb test_4bit_quant: mean error .072798 + 7 x .000074."""
    _four_bits(lab, "nf4", NF4, 0.072798 + 7 * 0.000074)


def fp4(lab: Lab) -> None:
    """Compare FP4, block 64, with the nearest codeword; bnb test_4bit_quant: mean error .096543 + 7 x .000111."""
    _four_bits(lab, "fp4", FP4, 0.096543 + 7 * 0.000111)


def double_quant(lab: Lab) -> None:
    """Quantise the block maxima too: 8 bits each, and still the same weights."""
    weights = lab.normal(1024, 1024, seed=11)
    functional = lab.bnb.functional
    with lab.asking():
        packed, state = functional.quantize_4bit(
            weights.to(lab.device), blocksize=BLOCK, quant_type="nf4", compress_statistics=True
        )
    got, true = lab.exact(functional.dequantize_4bit(packed, state)), lab.exact(weights)
    lab.within("dequantised off by", float(abs(got - _decode(lab, packed, state, NF4)).max()), 1e-5)  # fp32 sums: 5e-7
    error = abs(got - true)
    lab.within("mean error", float(error.mean()), 0.11)  # bnb test_4bit_compressed_stats
    lab.within("relative error", float((error / (abs(true) + 1e-15)).mean()), 0.28)  # the same
    stored = packed.numel() + state.absmax.numel() + 4 * state.state2.absmax.numel()
    lab.within("bits a weight", 8 * stored / weights.numel(), 4.13)  # 4 + 8/64 + 32/(64 * 256) = 4.127


def int8_blockwise(lab: Lab) -> None:
    """Quantise to 8 bits, block 256, as the optimizers store their state; limits of bnb test_dynamic_blockwise."""
    values = lab.normal(1024, 1024, seed=12)
    functional = lab.bnb.functional
    with lab.asking():
        coded, state = functional.quantize_blockwise(values.to(lab.device), blocksize=256)
    got, true = lab.exact(functional.dequantize_blockwise(coded, state)), lab.exact(values)
    table, scale = lab.exact(state.code), lab.exact(state.absmax).repeat(256).reshape(true.shape)
    lab.within("dequantised off by", float(abs(got - table[coded.cpu().numpy()] * scale).max()), 1e-6)
    lab.within("block maxima off by", float(abs(scale[:, ::256] - abs(true).reshape(-1, 4, 256).max(-1)).max()), 0.0)
    error, size = abs(got - true), abs(true)
    lab.within("mean error", float(error.mean()), 0.011)
    large = size > size.mean() / 1000  # one exact zero would count as thousands of others
    lab.within("relative error", float((error[large] / size[large]).mean()), 0.018)


def _int8_rows(lab: Lab, half: Any) -> tuple[Any, Any]:
    """Quantise each row to its largest magnitude, in numpy."""
    rows = lab.exact(half)
    scale = abs(rows).max(1, keepdims=True)
    return lab.numpy.rint(rows * (127 / scale)), scale


def llm_int8(lab: Lab) -> None:
    """Check LLM.int8: rows within one step, an exact integer product, and the layer made of both."""
    torch, bnb = lab.torch, lab.bnb
    x, weight = lab.normal(32, 256, seed=13).half(), (lab.normal(64, 256, seed=14) / 16).half()
    quantise = getattr(bnb.functional, "int8_vectorwise_quant", None) or bnb.functional.double_quant  # renamed in 0.45
    with lab.asking():
        rows = quantise(x.to(lab.device))[0]
    lab.within(
        "rows off by, steps", float(abs(lab.exact(rows) - _int8_rows(lab, x)[0]).max()), 1
    )  # bnb: atol 1, rtol 0
    wq, ws = _int8_rows(lab, weight)
    if hasattr(bnb.functional, "int8_linear_matmul"):
        columns = torch.tensor(wq).to(torch.int8).to(lab.device)
        with lab.asking():
            product = bnb.functional.int8_linear_matmul(rows, columns)
        off = abs(lab.exact(product) - lab.exact(rows) @ wq.T).max()
        lab.within("integer product off by", float(off), 0)
    layer = bnb.nn.Linear8bitLt(256, 64, bias=False, has_fp16_weights=False, threshold=0.0)
    layer.weight = bnb.nn.Int8Params(weight.clone(), has_fp16_weights=False, requires_grad=False)
    with lab.asking():
        got = layer.to(lab.device)(x.to(lab.device))
    # A GPU quantises the input too: numpy doing so is 8.5e-3 away; a CPU keeps it in fp16: measured 1.3e-3.
    lab.within("layer", lab.apart(got, lab.exact(x) @ (wq * ws / 127).T), 2e-2)


def _linear4bit(lab: Lab, dtype: Any) -> tuple[Any, Any, Any]:
    """Return a quantised 256 -> 512 layer in training mode, and its weight and bias as numpy reads them.

    In evaluation mode bitsandbytes 0.50 repacks the weights on a CPU with avx512_bf16 and computes in bf16 whatever
    was asked for; that is `linear4bit_packed`'s matter.
    """
    torch, bnb = lab.torch, lab.bnb
    weight, bias = lab.normal(512, 256, seed=15) / 16, lab.normal(512, seed=16)
    with lab.asking():
        bnb.functional.quantize_4bit(weight[:1].to(lab.device), blocksize=BLOCK, quant_type="nf4")
    layer = bnb.nn.Linear4bit(256, 512, compute_dtype=dtype, quant_type="nf4", compress_statistics=True)
    layer.load_state_dict({"weight": weight, "bias": bias})
    layer = layer.to(lab.device).train()
    if layer.weight.dtype != torch.uint8:
        raise Wrong("the layer did not quantise its weights", str(layer.weight.dtype), "torch.uint8")
    return layer, _decode(lab, layer.weight.data, layer.weight.quant_state, NF4), lab.exact(bias.to(dtype))


def _compute_types(lab: Lab) -> tuple[tuple[Any, float], ...]:
    """Return fp32 within 5e-6 (measured 5e-7), bf16 within 1.2e-2 (weights, input, output of 8 bits; measured 4e-3)."""
    return (lab.torch.float32, FP32), (lab.torch.bfloat16, BF16)


ROWS = ((1, "GEMV"), (8, "GEMM"))  # bitsandbytes takes another kernel for one row


def linear4bit_forward(lab: Lab) -> None:
    """Multiply by a 4-bit layer as its dequantised weights do in float64."""
    for dtype, limit in _compute_types(lab):
        layer, weight, bias = _linear4bit(lab, dtype)
        for rows, kernel in ROWS:
            x = lab.normal(rows, 256, seed=17, dtype=dtype)
            with lab.torch.no_grad():
                got = layer(x.to(lab.device))
            lab.within(f"{str(dtype)[6:]} {kernel}", lab.apart(got, lab.exact(x) @ weight.T + bias), limit)


def linear4bit_backward(lab: Lab) -> None:
    """Compare the gradient that reaches the input: a loss that falls does not prove it."""
    for dtype, limit in _compute_types(lab):
        layer, weight, _ = _linear4bit(lab, dtype)
        for rows, _ in ROWS:
            x = lab.normal(rows, 256, seed=18, dtype=dtype).to(lab.device).requires_grad_()
            gradient = lab.normal(rows, 512, seed=19, dtype=dtype)
            layer(x).backward(gradient.to(lab.device))
            what = f"{str(dtype)[6:]} {rows} row{'s' if rows > 1 else ''}"
            lab.within(what, lab.apart(x.grad, lab.exact(gradient) @ weight), limit)


def linear4bit_packed(lab: Lab) -> None:
    """Use the layer in evaluation mode on a CPU with avx512_bf16, where bitsandbytes 0.50 computes in bf16."""
    if not getattr(lab.bnb.functional, "has_avx512bf16", lambda: False)():
        raise Absent(f"bitsandbytes {importlib.metadata.version('bitsandbytes')} has no packed path")
    layer, weight, bias = _linear4bit(lab, lab.torch.float32)
    layer.eval()
    for rows, kernel in ROWS:
        x = lab.normal(rows, 256, seed=17)
        with lab.torch.no_grad():
            got = layer(x)
        lab.within(kernel, lab.apart(got, lab.exact(x) @ weight.T + bias), BF16)
    packed = getattr(layer.weight.quant_state, "packing_format_for_cpu", False)
    lab.holds("the weights were packed", true=bool(packed))


def adamw8bit(lab: Lab) -> None:
    """Take twenty steps with each 8-bit or paged AdamW and with AdamW in float64.

    bnb resets the states at each step and allows 6e-5 a step; here they run free, so the bound is a part of the way
    gone: a tenth with 8-bit states (measured 1.6e-2), a hundredth with 32-bit ones.
    """
    torch, numpy = lab.torch, lab.numpy
    names = {"AdamW8bit": 0.1}
    if lab.cuda:  # paging is CUDA's managed memory
        names.update({"PagedAdamW8bit": 0.1, "PagedAdamW32bit": 0.01})
    start = lab.normal(256, 256, seed=20) / 10
    gradients = [lab.normal(256, 256, seed=30 + step) / 100 for step in range(20)]
    want = _adamw(numpy, lab.exact(start), [lab.exact(gradient) for gradient in gradients])
    moved = float(abs(want - lab.exact(start)).mean())
    for name, part in names.items():
        parameter = start.clone().to(lab.device).requires_grad_()
        optimizer = getattr(lab.bnb.optim, name)([parameter], lr=1e-3)
        for gradient in gradients:
            parameter.grad = gradient.to(lab.device)
            with lab.asking():
                optimizer.step()
        lab.within(name, float(abs(lab.exact(parameter) - want).mean()) / moved, part)
        if "8bit" in name:
            kind = optimizer.state[parameter]["state1"].dtype
            lab.holds("8-bit state", true=kind == torch.uint8)


def _adamw(numpy: Any, start: Any, gradients: Sequence[Any]) -> Any:
    """Run AdamW with torch's defaults (Loshchilov and Hutter, algorithm 2): betas .9 and .999, eps 1e-8, decay .01."""
    value, first, second = start.copy(), 0.0, 0.0
    for step, gradient in enumerate(gradients, 1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        value *= 1 - 1e-3 * 0.01
        value -= 1e-3 * first / (1 - 0.9**step) / (numpy.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return value


# ---- the registry ---------------------------------------------------------------------------------------------

TORCH: tuple[str, ...] = ("torch", "numpy")
BNB: tuple[str, ...] = (*TORCH, "bitsandbytes")
LINEAR: tuple[str, ...] = (*BNB, "kernels.nf4", "kernels.double-quant")
CPU_FLAGS = ("avx512_bf16",)

# What a check needs: distributions (no row where the request has them not), "cuda" (skipped on a CPU), a CPU flag
# (no row without it, or on a GPU), and earlier checks (skipped, naming the one that did not pass).
CHECKS: dict[str, tuple[Callable[[Lab], None], tuple[str, ...]]] = {
    "kernels.cuda": (cuda, ("torch", "cuda")),
    "kernels.gemm-fp32": (gemm_fp32, TORCH),
    "kernels.gemm-tf32": (gemm_tf32, (*TORCH, "cuda")),
    "kernels.gemm-bf16": (gemm_bf16, TORCH),
    "kernels.gemm-fp16": (gemm_fp16, TORCH),
    "kernels.conv2d": (conv2d, TORCH),
    "kernels.sdpa": (sdpa, TORCH),
    "kernels.index-guard": (index_guard, ("torch",)),
    "kernels.collective": (collective, ("torch",)),
    "kernels.triton": (triton, (*TORCH, "triton", "cuda")),
    "kernels.compile": (compile_, (*TORCH, "triton", "cuda", "kernels.triton")),
    "kernels.nf4": (nf4, BNB),
    "kernels.fp4": (fp4, BNB),
    "kernels.int8-blockwise": (int8_blockwise, BNB),
    "kernels.llm-int8": (llm_int8, BNB),
    "kernels.double-quant": (double_quant, (*BNB, "kernels.nf4", "kernels.int8-blockwise")),
    "kernels.linear4bit-forward": (linear4bit_forward, LINEAR),
    "kernels.linear4bit-backward": (linear4bit_backward, LINEAR),
    "kernels.linear4bit-packed": (linear4bit_packed, (*LINEAR, "avx512_bf16")),
    "kernels.adamw8bit": (adamw8bit, BNB),
}


def examine(identity: str, device: str, limit: float) -> Row:
    """Run one check in a child of its own."""
    function = CHECKS[identity][0]

    def task(say: Say) -> None:
        lab = Lab(device)
        try:
            function(lab)
        except Absent as reason:
            say({"row": {"status": "skip", "message": str(reason)}})
        except Wrong as finding:
            fields = {"have": finding.have, "want": finding.want, "message": str(finding), "fix": finding.fix}
            say({"row": {"status": "fail", **fields}})
        except Exception as error:  # noqa: BLE001 - whatever a library raises is this check's result
            traceback.print_exc()
            say({"row": {"status": "fail", "message": explain(error)}})
        else:
            say({"row": {"status": "pass", "have": "; ".join(lab.have), "want": "; ".join(lab.want) or None}})

    ended = fork(task, limit)
    said = ended.heard("row")
    if not said:
        reason = ended.death or f"ended with code {ended.code}"
        said = [{"status": "fail", "message": reason + ("\n" + ended.tail if ended.tail else "")}]
    return row(identity, seconds=round(ended.seconds, 3), **said[0])


class Survey:
    """One probe: what was asked, and what is known so far."""

    def __init__(self, request: Row) -> None:
        """Read `imports` [{distribution, module}], `only` [check id], `limits` {import, check} in seconds."""
        self.limits: dict[str, float] = request["limits"]
        self.imports = {item.name: item for item in installed(request["imports"])}
        self.only = frozenset(request["only"] or CHECKS)
        self.facts: Row = describe(None)
        self.rows: dict[str, Row] = {}
        self.notes: list[str] = []

    def report(self) -> Row:
        """Import, check, and return the report."""
        self._import()
        self._check(self.limits["check"] + self.limits["import"])  # what the worker left: each imports for itself
        order = [*map(import_id, self.imports), *CHECKS]
        versions = {name: item.version for name, item in self.imports.items()}
        return {
            "schema": SCHEMA,
            "device": self.facts["device"],
            "versions": {**self.facts["versions"], **versions},
            "cpu_flags": self.facts["cpu_flags"],
            "notes": self.notes,
            "checks": [self.rows[identity] for identity in order if identity in self.rows],
        }

    # ---- the worker, as often as it takes to get through the imports that work ----

    def _import(self) -> None:
        pending = tuple(self.imports.values())
        silence = max(self.limits["import"], self.limits["check"] + 2 * REAP_SECONDS)  # during a check it says nothing
        while pending:
            ended = fork(functools.partial(self._work, pending), silence)
            if self._learn(ended):
                return
            tried = ended.heard("importing")
            if not tried:
                raise RuntimeError(f"the worker imported nothing: {ended.death}\n{ended.tail}")
            if not self.rows:
                self._import_each()
            if all(self.rows[import_id(item.name)]["status"] == "pass" for item in pending):
                self._blame(tried, ended)
            pending = tuple(item for item in pending if self._importable(item))

    def _work(self, pending: Sequence[Import], say: Say) -> None:
        """Be the worker: imports, then checks, each said when it is known."""
        self.facts = work(pending, say)
        if self.facts["clean"]:
            self._check(self.limits["check"], say)

    def _learn(self, ended: Ended) -> bool:
        """Take over what the worker found; False if it did not get through its imports."""
        facts = ended.heard("facts")
        if not facts:
            return False
        self.facts = facts[0]
        for name, seconds in ended.heard("imported"):
            have = self.imports[name].version
            self.rows[import_id(name)] = row(import_id(name), "pass", seconds=round(seconds, 3), have=have)
        self.rows.update({check["id"]: check for check in ended.heard("check")})
        if not self.facts["clean"]:
            self.notes.append("an import created a CUDA context: each check imported for itself")
        elif ended.death or ended.code:
            self.notes.append(f"the worker ended early ({ended.death or ended.code}): the rest imported for itself")
        return True

    def _import_each(self) -> None:
        for name, item in self.imports.items():
            root = blocked(item, self._failed(), self.imports)
            skip = row(import_id(name), "skip", message=f"follows from {import_id(root)}") if root else None
            self.rows[import_id(name)] = skip or import_alone(item, self.limits["import"])

    def _blame(self, tried: Sequence[str], ended: Ended) -> None:
        """Name the package that imports alone but not after the others."""
        reason = ended.death or ended.tail.rpartition("\n")[2] or f"ended with code {ended.code}"
        before = ", ".join(tried[:-1]) or "the start of the worker"
        message = f"imports alone, but not after {before}: {reason}"
        self.rows[import_id(tried[-1])].update(status="fail", message=message)

    def _importable(self, item: Import) -> bool:
        failed = self._failed()
        return item.name not in failed and not blocked(item, failed, self.imports)

    def _failed(self) -> tuple[str, ...]:
        return tuple(name for name in self.imports if self.rows.get(import_id(name), {}).get("status") == "fail")

    # ---- the checks ----

    def _check(self, limit: float, say: Say | None = None) -> None:
        """Fill in the rows that are not there yet."""
        for identity in CHECKS:
            if identity not in self.rows and self._concerns(identity):
                found = self._foregone(identity) or examine(identity, self.facts["device"], limit)
                self.rows[identity] = found
                if say:
                    say({"check": found})

    def _concerns(self, identity: str) -> bool:
        """Tell whether the check is asked for and says something about this stack and this CPU."""
        needs = CHECKS[identity][1]
        distributions = (need for need in needs if need != "cuda" and need not in CPU_FLAGS and "." not in need)
        flags = (need for need in needs if need in CPU_FLAGS)
        here = () if self.facts["device"] == "cuda" else self.facts["cpu_flags"]
        return identity in self.only and self.imports.keys() >= {*distributions} and all(flag in here for flag in flags)

    def _foregone(self, identity: str) -> Row | None:
        """Return the skip of a check whose answer follows from an earlier row or the lack of a GPU."""
        needs, on_gpu = CHECKS[identity][1], self.facts["device"] == "cuda"
        earlier = [*map(import_id, needs), *(["kernels.cuda"] if on_gpu else []), *needs]
        for known in (self.rows[name] for name in earlier if name in self.rows):
            if known["status"] == "fail":
                return row(identity, "skip", message=f"follows from {known['id']}")
            if known["status"] == "skip":
                return row(identity, "skip", message=known["message"])
        return row(identity, "skip", message="no CUDA device") if "cuda" in needs and not on_gpu else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Probe; end with `NO_ROOM` and one line where a full disk is in the way."""
    try:
        probe(arguments)
    except OSError as error:
        if error.errno not in FULL:
            raise
        print(error.strerror, file=sys.stderr)  # noqa: T201 - the parent reads it
        sys.exit(NO_ROOM)


def probe(arguments: Sequence[str] | None) -> None:
    """Read the request, probe, and put the report in its place in one step."""
    parser = argparse.ArgumentParser(description="Probe the environment of this interpreter.", allow_abbrev=False)
    parser.add_argument("--report", required=True, type=Path, help="file to write")
    parser.add_argument("--request", required=True, help="file or JSON text")
    options = parser.parse_args(arguments)
    text = options.request if options.request.lstrip().startswith("{") else Path(options.request).read_text("utf-8")
    report = Survey(json.loads(text)).report()
    draft = options.report.with_name(options.report.name + ".part")
    draft.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    draft.replace(options.report)


if __name__ == "__main__":
    main()
