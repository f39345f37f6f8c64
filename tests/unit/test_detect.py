"""The machines commands decide for: read from host files, or this one, with what the options say."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envlock import config, host, proc
from envlock.app import detect
from envlock.app.world import World
from envlock.errors import EnvlockError, Misuse
from envlock.model import Caution, Driver, HostFacts

T4 = {
    "schema": 1,
    "driver": {"version": "535.104.05"},
    "gpus": [{"name": "Tesla T4"}],
    "pythons": ["3.10.13"],
}


class Log:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, text: str) -> None:
        self.lines.append(text)

    def warn(self, caution: Caution) -> None:
        self.lines.append(caution.message)

    def log(self, text: str) -> None:
        self.lines.append(text)


def world(folder: Path, environ: Mapping[str, str]) -> World:
    return World(
        run=proc.run,
        environ=environ,
        cwd=folder,
        now=lambda: datetime(2026, 1, 1, tzinfo=timezone.utc),
        clock=lambda: 0.0,
        reporter=Log(),
        config=config.default(),
    )


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})


def saved(world: World, name: str, document: object) -> Path:
    (world.cwd / name).write_text(json.dumps(document), encoding="utf-8")
    return Path(name)


def test_this_machine_is_read_and_can_be_read_back(here: World) -> None:
    answer = detect.run(here)
    assert answer.host.arch == os.uname().machine
    assert {setting.name for setting in answer.settings} >= {"offline", "driver-policy"}
    printed = {"schema": 1, "command": "detect", "exit": 0, "result": host.dump(answer.host), "error": None}
    (machine,) = detect.hosts(here, host_files=[saved(here, "host.json", printed)])
    assert machine == answer.host


def test_without_a_file_it_is_this_machine(here: World) -> None:
    (machine,) = detect.hosts(here, glibc="2.17")
    assert machine.arch == os.uname().machine
    assert (machine.glibc, machine.sources["glibc"]) == ("2.17", "--glibc")


def test_each_file_is_a_machine(here: World) -> None:
    files = [saved(here, "a.json", T4), saved(here, "b.json", {"schema": 1})]
    t4, bare = detect.hosts(here, host_files=files)
    assert t4.driver == Driver(version="535.104.05")
    assert t4.gpus[0].compute_capability == "7.5"
    assert bare == HostFacts()


def test_the_options_change_every_machine(here: World) -> None:
    files = [saved(here, "a.json", T4), saved(here, "b.json", {"schema": 1})]
    machines = detect.hosts(here, host_files=files, driver="570.26", gpus=("RTX 3090",))
    assert [(m.driver, [gpu.compute_capability for gpu in m.gpus]) for m in machines] == [
        (Driver(version="570.26", library="570.26"), ["8.6"])
    ] * 2


def test_a_mistake_names_the_file_as_it_was_typed(here: World) -> None:
    with pytest.raises(Misuse) as caught:
        detect.hosts(here, host_files=[saved(here, "host.json", {**T4, "gpu": 1})])
    assert [str(problem) for problem in caught.value.problems] == [
        "host.json: `gpu`: unknown key; did you mean `gpus`?"
    ]


def test_a_file_that_is_not_there(here: World) -> None:
    with pytest.raises(EnvlockError) as caught:
        detect.hosts(here, host_files=[Path("nowhere.json")])
    assert (caught.value.code, caught.value.exit) == ("file-missing", 2)


def test_a_broken_interpreter_is_said_in_the_log(tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "python3"
    broken.parent.mkdir()
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    place = world(tmp_path, {"PATH": str(broken.parent), "HOME": str(tmp_path)})
    detect.run(place)
    assert isinstance(place.reporter, Log)
    assert any(line.startswith(f"{broken}: broken: ") for line in place.reporter.lines)
