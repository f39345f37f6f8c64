"""Measure envlock as ratios against the tool it drives, or against a copy of the same bytes, all in one run.

`python -m benchmarks.run [NAME …]` runs every benchmark, or the named ones, `--repeat` rounds each, in turn A B A B;
the medians are compared. `install` and `verify` need a real stack of 5 to 7 GB: its wheels are fetched once into
`--work` and served from the loopback, so that no network is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mirror import Mirror
from benchmarks.stack import Stack
from envlock import interpreters, lock, proc, profile, request
from envlock.engines import uv_binary, uv_index
from envlock.model import LockedVariant
from tests.servers.index import Index
from tests.servers.torch_index import TorchIndex

REPOSITORY = Path(__file__).resolve().parent.parent
PROFILE = "gemma-qlora"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
AWAY = 0.02  # seconds that an index takes to answer where it is not on the loopback


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the result: medians in seconds; `goal` is a ratio, or seconds where nothing is compared."""

    name: str
    seconds: float
    baseline: float | None
    goal: float

    def __str__(self) -> str:
        if self.baseline is None:
            return f"{self.name:24} {self.seconds:8.3f} s {'':21} goal {self.goal:g} s"
        ratio = self.seconds / self.baseline
        return f"{self.name:24} {self.seconds:8.3f} s / {self.baseline:8.3f} s = {ratio:5.2f}  goal {self.goal:g}"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where the work is done, and how often each thing is measured."""

    work: Path
    repeat: int
    variant: LockedVariant

    def environ(self, **more: str) -> dict[str, str]:
        ambient = ("UV_", "PIP_", "ENVLOCK_")
        # Installed programs find their bytecode; a checkout without it would be compiled at each start.
        without = {"PYTHONDONTWRITEBYTECODE"}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(ambient) and key not in without}
        return kept | {"PIP_CONFIG_FILE": os.devnull, "PYTHONPATH": str(REPOSITORY)} | more

    def interpreter(self, version: str) -> Path:
        """Return the interpreter that envlock takes for a version, so that uv does not have to look for one."""
        found = interpreters.choose_for(version, interpreters.find(run=proc.run, environ=os.environ))
        if found is None:
            sys.exit(f"no Python {version} here")
        return found.path

    def place(self, name: str) -> Path:
        """Return an empty folder of that name."""
        place = self.work / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def median(self, action: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
        return statistics.median(timed(action, before) for _ in range(self.repeat))

    def paired(
        self, ours: Callable[[], object], theirs: Callable[[], object], before: Callable[[], object]
    ) -> tuple[float, float]:
        """Run both in turn, `before` each untimed, so that a machine that slows down slows both."""
        rounds = [(timed(ours, before), timed(theirs, before)) for _ in range(self.repeat)]
        return statistics.median(mine for mine, _ in rounds), statistics.median(plain for _, plain in rounds)


def timed(action: Callable[[], object], before: Callable[[], object]) -> float:
    """Return the seconds it took, without those that the action says (as a float) to have spent on something else."""
    before()
    start = time.perf_counter()
    other = action()
    return time.perf_counter() - start - (other if isinstance(other, float) else 0.0)


def call(*argv: str | Path, env: dict[str, str], cwd: Path) -> str:
    """Run a program to its end and return its output; one that fails ends the benchmark with its own words."""
    words = [str(part) for part in argv]
    done = subprocess.run(words, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def envlock(*arguments: str, env: dict[str, str], cwd: Path) -> str:
    return call(sys.executable, "-m", "envlock", *arguments, env=env, cwd=cwd)


def uv(*arguments: str | Path, env: dict[str, str], cwd: Path) -> None:
    call(uv_binary.binary(os.environ), "--no-config", *arguments, env=env, cwd=cwd)


def resolve(bench: Bench) -> list[Row]:
    """Lock as many packages as the real stack has, for one Python and for four, against plain uv's `--generate-hashes`.

    The packages are small stand-ins on the loopback: what is measured is what envlock adds to uv's own work.
    """
    with Index(Stack(bench.work, bench.variant).stand_ins()) as index:
        return [_resolve(bench, pythons, index.url) for pythons in ((bench.variant.variant.python,), PYTHONS)]


def resolve_mirrored(bench: Bench) -> list[Row]:
    """Do the same with the real packages, from a mirror of uv's own default index that is some milliseconds away."""
    with Mirror(uv_index.default(proc.run, os.environ), latency=AWAY) as mirror:
        one = (bench.variant.variant.python,)
        return [_resolve(bench, pythons, mirror.url, f"{AWAY * 1000:.0f} ms away") for pythons in (one, PYTHONS)]


