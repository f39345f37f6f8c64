"""The conda part of a lock: where it is written, when it is kept, made anew or goes, and what is said of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envlock import config, proc
from envlock.app import lock
from envlock.app.world import World
from envlock.errors import EnvlockError, Misuse, Refused, WorldFailed
from envlock.lock import parse
from tests.contract.installing import Told
from tests.servers.channel import RECORDED, Channel
from tests.servers.index import Index
from tests.servers.wheels import make_wheel

ROOT = Path(__file__).parents[2]
PROFILE = """
schema = 1
name = "small"
summary = "one module, and a compiler"
python = "3.10"
platforms = ["linux-x86_64"]
backends = ["cpu"]
requires = ["alpha"]

[backend.cpu]
pypi-python = [{pythons}]

[conda]
requires = [{conda}]
"""
PIP_ROW = "pip-26.1.2-pyh8b19718_0.conda"

Worlds = Callable[..., World]


@pytest.fixture
def channel() -> Iterator[Channel]:
    with Channel() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, wheelhouse: Path) -> Path:
    make_wheel(wheelhouse, "alpha", "1.0")
    place = tmp_path / "project"
    (place / "profiles").mkdir(parents=True)
    (place / ".git").mkdir()
    wanted(place)
    return place


def wanted(
    project: Path, *conda: str, pythons: tuple[str, ...] = ("3.10", "3.12"), name: str = "gcc_linux-64 12.*"
) -> None:
    text = PROFILE.format(pythons=json.dumps(pythons)[1:-1], conda=json.dumps(conda or ("python 3.10.*", name))[1:-1])
    (project / "profiles" / "small.toml").write_text(text)


@pytest.fixture
def world(project: Path, index: Index, channel: Channel, isolated_environ: dict[str, str]) -> Worlds:
    def make(**flags: object) -> World:
        set_ = {"ENVLOCK_INDEX_PYPI": index.url, "ENVLOCK_CHANNEL_CONDA_FORGE": channel.url}
        return World(
            run=proc.run,
            environ=isolated_environ,
            cwd=project,
            now=lambda: datetime.now(timezone.utc),
            clock=time.monotonic,
            reporter=Told(),
            config=config.resolve(flags=flags, environ=set_, table={}, table_file=None),
        )

    return make


def there(project: Path) -> dict[str, bytes]:
    """The conda parts that lie beside the lock, by variant."""
    root = project / "lockfiles" / "small"
    return {path.parent.name: path.read_bytes() for path in sorted(root.glob("*/conda-lock.yml"))}


def refused(world: World, kind: type[EnvlockError] = Refused, **asked: object) -> EnvlockError:
    with pytest.raises(kind) as error:
        lock.run(world, "small", **asked)  # type: ignore[arg-type]
    return error.value


BOTH = ("cpu-py310-pypi", "cpu-py312-pypi")


# ---- made ---------------------------------------------------------------------------------------------------------


def test_each_variant_gets_a_file_and_the_lock_says_which(world: Worlds, project: Path, channel: Channel) -> None:
    done = lock.run(world(), "small")
    assert (done.conda, done.conda_absent, done.failure) == (BOTH, {}, None)
    files = there(project)
    assert tuple(files) == BOTH
    held = parse((project / "lockfiles" / "small.lock").read_text(), "small.lock")
    for one in held.variants:
        text = files[one.variant.name].decode()
        assert one.conda is not None
        assert text.startswith(
            f"# small, variant {one.variant.name} (linux-x86_64), its conda part. Written by envlock;"
        )
        assert "\n  sources:\n  - small.toml\n  custom_metadata:\n    envlock-backend: cpu\n" in text
        assert f"- name: python\n  version: {one.variant.python}." in text
        assert "https://conda.anaconda.org/conda-forge/linux-64/" in text
        assert channel.url not in text
    changes = {(one.variant, one.package): one.now for one in done.changes}
    assert changes["cpu-py310-pypi", "python (conda)"] == "3.10.20 h267e890_1_cpython"
    assert lock.run(world(), "small", mode="check").conda == BOTH


def test_a_mirror_leaves_no_trace_and_a_record_of_the_channel_says_that_it_is_one(
    world: Worlds, project: Path, tmp_path: Path
) -> None:
    lock.run(world(), "small")
    recorded = there(project)["cpu-py310-pypi"]
    assert recorded.count(b"\n    envlock-evidence: recorded\n") == 1
    shutil.copytree(RECORDED, tmp_path / "mirror")
    (tmp_path / "mirror" / "evidence.txt").unlink()
    made = []
    for address in ("{}", "file://{}"):
        shutil.rmtree(project / "lockfiles")
        with Channel(tmp_path / "mirror") as mirror:
            url = mirror.url if address == "{}" else address.format(tmp_path / "mirror")
            here = world()
            entries = {**here.config.entries, "channels.conda-forge": (url, "ENVLOCK_CHANNEL_CONDA_FORGE")}
            lock.run(replace(here, config=replace(here.config, entries=entries)), "small")
        made.append(there(project)["cpu-py310-pypi"])
    plain = recorded.replace(b"    envlock-evidence: recorded\n", b"")
    assert made == [plain, plain]


def test_locked_again_nothing_is_asked_and_every_byte_stays(world: Worlds, project: Path, channel: Channel) -> None:
    lock.run(world(), "small")
    files = there(project)
    channel.requested.clear()
    done = lock.run(world(), "small")
    assert (done.changed, done.conda, there(project)) == (False, BOTH, files)
    assert channel.requested == []
    for path in (project / "lockfiles").rglob("*"):
        if path.is_file():
            path.unlink()
    lock.run(world(), "small")
    assert there(project) == files


def test_without_conda_in_the_profile_there_is_no_part(world: Worlds, project: Path, channel: Channel) -> None:
    lock.run(world(), "small")
    text = (project / "profiles" / "small.toml").read_text().partition("[conda]")[0]
    (project / "profiles" / "small.toml").write_text(text)
    assert refused(world(), mode="check").code == "lock-stale"
    channel.requested.clear()
    done = lock.run(world(), "small")
    assert (done.changed, done.conda, done.conda_absent, there(project)) == (True, (), {}, {})
    assert channel.requested == []


def test_a_dry_run_tells_and_writes_nothing(world: Worlds, project: Path) -> None:
    done = lock.run(world(), "small", mode="dry-run")
    assert done.conda == BOTH
    assert any(change.package == "python (conda)" for change in done.changes)
    assert not (project / "lockfiles").exists()


# ---- what moves ---------------------------------------------------------------------------------------------------


def test_what_the_profile_asks_of_conda_is_an_input(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    wanted(project, name="gcc_linux-64 13.*")
    error = refused(world(), mode="check")
    assert (error.code, error.message) == ("lock-stale", "the lock of `small` is out of date: profile, conda moved")
    done = lock.run(world(), "small")
    changes = {one.package: (one.was, one.now) for one in done.changes if one.variant == "cpu-py310-pypi"}
    was, now = changes["gcc_linux-64 (conda)"]
    assert (str(was)[:4], str(now)[:4]) == ("12.4", "13.3")
    assert "python (conda)" not in changes, "what still fits stays"
    assert lock.run(world(), "small", mode="check").conda == BOTH


def test_versions_stay_until_they_are_to_move(world: Worlds, project: Path, channel: Channel) -> None:
    listed = json.loads((RECORDED / "noarch" / "repodata.json").read_text(encoding="utf-8"))
    row = listed["packages.conda"].pop(PIP_ROW)
    channel.instead["noarch/repodata.json"] = json.dumps(listed).encode()
    lock.run(world(), "small")
    before = there(project)
    assert b"version: '24.2'" in before["cpu-py310-pypi"]

    listed["packages.conda"][PIP_ROW] = row
    channel.instead["noarch/repodata.json"] = json.dumps(listed).encode()
    assert not lock.run(world(), "small").changed
    assert not lock.run(world(), "small", upgrade_packages=["python"]).changed
    wanted(project, "python 3.10.*", "gxx_linux-64 12.*")
    lock.run(world(), "small")
    assert b"version: '24.2'" in there(project)["cpu-py310-pypi"]

    done = lock.run(world(), "small", upgrade_packages=["pip"])
    moved = {one.package: (one.was, one.now) for one in done.changes}
    assert moved == {"pip (conda)": ("24.2 pyhd8ed1ab_0", "26.1.2 pyh8b19718_0")}
    assert not lock.run(world(), "small", upgrade=True).changed


@pytest.mark.parametrize("edit", [lambda text: text + b"\n", lambda _: b"\xff", None], ids=["more", "no text", "gone"])
def test_what_was_edited_by_hand_is_told_and_made_anew(
    world: Worlds, project: Path, edit: Callable[[bytes], bytes] | None
) -> None:
    lock.run(world(), "small")
    path = project / "lockfiles" / "small" / "cpu-py312-pypi" / "conda-lock.yml"
    written = path.read_bytes()
    if edit:
        path.write_bytes(edit(written))
    else:
        path.unlink()
    error = refused(world(), mode="check")
    assert (error.code, error.hint) == ("lock-stale", "envlock lock small")
    assert [str(one) for one in error.problems] == [
        "lockfiles/small/cpu-py312-pypi/conda-lock.yml: is not what the lock says"
    ]
    assert lock.run(world(), "small").changed
    assert path.read_bytes() == written


def test_a_part_that_no_lock_names_is_told_and_taken_away(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    left = there(project)["cpu-py310-pypi"]
    wanted(project, "python 3.10.*", "gcc_linux-64 11.*")
    done = lock.run(world(), "small")
    assert (done.conda, there(project)) == ((), {})
    stray = project / "lockfiles" / "small" / "cpu-py310-pypi" / "conda-lock.yml"
    stray.write_bytes(left)
    assert [one.file for one in refused(world(), mode="check").problems] == [str(stray.relative_to(project))]
    lock.run(world(conda="never"), "small", conda="never")
    assert not stray.exists()
    stray.write_bytes(b"# somebody's own\nversion: 1\n")
    lock.run(world(), "small", mode="check")
    lock.run(world(), "small", conda="never")
    assert stray.exists()


# ---- no answer ----------------------------------------------------------------------------------------------------


def test_a_part_that_cannot_be_had_keeps_no_other_one_from_being_locked(world: Worlds, project: Path) -> None:
    wanted(project, pythons=("3.10", "3.13"))
    done = lock.run(world(), "small")
    assert (done.changed, done.variants, done.conda) == (True, ("cpu-py310-pypi", "cpu-py313-pypi"), BOTH[:1])
    assert list(done.conda_absent) == ["cpu-py313-pypi"]
    assert done.failure is not None
    assert (done.failure.code, done.failure.exit) == ("unsatisfiable", 1)
    assert done.failure.message.startswith("`small` is locked without the conda part of cpu-py313-pypi: no packages of")
    assert [(one.key, one.message) for one in done.failure.problems] == [
        ("cpu-py313-pypi", "No candidates were found for python 3.13.*.")
    ]
    assert tuple(there(project)) == BOTH[:1]
    checked = lock.run(world(), "small", mode="check")
    assert (checked.conda, list(checked.conda_absent)) == (BOTH[:1], ["cpu-py313-pypi"])


def test_a_spec_that_conda_cannot_read_is_the_profiles_mistake(world: Worlds, project: Path) -> None:
    wanted(project, "python 3.10.*", "gcc_linux-64 >=12,<")
    error = refused(world(), Misuse)
    assert error.code == "profile-invalid"
    assert [(one.file, one.line, one.key) for one in error.problems] == [
        ("profiles/small.toml", 14, "conda.requires[1]")
    ]
    assert not (project / "lockfiles").exists()


def test_a_channel_that_fails_leaves_everything_as_it_was(world: Worlds, project: Path, channel: Channel) -> None:
    lock.run(world(), "small")
    before = {path: path.read_bytes() for path in (project / "lockfiles").rglob("*") if path.is_file()}
    wanted(project, name="gcc_linux-64 13.*")
    channel.instead["linux-64/repodata.json"] = b"{"
    error = refused(world(), WorldFailed)
    assert (error.code, error.hint) == ("channel-invalid", "envlock lock small")
    assert error.message.startswith("the conda part of `small` cannot be locked, and its lock stays as it was: ")
    assert {path: path.read_bytes() for path in (project / "lockfiles").rglob("*") if path.is_file()} == before


def test_offline_a_part_is_kept_and_another_one_is_not_to_be_had(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    assert not lock.run(world(offline=True), "small").changed
    wanted(project, name="ninja")
    assert lock.run(world(offline=True), "small").conda == BOTH, "the channel was read before"


def test_an_address_of_a_channel_that_nobody_asks_is_a_mistake(world: Worlds) -> None:
    here = world()
    entries = {**here.config.entries, "channels.conda-frge": ("http://127.0.0.1:9", "ENVLOCK_CHANNEL_CONDA_FRGE")}
    error = refused(replace(here, config=replace(here.config, entries=entries)), Misuse)
    assert error.code == "config-invalid"
    assert str(error.problems[0]) == (
        "ENVLOCK_CHANNEL_CONDA_FRGE: `channels.conda-frge`: no such channel is asked (expected `conda-forge`?)"
    )


# ---- with and without the engines ---------------------------------------------------------------------------------


def test_no_conda_keeps_what_fits_and_takes_away_what_does_not(world: Worlds, project: Path, channel: Channel) -> None:
    done = lock.run(world(), "small", conda="never")
    assert (done.conda, done.conda_absent) == ((), dict.fromkeys(BOTH, "not asked for: --no-conda"))
    assert (there(project), channel.requested) == ({}, [])
    lock.run(world(), "small")
    assert not lock.run(world(), "small", conda="never").changed
    wanted(project, name="gcc_linux-64 13.*")
    channel.requested.clear()
    here = world()
    done = lock.run(here, "small", conda="never")
    assert (done.conda, there(project), channel.requested) == ((), {}, [])
    assert isinstance(here.reporter, Told)
    assert [one.code for one in here.reporter.warnings] == ["conda-not-locked"]
    assert lock.run(world(), "small", mode="check").conda == ()


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What envlock itself needs of this environment, without the engines of the conda part, for `PYTHONPATH`."""
    place = tmp_path_factory.mktemp("bare")
    left = {"rattler", "conda_lock"}
    for folder in map(Path, sys.path):
        if folder.name == "site-packages" and folder.is_relative_to(sys.prefix):
            for one in folder.iterdir():
                taken = any(one.name == name or one.name.startswith((f"{name}-", f"py_{name}-")) for name in left)
                if not taken and not one.name.endswith(".pth") and not (place / one.name).exists():
                    (place / one.name).symlink_to(one)
    return place


