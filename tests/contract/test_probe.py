"""The real probe in real, tiny environments: packages that import, fail, crash, hang or touch a GPU too early."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import venv
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from envlock import proc
from envlock.model import Check
from envlock.probe import run as probe
from envlock.probe import script
from tests.servers.wheels import make_wheel

SEGFAULT = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
HANG = "import time\ntime.sleep(600)\n"

# As much of torch as the index guard sees. A CUDA context, once made, follows into no child: as with the real one.
TORCH = """
import os
from types import SimpleNamespace as Namespace

_made_in = None


def _context():
    global _made_in
    if _made_in not in (None, os.getpid()):
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
    _made_in = os.getpid()


def _get_device_capability(device=None):
    _context()
    return (8, 6)


class _Embedding:
    def __init__(self, rows, columns):
        pass

    def to(self, device):
        if device == "cuda":
            _context()
        return self

    def __call__(self, ids):
        if ON_GPU:
            raise RuntimeError("CUDA error: device-side assert triggered")
        raise IndexError("index out of range in self")


ON_GPU = {on_gpu}
version = Namespace(cuda="12.1")
nn = Namespace(Embedding=_Embedding)
cuda = Namespace(
    is_available=lambda: ON_GPU,
    is_initialized=lambda: _made_in == os.getpid(),
    device_count=lambda: 1,
    get_device_capability=_get_device_capability,
    _is_in_bad_fork=lambda: _made_in not in (None, os.getpid()),
)


def tensor(values, device=None):
    return values
