"""The locks in `lockfiles/`: made from what stands here today, with the hashes that were recorded and no others."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from envlock import config, proc
from envlock import lock as locks
from envlock.app import conda, lock
from envlock.app.world import World
from envlock.engines import conda_lock
from envlock.model import Lock
from envlock.request import DEFAULT_INDEX
from tests.contract.installing import Told
from tests.servers.channel import RECORDED as CHANNEL

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "torch_index" / "wheels.json"
EVIDENCE = {"cross-checked": "recorded, cross-checked", "single-source": "recorded, one source"}
# The hosts of the registries that everything else comes from: a lock that named one could not be taken elsewhere.
REGISTRIES = (b"pypi" + b".org", b"python" + b"hosted.org", b"registry.npm" + b"js.org", b"deb.debian" + b".org")
LOCKS = sorted(path.stem for path in (ROOT / "lockfiles").glob("*.lock"))

each_lock = pytest.mark.parametrize("name", LOCKS)


@pytest.fixture
def world(isolated_environ: dict[str, str]) -> World:
    return World(
        run=proc.run,
        environ=isolated_environ,
        cwd=ROOT,
        now=lambda: datetime.now(timezone.utc),
        clock=time.monotonic,
        reporter=Told(),
        config=config.resolve(flags={"offline": True}, environ={}, table={}, table_file=None),
    )


def held(name: str) -> Lock:
    file = ROOT / "lockfiles" / f"{name}.lock"
    return locks.parse(file.read_text(encoding="utf-8"), file.name)


def recorded() -> Mapping[tuple[str, str], dict[str, str]]:
    rows = json.loads(RECORDED.read_text(encoding="utf-8"))
    return {(row["index"], row["file"]): row for row in rows}


def test_every_bundled_profile_is_locked() -> None:
    assert sorted(path.stem for path in (ROOT / "profiles").glob("*.toml")) == LOCKS


@each_lock
def test_it_is_current_and_so_is_what_stands_beside_it(name: str, world: World) -> None:
    assert lock.run(world, name, mode="check").variants


@each_lock
def test_every_hash_of_a_named_index_is_the_recorded_one(name: str) -> None:
    known = recorded()
    seen = 0
    for variant in held(name).variants:
        for package in (*variant.packages, *variant.build):
            for file in package.artifacts:
                if file.index == DEFAULT_INDEX:
                    assert file.evidence is None
                    continue
                row = known[file.index, file.file]
                assert (file.sha256, file.evidence) == (row["sha256"], EVIDENCE[row["status"]])
                seen += 1
    assert seen >= 2


@each_lock
def test_torch_comes_from_its_backend_and_cuda_from_the_default_index(name: str) -> None:
    for variant in held(name).variants:
        own = variant.variant.backend if variant.variant.source == "index" else DEFAULT_INDEX
        for package in variant.packages:
            family = package.name in {"torch", "torchvision", "torchaudio"}
            assert {file.index for file in package.artifacts} == {own if family else DEFAULT_INDEX}


# What the recording of the channel does not hold: the variants whose conda part is not locked are these.
WITHOUT_CONDA = "3.13"


@each_lock
def test_every_conda_part_is_there_but_those_the_recording_has_no_python_for(name: str, world: World) -> None:
    answer = lock.run(world, name, mode="check")
    pythons = {one.variant.name: one.variant.python for one in held(name).variants}
    assert set(answer.conda) == {variant for variant, python in pythons.items() if python != WITHOUT_CONDA}
    assert set(answer.conda_absent) == {variant for variant, python in pythons.items() if python == WITHOUT_CONDA}


@each_lock
def test_every_conda_package_is_the_recorded_row(name: str) -> None:
    rows = {subdir: repodata(subdir) for subdir in ("linux-64", "noarch")}
    forge = conda.known().channels["conda-forge"]
    for variant in held(name).variants:
        if variant.conda is None:
            continue
        file = ROOT / "lockfiles" / name / variant.variant.name / "conda-lock.yml"
        data = file.read_bytes()
        assert hashlib.sha256(data).hexdigest() == variant.conda.sha256
        assert data.count(b"\n    envlock-evidence: recorded\n") == 1
        records = conda_lock.read(data, file.name, (forge,))
        versions = {record.name: record.version for record in records}
        assert versions["python"].startswith(f"{variant.variant.python}.")
        assert versions["gcc_linux-64"].startswith("12.")
        assert {"pip", "gxx_linux-64"} <= versions.keys()
        for record in records:
            row = rows[record.subdir][record.file]
            assert (record.name, record.version, record.build) == (row["name"], row["version"], row["build"])
            assert (record.md5, record.sha256) == (row["md5"], row["sha256"])
            asked = {one.partition(" ")[0] for one in row["depends"]}
            assert {one.partition(" ")[0] for one in record.depends} == asked
            assert {one for one in asked if not one.startswith("__")} <= versions.keys()


@each_lock
def test_the_real_conda_lock_renders_every_conda_part(
    name: str, tmp_path: Path, isolated_environ: dict[str, str]
) -> None:
    seen: dict[bytes, str] = {}
    for variant in held(name).variants:
        file = ROOT / "lockfiles" / name / variant.variant.name / "conda-lock.yml"
        # Variants that ask the same hold the same packages: each answer is rendered once.
        packages = file.read_bytes().partition(b"\npackage:\n")[2] if variant.conda else b""
        if not packages or packages in seen:
            continue
        seen[packages] = variant.variant.name
        argv = [str(Path(sys.executable).with_name("conda-lock")), "render", "-k", "explicit", "-k", "env", str(file)]
        done = subprocess.run(
            argv, cwd=tmp_path, env=isolated_environ, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / "conda-linux-64.lock").read_text(encoding="utf-8").splitlines()
        md5 = {line.partition("#")[2] for line in lines if line.startswith("https://conda.anaconda.org/conda-forge/")}
        assert len(md5) == packages.count(b"- name: ")
        assert all(one.encode() in packages for one in md5)
        (tmp_path / "conda-linux-64.lock").unlink()
        assert (tmp_path / "conda-linux-64.lock.yml").is_file()
    assert seen


def repodata(subdir: str) -> dict[str, dict[str, Any]]:
    listed = json.loads((CHANNEL / subdir / "repodata.json").read_text(encoding="utf-8"))
    return {**listed["packages"], **listed["packages.conda"]}


def test_no_tracked_file_names_a_registry_host() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository here")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, env=dict(os.environ), capture_output=True, check=True)
    tracked = [ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    assert len(tracked) > 100
    naming = {
        str(path.relative_to(ROOT))
        for path in tracked
        if path.is_file() and any(host in path.read_bytes() for host in REGISTRIES)
    }
    assert naming == set()
