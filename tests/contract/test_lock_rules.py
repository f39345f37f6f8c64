"""What resolves and then breaks is not locked, unless somebody says so: that is kept with the lock."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envlock import config, lock_text, proc
from envlock.app import lock
from envlock.app.world import World
from envlock.errors import Misuse, Refused
from tests.contract.installing import Told
from tests.servers.index import Index
from tests.servers.wheels import make_wheel

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PROFILE = f"""
schema = 1
name = "pair"
summary = "a pair that breaks"
python = "{HERE}"
platforms = ["linux-x86_64"]
backends = ["cpu"]
requires = ["peft", "transformers"]

[backend.cpu]
pypi-python = ["{HERE}"]
"""
RULE = "peft-transformers"


@pytest.fixture
def project(tmp_path: Path, wheelhouse: Path) -> Path:
    """A project whose profile resolves to a peft that its transformers is too old for."""
    make_wheel(wheelhouse, "peft", "0.14.0", requires=["transformers"])
    make_wheel(wheelhouse, "transformers", "4.36.2")
    place = tmp_path / "project"
    (place / "profiles").mkdir(parents=True)
    (place / "profiles" / "pair.toml").write_text(PROFILE, encoding="utf-8")
    return place


@pytest.fixture
def world(project: Path, index: Index, isolated_environ: dict[str, str]) -> World:
    return World(
        run=proc.run,
        environ=isolated_environ,
        cwd=project,
        now=lambda: datetime.now(timezone.utc),
        clock=lambda: 0.0,
        reporter=Told(),
        config=config.resolve(flags={}, environ={"ENVLOCK_INDEX_PYPI": index.url}, table={}, table_file=None),
    )


def told(world: World) -> list[str]:
    assert isinstance(world.reporter, Told)
    return [caution.code for caution in world.reporter.warnings]


def test_a_violation_names_both_versions_the_bounds_the_evidence_and_what_fits(world: World, project: Path) -> None:
    with pytest.raises(Refused) as caught:
        lock.run(world, "pair")
    error = caught.value
    assert (error.code, error.exit) == ("conflict", 1)
    assert error.hint == (
        'say "transformers>=4.43.0" in `requires` of profiles/pair.toml; '
        f"to lock it as it is: envlock lock pair --allow {RULE}"
    )
    (problem,) = error.problems
    assert problem.key == "cpu-pypi"
    assert problem.message.startswith("transformers 4.36.2 beside peft 0.14.0: ")
    assert f"[{RULE}]" in problem.message
    assert problem.expected is not None
    assert problem.expected == "transformers >=4.43.0 (4.43.0 is the nearest)"
    assert "EncoderDecoderCache is in 4.43.0 and not in 4.42.4" in problem.message
    assert not (project / "lockfiles").exists()


def test_a_waiver_is_kept_with_the_lock_and_holds_for_its_variants(world: World, project: Path) -> None:
    assert lock.run(world, "pair", allow=[RULE]).changed
    text = (project / "lockfiles" / "pair.lock").read_text(encoding="utf-8")
    assert f'\n[allowed]\n{RULE} = ["cpu-pypi"]\n' in text
    assert told(world) == ["conflict-allowed"]
    assert not lock.run(world, "pair").changed
    assert lock.run(world, "pair", mode="check").variants == ("cpu-pypi",)


def test_a_waiver_that_nothing_needs_any_more_is_dropped(world: World, project: Path, wheelhouse: Path) -> None:
    lock.run(world, "pair", allow=[RULE])
    make_wheel(wheelhouse, "transformers", "4.48.0")
    fresh = replace(world, environ={**world.environ, "UV_CACHE_DIR": str(project / "cache")})
    assert lock.run(fresh, "pair", upgrade=True).changed
    assert "[allowed]" not in (project / "lockfiles" / "pair.lock").read_text(encoding="utf-8")


def test_a_rule_that_there_is_not_is_named_before_anything_is_resolved(world: World, index: Index) -> None:
    with pytest.raises(Misuse) as caught:
        lock.run(world, "pair", allow=["peft-transformer"])
    assert (caught.value.code, caught.value.problems[0].expected) == ("rule-unknown", f"`{RULE}`?")
    with pytest.raises(Misuse) as caught:
        lock.run(world, "pair", allow=["zzz"])
    assert (caught.value.problems[0].expected or "").startswith("one of ")
    assert index.requested == []


def test_a_rule_that_moved_makes_the_lock_stale(world: World, project: Path) -> None:
    lock.run(world, "pair", allow=[RULE])
    path = project / "lockfiles" / "pair.lock"
    held = lock_text.parse(path.read_text(encoding="utf-8"), path.name)
    moved = replace(held, inputs=replace(held.inputs, rules="0" * 64))  # as an envlock with other rules writes it
    path.write_text(lock_text.render(moved), encoding="utf-8")
    with pytest.raises(Refused) as caught:
        lock.run(world, "pair", mode="check")
    assert [problem.key for problem in caught.value.problems] == ["rules"]


# ---- torch --------------------------------------------------------------------------------------------------------

CUDA = PROFILE.replace('"cpu"', '"cu128"').replace("backend.cpu", "backend.cu128")


def described(project: Path, requires: str, *, text: str = CUDA, pypi: bool = True) -> None:
    """Write the profile anew, with other requirements, and with or without the variant of PyPI's own build."""
    written = text.replace('"peft", "transformers"', requires)
    if not pypi:
        written = written.partition("[backend.")[0]
    (project / "profiles" / "pair.toml").write_text(written, encoding="utf-8")


