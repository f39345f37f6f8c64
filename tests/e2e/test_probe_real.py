"""The probe on real wheels: all is well, and each way of computing wrongly is found by the checks that must find it.

The stack (6 GB) is built once; ENVLOCK_TEST_STACK names the Python of one that is there already.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from uv import find_uv_bin

from envlock import proc
from envlock.probe import run as probe
from envlock.probe import script

pytestmark = pytest.mark.e2e

STACK = ("torch==2.8.0", "bitsandbytes==0.50.2", "numpy", "setuptools<81")
REQUEST = probe.ProbeRequest(imports=probe.imports(("torch", "numpy", "triton", "bitsandbytes")))
KEPT = (
    "PATH",
    "LANG",
    "HOME",
    "UV_CACHE_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
)
MINUTES = 60

# Stands where the probe would, and runs it with one library function changed as soon as bitsandbytes is imported.
SABOTEUR = '''
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from types import SimpleNamespace

PROBE, HOW = {probe!r}, {how!r}


def nibbles(bnb):
    """The two codes of a byte change places on the way out."""
    true = bnb.functional.dequantize_4bit
    swap = lambda packed, *rest, **named: true((packed << 4) | (packed >> 4), *rest, **named)
    bnb.functional.dequantize_4bit = swap


def scaled(bnb):
    """What is quantised to 4 bits is 3 % too large."""
    true = bnb.functional.quantize_4bit
    bnb.functional.quantize_4bit = lambda tensor, *rest, **named: true(tensor * 1.03, *rest, **named)


def backward(bnb):
    """The gradient of a 4-bit layer is 5 % too large."""
    kind = bnb.autograd._functions.MatMul4Bit
    true = kind.backward

    def larger(context, gradient):
        first, *rest = true(context, gradient)
        return (first * 1.05, *rest)

    kind.backward = staticmethod(larger)


def optimizer(bnb):
    """8-bit AdamW takes steps a fifth too long."""
    true = bnb.optim.AdamW8bit
    bnb.optim.AdamW8bit = lambda parameters, lr: true(parameters, lr=lr * 1.2)


def rows(bnb):
    """Each row of LLM.int8 is quantised three steps off."""
    true = bnb.functional.int8_vectorwise_quant

    def off(*given, **named):
        codes, *rest = true(*given, **named)
        return (codes - 3, *rest)

    bnb.functional.int8_vectorwise_quant = off


def blockwise(bnb):
    """8-bit blocks come back 2 % too large."""
    true = bnb.functional.dequantize_blockwise
    bnb.functional.dequantize_blockwise = lambda *given, **named: true(*given, **named) * 1.02


def crash(bnb):
    """Quantising ends the process."""
    bnb.functional.quantize_blockwise = lambda *given, **named: os.abort()


def import_module(name):
    module = importlib.import_module(name)
    if name == "bitsandbytes" and not hasattr(module, "sabotaged"):
        module.sabotaged = True
        globals()[HOW](module)
    return module


spec = importlib.util.spec_from_file_location("probe", PROBE)
probe = importlib.util.module_from_spec(spec)
sys.modules["probe"] = probe
spec.loader.exec_module(probe)
probe.importlib = SimpleNamespace(import_module=import_module, metadata=importlib.metadata)
probe.main()
'''

Ask = Callable[..., probe.ProbeReport]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of a real stack, taken away afterwards if it was built here."""
    if given := os.environ.get("ENVLOCK_TEST_STACK"):
        yield Path(given)
        return
    place = tmp_path_factory.mktemp("stack")
    environ = {name: os.environ[name] for name in KEPT if name in os.environ}
    environ.setdefault("UV_CACHE_DIR", str(place / "cache"))
    for argv in (("venv", "--python", sys.executable, "env"), ("pip", "install", "--python", "env/bin/python", *STACK)):
        command = proc.Command(argv=(find_uv_bin(), *argv), env=environ, cwd=place, timeout=15 * MINUTES)
        done = proc.run(command)
        assert done.code == 0, done.stderr
    yield place / "env" / "bin" / "python"
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def ask(python: Path, tmp_path: Path, isolated_environ: dict[str, str]) -> Ask:
    def ask(how: str | None = None) -> probe.ProbeReport:
        def run(command: proc.Command) -> proc.Completed:
            saboteur = tmp_path / "saboteur.py"
            saboteur.write_text(SABOTEUR.format(probe=script.__file__, how=how))
            started = str(saboteur) if how else script.__file__
            argv = tuple(started if part == script.__file__ else part for part in command.argv)
            return proc.run(replace(command, argv=argv))

        return probe.run(
            run=run,
            python=python,
            request=REQUEST,
            environ=isolated_environ | {"CUDA_VISIBLE_DEVICES": ""},
            timeout=5 * MINUTES,
            workdir=tmp_path,
        )

    return ask


def of(report: probe.ProbeReport, status: str) -> set[str]:
    assert report.failure is None, report.failure
    return {check.id for check in report.checks if check.status == status}


def test_a_sound_stack_passes_all_that_a_cpu_can_run(ask: Ask) -> None:
    report = ask()
    assert of(report, "fail") == set(), [check for check in report.checks if check.status == "fail"]
    needs_a_gpu = {"kernels.cuda", "kernels.gemm-tf32", "kernels.triton", "kernels.compile"}
    assert of(report, "skip") == needs_a_gpu
    packed = set() if "avx512_bf16" in report.cpu_flags else {"kernels.linear4bit-packed"}
    assert of(report, "pass") >= set(probe.KERNELS) - needs_a_gpu - packed
    assert report.notes == ()
    assert all(check.have and check.seconds > 0 for check in report.checks if check.status == "pass")


# What builds on 4-bit weights, or on their quantised block maxima, says nothing of its own once those are wrong.
LINEAR = {"kernels.linear4bit-forward", "kernels.linear4bit-backward", "kernels.linear4bit-packed"}
NESTED = LINEAR | {"kernels.double-quant"}


@pytest.mark.parametrize(
    ("how", "failing", "following"),
    [
        ("nibbles", {"kernels.nf4", "kernels.fp4"}, NESTED),
        ("scaled", {"kernels.nf4", "kernels.fp4"}, NESTED),
        ("backward", {"kernels.linear4bit-backward"}, set()),
        ("optimizer", {"kernels.adamw8bit"}, set()),
        ("rows", {"kernels.llm-int8"}, set()),
        ("blockwise", {"kernels.int8-blockwise"}, NESTED),
        ("crash", {"kernels.int8-blockwise"}, NESTED),
    ],
)
def test_a_stack_that_computes_wrongly_is_found_out(ask: Ask, how: str, failing: set[str], following: set[str]) -> None:
    report = ask(how)
    assert of(report, "fail") == failing
    first = next(check for check in report.checks if check.status == "fail")
    skipped = {check.id for check in report.checks if check.message == f"follows from {first.id}"}
    assert skipped == following & {check.id for check in report.checks}
    if how == "crash":
        assert (first.message or "").startswith("killed by SIGABRT\nFatal Python error: Aborted")
