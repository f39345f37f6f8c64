"""Files that belong together are written by one writer at a time, whole, and in an order that survives a kill."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envlock import writing
from envlock.errors import WorldFailed

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that every user may look into."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    for one in folder.iterdir():
        one.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Nobody in particular: root may write anywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir()) if path.is_file()}


# ---- whole, and in order ---------------------------------------------------------------------------------------------


def test_a_file_is_made_with_its_folders_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.lock"
    writing.put({path: b"one"})
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"one", 0o644)
    path.chmod(0o600)
    writing.put({path: b"two"})
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o600)
    assert [one.name for one in path.parent.iterdir()] == ["c.lock"]


def test_no_file_is_replaced_before_all_can_be(tmp_path: Path) -> None:
    old, blocked = put(tmp_path / "a.lock", "old"), put(tmp_path / "file")
    with pytest.raises(WorldFailed) as caught:
        writing.put({old: b"new", blocked / "b.lock": b"new"})
    assert (caught.value.code, caught.value.hint) == ("not-writable", f"ls -ld {tmp_path}")
    assert [str(problem) for problem in caught.value.problems] == [f"{blocked}: File exists"]
    assert old.read_text(encoding="utf-8") == "old"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.lock", "file"]


def test_a_folder_in_the_place_of_a_file_stays(tmp_path: Path) -> None:
    (tmp_path / "a.lock").mkdir()
    with pytest.raises(WorldFailed) as caught:
        writing.put({tmp_path / "a.lock": b"new"})
    assert (caught.value.code, caught.value.hint) == ("not-writable", f"ls -ld {tmp_path}")
    assert [str(problem) for problem in caught.value.problems] == [f"{tmp_path}/a.lock: Is a directory"]
    assert [one.name for one in tmp_path.iterdir()] == ["a.lock"]


def test_a_folder_that_may_not_be_written_to(common: Path) -> None:
    old = put(common / "a.lock", "old")
    common.chmod(0o555)
    with unprivileged(), pytest.raises(WorldFailed) as caught:
        writing.put({old: b"new", common / "b.lock": b"new"})
    (problem,) = caught.value.problems
    assert (caught.value.code, caught.value.exit, problem.message) == ("not-writable", 3, "Permission denied")
    assert [one.name for one in common.iterdir()] == ["a.lock"]
    assert old.read_text(encoding="utf-8") == "old"


def test_a_file_goes_and_its_folder_with_the_last_one(tmp_path: Path) -> None:
    one, other, mine = (put(tmp_path / place) for place in ("x/one", "x/other", "y/mine"))
    writing.put({one: None, tmp_path / "x" / "never": None})
    assert (one.exists(), other.exists()) == (False, True)
    writing.put({other: None, mine.parent / "gone": None})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["y"]
    assert mine.exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from envlock import writing

class Files(dict):
    steps = iter(range(int(sys.argv[2]), -1, -1))

    def __iter__(self):
        for key in super().__iter__():
            if next(self.steps) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield key

    def items(self):
        return ((key, self[key]) for key in self)

folder = Path(sys.argv[1])
writing.put(Files({folder / "a.txt": b"new a" * 100000, folder / "b.txt": None, folder / "c.lock": b"new c"}))
"""
OLD = {"a.txt": "old a", "b.txt": "old b", "c.lock": "old c"}
NEW = {"a.txt": "new a" * 100000, "b.txt": None, "c.lock": "new c"}


@pytest.mark.parametrize("step", range(9))
def test_killed_at_any_step_the_last_file_still_is_the_old_one(tmp_path: Path, step: int) -> None:
    for name, text in OLD.items():
        put(tmp_path / name, text)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(step)], cwd=ROOT, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    # The first three steps clear, the next three make, the last three put each file in its place.
    names = [*OLD][: max(0, step - 6)]
    now = {**OLD, **{name: NEW[name] for name in names}}
    assert {name: text for name, text in texts(tmp_path).items() if name in OLD} == {
        name: text for name, text in now.items() if text is not None
    }


