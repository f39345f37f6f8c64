"""`lock.run` as the command line calls it: from a profile to a lock, and to what stands beside it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envlock import config, proc
from envlock.app import lock
from envlock.app.world import World
from envlock.errors import Refused
from envlock.lock import parse, render
from tests.contract.installing import Told
from tests.servers.index import Index
from tests.servers.wheels import make_sdist, make_wheel

PROFILE = """
schema = 1
name = "small"
summary = "one module and what it needs"
python = "3.10"
platforms = ["linux-x86_64"]
backends = ["cpu"]
requires = ["{alpha}"]

[backend.cpu]
pypi-python = [{pythons}]
"""

Worlds = Callable[..., World]


@pytest.fixture
def project(tmp_path: Path, wheelhouse: Path) -> Path:
    make_wheel(wheelhouse, "alpha", "1.0", requires=["omega"])
    make_wheel(wheelhouse, "omega", "1.0")
    place = tmp_path / "project"
    (place / "profiles").mkdir(parents=True)
    (place / ".git").mkdir()
    wanted(place)
    return place


def wanted(project: Path, *, alpha: str = "alpha", pythons: tuple[str, ...] = ("3.10",)) -> None:
    listed = ", ".join(f'"{python}"' for python in pythons)
    (project / "profiles" / "small.toml").write_text(PROFILE.format(alpha=alpha, pythons=listed))


@pytest.fixture
def world(project: Path, index: Index, isolated_environ: dict[str, str]) -> Worlds:
    def make(cwd: Path = project, **flags: object) -> World:
        return World(
            run=proc.run,
            environ=isolated_environ,
            cwd=cwd,
            now=lambda: datetime.now(timezone.utc),
            clock=time.monotonic,
            reporter=Told(),
            config=config.resolve(flags=flags, environ={"ENVLOCK_INDEX_PYPI": index.url}, table={}, table_file=None),
        )

    return make


def there(project: Path) -> dict[str, str]:
    """What stands in `lockfiles/`, by its path there."""
    root = project / "lockfiles"
    return {
        str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*"), key=str) if path.is_file()
    }


# ---- where it is ----------------------------------------------------------------------------------------------------


def test_a_lock_is_written_where_it_is_read(world: Worlds, project: Path) -> None:
    below = project / "src" / "deep"
    below.mkdir(parents=True)
    assert lock.run(world(below), "small").path == str(project / "lockfiles" / "small.lock")
    assert lock.run(world(below), "small", mode="check").path == str(project / "lockfiles" / "small.lock")
    assert not lock.run(world(project / "src"), "small").changed

    shutil.copytree(project / "lockfiles", below / "lockfiles")
    wanted(project, alpha="alpha>=1")
    done = lock.run(world(below), "small")
    assert (done.path, done.changed) == ("lockfiles/small.lock", True)
    assert lock.run(world(below), "small", mode="check").path == "lockfiles/small.lock"
    with pytest.raises(Refused) as refusal:
        lock.run(world(), "small", mode="check")
    assert refusal.value.code == "lock-stale"


def test_a_profile_given_as_a_path_is_locked_like_any_other(world: Worlds, project: Path) -> None:
    elsewhere = project.parent / "elsewhere" / "small.toml"
    elsewhere.parent.mkdir()
    (project / "profiles" / "small.toml").rename(elsewhere)
    below = project / "src"
    below.mkdir()
    for name in (str(elsewhere), "../../elsewhere/small.toml"):
        assert lock.run(world(below), name).path == str(project / "lockfiles" / "small.lock")
        assert lock.run(world(below), name, mode="check").variants == ("cpu-pypi",)
    assert [path.name for path in elsewhere.parent.iterdir()] == ["small.toml"]


# ---- what stands beside it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit", [lambda text: text + b"mine==1\n", lambda _: b"\xff", None], ids=["more", "no text", "gone"]
)
def test_what_was_edited_by_hand_is_told_and_made_anew(
    world: Worlds, project: Path, edit: Callable[[bytes], bytes] | None
) -> None:
    lock.run(world(), "small")
    path = project / "lockfiles" / "small" / "cpu-pypi" / "requirements.txt"
    rendered = path.read_bytes()
    if edit:
        path.write_bytes(edit(rendered))
    else:
        path.unlink()
    with pytest.raises(Refused) as refusal:
        lock.run(world(), "small", mode="check")
    assert (refusal.value.code, refusal.value.hint) == ("lock-stale", "envlock lock small")
    assert refusal.value.message == "the lock of `small` is out of date: what stands beside it is not what it says"
    assert [str(problem) for problem in refusal.value.problems] == [
        "lockfiles/small/cpu-pypi/requirements.txt: is not what the lock says"
    ]
    assert lock.run(world(), "small", mode="dry-run").changed
    assert lock.run(world(), "small").changed
    assert path.read_bytes() == rendered


def test_a_write_that_was_cut_short_leaves_the_old_lock_in_force(world: Worlds, project: Path) -> None:
    lock.run(world(), "small")
    old = there(project)
    wanted(project, alpha="omega")
    lock.run(world(), "small")
    new = there(project)
    assert new.keys() == old.keys()
    # What stands there when the writer was killed just before it came to the lock.
    (project / "lockfiles" / "small.lock").write_text(old["small.lock"])
    with pytest.raises(Refused) as refusal:
        lock.run(world(), "small", mode="check")
    assert [problem.key or problem.file for problem in refusal.value.problems] == [
        "profile",
        "lockfiles/small/cpu-pypi/requirements.txt",
    ]
    assert lock.run(world(), "small").changed
    assert there(project) == new


# ---- what goes with a variant ---------------------------------------------------------------------------------------


def test_the_files_of_a_variant_that_is_gone_go_with_it(world: Worlds, project: Path) -> None:
    wanted(project, pythons=("3.10", "3.11"))
    lock.run(world(), "small")
    assert [*there(project)] == [
        "small.lock",
        "small/cpu-py310-pypi/requirements.txt",
        "small/cpu-py311-pypi/requirements.txt",
    ]
    wanted(project)
    assert lock.run(world(), "small").changed
    assert [*there(project)] == ["small.lock", "small/cpu-pypi/requirements.txt"]
    assert not (project / "lockfiles" / "small" / "cpu-py311-pypi").exists()


def test_what_somebody_else_put_there_stays(world: Worlds, project: Path) -> None:
    wanted(project, pythons=("3.10", "3.11"))
    lock.run(world(), "small")
    folder = project / "lockfiles" / "small"
    (folder / "cpu-py311-pypi" / "requirements.txt").write_text("mine==1\n")
    theirs = {
        folder / "cpu-py310-pypi" / "my-requirements.txt": "mine==2\n",
        folder / "cpu-py310-pypi" / "build-requirements.txt": "mine==3\n",
        folder / "other" / "requirements.txt": (folder / "cpu-py310-pypi" / "requirements.txt").read_text(),
    }
    for path, text in theirs.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    wanted(project)
    lock.run(world(), "small")
    assert [*there(project)] == [
        "small.lock",
        "small/cpu-py310-pypi/build-requirements.txt",
        "small/cpu-py310-pypi/my-requirements.txt",
        "small/cpu-py311-pypi/requirements.txt",
        "small/cpu-pypi/requirements.txt",
        "small/other/requirements.txt",
    ]
    assert {path: path.read_text() for path in theirs} == theirs
    assert there(project)["small/cpu-py311-pypi/requirements.txt"] == "mine==1\n"
    assert not lock.run(world(), "small").changed


# ---- what sources are built with ------------------------------------------------------------------------------------


@pytest.fixture
def source(project: Path, wheelhouse: Path, index: Index) -> Path:
    """A source-only package that the profile asks for, and what it is built with; the index may grow."""
    index.cache_control = "no-cache"
    make_wheel(wheelhouse, "helper", "1.0")
    make_wheel(wheelhouse, "maker", "1.0", requires=["helper"])
    wanted(project, alpha='alpha", "old')
    return make_sdist(wheelhouse, "old", "1.0", build_requires=["maker"])


def built(project: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    path = project / "lockfiles" / "small.lock"
    (only,) = parse(path.read_text(), str(path)).variants
    return {package.name: (package.version, package.why) for package in only.build}


BUILT = {"helper": ("1.0", ("maker",)), "maker": ("1.0", ("old",))}


def test_a_source_asks_for_what_it_is_built_with(world: Worlds, project: Path, source: Path, index: Index) -> None:
    lock.run(world(), "small")
    assert built(project) == BUILT
    make_wheel(source.parent, "maker", "2.0")
    index.hits.clear()
    assert not lock.run(world(), "small").changed
    assert f"/files/{source.name}" not in index.requested
    lock.run(world(), "small", upgrade_packages=["maker"])
    assert built(project) == {"maker": ("2.0", ("old",))}


@pytest.mark.usefixtures("source")
def test_a_lock_that_does_not_say_which_source_asks_is_made_to(world: Worlds, project: Path, wheelhouse: Path) -> None:
    lock.run(world(), "small")
    path = project / "lockfiles" / "small.lock"
    held = parse(path.read_text(), str(path))
    (only,) = held.variants
    unsaid = replace(only, build=tuple(replace(package, why=("profile",)) for package in only.build))
    path.write_text(render(replace(held, variants=(unsaid,))))
    make_wheel(wheelhouse, "maker", "2.0")
    done = lock.run(world(), "small")
    assert (done.changed, done.changes, built(project)) == (True, (), BUILT)
