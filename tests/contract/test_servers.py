"""The test index and the test distributions are real: pip and uv take them."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import uv

from tests.servers.index import Fault, Index
from tests.servers.wheels import make_sdist, make_wheel


def install(index: Index, environ: dict[str, str], target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [uv.find_uv_bin(), "--no-config", "pip", "install", "--python", sys.executable, "--target", str(target)]
    return subprocess.run(
        [*argv, "--default-index", index.url, *arguments],
        env=environ | {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "2"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_uv_installs_from_it(index: Index, wheelhouse: Path, isolated_environ: dict[str, str], tmp_path: Path) -> None:
    make_wheel(wheelhouse, "app", "1.0", requires=["Lib.Dotted>=1"])
    make_wheel(wheelhouse, "Lib.Dotted", "1.5", requires_python=">=3.8")
    make_sdist(wheelhouse, "setuptools", "1.0", build_requires=None)
    done = install(index, isolated_environ, tmp_path / "t", "app", "--exclude-newer", "2024-06-01T00:00:00Z")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "t" / "lib_dotted.py").read_text() == "__version__ = '1.5'\n"
    assert f"/files/{'app-1.0-py3-none-any.whl'}.metadata" in index.requested
    early = install(index, isolated_environ, tmp_path / "u", "app", "--exclude-newer", "2023-06-01T00:00:00Z")
    assert early.returncode == 1


def test_pip_downloads_from_it(
    index: Index, wheelhouse: Path, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    make_wheel(wheelhouse, "app", "1.0")
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(tmp_path / "d")]
    done = subprocess.run(
        [*argv, "--index-url", index.url, "app"], env=isolated_environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["app-1.0-py3-none-any.whl"]


def test_an_sdist_builds_with_its_build_requirements_only(
    index: Index, wheelhouse: Path, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    make_sdist(wheelhouse, "old", "1.0", build_requires=["build-tool>=1"])
    assert install(index, isolated_environ, tmp_path / "t", "--no-build-isolation", "old").returncode == 1
    make_wheel(wheelhouse, "build-tool", "1.0")
    built = install(index, isolated_environ, tmp_path / "t", "old")
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "t" / "old.py").read_text() == "__version__ = '1.0'\n"


def test_the_same_distribution_has_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    assert make_wheel(first, "x", "1").read_bytes() == make_wheel(second, "x", "1").read_bytes()
    assert make_sdist(first, "x", "1").read_bytes() == make_sdist(second, "x", "1").read_bytes()


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind="status", value=503),
        Fault(kind="truncate", value=10),
        Fault(kind="stall", value=10),
        Fault(kind="reset"),
    ],
    ids=lambda fault: fault.kind,
)
def test_a_fault_stops_an_install_until_it_is_mended(
    fault: Fault, index: Index, wheelhouse: Path, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    wheel = make_wheel(wheelhouse, "app", "1.0")
    index.break_at(f"/files/{wheel.name}", fault)
    broken = install(index, isolated_environ, tmp_path / "t", "app")
    assert broken.returncode != 0
    index.mend()
    assert install(index, isolated_environ, tmp_path / "t", "app").returncode == 0


def test_a_fault_that_happens_once_is_counted(index: Index, wheelhouse: Path) -> None:
    make_wheel(wheelhouse, "app", "1.0")
    index.break_at("/simple/app/", Fault(kind="status", value=500, times=1))
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{index.url}app/")  # noqa: S310 - the loopback
    caught.value.close()
    with urllib.request.urlopen(f"{index.url}app/") as answer:  # noqa: S310 - the loopback
        assert b"#sha256=" in answer.read()
        tag = answer.headers["ETag"]
    again = urllib.request.Request(f"{index.url}app/", headers={"If-None-Match": tag})  # noqa: S310 - the loopback
    with pytest.raises(urllib.error.HTTPError, match="304") as same:
        urllib.request.urlopen(again)  # noqa: S310 - the loopback
    same.value.close()
    assert [hit.status for hit in index.hits] == [500, 200, 304]


def test_part_of_a_file_can_be_asked_for(index: Index, wheelhouse: Path) -> None:
    wheel = make_wheel(wheelhouse, "app", "1.0")
    whole = wheel.read_bytes()
    for span, want in (("0-3", whole[:4]), ("-22", whole[-22:]), (f"{len(whole) - 5}-", whole[-5:])):
        asked = urllib.request.Request(  # noqa: S310 - the loopback
            f"{index.root}/files/{wheel.name}", headers={"Range": f"bytes={span}"}
        )
        with urllib.request.urlopen(asked) as answer:  # noqa: S310 - the loopback
            assert (answer.status, answer.read()) == (206, want)
