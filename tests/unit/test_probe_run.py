"""What becomes of a probe that does not end well."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from envlock.probe import run as probe
from envlock.probe import script
from envlock.proc import Command, Completed, Runner

ROW = {"id": "import.a", "status": "pass", "seconds": 0.5, "have": "1", "want": None, "message": None, "fix": None}
REPORT: dict[str, Any] = {
    "schema": 1,
    "device": "cpu",
    "versions": {"python": "3.12.1"},
    "cpu_flags": ["avx2"],
    "notes": [],
    "checks": [ROW],
}


def answers(text: str | None, *, code: int = 0, stderr: str = "", timed_out: bool = False) -> Runner:
    """Return a runner that writes this report and ends like that."""

    def run(command: Command) -> Completed:
        if text is not None:
            Path(command.argv[command.argv.index("--report") + 1]).write_text(text)
        return Completed(argv=command.argv, code=code, stdout="", stderr=stderr, timed_out=timed_out)

    return run


def ask(runner: Runner, workdir: Path, environ: Mapping[str, str] | None = None) -> probe.ProbeReport:
    request = probe.ProbeRequest(imports=probe.imports(("torch", "numpy", "left-pad"), {"absent": "absent"}))
    return probe.run(
        run=runner, python=Path("/env/bin/python"), request=request, environ=environ or {}, timeout=5, workdir=workdir
    )


def test_a_report_is_read(tmp_path: Path) -> None:
    report = ask(answers(json.dumps(REPORT)), tmp_path)
    assert report.failure is None
    assert [(check.id, check.status, check.seconds, check.have) for check in report.checks] == [
        ("import.a", "pass", 0.5, "1")
    ]
    assert (report.device, report.versions, report.cpu_flags) == ("cpu", {"python": "3.12.1"}, ("avx2",))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("runner", "reason"),
    [
        (answers(None), "the probe left no report"),
        (answers("", stderr="x\n"), "the probe's report cannot be read: JSONDecodeError"),
        (answers('{"schema": 1, "dev'), "the probe's report cannot be read: JSONDecodeError"),
        (answers("[]"), "the probe's report cannot be read: TypeError"),
        (answers("{}"), "the probe's report cannot be read: KeyError: 'schema'"),
        (answers(json.dumps({**REPORT, "schema": 2})), "the probe's report cannot be read: ValueError: schema 2"),
        (
            answers(json.dumps({**REPORT, "device": "tpu"})),
            "the probe's report cannot be read: ValueError: no such device",
        ),
        (
            answers(json.dumps({**REPORT, "checks": [{**ROW, "status": "fine"}]})),
            "the probe's report cannot be read: ValueError: no such status: fine",
        ),
        (answers(json.dumps(REPORT), code=-signal.SIGKILL), "the probe was killed by SIGKILL"),
        (answers(json.dumps(REPORT), code=1), "the probe ended with code 1"),
        (answers(None, code=-99), "the probe was killed by signal 99"),
        (answers(json.dumps(REPORT), timed_out=True), "the probe did not end within 5 s"),
    ],
)
def test_no_report_is_no_proof(tmp_path: Path, runner: Runner, reason: str) -> None:
    report = ask(runner, tmp_path)
    assert report.failure is not None
    assert report.failure.startswith(reason)
    assert report.checks == ()


def test_a_full_disk_is_told_with_its_folder(tmp_path: Path) -> None:
    report = ask(answers(None, code=script.NO_ROOM, stderr="No space left on device\n"), tmp_path)
    assert report.homeless
    assert report.failure == f"the probe's report has no place in `{tmp_path}`: No space left on device"


def test_the_end_of_stderr_is_kept(tmp_path: Path) -> None:
    stderr = "".join(f"line {number}\n\n" for number in range(50))
    report = ask(answers(None, code=1, stderr=stderr), tmp_path)
    assert report.failure is not None
    assert report.failure.splitlines() == ["the probe ended with code 1", *(f"line {n}" for n in range(42, 50))]


def heard() -> tuple[list[Command], Callable[[Command], Completed]]:
    commands: list[Command] = []

    def run(command: Command) -> Completed:
        commands.append(command)
        return answers(json.dumps(REPORT))(command)

    return commands, run


def test_it_is_started_isolated_offline_and_without_threads(tmp_path: Path) -> None:
    commands, runner = heard()
    ask(runner, tmp_path, {"LD_LIBRARY_PATH": "/mine", "HF_HUB_OFFLINE": "0"})
    (command,) = commands
    assert command.argv[:4] == ("/env/bin/python", "-I", "-X", "faulthandler")
    assert command.env["LD_LIBRARY_PATH"] == "/mine"
    assert command.env["HF_HUB_OFFLINE"] == command.env["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1"
    assert command.env["TOKENIZERS_PARALLELISM"] == "false"
    request = json.loads(command.argv[-1])
    assert [item["distribution"] for item in request["imports"]] == ["numpy", "torch"]


def test_the_kernels_are_listed_once_each() -> None:
    assert len(set(probe.KERNELS)) == len(probe.KERNELS)
    assert {"kernels.nf4", "kernels.linear4bit-backward", "kernels.triton"} <= set(probe.KERNELS)


def test_what_a_profile_adds_is_imported_after_what_it_may_build_on() -> None:
    found = probe.imports(("zeta", "flash-attn", "torch"), {"flash-attn": "flash_attn", "zeta": "z", "torch": "torch"})
    assert [(item.distribution, item.module) for item in found] == [
        ("torch", "torch"),
        ("flash-attn", "flash_attn"),
        ("zeta", "z"),
    ]
