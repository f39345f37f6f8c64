"""A process keeps the environment it started in, on every Python that is here, while the link moves on."""

from __future__ import annotations

import ensurepip
import os
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from envlock import generations, interpreters, proc
from envlock.interpreters import Interpreter
from envlock.model import LockedVariant
from tests.contract.installing import Install, locked, package
from tests.servers.index import Index
from tests.servers.wheels import make_wheel

OLDEST, NEWEST = (3, 10), (3, 13)


def pythons() -> dict[str, Interpreter]:
    """The newest interpreter here of each version that envlock supports."""
    return {
        ".".join(row.version.split(".")[:2]): row
        for row in interpreters.find(run=proc.run, environ=os.environ)
        if OLDEST <= tuple(int(part) for part in row.version.split(".")[:2]) <= NEWEST
    }


PYTHONS = pythons()
TOOL = {
    "tool/__init__.py": "",
    "tool/main.py": """
import multiprocessing, subprocess, sys

def run():
    print("ready", flush=True)
    sys.stdin.readline()
    import alpha, spawned
    print(alpha.__version__)
    child = [sys.executable, "-c", "import alpha; print(alpha.__version__)"]
    print(subprocess.run(child, text=True, capture_output=True).stdout.strip())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(spawned.version))
""",
    "tool-1.0.dist-info/entry_points.txt": "[console_scripts]\ntool = tool.main:run\n",
}
JOB = 'from tool.main import run\n\nif __name__ == "__main__":\n    run()\n'


def variant(wheelhouse: Path, version: str, python: str) -> LockedVariant:
    files = {
        "alpha.py": f"__version__ = {version!r}\n",
        "spawned.py": "def version():\n    import alpha\n    return alpha.__version__\n",
    }
    alpha = make_wheel(wheelhouse, "alpha", version, files=files)
    return locked([package(alpha), package(make_wheel(wheelhouse, "tool", "1.0", files=TOOL))], python=python)


@pytest.fixture(params=sorted(PYTHONS))
def order(
    request: pytest.FixtureRequest, tmp_path: Path, index: Index, wheelhouse: Path, isolated_environ: dict[str, str]
) -> Install:
    """An environment at `tmp_path/env` with alpha 1.0, made from each Python in turn."""
    version: str = request.param
    made = Install(
        path=tmp_path / "env",
        variant=variant(wheelhouse, "1.0", version),
        environ=isolated_environ,
        index=index.url,
        python=PYTHONS[version].path,
        verdict=None,
    )
    made.run()
    return made


def move_on(order: Install, wheelhouse: Path) -> None:
    replace(order, variant=variant(wheelhouse, "2.0", order.variant.variant.python)).run()
    assert says(order.path / "bin" / "python", "-c", "import alpha; print(alpha.__version__)") == "2.0"


def says(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text(JOB)
    return path


@pytest.mark.parametrize("started_by", ["python", "python3", "versioned", "console script", "nested shebang"])
def test_a_running_process_keeps_its_generation(
    order: Install, wheelhouse: Path, script: Path, started_by: str
) -> None:
    bin_ = order.path / "bin"
    if started_by == "console script":
        argv = [str(bin_ / "tool")]
    elif started_by == "nested shebang":
        script.write_text(f"#!{bin_ / 'python'}\n{JOB}")
        script.chmod(0o755)
        argv = [str(script)]
    else:
        name = f"python{order.variant.variant.python}" if started_by == "versioned" else started_by
        argv = [str(bin_ / name), str(script)]
    child = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PATH": "/bin"}
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    move_on(order, wheelhouse)
    out, err = child.communicate("go\n", timeout=60)
    assert out.split() == ["1.0", "1.0", "1.0"], err


def test_python_knows_its_generation_and_not_the_link(order: Install) -> None:
    asked = "import sys, sysconfig, site; print(sys.prefix, sys.executable, sysconfig.get_path('scripts'), sep='\\n')"
    root = order.path.resolve()
    prefix, executable, scripts = says(order.path / "bin" / "python", "-c", asked).splitlines()
    assert prefix == str(root)
    assert Path(executable).parent == root / "bin"
    assert scripts == str(root / "bin")
    assert says(executable, "-c", asked).splitlines() == [prefix, executable, scripts]


def test_arguments_and_exit_status_pass_through(order: Install) -> None:
    python = order.path / "bin" / "python"
    odd = ["a b", "$HOME", "'", '"', "*", ""]
    assert says(python, "-c", "import sys; print(sys.argv[1:])", *odd) == str(odd)
    done = subprocess.run([python, "-c", "raise SystemExit(7)"], check=False)
    assert done.returncode == 7
    told = subprocess.run([python, "-"], input="print(6 * 7)", capture_output=True, text=True, check=True)
    assert told.stdout == "42\n"


def test_activating_puts_the_environment_first(order: Install) -> None:
    asked = "import alpha, sys; print(alpha.__version__, sys.prefix)"
    line = f'. "{order.path}/bin/activate" && python -c "{asked}" && command -v tool'
    first, tool = says("/bin/sh", "-c", line).splitlines()
    assert first == f"1.0 {order.path.resolve()}"
    assert Path(tool).resolve().parent == order.path.resolve() / "bin"


def test_pip_installs_into_the_generation(
    tmp_path: Path, index: Index, wheelhouse: Path, isolated_environ: dict[str, str]
) -> None:
    # Distributions keep the wheels of ensurepip where their build of Python says.
    places = (Path(ensurepip.__file__).parent / "_bundled", Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or "/none"))
    bundled = next(wheel for place in places for wheel in sorted(place.glob("pip-*.whl")))
    wheel = wheelhouse / bundled.name
    wheel.write_bytes(bundled.read_bytes())
    order = Install(
        path=tmp_path / "env", variant=locked([package(wheel)]), environ=isolated_environ, index=index.url, verdict=None
    )
    order.run()
    extra = make_wheel(tmp_path, "extra", "1.0")
    says(order.path / "bin" / "python", "-m", "pip", "install", "-q", "--no-index", str(extra))
    assert says(order.path / "bin" / "python", "-c", "import extra; print(extra.__file__)").startswith(
        str(order.path.resolve())
    )
    assert sys.prefix not in says(order.path / "bin" / "pip", "--version")
    assert generations.current(order.path) is not None
