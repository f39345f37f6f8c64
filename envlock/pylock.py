"""A locked variant as `pylock.toml` (PEP 751): every file with the address it has today, its hash and its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import tomlkit
from packaging.markers import Marker
from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from tomlkit.items import AoT, Array, InlineTable

from envlock import address
from envlock.index_page import IndexFile
from envlock.model import Artifact, LockedPackage, LockedVariant

__all__ = ["Files", "render"]

Files = Mapping[tuple[str, str], IndexFile]
"""What an index says of a file, by the names of both."""

_VERSION: Final = Version("1.0")


def render(
    locked: LockedVariant, profile: str, files: Files, indexes: Mapping[str, str], *, comments: Sequence[str]
) -> str:
    """Return the text; `indexes` are addresses by name, without a login, and `comments` come first.

    No address in it has a query that opens what it leads to: the hash says which file is meant.
    """
    system, _, machine = locked.variant.platform.partition("-")
    made = Pylock(
        lock_version=_VERSION,
        environments=[Marker(f"sys_platform == '{system}' and platform_machine == '{machine}'")],
        requires_python=SpecifierSet(f"=={locked.variant.python}.*"),
        created_by="envlock",
        packages=[_package(package, files, indexes) for package in locked.packages],
        tool={"envlock": {"profile": profile, "variant": locked.variant.name}},
    )
    return _text(made.to_dict(), comments)


def _package(package: LockedPackage, files: Files, indexes: Mapping[str, str]) -> Package:
    told = {file.file: _told(file, files[file.index, file.file]) for file in package.artifacts}
    wheels = [PackageWheel(**values) for name, values in told.items() if name.endswith(".whl")]
    sdists = [PackageSdist(**values) for name, values in told.items() if not name.endswith(".whl")]
    return Package(
        name=canonicalize_name(package.name),
        version=Version(package.version),
        index=address.without_secrets(indexes[package.artifacts[0].index]),
        sdist=sdists[0] if sdists else None,
        wheels=wheels or None,
    )


def _told(artifact: Artifact, listed: IndexFile) -> dict[str, Any]:
    return {
        "name": artifact.file,
        "upload_time": listed.uploaded,
        "url": address.without_secrets(listed.url),
        "size": listed.size if artifact.size is None else artifact.size,
        "hashes": {"sha256": artifact.sha256},
    }


# ---- TOML ---------------------------------------------------------------------------------------------------------


def _text(values: Mapping[str, Any], comments: Iterable[str]) -> str:
    document = tomlkit.document()
    for comment in comments:
        document.add(tomlkit.comment(comment))
    for key, value in values.items():
        document.add(key, _packages(value) if key == "packages" else value)
    return tomlkit.dumps(document)


def _packages(values: Iterable[Mapping[str, Any]]) -> AoT:
    rows = tomlkit.aot()
    for value in values:
        row = tomlkit.table()
        for key, part in value.items():
            row.add(key, _files(part) if key == "wheels" else _inline(part) if isinstance(part, Mapping) else part)
        rows.append(row)
    return rows


def _files(values: Iterable[Mapping[str, Any]]) -> Array:
    rows = tomlkit.array()
    for value in values:
        rows.append(_inline(value))
    return rows.multiline(multiline=True)


def _inline(value: Mapping[str, Any]) -> InlineTable:
    row = tomlkit.inline_table()
    for key, part in value.items():
        row.append(key, _inline(part) if isinstance(part, Mapping) else part)
    return row
