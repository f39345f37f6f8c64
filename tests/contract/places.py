"""A project with two indexes: the default one, and one of PyTorch's kind, which has files that are not its to serve."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from envlock import config, lock_text, proc
from envlock.app.world import World
from envlock.model import Lock, LockedPackage
from tests.contract.installing import HERE, Told
from tests.servers.index import Index

__all__ = ["NEEDS", "PROFILE", "SECRET", "Place"]

PROFILE = f"""
schema = 1
name = "small"
summary = "a torch of one module, from two places"
python = "{HERE}"
platforms = ["linux-x86_64"]
backends = ["cu128"]
exclude-newer = 2024-06-01T00:00:00Z
requires = ["torch==2.8.0", "alpha"]

[backend.cu128]
pypi-python = ["{HERE}"]
"""
NEEDS = ["nvidia-cublas-cu12==12.8.4.1", "triton==3.4.0"]
SECRET = "s3cret"  # noqa: S105 - of nothing


@dataclass
class Place:
    """A project, the default index and that of the backend, which has files too that are not its to serve."""

    project: Path
    default: Index
    torch: Index
    environ: Mapping[str, str]

    def world(self, resolver: str = "uv", **index: str) -> World:
        urls = {"ENVLOCK_INDEX_PYPI": self.default.url, "ENVLOCK_INDEX_CU128": self.torch.url, **index}
        return World(
            run=proc.run,
            environ=self.environ,
            cwd=self.project,
            now=lambda: datetime.now(timezone.utc),
            clock=time.monotonic,
            reporter=Told(),
            config=config.resolve(flags={"resolver": resolver}, environ=urls, table={}, table_file=None),
        )

    @property
    def text(self) -> str:
        return (self.project / "lockfiles" / "small.lock").read_text(encoding="utf-8")

    @property
    def held(self) -> Lock:
        return lock_text.parse(self.text, "small.lock")

    def package(self, variant: str, name: str) -> LockedPackage:
        (found,) = [one for one in self.held.variants if one.variant.name == variant]
        return next(package for package in found.packages if package.name == name)

    def files(self) -> dict[str, bytes]:
        root = self.project / "lockfiles"
        return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