def test_without_the_engines_wheels_are_locked_and_no_part_is_lost_in_silence(
    world: Worlds, project: Path, index: Index, isolated_environ: dict[str, str], bare: Path
) -> None:
    environ = {
        **isolated_environ,
        "ENVLOCK_INDEX_PYPI": index.url,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(bare))),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{isolated_environ['PATH']}",
    }

    def run(*arguments: str) -> tuple[int, dict[str, object], dict[str, object], str]:
        argv = [sys.executable, "-S", "-m", "envlock", "lock", "small", *arguments]
        plain = subprocess.run(argv, cwd=project, env=environ, capture_output=True, text=True, check=False, timeout=120)
        told = subprocess.run(
            [*argv, "--json"], cwd=project, env=environ, capture_output=True, text=True, check=False, timeout=120
        )
        document = json.loads(told.stdout)
        locks = (document["result"] or {"locks": []})["locks"]
        return plain.returncode, document["error"] or {}, locks[0] if locks else {}, plain.stderr

    code, error, locked, said = run()
    assert (code, error, locked["conda"]) == (0, {}, [])
    assert locked["conda_absent"] == dict.fromkeys(BOTH, "py-rattler or conda-lock is not there")
    assert "the conda part is not locked; to lock it: python3 -m pip install 'py-rattler>=0.28,<1' 'conda-lock>=4'" in (
        said
    )
    code, error, _, _ = run("--conda")
    assert (code, error["code"]) == (3, "engine-missing")

    lock.run(world(), "small")
    files = there(project)
    assert run()[2]["conda"] == list(BOTH)
    assert run("--check")[0] == 0
    text = (project / "profiles" / "small.toml").read_text().replace('"alpha"', '"alpha>=1"')
    (project / "profiles" / "small.toml").write_text(text)
    code, error, locked, _ = run()
    assert (code, locked["conda"], there(project)) == (0, list(BOTH), files)

    wanted(project, name="gcc_linux-64 13.*")
    code, error, _, _ = run()
    assert (code, error["code"]) == (3, "engine-missing")
    assert "cannot be made anew" in str(error["message"])
    assert error["hint"] == "python3 -m pip install 'py-rattler>=0.28,<1' 'conda-lock>=4'"
    assert there(project) == files
    code, error, locked, said = run("--no-conda")
    assert (code, locked["conda"], there(project)) == (0, [], {})
    assert "answers another question by now, and goes" in said


@pytest.mark.parametrize(
    "arguments",
    [("lock", "small", "--check"), ("lock", "small"), ("plan", "small"), ("profiles",), ("export", "small")],
)
def test_nothing_of_the_engines_is_loaded_where_nothing_is_solved(
    world: Worlds, project: Path, index: Index, isolated_environ: dict[str, str], arguments: tuple[str, ...]
) -> None:
    lock.run(world(), "small")
    environ = {**isolated_environ, "ENVLOCK_INDEX_PYPI": index.url, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-X", "importtime", "-m", "envlock", *arguments]
    done = subprocess.run(argv, cwd=project, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "envlock" in loaded
    assert not loaded & {"rattler", "conda_lock", "pydantic", "yaml"}
