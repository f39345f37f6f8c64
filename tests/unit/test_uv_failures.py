"""uv's own words, as uv 0.13 prints them, and what they mean."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from envlock.engines import uv_failures
from envlock.errors import EnvlockError
from envlock.proc import Completed

DISK = """\
error: Failed to download `torch==2.8.0`
  cause: Failed to extract archive: torch-2.8.0-cp310-cp310-manylinux_2_28_x86_64.whl
  cause: failed to write to file `/cache/.tmpX/torch/lib/libtorch_cuda.so`: No space left on device (os error 28)
"""
QUOTA = "error: failed to create directory `/home/me/.cache/uv`: Disk quota exceeded (os error 122)\n"
SPENT = "No space left on device (os error 28)"
SOCKETS = """\
error: Request failed after 3 retries in 6.1s
  cause: error sending request for url (http://index.example/simple/alpha/)
  cause: client error (Connect)
  cause: tcp open error
  cause: Too many open files (os error 24)
"""
HASH = """\
error: Failed to download `alpha==2.0`
  cause: Hash mismatch for `alpha==2.0`

         Expected:
           sha256:1111111111111111111111111111111111111111111111111111111111111111

         Computed:
           sha256:2222222222222222222222222222222222222222222222222222222222222222
"""
REFUSED = """\
error: Request failed after 3 retries in 6.2s
  cause: Failed to fetch: `http://index.example/simple/alpha/`
  cause: error sending request for url (http://index.example/simple/alpha/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
STALLED = """\
error: Failed to download `alpha==2.0`
  cause: Failed to fetch: `http://index.example/files/alpha-2.0-py3-none-any.whl`
  cause: Failed to download distribution due to network timeout. Try increasing UV_HTTP_TIMEOUT (current value: 30s).
"""
UNCACHED = """\
error: No solution found when resolving dependencies
  cause: Because alpha was not found in the cache and you require alpha==1.0, we can conclude that your requirements
         are unsatisfiable.

hint: Packages were unavailable because the network was disabled. When the network is disabled, registry packages may
only be read from the cache.
"""
BUILD = """\
error: Failed to build `deepspeed==0.14.0`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta.build_wheel` failed (exit status: 1)

         [stderr]
         ModuleNotFoundError: No module named 'setuptools'
"""
ABSENT = """\
error: No solution found when resolving dependencies
  cause: Because there is no version of alpha==1.0 and you require alpha==1.0, we can conclude that your requirements
         are unsatisfiable.
"""
BROKEN_OFF = """\
error: Failed to download `alpha==2.0`
  cause: Failed to write to the distribution cache
  cause: error decoding response body
  cause: request or response body error
  cause: end of file before message length reached
"""
RESET = """\
error: Failed to download `alpha==2.0`
  cause: Failed to write to the distribution cache
  cause: error sending request for url (http://index.example/files/alpha-2.0-py3-none-any.whl)
  cause: Connection reset by peer (os error 104)
"""
CACHE = """\
error: Failed to initialize cache at `/home/me/.cache/uv`
  cause: failed to create directory `/home/me/.cache/uv`: Permission denied (os error 13)
"""
BUCKET = """\
error: Failed to inspect Python interpreter from first executable in the search path at `/usr/bin/python3`
  cause: Failed to query Python interpreter
  cause: failed to create directory `/home/me/.cache/uv/interpreter-v5/d75e3082a37d12`: Permission denied (os error 13)
"""
ENTRY = """\
error: Failed to write to the client cache
  cause: Permission denied (os error 13) at path "/home/me/.cache/uv/simple-v28/pypi/.tmpSE4sSp"
"""
LOCKING = """\
error: Could not acquire lock
  cause: Could not create temporary file
  cause: Read-only file system (os error 30) at path "/home/me/.cache/uv/.tmpsMT1lz"
"""


@pytest.mark.parametrize(
    ("said", "code", "word"),
    [
        (DISK, "disk-full", "installing"),
        (QUOTA, "disk-full", "installing"),
        (SOCKETS, "limit-reached", "installing"),
        (CACHE, "cache-unusable", "installing"),
        (BUCKET, "cache-unusable", "installing"),
        (ENTRY, "cache-unusable", "installing"),
        (LOCKING, "cache-unusable", "installing"),
        (HASH, "hash-mismatch", "alpha==2.0"),
        (REFUSED, "network", "installing"),
        (STALLED, "network", "installing"),
        (BROKEN_OFF, "network", "installing"),
        (RESET, "network", "installing"),
        (BUILD, "build-failed", "deepspeed==0.14.0"),
        (ABSENT, "artifact-missing", "installing"),
        ("error: something new\n", "engine-failed", "exit 2"),
        ("", "engine-failed", "exit 2"),
    ],
)
def test_each_text_has_one_meaning(said: str, code: str, word: str) -> None:
    error = explain(said)
    assert error.code == code
    assert word in error.message
    assert error.hint
    assert [str(problem) for problem in error.problems] == [line for line in said.splitlines()[-12:] if line.strip()]


@pytest.mark.parametrize("said", [UNCACHED, ABSENT])
def test_offline_a_file_that_is_not_cached_is_no_conflict(said: str) -> None:
    assert explain(said, offline=True).code == "not-cached"


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (CACHE, "UV_CACHE_DIR=FOLDER {again}"),
        (REFUSED, "{again}"),
        (BUILD, "{again} -vv"),
        ("error: something new\n", "{again} -vv"),
    ],
)
def test_a_hint_repeats_the_command_that_failed(said: str, hint: str) -> None:
    assert explain(said).hint == hint.format(again="envlock install PROFILE")
    done = Completed(argv=("uv",), code=2, stdout="", stderr=said)
    again = "envlock lock PROFILE"
    error = uv_failures.explain(done, what="resolving", place=Path("/scratch/x"), offline=False, again=again)
    assert error.hint == hint.format(again=again)


def test_a_full_disk_is_the_one_that_uv_wrote_to(tmp_path: Path) -> None:
    cache = tmp_path / "uv's cache"
    cache.mkdir()
    for said in (
        DISK.replace("/cache", str(cache)),
        ENTRY.replace("Permission denied (os error 13)", SPENT).replace("/home/me/.cache/uv", str(cache)),
    ):
        error = explain(said)
        assert (error.code, error.hint) == ("disk-full", f"df -h {shlex.quote(str(cache))}")
    assert explain(f"error: {SPENT}\n").hint == "df -h /home/me/env.envlock"


def test_a_uv_that_is_not_there_is_missing() -> None:
    error = explain("[Errno 2] No such file or directory: 'uv'", code=127)
    assert error.code == "engine-missing"
    assert error.hint == "python3 -m pip install 'uv>=0.13.5'"


def test_of_a_long_text_the_end_is_kept() -> None:
    error = explain("\n".join(f"line {number}" for number in range(100)))
    assert len(error.problems) == 12
    assert str(error.problems[-1]) == "line 99"


def explain(said: str, *, code: int = 2, offline: bool = False) -> EnvlockError:
    done = Completed(argv=("uv",), code=code, stdout="", stderr=said)
    place = Path("/home/me/env.envlock/0123456789ab-1")
    return uv_failures.explain(done, what="installing", place=place, offline=offline)
