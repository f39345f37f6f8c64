from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from envlock import sdist
from tests.servers.wheels import make_sdist


def made(tmp_path: Path, pyproject: str) -> bytes:
    return make_sdist(tmp_path, "old", "1.0", files={"pyproject.toml": pyproject}).read_bytes()


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(
                name, '[build-system]\nrequires = ["flit-core>=3"]\nbuild-backend = "flit_core.buildapi"\n'
            )
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
    "pyproject",
    [
        "[build-system\n",
        '[build-system]\nrequires = "setuptools"\n',
        "[build-system]\nx = 1\n",
        '[build-system]\nrequires = ["=1"]\n',
    ],
)
def test_a_broken_pyproject_is_said(pyproject: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"requires|Expected"):
        sdist.build_requires(made(tmp_path, pyproject))


@pytest.mark.parametrize("raw", [b"", b"not an archive", b"\x1f\x8b\x08\x00"])
def test_what_is_no_archive_is_said(raw: bytes) -> None:
    with pytest.raises(ValueError, match="no archive"):
        sdist.build_requires(raw)
