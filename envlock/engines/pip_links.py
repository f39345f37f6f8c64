"""A folder for pip that stands for the named indexes: of each file its METADATA, as a wheel that holds nothing else.

pip may not be given a second index: it would take from it whatever has the higher version there. A folder offers only
what lies in it, has no upload times to miss, and saves the download of gigabytes whose METADATA is all that counts.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from envlock import index, lock
from envlock.errors import Problem, Refused
from envlock.index import Index
from envlock.index_page import IndexFile, release
from envlock.request import Resolution, pin

__all__ = ["FOLDER", "offer"]

FOLDER: Final = "links"


def offer(asked: Resolution, where: Mapping[str, str], environ: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Fill the folder, and return name -> version of what lies in it, with its local label.

    Raise `Refused` (`pin-missing`) for a package whose version the profile leaves open, (`unsatisfiable`) where the
    index has no wheel of the pinned one that fits, and what `index.files` and `index.metadata` raise.
    """
    folder = scratch / FOLDER
    folder.mkdir()
    fixed = {}
    for name, source in asked.indexes.items():
        place = Index(name=source, url=where[source])
        file = _pinned(name, asked, place, environ)
        content = (
            index.metadata(file, place, environ=environ) if file.metadata else _inside(file, place, environ, scratch)
        )
        _write(folder / file.file, content)
        fixed[name] = str(parse_wheel_filename(file.file)[1])
    return fixed


def _pinned(name: str, asked: Resolution, place: Index, environ: Mapping[str, str]) -> IndexFile:
    wanted = pin(asked, name)
    if wanted is None:
        message = f"pip-tools takes `{name}` from the index `{place.name}` in one version only, and none is pinned"
        raise Refused(message, code="pin-missing", hint="envlock lock PROFILE --resolver uv")
    listed = index.files(name, place, environ=environ)
    found = [
        file for file in listed if _is_of(file, Version(wanted)) and lock.fits(file.file, asked.python, asked.platform)
    ]
    if not found:
        problem = Problem(message=f"{name} {wanted} has no wheel for Python {asked.python} there")
        message = f"the index `{place.name}` does not have what is asked of it"
        raise Refused(message, code="unsatisfiable", problems=(problem,))
    return max(found, key=lambda file: (parse_wheel_filename(file.file)[1], file.file))


def _is_of(file: IndexFile, wanted: Version) -> bool:
    """Say whether a wheel is of the pinned version; a pin without a local label takes any, as PEP 440 says."""
    found = release(file.file) if file.file.endswith(".whl") else None
    return found is not None and wanted in {found[1], Version(found[1].public)}


def _inside(file: IndexFile, place: Index, environ: Mapping[str, str], scratch: Path) -> bytes:
    """Return the METADATA of a file that has none beside it: the whole of it is fetched."""
    known = index.hashed(file, place, environ=environ)
    whole = scratch / file.file
    index.download(known, place, whole, sha256=str(known.sha256), environ=environ)
    try:
        with zipfile.ZipFile(whole) as wheel:
            (name,) = (one for one in wheel.namelist() if one.count("/") == 1 and one.endswith(".dist-info/METADATA"))
            return wheel.read(name)
    except (zipfile.BadZipFile, ValueError) as error:
        message = f"`{file.file}` on the index `{place.name}` is no wheel"
        raise Refused(message, code="artifact-invalid", hint="envlock detect -v") from error
    finally:
        whole.unlink()


def _write(path: Path, metadata: bytes) -> None:
    name, version, *_ = path.name.split("-")
    info = f"{name}-{version}.dist-info"
    tag = "-".join(path.stem.split("-")[-3:])
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
