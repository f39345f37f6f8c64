from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envlock import generations, record
from envlock.errors import WorldFailed

DIGEST = "0123456789ab"


def finished(path: Path, digest: str = DIGEST, variant: str = "cpu-pypi") -> str:
    """Make a complete generation, the way an install does."""
    with generations.hold(path):
        root = generations.begin(path, digest)
        (root / "hello.py").write_text("HELLO = 1\n")
        generations.complete(root, json.dumps({"variant": variant}))
    return root.name


def test_what_could_not_be_written_leaves_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "env"
    with generations.hold(path):
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
        try:
            with pytest.raises(WorldFailed):
                generations.begin(path, DIGEST)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert [one.name for one in (tmp_path / "env.envlock").iterdir() if one.name.endswith(".new")] == []


def test_a_path_nobody_installed_to_has_no_generations(tmp_path: Path) -> None:
    assert generations.listing(tmp_path / "env") == ()
    assert generations.current(tmp_path / "env") is None


def test_switching_names_one_generation_and_keeps_the_other(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "env"
    first = finished(path)
    assert generations.switch(path, first) is None
    second = finished(path, variant="cu121-pypi")
    assert generations.current(path) == generations.listing(path)[0]
    assert generations.switch(path, second) == first
    assert [(row.id, row.variant, row.complete) for row in generations.listing(path)] == [
        (first, "cpu-pypi", True),
        (second, "cu121-pypi", True),
    ]
    assert path.readlink() == Path("env.envlock", second)
    assert (path / "hello.py").read_text() == "HELLO = 1\n"
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["env", "env.envlock"]


def test_the_link_survives_when_the_folder_around_it_is_reached_otherwise(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    located = generations.locate(tmp_path / "alias" / "env")
    assert located == tmp_path.resolve() / "real" / "env"
    generations.switch(located, finished(located))
    assert generations.current(tmp_path / "alias" / "env") is not None


def test_the_newest_sound_generation_of_a_variant_is_found(tmp_path: Path) -> None:
    path = tmp_path / "env"
    made = [finished(path) for _ in range(11)]
    finished(path, "ba9876543210")
    generations.mark_broken(generations.folder(path, made[-1]), "kernels.nf4")
    found = generations.find(path, DIGEST)
    assert found is not None
    assert found.id == made[-2] == f"{DIGEST}-10"
    assert generations.listing(path)[10].broken
    assert generations.find(path, "f" * 12) is None


def test_what_was_left_half_built_is_cleared_and_its_number_not_used_again(tmp_path: Path) -> None:
    path = tmp_path / "env"
    with generations.hold(path):
        dead = generations.begin(path, DIGEST)
        (dead / "half").write_text("x")
    assert [row.complete for row in generations.listing(path)] == [False]
    with generations.hold(path):
        fresh = generations.begin(path, DIGEST)
        assert not dead.exists()
        assert fresh.name == f"{DIGEST}-2"
        generations.discard(fresh)
    with generations.hold(path):
        assert generations.begin(path, DIGEST).name == f"{DIGEST}-3"
    assert [entry.name for entry in (tmp_path / "env.envlock").iterdir() if "trash" in entry.name] == []


def test_the_generation_in_use_is_never_cleared_even_without_its_record(tmp_path: Path) -> None:
    path = tmp_path / "env"
    used = finished(path)
    generations.switch(path, used)
    (generations.folder(path, used) / record.FILE).unlink()
    finished(path)
    assert (path / "hello.py").exists()
    current = generations.current(path)
    assert current is not None
    assert not current.complete


DAMAGED = ("", "{", "[]", "null", "[" * 200_000, '{"a":' * 200_000, "1" * 5000, "\x00", '{"variant": "\xff"}')


@pytest.mark.parametrize("damage", [*DAMAGED, '{"variant": null}', '{"profile": "x"}'], ids=lambda text: text[:20])
def test_a_damaged_record_is_no_complete_generation_unless_it_names_a_variant(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "env"
    used = finished(path)
    (generations.folder(path, used) / record.FILE).write_text(damage, encoding="latin-1")
    assert [row.complete for row in generations.listing(path)] == [False]


@pytest.mark.parametrize(
    "damage",
    [
        *DAMAGED,
        "garbage",
        '{"pid": 1e999, "number": 1}',
        '{"pid": 1, "number": NaN}',
        '{"pid": 1, "number": -5}',
        '{"pid": "x", "number": [1]}',
        f'{{"pid": 1, "number": {"9" * 4000}}}',
    ],
    ids=lambda text: text[:20],
)
def test_a_damaged_state_file_does_not_give_a_number_twice(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "env"
    finished(path)
    (tmp_path / "env.envlock" / ".state.json").write_text(damage, encoding="latin-1")
    assert finished(path) == f"{DIGEST}-2"


@pytest.mark.parametrize("name", [".state.json", record.FILE])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    path = tmp_path / "env"
    used = generations.folder(path, finished(path))
    file = (used if name == record.FILE else used.parent) / name
    file.unlink()
    os.mkfifo(file)
    assert [row.complete for row in generations.listing(path)] == [name != record.FILE]
    assert finished(path) == f"{DIGEST}-2"


@pytest.mark.parametrize("what", ["folder", "file", "link", "dangling", "climbing", "store"])
def test_what_is_not_ours_is_refused_and_left_alone(tmp_path: Path, what: str) -> None:
    path = tmp_path / "env"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data").write_text("precious")
    if what == "folder":
        path.mkdir()
    elif what == "file":
        path.write_text("precious")
    elif what == "link":
        path.symlink_to(elsewhere)
    elif what == "dangling":
        path.symlink_to("nowhere")
    elif what == "climbing":
        path.symlink_to("env.envlock/../elsewhere")
    else:
        elsewhere.rename(tmp_path / "env.envlock")
    before = sorted(str(entry) for entry in tmp_path.rglob("*"))
    with pytest.raises(WorldFailed, match=re.escape(str(path))) as refusal, generations.hold(path):
        pytest.fail("the path was held")
    assert refusal.value.code == "target-foreign"
    assert refusal.value.hint is not None
    assert refusal.value.hint.startswith(f"envlock install PROFILE --path {path}")
    assert sorted(str(entry) for entry in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_a_folder_named_by_dots_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorldFailed) as refusal, generations.hold(generations.locate(Path(name))):
        pytest.fail("the path was held")
    assert refusal.value.code == "target-foreign"


def test_a_folder_that_came_between_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "env"
    made = finished(path)
    path.mkdir()
    (path / "data").write_text("precious")
    with pytest.raises(WorldFailed) as refusal:
        generations.switch(path, made)
    assert refusal.value.code == "target-foreign"
    assert (path / "data").read_text() == "precious"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["env", "env.envlock"]


def unwritable() -> Path:
    """A folder in which not even root may make another one."""
    return Path("/proc/sys/kernel")


@pytest.mark.skipif(not unwritable().is_dir(), reason="needs a mounted /proc")
def test_a_parent_that_cannot_be_written_is_one_clear_error() -> None:
    with pytest.raises(WorldFailed) as refusal, generations.hold(unwritable() / "env"):
        pytest.fail("the path was held")
    assert refusal.value.code == "target-unwritable"


def test_a_parent_that_is_a_file_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorldFailed) as refusal, generations.hold(tmp_path / "file" / "env"):
        pytest.fail("the path was held")
    assert refusal.value.code == "target-unwritable"


HOLDER = """
import sys, time
from pathlib import Path
from envlock import generations
with generations.hold(Path(sys.argv[1])):
    root = generations.begin(Path(sys.argv[1]), "0123456789ab")
    print(root, flush=True)
    time.sleep(60)
"""


def test_a_second_install_is_told_who_holds_the_path_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "env"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(generations.__file__).parents[1])},
    )
    try:
        assert holder.stdout is not None
        half = Path(holder.stdout.readline().strip())
        begun = time.monotonic()
        with pytest.raises(WorldFailed, match=f"process {holder.pid}") as refusal, generations.hold(path):
            pytest.fail("two processes hold the path")
        assert refusal.value.code == "target-busy"
        assert time.monotonic() - begun < generations.BUSY_SECONDS + 3
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert half.is_dir()
    finished(path)
    assert not half.exists()