def test_what_a_killed_writer_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    for name, text in OLD.items():
        put(tmp_path / name, text)
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "6"], cwd=ROOT, check=False, timeout=60)
    left = sorted(texts(tmp_path).keys() - OLD.keys())
    assert [name.rpartition(".envlock")[0][:-8] for name in left] == [".a.txt.", ".c.lock."]
    theirs = (
        ".a.txt.abcdefgh",
        ".a.txt.swp",
        ".a.txt.abcdefghi.envlock",
        ".b.abcdefgh.envlock",
        "a.txt.abcdefgh.envlock",
    )
    for name in theirs:
        put(tmp_path / name)
    writing.put({tmp_path / name: b"new" for name in OLD})
    assert [*texts(tmp_path)] == sorted([*OLD, *theirs])


UNFINISHED = """
import resource, signal, sys
from pathlib import Path
from envlock import writing
from envlock.errors import WorldFailed

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
(folder / "a.lock").write_text("old")
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    writing.put({folder / "b.lock": b"small", folder / "a.lock": b"new" * 1000000})
except WorldFailed as error:
    print(error.code, error.problems[0].message, sep=": ")
print(*(path.name for path in folder.iterdir()), (folder / "a.lock").read_text())
"""


def test_a_file_that_cannot_be_written_to_its_end_leaves_the_old_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", UNFINISHED, str(tmp_path), "1000"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "not-writable: File too large\na.lock old\n"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    small = 'mount -t tmpfs -o size=1m x "$0" || exit 77; exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", small, str(tmp_path), sys.executable, "-c", UNFINISHED, str(tmp_path), "0"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)
    if done.returncode in (1, 77):
        pytest.skip("this machine lets nobody mount a small disk")
    assert done.stdout == "disk-full: No space left on device\na.lock old\n", done.stderr


# ---- one at a time ------------------------------------------------------------------------------------------------


HOLDER = """
import sys
from pathlib import Path
from envlock import writing

with writing.hold(Path(sys.argv[1]), again="envlock lock x"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(target: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds `target` until its stdin ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(target)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_what_another_one_holds_is_busy_and_all_else_is_free(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    target = tmp_path / "a.lock"
    with holder(target):
        with writing.hold(tmp_path / "b.lock", again=""):
            pass
        with pytest.raises(WorldFailed) as caught, writing.hold(tmp_path / "link" / "a.lock", again="envlock lock a"):
            pass
    assert (caught.value.code, caught.value.exit, caught.value.hint) == ("lock-busy", 3, "envlock lock a")
    assert [str(problem) for problem in caught.value.problems] == [f"{tmp_path}/link/a.lock: is being written"]
    with writing.hold(target, again=""):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_writer_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    with holder(tmp_path / "a.lock") as process:
        assert process.stdin is not None
        threading.Timer(0.3, process.stdin.close).start()
        with writing.hold(tmp_path / "a.lock", again=""):
            assert process.wait(timeout=60) == 0


REFUSED = """
import sys
from pathlib import Path
from envlock import writing
from envlock.errors import WorldFailed

try:
    with writing.hold(Path(sys.argv[1]), again="envlock lock x"):
        print("held")
except WorldFailed as error:
    print(error.code, error.hint, *error.problems, sep="; ")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of somebody else")
def test_a_folder_that_somebody_else_laid_out_for_us_is_not_used(tmp_path: Path) -> None:
    theirs = tmp_path / "envlock-0"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    argv = [sys.executable, "-c", REFUSED, str(tmp_path / "a.lock")]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(argv, cwd=ROOT, env=environ, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"not-writable; TMPDIR=FOLDER envlock lock x; {theirs}: Belongs to somebody else\n"
    assert list(theirs.iterdir()) == []


def test_a_writer_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path / "a.lock") as process:
        process.kill()
        process.wait(timeout=60)
        with writing.hold(tmp_path / "a.lock", again=""):
            pass
