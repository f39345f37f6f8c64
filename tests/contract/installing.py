"""What the install tests share: a small lock over real wheels, and one install, in this process or in another."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from envlock import config, proc
from envlock.app import placement
from envlock.app.world import World
from envlock.env import Tools
from envlock.errors import EnvlockError
from envlock.model import (
    Artifact,
    Caution,
    Check,
    Floors,
    HostFacts,
    Installed,
    Level,
    LockedPackage,
    LockedVariant,
    Variant,
    Verdict,
    Verified,
)

__all__ = ["HERE", "Install", "locked", "package"]

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
ROOT = Path(__file__).resolve().parents[2]


def package(*files: Path) -> LockedPackage:
    """Lock these files of one release."""
    first = files[0].name
    parse = parse_wheel_filename if first.endswith(".whl") else parse_sdist_filename
    name, version = parse(first)[:2]
    artifacts = tuple(
        Artifact(
            index="pypi", file=file.name, sha256=hashlib.sha256(file.read_bytes()).hexdigest(), size=file.stat().st_size
        )
        for file in files
    )
    return LockedPackage(name=canonicalize_name(name), version=str(version), artifacts=artifacts, why=("profile",))


def locked(
    packages: Sequence[LockedPackage], *, build: Sequence[LockedPackage] = (), python: str = HERE
) -> LockedVariant:
    """Lock these packages as the `cpu-pypi` variant."""
    variant = Variant(name="cpu-pypi", backend="cpu", source="pypi", python=python, platform="linux-x86_64")
    floors = Floors(driver=None, driver_windows=None, glibc=None, sm=())
    return LockedVariant(variant=variant, floors=floors, packages=tuple(packages), build=tuple(build))


@dataclass(slots=True)
class Told:
    """A reporter that remembers."""

    stages: list[str] = field(default_factory=list)
    warnings: list[Caution] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def warn(self, caution: Caution) -> None:
        self.warnings.append(caution)

    def log(self, text: str) -> None:
        self.details.append(text)


@dataclass(slots=True, kw_only=True)
class Install:
    """One install of `variant` at `path`. `verdict` is what a stand-in for the verification says; None skips it."""

    path: Path
    variant: LockedVariant
    environ: Mapping[str, str]
    index: str | None
    python: Path = Path(sys.executable)
    offline: bool = False
    verdict: Verdict | None = "verified-on-cpu"
    told: Told = field(default_factory=Told)
    levels: list[Level] = field(default_factory=list)

    def run(self) -> Installed:
        """Do it here."""
        world = World(
            run=proc.run,
            environ=self.environ,
            cwd=self.path.parent,
            now=lambda: datetime.now(timezone.utc),
            clock=time.monotonic,
            reporter=self.told,
            config=config.resolve(flags={}, environ={}, table={}, table_file=None),
        )
        wanted = placement.Wanted(
            path=self.path,
            profile="small",
            locked=self.variant,
            host=HostFacts(glibc="2.35"),
            python=lambda: self.python,
            prove=self._prove if self.verdict else None,
        )
        tools = Tools(
            run=proc.run,
            environ=self.environ,
            indexes={"pypi": self.index} if self.index else {},
            offline=self.offline,
            stage=self.told.stage,
            log=self.told.log,
            hashes=Path(self.environ["XDG_CACHE_HOME"]) / "hashes",
        )
        return placement.put(world, wanted, tools)

    def start(self, *around: str | Path) -> subprocess.Popen[str]:
        """Do it in a process of its own, started by `around`; it prints the generation, or the code of the error."""
        order = pickle.dumps(self)
        environ = {**self.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(
            [*around, sys.executable, "-m", "tests.contract.installing", order.hex()],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _prove(self, root: Path, level: Level) -> Verified:
        assert self.verdict is not None
        self.levels.append(level)
        failed = self.verdict == "failed"
        check = Check(id="kernels.nf4", status="fail" if failed else "pass", message="off by 1" if failed else None)
        return Verified(
            path=str(root),
            profile="small",
            variant="cpu-pypi",
            level=level,
            device="cpu",
            verdict=self.verdict,
            checks=(check,),
        )


def main(order: str) -> None:
    """Run the install that `Install.start` packed, and say how it went."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    install: Install = pickle.loads(bytes.fromhex(order))  # noqa: S301 - the test's own bytes
    try:
        sys.stdout.write(f"{install.run().generation}\n")
    except EnvlockError as error:
        sys.stdout.write(f"{error.code}: {error.message}\n")


if __name__ == "__main__":
    main(sys.argv[1])
