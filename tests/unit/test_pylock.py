from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timezone

from packaging.pylock import Pylock

from envlock import pylock
from envlock.index_page import IndexFile
from envlock.model import Artifact, Floors, LockedPackage, LockedVariant, Variant

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WHEEL = Artifact(index="cpu", file="torch-2.8.0+cpu-py3-none-any.whl", sha256="1" * 64)
OTHER = Artifact(index="cpu", file="torch-2.8.0+cpu-cp312-cp312-linux_x86_64.whl", sha256="2" * 64, size=7)
SDIST = Artifact(index="pypi", file="gamma-1.0.tar.gz", sha256="3" * 64, size=9)
FILES = {
    ("cpu", WHEEL.file): IndexFile(file=WHEEL.file, url="https://t.example/torch-2.8.0%2Bcpu-py3-none-any.whl", size=5),
    ("cpu", OTHER.file): IndexFile(file=OTHER.file, url="https://t.example/other.whl", size=8),
    ("pypi", SDIST.file): IndexFile(
        file=SDIST.file, url="https://f.example/gamma-1.0.tar.gz", uploaded=datetime(2024, 1, 2, 3, tzinfo=timezone.utc)
    ),
}
INDEXES = {"cpu": "https://t.example/cpu/", "pypi": "https://index.example/simple/"}


def render(files: pylock.Files = FILES) -> str:
    packages = tuple(
        LockedPackage(name=name, version=version, artifacts=artifacts, why=())
        for name, version, artifacts in (("gamma", "1.0", (SDIST,)), ("torch", "2.8.0+cpu", (WHEEL, OTHER)))
    )
    variant = Variant(name="cpu", backend="cpu", source="index", python="3.12", platform="linux-x86_64")
    floors = Floors(driver=None, driver_windows=None, glibc=None, sm=())
    locked = LockedVariant(variant=variant, floors=floors, packages=packages)
    return pylock.render(locked, "small", files, INDEXES, comments=["one", "two"])


def test_no_address_holds_what_opens_it() -> None:
    secret = {key: replace(file, url=f"{file.url}?a=1&X-Amz-Signature=s3cret") for key, file in FILES.items()}
    plain = {key: replace(file, url=f"{file.url}?a=1") for key, file in FILES.items()}
    assert render(secret) == render()
    assert render(plain).count("?a=1") == 3


def test_the_text_is_this() -> None:
    torch = "https://t.example/torch-2.8.0%2Bcpu-py3-none-any.whl"
    assert (
        render()
        == f"""\
# one
# two
lock-version = "1.0"
environments = ["sys_platform == \\"linux\\" and platform_machine == \\"x86_64\\""]
requires-python = "==3.12.*"
created-by = "envlock"

[[packages]]
name = "gamma"
version = "1.0"
index = "https://index.example/simple/"
sdist = {{name = "gamma-1.0.tar.gz", upload-time = 2024-01-02T03:00:00Z, url = "https://f.example/gamma-1.0.tar.gz", \
size = 9, hashes = {{sha256 = "{"3" * 64}"}}}}

[[packages]]
name = "torch"
version = "2.8.0+cpu"
index = "https://t.example/cpu/"
wheels = [
    {{name = "{WHEEL.file}", url = "{torch}", size = 5, hashes = {{sha256 = "{"1" * 64}"}}}},
    {{name = "{OTHER.file}", url = "https://t.example/other.whl", size = 7, hashes = {{sha256 = "{"2" * 64}"}}}},
]

[tool.envlock]
profile = "small"
variant = "cpu"
"""
    )


def test_it_is_read_back_as_it_was() -> None:
    read = Pylock.from_dict(tomllib.loads(render()))
    read.validate()
    assert [package.name for package in read.packages] == ["gamma", "torch"]
    assert read.to_dict() == tomllib.loads(render())
