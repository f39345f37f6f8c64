"""The main job on real wheels: two stacks of 5 to 7 GB, installed from the committed lock, that prove themselves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

MINUTES = 60


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of its own with one wheel cache for the module, taken away afterwards: it holds some 12 GB."""
    home = tmp_path_factory.mktemp("home")
    yield home
    shutil.rmtree(home, ignore_errors=True)


def envlock(home: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    kept = ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
    environ = {key: os.environ[key] for key in kept if key in os.environ}
    environ |= {"HOME": str(home), "PYENV_ROOT": os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))}
    done = subprocess.run(
        [sys.executable, "-m", "envlock", *arguments, "--json"],
        cwd=home,
        env=environ,
        capture_output=True,
        text=True,
        timeout=15 * MINUTES,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def statuses(verification: dict[str, Any]) -> dict[str, str]:
    return {check["id"]: check["status"] for check in verification["checks"]}


def test_the_cpu_stack_computes(home: Path) -> None:
    code, document = envlock(home, "install", "gemma-qlora", "--backend", "cpu")
    assert code == 0, document
    result = document["result"]
    assert result["variant"].startswith("cpu-py")
    assert result["verify"]["verdict"] == "verified-on-cpu"
    seen = statuses(result["verify"])
    assert "fail" not in seen.values(), seen
    computed = ("nf4", "fp4", "int8-blockwise", "linear4bit-forward", "linear4bit-backward", "adamw8bit", "sdpa")
    assert {name: seen[f"kernels.{name}"] for name in computed} == dict.fromkeys(computed, "pass")
    assert seen["kernels.triton"] == "skip"
    assert seen["integrity.record"] == "pass"

    code, document = envlock(home, "install", "gemma-qlora", "--backend", "cpu")
    assert (code, document["result"]["installed"]) == (0, False)

    code, document = envlock(home, "verify", "gemma-qlora", "--level", "kernels", "--require", "gpu")
    assert code == 1
    assert document["result"]["verdict"] == "failed"


def test_torch_2_4_1_installs_without_pretending_to_check_four_bits(home: Path) -> None:
    code, document = envlock(home, "install", "gemma-qlora", "--backend", "cu121", "--path", "cu121")
    assert code == 0, document
    result = document["result"]
    assert result["variant"] == "cu121-pypi"
    seen = statuses(result["verify"])
    assert "fail" not in seen.values(), seen
    assert seen["import.bitsandbytes"] == seen["integrity.record"] == seen["kernels.gemm-fp32"] == "pass"
    assert seen["kernels.nf4"] == seen["kernels.linear4bit-backward"] == "skip"
    version = subprocess.run(
        [home / "cu121" / "bin" / "python", "-c", "import torch; print(torch.__version__, torch.version.cuda)"],
        capture_output=True,
        text=True,
        check=True,
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
    )
    assert version.stdout.split() == ["2.4.1+cu121", "12.1"]
