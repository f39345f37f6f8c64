"""What a source distribution says it needs to be built."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from typing import Final

from packaging.requirements import Requirement

from envlock import lines

__all__ = ["build_requires"]

# PEP 517 lets setuptools build what says nothing; before 70.1 setuptools needed wheel for that.
_LEGACY: Final = ("setuptools", "wheel")
# What zipfile and tarfile raise for bytes that were damaged, or that need what this Python was built without.
_DAMAGED: Final = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, LookupError)


def build_requires(raw: bytes) -> tuple[str, ...]:
    """Return the requirements in its `[build-system]`, or setuptools and wheel where it has none.

    `ValueError` for bytes that are no archive, or a pyproject.toml that breaks PEP 518.
    """
    try:
        text = _pyproject(raw)
    except _DAMAGED as error:
        raise ValueError(f"no archive: {error}") from error
    document = lines.load(text or "")
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


def _pyproject(raw: bytes) -> str | None:
    """Return the pyproject.toml in the archive's one top folder, None if it holds none."""
    if zipfile.is_zipfile(io.BytesIO(raw)):
        with zipfile.ZipFile(io.BytesIO(raw)) as zipped:
            found = next((name for name in zipped.namelist() if _is_top(name)), None)
            return zipped.read(found).decode() if found else None
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        member = next((one for one in archive if one.isfile() and _is_top(one.name)), None)
        content = archive.extractfile(member) if member else None
        return content.read().decode() if content else None


def _is_top(name: str) -> bool:
    parts = name.removeprefix("./").split("/")
    return parts[1:] == ["pyproject.toml"]
