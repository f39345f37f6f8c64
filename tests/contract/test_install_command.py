"""`install.run` as the command line calls it: from a profile and its lock to a proven environment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path

import pytest
import uv

from envlock import config, proc
from envlock.app import install, lock
from envlock.app.world import World
from envlock.errors import EnvlockError, Misuse, Refused, WorldFailed
from envlock.model import Installed
from tests.contract.installing import HERE, Told
from tests.servers.index import Index
from tests.servers.wheels import make_wheel

PROFILE = """
schema = 1
name = "small"
summary = "one module and what it needs"
python = "{python}"
platforms = ["linux-x86_64"]
backends = ["cpu"]
requires = ["alpha{alpha}"]

[backend.cpu]
pypi-python = ["{python}"]
"""

Worlds = Callable[..., World]


@pytest.fixture
def project(tmp_path: Path, wheelhouse: Path) -> Path:
    make_wheel(wheelhouse, "alpha", "1.0", requires=["omega"])
    make_wheel(wheelhouse, "omega", "1.0")
    place = tmp_path / "project"
    (place / "profiles").mkdir(parents=True)
    wanted(place)
    return place


def wanted(project: Path, *, alpha: str = "", python: str = HERE) -> None:
    (project / "profiles" / "small.toml").write_text(PROFILE.format(alpha=alpha, python=python))


@pytest.fixture
def world(project: Path, index: Index, isolated_environ: dict[str, str]) -> Worlds:
    # The Python that runs the tests is the one that is sure to be here.
    plain = {**isolated_environ, "PATH": f"{sys.base_prefix}/bin{os.pathsep}{isolated_environ['PATH']}"}

    def make(environ: Mapping[str, str] = plain, **flags: object) -> World:
        return World(
            run=proc.run,
            environ=environ,
            cwd=project,
            now=lambda: datetime.now(timezone.utc),
            clock=time.monotonic,
            reporter=Told(),
            config=config.resolve(flags=flags, environ={"ENVLOCK_INDEX_PYPI": index.url}, table={}, table_file=None),
        )

    return make


def cpu(world: World, **options: object) -> Installed:
    return install.run(world, "small", backend="cpu", **options)  # type: ignore[arg-type]


def test_from_a_profile_to_a_proven_environment(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    done = cpu(world())
    assert (done.installed, done.variant, done.path, done.packages) == (True, "cpu-pypi", ".envlock/small", 2)
    assert done.verify is not None
    assert done.verify.verdict == "intact"
    assert {check.status for check in done.verify.checks} <= {"pass", "skip"}
    python = project / ".envlock" / "small" / "bin" / "python"
    subprocess.run([python, "-c", "import alpha, omega"], check=True, env={})

    again = cpu(world())
    assert (again.installed, again.generation) == (False, done.generation)
    assert again.verify is not None
    assert again.verify.level == "quick"


def test_it_says_in_words_which_build_it_takes(world: Worlds) -> None:
    lock.run(world(), "small")
    here = world()
    cpu(here)
    assert isinstance(here.reporter, Told)
    assert any(stage.startswith("Taking cpu-pypi, a build that computes on the CPU") for stage in here.reporter.stages)


def test_the_path_can_be_chosen_and_set(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    assert cpu(world(), path="here/env", verify=False).path == "here/env"
    assert (project / "here" / "env").is_symlink()
    assert cpu(world(path="there"), verify=False).path == "there"
    assert cpu(world(path="there"), path="here/env", verify=False).installed is False


def test_what_is_not_locked_is_not_installed(world: Worlds) -> None:
    with pytest.raises(Refused) as refusal:
        cpu(world())
    assert (refusal.value.code, refusal.value.hint) == ("variant-not-locked", "envlock lock small")


def test_a_lock_whose_profile_moved_is_refused_unless_frozen(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    wanted(project, alpha=">=1")
    with pytest.raises(Refused) as refusal:
        cpu(world())
    assert (refusal.value.code, refusal.value.hint) == ("lock-stale", "envlock lock small")
    assert [problem.key for problem in refusal.value.problems] == ["profile"]
    done = cpu(world(), frozen=True, verify=False)
    assert done.installed
    assert [warning.code for warning in done.warnings if warning.code == "lock-stale"] == ["lock-stale"]


def test_a_lock_edited_by_hand_is_misuse(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    file = project / "lockfiles" / "small.lock"
    file.write_text(file.read_text().replace('"1.0"', '"1.1"', 1))
    with pytest.raises(Misuse):
        cpu(world())


ABSENT = "3.99"  # no machine has it


def test_without_the_python_it_says_where_it_looked(
    world: Worlds, project: Path, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    bare = {**isolated_environ, "PATH": str(tmp_path / "empty"), "UV_CACHE_DIR": str(tmp_path / "cache")}
    wanted(project, python=ABSENT)
    lock.run(world(), "small")
    for offline, said in ((True, "offline"), (False, "could not fetch")):
        with pytest.raises((WorldFailed, Refused)) as failure:
            cpu(world(bare, offline=offline))
        if offline and failure.value.code == "no-compatible-backend":
            continue  # with no interpreter and no network the choice itself already says no
        assert failure.value.code == "python-missing"
        assert said in failure.value.message
        assert "PATH" in str(failure.value.problems[0])
        assert failure.value.hint == f"{uv.find_uv_bin()} python install {ABSENT}"


def test_hints_name_the_profile(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    (project / ".envlock" / "small").mkdir(parents=True)
    with pytest.raises(EnvlockError) as failure:
        cpu(world())
    assert failure.value.code == "target-foreign"
    assert failure.value.hint == f"envlock install small --path {project}/.envlock/small-2"


def test_a_machine_that_nothing_fits_is_told_why(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    (project / "arm.json").write_text('{"schema": 1, "os": "linux", "arch": "aarch64", "glibc": "2.35"}')
    with pytest.raises(Refused) as refusal:
        install.run(world(), "small", host_files=[Path("arm.json")])
    assert refusal.value.code == "no-compatible-backend"
    assert [problem.key for problem in refusal.value.problems] == ["cpu"]
    assert refusal.value.hint == "envlock plan small"