"""

Install = Callable[..., None]
Ask = Callable[..., probe.ProbeReport]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    place = tmp_path / "env"
    venv.EnvBuilder(with_pip=False, symlinks=True).create(place)
    return place


@pytest.fixture
def install(environment: Path, tmp_path: Path) -> Install:
    (site,) = environment.glob("lib/python3.*/site-packages")

    def install(name: str, text: str = "", *, requires: Sequence[str] = ()) -> None:
        wheel = make_wheel(tmp_path / "wheels", name, "1.0", requires=requires, files={f"{name}.py": text})
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)

    return install


@pytest.fixture
def ask(environment: Path, tmp_path: Path, isolated_environ: dict[str, str]) -> Ask:
    def ask(*names: str, only: Sequence[str] = (), limit: float = 20.0) -> probe.ProbeReport:
        wanted = tuple(probe.Import(distribution=name, module=name) for name in names)
        return probe.run(
            run=proc.run,
            python=environment / "bin" / "python",
            request=probe.ProbeRequest(imports=wanted, only=tuple(only), import_seconds=limit, check_seconds=limit),
            environ=isolated_environ,
            timeout=60,
            workdir=tmp_path,
        )

    return ask


def statuses(report: probe.ProbeReport) -> dict[str, str]:
    assert report.failure is None, report.failure
    return {check.id: check.status for check in report.checks}


def find(report: probe.ProbeReport, identity: str) -> Check:
    return next(check for check in report.checks if check.id == identity)


# ---- imports --------------------------------------------------------------------------------------------------


def test_what_is_installed_is_imported_and_the_rest_not_mentioned(install: Install, ask: Ask) -> None:
    install("good")
    report = ask("good", "absent")
    assert statuses(report) == {"import.good": "pass"}
    assert find(report, "import.good").have == report.versions["good"] == "1.0"
    assert report.device == "cpu"


def test_a_failed_import_is_named_and_its_dependents_skipped(install: Install, ask: Ask) -> None:
    install("root", "import pkg_resources_of_old\n")
    install("middle", "import root\n", requires=["root>=1"])
    install("leaf", "import middle\n", requires=["middle; python_version > '3'", "aside; extra == 'x'"])
    install("aside")
    report = ask("root", "middle", "leaf", "aside")
    assert statuses(report) == {
        "import.root": "fail",
        "import.middle": "skip",
        "import.leaf": "skip",
        "import.aside": "pass",
    }
    message = find(report, "import.root").message or ""
    assert message.startswith("ModuleNotFoundError: No module named 'pkg_resources_of_old' (")
    assert find(report, "import.leaf").message == "follows from import.root"


def test_a_crash_on_import_is_named_by_signal_and_place(install: Install, ask: Ask) -> None:
    install("good")
    install("crash", SEGFAULT)
    report = ask("good", "crash")
    assert statuses(report) == {"import.good": "pass", "import.crash": "fail"}
    message = find(report, "import.crash").message or ""
    assert message.startswith("killed by SIGSEGV\nFatal Python error: Segmentation fault")
    assert "crash.py" in message


def test_an_import_that_hangs_is_stopped(install: Install, ask: Ask) -> None:
    install("hang", HANG)
    install("good")
    report = ask("hang", "good", limit=1.0)
    assert statuses(report) == {"import.hang": "fail", "import.good": "pass"}
    assert (find(report, "import.hang").message or "").startswith("no sign of life for 1 s")


def test_an_import_that_ends_the_interpreter_is_a_failure(install: Install, ask: Ask) -> None:
    install("leaver", "raise SystemExit(0)\n")
    install("quitter", "import os\nos._exit(0)\n")
    report = ask("leaver")
    assert (find(report, "import.leaver").message or "").startswith("SystemExit: 0")
    report = ask("quitter")
    assert statuses(report) == {"import.quitter": "fail"}


def test_a_package_that_fails_only_after_another_is_named(install: Install, ask: Ask) -> None:
    install("first")
    install("second", "import sys\nassert 'first' not in sys.modules, 'two copies of libstdc++'\n")
    install("third")
    report = ask("first", "second", "third")
    assert statuses(report) == {"import.first": "pass", "import.second": "fail", "import.third": "pass"}
    message = find(report, "import.second").message or ""
    assert message == "imports alone, but not after first: AssertionError: two copies of libstdc++"


# ---- checks ---------------------------------------------------------------------------------------------------


def torch(*, on_gpu: bool = False, then: str = "") -> str:
    return TORCH.replace("{on_gpu}", str(on_gpu)) + then


GUARD = ("kernels.index-guard",)


def test_a_check_runs_where_its_libraries_are(install: Install, ask: Ask) -> None:
    install("torch", torch())
    report = ask("torch", only=(*GUARD, "kernels.nf4", "kernels.cuda"))
    assert statuses(report) == {"import.torch": "pass", "kernels.cuda": "skip", "kernels.index-guard": "pass"}
    assert find(report, "kernels.cuda").message == "no CUDA device"
    assert report.versions["cuda"] == "12.1"


def test_a_failed_import_takes_its_checks_along_and_no_other(install: Install, ask: Ask) -> None:
    install("torch", torch())
    install("numpy")
    install("bitsandbytes", "raise OSError('libcudart.so.12: cannot open shared object file')\n", requires=["torch"])
    report = ask("numpy", "torch", "bitsandbytes", only=(*GUARD, "kernels.nf4"))
    assert statuses(report)["import.bitsandbytes"] == "fail"
    assert statuses(report)["kernels.index-guard"] == "pass"
    assert find(report, "kernels.nf4").message == "follows from import.bitsandbytes"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (SEGFAULT, "killed by SIGSEGV\nFatal Python error: Segmentation fault"),
        (HANG, "no sign of life for 1 s: stopped"),
        ("import os\nos._exit(3)\n", "ended with code 3"),
        ("raise KeyError('lib')\n", "KeyError: 'lib' ("),
        ("raise RuntimeError('of another kind')\n", "not so: index 32 of 32 is refused"),
    ],
)
def test_a_check_that_goes_wrong_ends_in_its_own_child(install: Install, ask: Ask, act: str, message: str) -> None:
    body = "".join(f"        {line}\n" for line in act.splitlines())
    broken = f"class Broken(_Embedding):\n    def __call__(self, ids):\n{body}nn.Embedding = Broken\n"
    install("torch", torch(then=broken))
    report = ask("torch", only=(*GUARD, "kernels.cuda"), limit=1.0)
    assert statuses(report)["kernels.index-guard"] == "fail"
    assert (find(report, "kernels.index-guard").message or "").startswith(message)
    assert statuses(report)["import.torch"] == "pass"


def test_a_package_that_asks_for_the_gpu_on_import_leaves_the_worker_clean(install: Install, ask: Ask) -> None:
    install("torch", torch(on_gpu=True))
    install("bitsandbytes", "import torch\nassert torch.cuda.get_device_capability() == (8, 6)\n", requires=["torch"])
    report = ask("torch", "bitsandbytes", only=GUARD)
    assert statuses(report) == {
        "import.torch": "pass",
        "import.bitsandbytes": "pass",
        "kernels.index-guard": "pass",
    }
    assert (report.device, report.notes) == ("cuda", ())


def test_a_cuda_context_made_on_import_costs_time_but_no_answer(install: Install, ask: Ask) -> None:
    install("torch", torch(on_gpu=True))
    install("deepspeed", "import torch\ntorch._context()\n", requires=["torch"])
    report = ask("torch", "deepspeed", only=GUARD)
    assert statuses(report)["kernels.index-guard"] == "pass"
    assert report.notes == ("an import created a CUDA context: each check imported for itself",)


def test_what_follows_from_a_broken_gpu_names_it(install: Install, ask: Ask) -> None:
    install("torch", torch(on_gpu=True, then="cuda.get_arch_list = lambda: 1 / 0\n"))
    report = ask("torch", only=("kernels.cuda", *GUARD))
    assert statuses(report) == {"import.torch": "pass", "kernels.cuda": "fail", "kernels.index-guard": "skip"}
    assert find(report, "kernels.index-guard").message == "follows from kernels.cuda"


# ---- the end --------------------------------------------------------------------------------------------------


def test_an_interpreter_that_is_not_there_is_reported(tmp_path: Path) -> None:
    report = probe.run(
        run=proc.run,
        python=tmp_path / "gone" / "bin" / "python",
        request=probe.ProbeRequest(imports=()),
        environ={},
        timeout=5,
        workdir=tmp_path,
    )
    assert report.failure is not None
    assert report.failure.startswith("the probe ended with code 127\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_child_outlives_the_probe(
    environment: Path, install: Install, tmp_path: Path, number: signal.Signals
) -> None:
    note = tmp_path / "pid"
    install("hang", f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    request = (
        '{"imports": [{"distribution": "hang", "module": "hang"}], "only": [], "limits": {"import": 60, "check": 60}}'
    )
    argv = probing(environment / "bin" / "python", tmp_path / "r", request)
    with subprocess.Popen(argv, env={}, stdin=subprocess.DEVNULL) as supervisor:
        assert within(20, lambda: note.exists() and note.read_text() != "")
        supervisor.send_signal(number)
    assert within(5, lambda: not Path(f"/proc/{note.read_text()}").exists())
    assert not (tmp_path / "r").exists()


def probing(python: Path, report: Path, request: str) -> list[str]:
    return [str(python), "-I", script.__file__, "--report", str(report), "--request", request]


def within(seconds: float, true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("minor", [8, 9])
def test_it_runs_on_pythons_older_than_envlock(tmp_path: Path, minor: int) -> None:
    found = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/3.{minor}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python 3.{minor} here")
    request = '{"imports": [], "only": [], "limits": {"import": 60, "check": 60}}'
    argv = probing(found[0], tmp_path / "r", request)
    subprocess.run(argv, env={}, check=True)
    assert (tmp_path / "r").read_text().startswith("{")
