from __future__ import annotations

import io
import re
import tarfile
import zipfile
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


def test_without_a_pyproject_setuptools_builds(tmp_path: Path) -> None:
    raw = make_sdist(tmp_path, "old", "1.0", build_requires=None).read_bytes()
    assert sdist.build_requires(raw) == ("setuptools", "wheel")


@pytest.mark.parametrize(
    ("pyproject", "needs"),
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
def test_its_build_system_says_what_it_needs(pyproject: str, needs: tuple[str, ...], tmp_path: Path) -> None:
    assert sdist.build_requires(made(tmp_path, pyproject)) == needs


def test_a_zip_is_read_too_and_only_its_top_folder_counts() -> None:
    assert sdist.build_requires(zipped("old-1.0/pyproject.toml")) == ("flit-core>=3",)
    assert sdist.build_requires(zipped("old-1.0/tests/pyproject.toml")) == ("setuptools", "wheel")


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
        sdist.build_requires(made(tmp_path, pyproject))


@pytest.mark.parametrize(
    "raw",
    [b"", b"not an archive", b"\x1f\x8b\x08\x00", zipped("old-1.0/pyproject.toml").replace(b"PK\x01\x02", b"PK\0\0")],
)
def test_what_is_no_archive_is_said(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"^no archive: "):
        sdist.build_requires(raw)


TAR = tarred("old-1.0/pyproject.toml")
ZIP = zipped("old-1.0/pyproject.toml")


@given(st.sampled_from([TAR, ZIP]), st.data())
def test_no_damage_makes_it_stumble(raw: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(raw) - 1))
    damaged = raw[:place] + data.draw(st.binary(max_size=3)) + raw[place + 1 :]
    try:
        needs = sdist.build_requires(damaged)
    except ValueError:
        return
    assert all(isinstance(need, str) for need in needs)
