"""The locks in `lockfiles/`: made from what stands here today, with the hashes that were recorded and no others."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envlock import config, proc
from envlock import lock as locks
from envlock.app import lock
from envlock.app.world import World
from envlock.model import Lock
from envlock.request import DEFAULT_INDEX
from tests.contract.installing import Told

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
