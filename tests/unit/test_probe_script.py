"""The harness of the probe, and what it must be to run anywhere: one file, standard library, old syntax."""

from __future__ import annotations

import ast
import faulthandler
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envlock.probe import script

# Python 3.12 and later warn of a fork beside threads; those of other tests are not these children's concern.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

TREE = ast.parse(Path(script.__file__).read_text(encoding="utf-8"), feature_version=(3, 8))

# ---- the file -------------------------------------------------------------------------------------------------


def test_it_imports_nothing_but_the_standard_library() -> None:
    statements = [node for node in ast.walk(TREE) if isinstance(node, ast.Import | ast.ImportFrom)]
    named = {alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names}
    named |= {str(node.module) for node in statements if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in named} <= sys.stdlib_module_names


@pytest.mark.parametrize("identity", script.CHECKS)
def test_a_check_builds_only_on_earlier_ones(identity: str) -> None:
    order = list(script.CHECKS)
    function, needs = script.CHECKS[identity]
    assert identity.startswith("kernels.")
    assert all(order.index(need) < order.index(identity) for need in needs if "." in need)
    assert function.__doc__


# ---- children -------------------------------------------------------------------------------------------------


def test_a_child_says_what_it_finds() -> None:
    def task(say: Callable[[dict[str, object]], None]) -> None:
        say({"n": 1})
        say({"n": 2, "text": "ä" * 100_000})
        os.write(2, b"aside\n")  # pytest keeps sys.stderr for itself

    ended = script.fork(task, 10)
    assert ended.heard("n") == [1, 2]
    assert (ended.code, ended.death, ended.tail) == (0, None, "aside")


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGKILL])
def test_a_crash_is_named_and_what_was_said_before_it_kept(number: signal.Signals) -> None:
    def task(say: Callable[[dict[str, object]], None]) -> None:
        say({"step": "before"})
        faulthandler.disable()  # pytest's own would tell the terminal about this crash
        os.kill(os.getpid(), number)

    ended = script.fork(task, 10)
    assert ended.heard("step") == ["before"]
    assert ended.death == f"killed by {number.name}"


def test_an_exception_is_no_crash() -> None:
    ended = script.fork(lambda _: sys.exit("enough"), 10)
    assert (ended.code, ended.death) == (1, None)


def test_a_silent_child_is_stopped() -> None:
    started = time.monotonic()
    ended = script.fork(lambda _: time.sleep(60), 0.2)
    assert time.monotonic() - started < 5
    assert ended.death == "no sign of life for 0.2 s: stopped"


def test_a_child_that_speaks_may_take_longer_than_the_limit() -> None:
    def task(say: Callable[[dict[str, object]], None]) -> None:
        for step in range(5):
            time.sleep(0.15)
            say({"step": step})

    ended = script.fork(task, 0.4)
    assert ended.death is None
    assert ended.heard("step") == [0, 1, 2, 3, 4]


def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def task(_: object) -> None:
        if (pid := os.fork()) == 0:
            time.sleep(60)
            os._exit(0)
        note.write_text(str(pid))

    assert script.fork(task, 10).code == 0
    assert gone(int(note.read_text()))


def gone(pid: int) -> bool:
    """Tell whether the process ends within 3 s; a zombie that nobody has collected yet is ended."""
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def test_what_a_full_disk_takes_from_a_child_is_no_finding() -> None:
    def task(_: object) -> None:
        with Path("/dev/full").open("w") as full:
            full.write("what it found")

    with pytest.raises(OSError, match="No space left on device"):
        script.fork(task, 10)


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "report.json.part").symlink_to("/dev/full")
    request = '{"imports": [], "only": ["none"], "limits": {"import": 9, "check": 9}}'
    options = ("--report", tmp_path / "report.json", "--request", request)
    done = subprocess.run([sys.executable, script.__file__, *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (script.NO_ROOM, "", "No space left on device\n")


# ---- what is told of a failure --------------------------------------------------------------------------------


def test_the_tail_begins_at_the_headline_of_a_crash() -> None:
    text = "warning\n" * 30 + 'Fatal Python error: Segmentation fault\n\nCurrent thread:\n  File "x.py", line 1 in f\n'
    assert script.tail(text).splitlines()[0] == "Fatal Python error: Segmentation fault"
    assert script.tail("a\n\nb\n") == "a\nb"
    assert len(script.tail("x\n" * 99).splitlines()) == script.TAIL_LINES


def test_an_exception_is_explained_in_one_line() -> None:
    with pytest.raises(ValueError, match="first") as caught:
        raise ValueError("first\nsecond")
    assert script.explain(caught.value).startswith("ValueError: first (unit/test_probe_script.py:")


def test_a_cut_journal_line_is_dropped() -> None:
    assert script._lines('{"a": 1}\n{"b": ') == ({"a": 1},)


# ---- who refuses, and who is wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        NotImplementedError("Device type not supported for FP4 quantization: cpu"),
        AssertionError("Torch not compiled with CUDA enabled"),
        RuntimeError("Found no NVIDIA driver on your system. Please check …"),
        RuntimeError("Method 'cadam_8bit' not available in CPU-only version of bitsandbytes.\nReinstall …"),
        RuntimeError("Attempted to use bitsandbytes native library functionality but it's not available."),
        NotImplementedError("Could not run 'bitsandbytes::quantize_4bit' with arguments from the 'CPU' backend."),
    ],
)
def test_bitsandbytes_refusing_a_cpu_is_recognised(error: Exception) -> None:
    assert script.declines_cpu(error)


@pytest.mark.parametrize(("line", "refusal"), [('assert kind.type == "cuda"', True), ("assert kind is None", False)])
def test_a_bare_assertion_is_judged_by_its_own_line(tmp_path: Path, line: str, *, refusal: bool) -> None:
    module = tmp_path / "functional.py"
    module.write_text(f"class kind:\n    type = 'cpu'\n{line}\n")
    with pytest.raises(AssertionError) as caught:
        runpy.run_path(str(module))
    assert script.declines_cpu(caught.value) is refusal


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), AssertionError("odd")])
def test_any_other_error_is_a_fault(error: Exception) -> None:
    assert not script.declines_cpu(error)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.1])
def test_a_reading_out_of_bounds_is_wrong(value: float) -> None:
    lab = script.Lab("cpu")
    lab.within("fine", 0.5, 1.0)
    with pytest.raises(script.Wrong) as caught:
        lab.within("error", value, 1.0)
    assert caught.value.want == "error <= 1"
    assert lab.have == ["fine 0.5"]


# ---- what follows from what -----------------------------------------------------------------------------------


def distribution(name: str, *requires: str) -> script.Import:
    return script.Import(name, name, "1", requires)


def test_a_failure_blocks_what_requires_it_at_any_distance() -> None:
    every = {item.name: item for item in (distribution("a", "b"), distribution("b", "c", "a"), distribution("c"))}
    assert script.blocked(every["a"], ("c",), every) == "c"
    assert script.blocked(every["c"], ("a",), every) is None


def test_names_are_compared_as_indexes_do() -> None:
    assert script.canonical("Some_Thing.x") == "some-thing-x"