def test_a_torch_that_only_another_package_asks_for_is_refused(world: World, project: Path, wheelhouse: Path) -> None:
    make_wheel(wheelhouse, "torch", "2.8.0")
    make_wheel(wheelhouse, "peft", "0.15.0", requires=["torch>=2"])
    described(project, '"peft"', text=PROFILE, pypi=False)
    with pytest.raises(Refused) as caught:
        lock.run(world, "pair", allow=[RULE])
    error = caught.value
    assert (error.code, error.exit, error.hint) == ("torch-not-named", 1, "envlock lock pair")
    (problem,) = error.problems
    assert (problem.file, problem.key) == ("profiles/pair.toml", "cpu")
    assert problem.message.startswith("peft asks for torch, and 2.8.0 came from the default index")
    assert problem.expected == '`"torch==2.8.0"`, or another version, in `requires`'
    assert not (project / "lockfiles").exists()


def test_a_torch_that_the_profile_names_is_not(world: World, project: Path, wheelhouse: Path) -> None:
    make_wheel(wheelhouse, "torch", "2.8.0")
    make_wheel(wheelhouse, "peft", "0.15.0", requires=["torch>=2"])
    described(project, '"peft", "torch==2.8.0"', text=PROFILE.replace("[backend.cpu]", "[backend.cpu]\npython = []"))
    assert lock.run(world, "pair").variants == ("cpu-pypi",)


def test_a_build_that_no_release_of_torch_has_is_not_suggested(world: World, project: Path, wheelhouse: Path) -> None:
    make_wheel(wheelhouse, "torch", "2.6.0")
    described(project, '"torch==2.6.0"', text=CUDA.replace("[backend.cu128]", "[backend.cu128]\npython = []"))
    with pytest.raises(Refused) as caught:
        lock.run(world, "pair")
    assert caught.value.problems[0].expected == "torch >=2.8.0, <=2.10.0 (2.8.0 is the nearest)"
    assert (caught.value.hint or "").startswith('say "torch==2.8.0" in `requires` of profiles/pair.toml; ')


def test_a_build_that_pypi_does_not_have_is_no_requirement(world: World, project: Path, wheelhouse: Path) -> None:
    make_wheel(wheelhouse, "torch", "2.11.0")
    described(project, '"torch==2.11.0"', text=CUDA.replace("[backend.cu128]", "[backend.cu128]\npython = []"))
    with pytest.raises(Refused) as caught:
        lock.run(world, "pair")
    (problem,) = caught.value.problems
    assert problem.expected == (
        "torch ===2.11.0+cu128, which is on the index of the backend: it can have no `pypi-python`"
    )
    assert caught.value.hint == "envlock lock pair --allow torch-backend"


def test_a_companion_of_torch_that_is_not_named_is_to_be_named(
    world: World, project: Path, wheelhouse: Path, index: Index, tmp_path: Path
) -> None:
    shelf = tmp_path / "cu128"
    make_wheel(shelf, "torch", "2.8.0+cu128")
    make_wheel(wheelhouse, "torchvision", "0.23.0", requires=["torch==2.8.0"])
    make_wheel(wheelhouse, "timm", "1.0", requires=["torchvision"])
    described(project, '"torch==2.8.0", "timm"', pypi=False)
    with Index(shelf) as torch:
        urls = {"ENVLOCK_INDEX_PYPI": index.url, "ENVLOCK_INDEX_CU128": torch.url}
        settings = config.resolve(flags={}, environ=urls, table={}, table_file=None)
        with pytest.raises(Refused) as caught:
            lock.run(replace(world, config=settings), "pair")
    (problem,) = caught.value.problems
    assert problem.expected == "torchvision ===0.23.0+cu128"
    assert (caught.value.hint or "").startswith('say "torchvision==0.23.0" in `requires` of profiles/pair.toml; ')
