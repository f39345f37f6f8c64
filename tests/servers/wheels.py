"""Make real, small distributions: the same arguments give the same bytes, on every machine and every day.

Nothing is compressed: two releases of zlib may pack the same bytes differently.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["make_sdist", "make_wheel"]

Contents = Mapping[str, "str | bytes"]

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time a zip file can hold."""


BACKEND = """\
import importlib
import pathlib
import zipfile

for module in {modules!r}:
    importlib.import_module(module)


def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "{stem}-py3-none-any.whl"
    info = "{stem}.dist-info/"
    with zipfile.ZipFile(pathlib.Path(directory, name), "w", strict_timestamps=False) as archive:
        archive.write("{module}.py")
        archive.write("PKG-INFO", info + "METADATA")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        record = "".join(line + ",,\\n" for line in [*archive.namelist(), info + "RECORD"])
        archive.writestr(info + "RECORD", record)
    return name
"""


def make_wheel(
    directory: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    files: Contents | None = None,
    tag: str = "py3-none-any",
    requires_python: str | None = None,
) -> Path:
    """Write a wheel and return its path; without `files` it holds one module that knows its version.

    METADATA among the `files` stands in place of what is made of the other arguments.
    """
    stem = f"{_escaped(name)}-{version}"
    info = f"{stem}.dist-info"
    contents: dict[str, str | bytes] = dict(files or {f"{_escaped(name)}.py": f"__version__ = {version!r}\n"})
    contents.setdefault(f"{info}/METADATA", _metadata(name, version, requires, requires_python))
    tags = "".join(f"Tag: {one}\n" for one in _expanded(tag))
    pure = str(tag.endswith("-none-any")).lower()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: envlock-tests\nRoot-Is-Purelib: {pure}\n{tags}"
    contents[f"{info}/RECORD"] = _record(contents, info)
    path = directory / f"{stem}-{tag}.whl"
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for place, content in contents.items():
            member = zipfile.ZipInfo(place, EPOCH)
            member.external_attr = (0o100755 if ".data/scripts/" in place else 0o100644) << 16
            archive.writestr(member, content, zipfile.ZIP_STORED)
    return path


def make_sdist(
    directory: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    build_requires: Sequence[str] | None = ("setuptools",),
    files: Contents | None = None,
) -> Path:
    """Write a source distribution and return its path; `files` are added, or stand in place of what is there.

    Its build backend lies within it, is the standard library's only, and imports each of `build_requires`: a build
    succeeds where those are installed and nowhere else. `build_requires=None` leaves pyproject.toml out, so that
    whoever builds it must bring setuptools (and wheel) to run its `setup.py`.
    """
    module = _escaped(name)
    stem = f"{module}-{version}"
    contents: dict[str, str | bytes] = {
        "PKG-INFO": _metadata(name, version, requires, None),
        f"{module}.py": f"__version__ = {version!r}\n",
    }
    if build_requires is None:
        contents["setup.py"] = (
            "from setuptools import setup\n\n"
            f"setup(name={name!r}, version={version!r}, py_modules=[{module!r}], install_requires={list(requires)!r})\n"
        )
    else:
        wanted = ", ".join(f'"{one}"' for one in build_requires)
        contents["pyproject.toml"] = (
            f'[build-system]\nrequires = [{wanted}]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        )
        modules = [_escaped(Requirement(one).name) for one in build_requires]
        contents["backend.py"] = BACKEND.format(modules=modules, module=module, stem=stem)
    contents |= files or {}
    path = directory / f"{stem}.tar.gz"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_gzipped(_tarred({f"{stem}/{place}": content for place, content in contents.items()})))
    return path


def _escaped(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _expanded(tag: str) -> list[str]:
    pythons, abis, platforms = tag.split("-")
    return [
        f"{python}-{abi}-{platform}"
        for python in pythons.split(".")
        for abi in abis.split(".")
        for platform in platforms.split(".")
    ]


def _metadata(name: str, version: str, requires: Sequence[str], requires_python: str | None) -> str:
    lines = ["Metadata-Version: 2.2", f"Name: {name}", f"Version: {version}"]
    extras = {extra for one in requires for extra in re.findall(r"""extra == ["']([a-z]+)["']""", one)}
    lines += [f"Provides-Extra: {extra}" for extra in sorted(extras)]
    lines += [f"Requires-Python: {requires_python}"] if requires_python else []
    lines += [f"Requires-Dist: {one}" for one in requires]
    return "\n".join(lines) + "\n"


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _record(contents: Contents, info: str) -> str:
    lines = []
    for place, content in contents.items():
        raw = _bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
        lines.append(f"{place},sha256={digest},{len(raw)}")
    return "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"


def _tarred(contents: Contents) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for place, content in contents.items():
            raw = _bytes(content)
            member = tarfile.TarInfo(place)
            member.size = len(raw)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(raw))
    return buffer.getvalue()


def _gzipped(raw: bytes) -> bytes:
    """Wrap with a header that names no time."""
    packer = zlib.compressobj(0, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(raw) + packer.flush()
