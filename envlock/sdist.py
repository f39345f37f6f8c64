"""What a source distribution says it needs to be built, read without trust: none unpacks to more than is looked at."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import IO, Any, Final, cast

from packaging.requirements import Requirement

from envlock import lines

__all__ = ["build_requires"]

# PEP 517 lets setuptools build what says nothing; before 70.1 setuptools needed wheel for that.
_LEGACY: Final = ("setuptools", "wheel")
# What zipfile and tarfile raise for bytes that were damaged, or that need what this Python was built without.
_DAMAGED: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, OSError, RuntimeError, LookupError),
)
_PACKED: Final[Mapping[bytes, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZ": bz2.open,
    b"\xfd7": lzma.open,
}

# Bytes, unpacked.
_PYPROJECT: Final = 1 << 20
_UNPACKED: Final = 1 << 31


def build_requires(raw: IO[bytes]) -> tuple[str, ...]:
    """Return the requirements in its `[build-system]`, or setuptools and wheel where it has none.

    `raw` is the archive, at its start. `ValueError` for bytes that are no archive, or one that unpacks to more than
    2 GiB, or a pyproject.toml of more than 1 MiB or that breaks PEP 518.
    """
    try:
        content = _pyproject(raw)
    except _DAMAGED as error:
        raise ValueError(f"no archive: {error}") from error
    if len(content) > _PYPROJECT:
        raise ValueError(f"pyproject.toml is larger than {_PYPROJECT >> 20} MiB")
    document = lines.load(content.decode())
    if isinstance(document, lines.Fault):
        raise ValueError(f"pyproject.toml is not TOML: {document.message}")  # noqa: TRY004 - the value is wrong
    table = document.get("build-system") or {}
    if not isinstance(table, dict):
        raise ValueError("build-system is not a table")  # noqa: TRY004
    if not table:
        return _LEGACY
    requires = table.get("requires")
    if not isinstance(requires, list) or not all(isinstance(one, str) for one in requires):
        raise ValueError("build-system.requires is not a list of texts")
    for one in requires:
        Requirement(one)
    legacy = str(table.get("build-backend", "setuptools")).partition(".")[0] == "setuptools"
    return (*requires, *(_LEGACY if legacy else ()))


class _Frugal:
    """A tar archive as tarfile reads it: nothing that it takes at once, a header of names say, is beyond reason."""

    def __init__(self, content: IO[bytes]) -> None:
        self._content = content
        self.seek, self.tell = content.seek, content.tell

    def read(self, size: int) -> bytes:
        """Return that many bytes; fewer at the end."""
        if size > _PYPROJECT + 1:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return self._content.read(size)


def _pyproject(raw: IO[bytes]) -> bytes:
    """Return the start of the pyproject.toml in the archive's one top folder, a byte more than is allowed at most."""
    if zipfile.is_zipfile(raw):
        with zipfile.ZipFile(raw) as zipped:
            found = next((name for name in zipped.namelist() if _is_top(name)), None)
            if found is None:
                return b""
            with zipped.open(found) as content:
                return content.read(_PYPROJECT + 1)
    raw.seek(0)
    begin = raw.read(2)
    raw.seek(0)
    unpacked: IO[bytes] = _PACKED[begin](raw) if begin in _PACKED else raw
    with tarfile.open(fileobj=cast("IO[bytes]", _Frugal(unpacked)), mode="r:") as archive:
        return _member(archive)


def _member(archive: tarfile.TarFile) -> bytes:
    for one in archive:
        if one.isfile() and _is_top(one.name):
            content = archive.extractfile(one)
            return content.read(_PYPROJECT + 1) if content else b""
        if one.offset_data + one.size > _UNPACKED:
            raise tarfile.ReadError(f"it unpacks to more than {_UNPACKED >> 30} GiB")
    return b""


def _is_top(name: str) -> bool:
    parts = name.removeprefix("./").split("/")
    return parts[1:] == ["pyproject.toml"]
