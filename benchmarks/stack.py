"""The wheels of one locked variant on disk: the real ones, or a small stand-in for each."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from packaging.pylock import Pylock

from envlock.engines import uv_binary
from envlock.model import LockedVariant
from tests.servers.wheels import make_wheel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Stack:
    """A variant, and the folder that its wheels are kept in."""

    work: Path
    variant: LockedVariant

    def stand_ins(self) -> Path:
        """Make a small wheel for each locked package, asking for what the real one asks for."""
        directory = self.work / "stand-ins"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for package in self.variant.packages:
            asked = sorted(other.name for other in self.variant.packages if package.name in other.why)
            make_wheel(directory, package.name, package.version, requires=asked)
        return directory

    def wheels(self) -> Path:
        """Fetch the locked wheels that are not there yet, from where uv's own default index has them."""
        directory = self.work / "wheels"
        directory.mkdir(exist_ok=True)
        locked = {each.sha256: each.file for package in self.variant.packages for each in package.artifacts}
        missing = {digest for digest, file in locked.items() if not (directory / file).exists()}
        for digest, url in self._addresses().items() if missing else ():
            if digest in missing:
                fetch(url, directory / locked[digest], digest)
        return directory

    def _addresses(self) -> dict[str, str]:
        pins, found = self.work / "pins.txt", self.work / "pylock.toml"
        pins.write_text("\n".join(f"{each.name}=={each.version}" for each in self.variant.packages), encoding="utf-8")
        compile_ = ("pip", "compile", pins, "--no-deps", "--format", "pylock.toml", "-q", "-o", found)
        target = ("--python-version", self.variant.variant.python, "--python-platform", "x86_64-manylinux_2_28")
        subprocess.run([uv_binary.binary(os.environ), "--no-config", *compile_, *target], check=True)
        read = Pylock.from_dict(tomllib.loads(found.read_text(encoding="utf-8")))
        wheels = [wheel for package in read.packages for wheel in package.wheels or ()]
        return {wheel.hashes["sha256"]: wheel.url for wheel in wheels if wheel.url}


def fetch(url: str, path: Path, digest: str) -> None:
    """Download to `path`, or end with both hashes when they differ."""
    partial = path.with_suffix(".partial")
    seen = hashlib.sha256()
    with urllib.request.urlopen(url) as answer, partial.open("wb") as file:  # noqa: S310 - the index named it
        while block := answer.read(1 << 20):
            seen.update(block)
            file.write(block)
    if seen.hexdigest() != digest:
        sys.exit(f"{path.name}: sha256 is {seen.hexdigest()}, the lock says {digest}")
    partial.replace(path)
