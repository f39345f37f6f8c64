"""A folder for a while: gone afterwards, also where the run that made it was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envlock import scratch

WAITS = """
import sys, time
from pathlib import Path
from envlock import scratch
with scratch.folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print(folder, flush=True)
    time.sleep(60)
"""


def old(folder: Path) -> None:
    """Make it look as if it had been made an hour ago."""
    then = time.time() - 3600
    os.utime(folder, (then, then))


def test_it_is_gone_afterwards_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), scratch.folder(tmp_path) as folder:
        (folder / "deep" / "er").mkdir()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_cleared_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS, tmp_path], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        used = Path(child.stdout.readline().strip())
        old(used)
        with scratch.folder(tmp_path):
            assert (used / "half").exists()
        child.kill()
    with scratch.folder(tmp_path) as mine:
        assert list(tmp_path.iterdir()) == [mine]


def test_nothing_else_is_cleared(tmp_path: Path) -> None:
    kept = {tmp_path / name for name in ("envlock-0", "envlock-scratch.fresh", "probe-a", "envlock-scratch.link")}
    elsewhere = tmp_path / "elsewhere"
    for path in (elsewhere, *kept):
        path.mkdir() if path.name != "envlock-scratch.link" else path.symlink_to(elsewhere)
        if path.name != "envlock-scratch.fresh":
            old(path)
    (elsewhere / "thesis").touch()
    with scratch.folder(tmp_path):
        pass
    assert set(tmp_path.iterdir()) == {*kept, elsewhere}
    assert (elsewhere / "thesis").exists()


def test_where_there_is_no_place_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), scratch.folder(tmp_path / "gone"):
        pass
