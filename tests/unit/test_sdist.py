from __future__ import annotations

import gzip
import io
import re
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envlock import sdist
from tests.servers.wheels import make_sdist

FLIT = '[build-system]\nrequires = ["flit-core>=3"]\nbuild-backend = "flit_core.buildapi"\n'


def made(tmp_path: Path, pyproject: str) -> bytes:
    return make_sdist(tmp_path, "old", "1.0", files={"pyproject.toml": pyproject}).read_bytes()


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, FLIT)
    return buffer.getvalue()


def tarred(name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(FLIT)
        archive.addfile(member, io.BytesIO(FLIT.encode()))
    return buffer.getvalue()


def needs(raw: bytes) -> tuple[str, ...]:
    return sdist.build_requires(io.BytesIO(raw))


def test_without_a_pyproject_setuptools_builds(tmp_path: Path) -> None:
    raw = make_sdist(tmp_path, "old", "1.0", build_requires=None).read_bytes()
    assert needs(raw) == ("setuptools", "wheel")


@pytest.mark.parametrize(
    ("pyproject", "told"),
    [
        ("[tool.black]\n", ("setuptools", "wheel")),
        ('[build-system]\nrequires = ["setuptools>=61"]\n', ("setuptools>=61", "setuptools", "wheel")),
        (
            '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta:__legacy__"\n',
            ("setuptools", "setuptools", "wheel"),
        ),
        ('[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n', ("hatchling",)),
        ('[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n', ()),
    ],
)
def test_its_build_system_says_what_it_needs(pyproject: str, told: tuple[str, ...], tmp_path: Path) -> None:
    assert needs(made(tmp_path, pyproject)) == told


def test_a_zip_is_read_too_and_only_its_top_folder_counts() -> None:
    assert needs(zipped("old-1.0/pyproject.toml")) == ("flit-core>=3",)
    assert needs(zipped("old-1.0/tests/pyproject.toml")) == ("setuptools", "wheel")


@pytest.mark.parametrize(
    ("pyproject", "says"),
    [
        ("[build-system\n", "pyproject.toml is not TOML: "),
        (f"a = {'[' * 9999}\n", "pyproject.toml is not TOML: is nested too deeply"),
        ("build-system = 3\n", "build-system is not a table"),
        ("[[build-system]]\nrequires = []\n", "build-system is not a table"),
        ('[build-system]\nrequires = "setuptools"\n', "build-system.requires is not a list of texts"),
        ("[build-system]\nx = 1\n", "build-system.requires is not a list of texts"),
        ('[build-system]\nrequires = ["=1"]\n', "Expected package name"),
    ],
)
def test_a_broken_pyproject_is_said(pyproject: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(says)}"):
        needs(made(tmp_path, pyproject))


@pytest.mark.parametrize(
    "raw",
    [b"", b"not an archive", b"\x1f\x8b\x08\x00", zipped("old-1.0/pyproject.toml").replace(b"PK\x01\x02", b"PK\0\0")],
)
def test_what_is_no_archive_is_said(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"^no archive: "):
        needs(raw)


# ---- what unpacks to more than anybody reads ------------------------------------------------------------------------


def padded(kind: str, size: int, *, name: str = "old-1.0/pyproject.toml") -> bytes:
    """Return an archive whose one file is FLIT and a comment of that many bytes."""
    content = FLIT.encode() + b"#" + b" " * size
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr(name, content)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode=f"w:{kind}") as archive:  # type: ignore[call-overload]  # as above
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def peak(attempt: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        attempt()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["zip", "gz", "bz2", "xz", ""])
def test_a_pyproject_of_endless_length_is_refused_in_time(kind: str) -> None:
    endless, long = padded(kind, 64 << 20), padded(kind, 1 << 19)

    def refused() -> None:
        with pytest.raises(ValueError, match=r"^pyproject.toml is larger than 1 MiB$"):
            needs(endless)

    assert peak(refused) < 24 << 20
    assert needs(long) == ("flit-core>=3",)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_so_is_a_header_of_endless_length(kind: bytes) -> None:
    header = tarfile.TarInfo("long")
    header.type, header.size = kind, 64 << 20
    endless = gzip.compress(header.tobuf() + b"a" * header.size)

    def refused() -> None:
        with pytest.raises(ValueError, match=r"^no archive: "):
            needs(endless)

    assert peak(refused) < 24 << 20


def test_what_comes_before_it_is_passed_over_up_to_a_limit() -> None:
    assert needs(padded("gz", 8 << 20, name="old-1.0/data")) == ("setuptools", "wheel")
    header = tarfile.TarInfo("old-1.0/data")
    header.size = 1 << 40
    with pytest.raises(ValueError, match=r"^no archive: it unpacks to more than 2 GiB$"):
        needs(gzip.compress(header.tobuf()))


TAR = tarred("old-1.0/pyproject.toml")
ZIP = zipped("old-1.0/pyproject.toml")


@given(st.sampled_from([TAR, ZIP]), st.data())
def test_no_damage_makes_it_stumble(raw: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(raw) - 1))
    damaged = raw[:place] + data.draw(st.binary(max_size=3)) + raw[place + 1 :]
    try:
        found = needs(damaged)
    except ValueError:
        return
    assert all(isinstance(need, str) for need in found)