def _resolve(bench: Bench, pythons: tuple[str, ...], index: str, where: str = "loopback") -> Row:
    place = bench.place("resolve")
    roots = [f"{package.name}=={package.version}" for package in bench.variant.packages if "profile" in package.why]
    (place / "profiles").mkdir()
    (place / "profiles" / "stand-in.toml").write_text(
        'schema = 1\nname = "stand-in"\nsummary = "as many packages as the real one"\n'
        f'python = "{pythons[0]}"\nplatforms = ["linux-x86_64"]\nbackends = ["cpu"]\nrequires = {json.dumps(roots)}\n'
        f"[backend.cpu]\npython = []\npypi-python = {json.dumps(pythons)}\n",
        encoding="utf-8",
    )
    (place / "in.txt").write_text("\n".join(roots), encoding="utf-8")
    env = bench.environ(UV_CACHE_DIR=str(place / "cache"), ENVLOCK_INDEX_PYPI=index)
    common = ("pip", "compile", "in.txt", "--generate-hashes", "-q", "--default-index", index)
    targets = {version: ("--python", bench.interpreter(version), "-o", f"{version}.txt") for version in pythons}

    def emptied() -> None:
        shutil.rmtree(place / "cache", ignore_errors=True)
        shutil.rmtree(place / "lockfiles", ignore_errors=True)
        for version in pythons:
            (place / f"{version}.txt").unlink(missing_ok=True)

    def theirs() -> None:
        for target in targets.values():
            uv(*common, *target, "--python-platform", "x86_64-manylinux_2_28", env=env, cwd=place)

    theirs()  # a mirror has everything then
    mine, plain = bench.paired(lambda: envlock("lock", "stand-in", env=env, cwd=place), theirs, emptied)
    return Row(name=f"resolve {len(pythons)}, {where}", seconds=mine, baseline=plain, goal=1.2)


def lock_all(bench: Bench) -> list[Row]:
    """Lock every variant of the profile with an empty cache, against one such run of plain uv for the largest of them.

    The PyTorch indexes are replayed on the loopback; the pages of uv's own default index come through a mirror there,
    which has them all before the first round.
    """
    place = bench.place("lock-all")
    shutil.copytree(REPOSITORY / "profiles", place / "profiles")
    file = place / "profiles" / f"{PROFILE}.toml"
    wanted = profile.parse(file.read_text(encoding="utf-8"), str(file))
    held = lock.parse((REPOSITORY / "lockfiles" / f"{PROFILE}.lock").read_text(encoding="utf-8"), f"{PROFILE}.lock")
    plain = [each for each in held.variants if each.variant.source == "pypi"]
    largest = max(plain, key=lambda each: len(each.packages)).variant
    spec = request.spec_of(wanted, largest.backend)
    (place / "in.txt").write_text("\n".join(spec.requires), encoding="utf-8")
    date = ("--exclude-newer", request.snapshot(spec.exclude_newer)) if spec.exclude_newer else ()
    target = ("--python", bench.interpreter(largest.python), "--python-platform", "x86_64-manylinux_2_28", *date)

    def emptied() -> None:
        shutil.rmtree(place / "cache", ignore_errors=True)
        shutil.rmtree(place / "lockfiles", ignore_errors=True)
        (place / "out.txt").unlink(missing_ok=True)

    with TorchIndex() as torch, Mirror(uv_index.default(proc.run, os.environ), latency=AWAY) as mirror:
        named = {spec.name: torch.url(spec.name) for spec in wanted.backends}
        env = bench.environ(
            UV_CACHE_DIR=str(place / "cache"),
            UV_DEFAULT_INDEX=mirror.url,
            **{f"ENVLOCK_INDEX_{name.upper()}": url for name, url in named.items()},
        )

        def theirs() -> None:
            uv("pip", "compile", "in.txt", "--generate-hashes", "-q", "-o", "out.txt", *target, env=env, cwd=place)

        envlock("lock", PROFILE, "--no-conda", env=env, cwd=place)
        mine, one = bench.paired(lambda: envlock("lock", PROFILE, "--no-conda", env=env, cwd=place), theirs, emptied)
        rows = [
            Row(name=f"lock all {len(held.variants)}, {AWAY * 1000:.0f} ms away", seconds=mine, baseline=one, goal=1.5)
        ]
        current = bench.median(lambda: envlock("lock", PROFILE, "--check", env=env, cwd=place))
        return [*rows, Row(name="lock --check", seconds=current, baseline=None, goal=0.5)]


def install(bench: Bench) -> list[Row]:
    """Install the real stack, against `uv pip sync --require-hashes` of the same file.

    Left out is the hashing of what was installed: `verify` measures that against sha256sum.
    """
    place = bench.place("install")
    cache = place / "cache"
    (place / "requirements.txt").write_text(lock.requirements(bench.variant, PROFILE), encoding="utf-8")
    backend, python = bench.variant.variant.backend, bench.variant.variant.python
    interpreter = bench.interpreter(python)
    asked = ("install", PROFILE, "--backend", backend, "--python", python, "--path", "ours")

    def cleared() -> None:
        (place / "ours").unlink(missing_ok=True)
        shutil.rmtree(place / "ours.envlock", ignore_errors=True)
        shutil.rmtree(place / "theirs", ignore_errors=True)

    def cold() -> None:
        cleared()
        shutil.rmtree(cache, ignore_errors=True)

    with Index(Stack(bench.work, bench.variant).wheels()) as index:
        # Nobody answers at the index of the backend: PyPI's own build is what both install.
        own = f"ENVLOCK_INDEX_{backend.upper()}"
        env = bench.environ(UV_CACHE_DIR=str(cache), ENVLOCK_INDEX_PYPI=index.url, **{own: "http://127.0.0.1:9/"})

        def ours() -> float:
            """Return the seconds that went into hashing what was installed, which uv does not do."""
            answer = json.loads(envlock(*asked, "--no-verify", "--json", env=env, cwd=place))
            return float(answer["result"]["seconds"]["verify"])

        def theirs() -> None:
            uv("venv", "-q", "--python", interpreter, "theirs", env=env, cwd=place)
            sync = ("pip", "sync", "-q", "--require-hashes", "requirements.txt", "--default-index", index.url)
            uv(*sync, "--python", "theirs/bin/python", env=env, cwd=place)

        rows = []
        for name, before, goal in (("cold", cold, 1.05), ("warm", cleared, 1.1)):
            mine, plain = bench.paired(ours, theirs, before)
            rows.append(Row(name=f"install, {name}", seconds=mine, baseline=plain, goal=goal))
        timed(ours, cleared)
        again = bench.median(lambda: envlock(*asked, "--no-verify", env=env, cwd=place))
        rows.append(Row(name="install again", seconds=again, baseline=None, goal=1.0))
        return rows + verify(bench, place, env)


def verify(bench: Bench, place: Path, env: dict[str, str]) -> list[Row]:
    """Hash every file of the stack, against `sha256sum` of the same files; then look again, when all are known."""
    generation = (place / "ours").resolve()
    files = [path for path in generation.rglob("*") if path.is_file() and not path.is_symlink()]
    (place / "files").write_bytes(b"\0".join(os.fsencode(path) for path in files))
    record = ("verify", "ours", "--only", "integrity")

    def ours() -> None:
        envlock(*record, "--deep", env=env, cwd=place)

    def theirs() -> None:
        call("sh", "-c", "xargs -0 sha256sum <files >sums", env=env, cwd=place)

    mine, plain = bench.paired(ours, theirs, lambda: None)
    known = bench.median(lambda: envlock(*record, env=env, cwd=place))
    quick = bench.median(lambda: envlock("verify", "ours", "--level", "quick", env=env, cwd=place))
    return [
        Row(name="hash every file", seconds=mine, baseline=plain, goal=1.3),
        Row(name="hash, all known", seconds=known, baseline=None, goal=1.0),
        Row(name="verify --level quick", seconds=quick, baseline=None, goal=1.0),
    ]


def start(bench: Bench) -> list[Row]:
    """Start the command: whole processes, as a shell sees them."""
    place = bench.place("start")
    env = bench.environ()
    machines = json.loads((REPOSITORY / "tests" / "data" / "hosts.json").read_text(encoding="utf-8"))
    (place / "host.json").write_text(json.dumps(machines[0]["host"]), encoding="utf-8")
    return [
        Row(
            name="--help", seconds=bench.median(lambda: envlock("--help", env=env, cwd=place)), baseline=None, goal=0.15
        ),
        Row(
            name="plan --host",
            seconds=bench.median(lambda: envlock("plan", PROFILE, "--host", "host.json", env=env, cwd=place)),
            baseline=None,
            goal=0.3,
        ),
    ]


BENCHMARKS: dict[str, Callable[[Bench], list[Row]]] = {
    "start": start,
    "resolve": resolve,
    "resolve-mirrored": resolve_mirrored,
    "lock-all": lock_all,
    "install": install,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--variant", default="cpu-py312-pypi", help=f"a locked variant of {PROFILE}")
    parser.add_argument("--work", type=Path, default=REPOSITORY / ".envlock" / "benchmarks")
    given = parser.parse_args()
    path = REPOSITORY / "lockfiles" / f"{PROFILE}.lock"
    variants = {each.variant.name: each for each in lock.parse(path.read_text(encoding="utf-8"), str(path)).variants}
    given.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(work=given.work.resolve(), repeat=given.repeat, variant=variants[given.variant])
    print(f"{given.variant}, {len(bench.variant.packages)} packages, {given.repeat} rounds, medians")
    for name in given.names or BENCHMARKS:
        for row in BENCHMARKS[name](bench):
            print(row, flush=True)


if __name__ == "__main__":
    main()
