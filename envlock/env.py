"""Build one generation of an environment with uv: an interpreter, its launcher, and every file from the lock.

Packages that come as source only are built first, in a scratch environment that holds the locked build requirements
and nothing else. uv keeps the wheel in its own cache under a key that names those requirements, so the environment
takes that wheel and no other, also the next time and without a network.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from envlock import frame, integrity, lock
from envlock.engines import leash, uv_binary, uv_failures
from envlock.errors import Problem, Refused, WorldFailed
from envlock.integrity import Integrity
from envlock.model import Artifact, LockedPackage, LockedVariant
from envlock.proc import Command, Completed, Runner
from envlock.request import ROOT, Resolution, pyproject

__all__ = [
    "Build",
    "Built",
    "Tools",
    "artifacts",
    "build",
    "build_wheels",
    "digest",
    "fetch_python",
    "interpreter",
    "packages",
]

_SCRATCH: Final = ".build"
_SALT: Final = "ENVLOCK_BUILD_REQUIREMENTS"
_INSTALLED: Final = re.compile(r"^Installed \d+ packages? in (?P<span>.+)$", re.MULTILINE)
_SPAN: Final = re.compile(r"(?P<number>[\d.]+)(?P<unit>ms|s|m)")
_SHOWN_BYTES: Final = 100_000_000  # a smaller download is over before its size is read
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What building touches: processes, their environment, the indexes' addresses and whether there is a network.

    `stage` is told each step in words; `hashes` is the file that remembers what has been hashed.
    """

    run: Runner
    environ: Mapping[str, str]
    indexes: Mapping[str, str]
    offline: bool
    stage: Callable[[str], None]
    log: Callable[[str], None]
    hashes: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What to build and where: `root` is an empty folder, `python` the interpreter it starts from."""

    root: Path
    python: Path
    prompt: str
    profile: str
    locked: LockedVariant
    glibc: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What it took, in seconds, and what every file's hash said in the end."""

    download: float
    install: float
    hashing: float
    integrity: Integrity


# ---- what is wanted -----------------------------------------------------------------------------------------------


def digest(locked: LockedVariant) -> str:
    """Return the sha256 (hex) of what the variant installs and needs; why a package is there is not part of it."""
    rows = {
        kind: [[package.name, package.version, sorted(file.sha256 for file in package.artifacts)] for package in chosen]
        for kind, chosen in (("packages", locked.packages), ("build", locked.build))
    }
    document = {"variant": asdict(locked.variant), "floors": asdict(locked.floors), **rows}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def packages(locked: LockedVariant, *, build: bool = False) -> dict[str, str]:
    """Return name -> version of all that the environment will hold, or of what `build` in it needs."""
    return {package.name: package.version for package in (locked.build if build else locked.packages)}


def asked(locked: LockedVariant) -> tuple[str, ...]:
    """Return the names of the packages that the profile itself asks for."""
    return tuple(package.name for package in locked.packages if ROOT in package.why)


def artifacts(locked: LockedVariant, glibc: str | None) -> dict[str, Artifact]:
    """Return name -> the file that will be installed on a machine with that glibc."""
    variant = locked.variant
    return {package.name: lock.pick(package, variant.python, variant.platform, glibc) for package in locked.packages}


def interpreter(root: Path, version: str) -> Path:
    """Return the generation's own interpreter, which its launchers start; `version` as `"3.10"`."""
    return root / "bin" / f"python{version}{frame.REAL}"


# ---- building -----------------------------------------------------------------------------------------------------


def fetch_python(version: str, tools: Tools, *, home: Path) -> Path:
    """Let uv download an interpreter and return its path; raise what uv's failure means."""
    what = f"fetching Python {version}"
    _demand(tools, ("--no-config",), ("python", "install", version), what=what, place=home)
    find = ("python", "find", "--managed-python", "--no-project", version)
    done = _demand(tools, ("--no-config",), find, what=what, place=home)
    return Path(done.stdout.strip())


def build(wanted: Build, tools: Tools) -> Built:
    """Fill `wanted.root`; every file is checked against the lock as it comes and against its RECORD where it lies.

    uv links files from its cache, so what somebody edited in another environment may be here too: what does not
    match is fetched afresh, once, and then refused with the code `integrity-failed`.
    """
    picked = artifacts(wanted.locked, wanted.glibc)
    _require_space(wanted.root, picked.values(), tools)
    begun = time.monotonic()
    site = _Site(wanted, tools, sources=sorted(name for name, file in picked.items() if not file.file.endswith(".whl")))
    tools.stage(f"Creating an environment with Python {wanted.locked.variant.python}")
    site.create()
    site.build_sources()
    tools.stage(f"Installing {_amount(picked.values())}")
    linking = site.sync()
    synced = time.monotonic()
    tools.stage("Checking the hash of every file")
    state = site.check()
    if state.damaged and not tools.offline:
        tools.stage(f"Fetching again what is not as released in uv's cache: {', '.join(state.damaged)}")
        site.start_over(without=state.damaged)
        state = site.check()
    if state.damaged:
        raise _damaged(state, tools)
    shutil.rmtree(wanted.root / _SCRATCH, ignore_errors=True)
    spent = synced - begun
    return Built(
        download=max(0.0, spent - linking),
        install=min(spent, linking),
        hashing=time.monotonic() - synced,
        integrity=state,
    )


def build_wheels(wanted: Build, sdists: Mapping[str, Path], tools: Tools) -> dict[str, Path]:
    """Return name -> a wheel built from that source, with the locked build requirements and nothing else.

    All of it lies in `wanted.root`, an empty folder; the hashes of the sources were checked before.
    """
    return _Site(wanted, tools, sources=sorted(sdists)).build_wheels(sdists)


class _Site:
    """One generation being filled."""

    def __init__(self, wanted: Build, tools: Tools, *, sources: Sequence[str]) -> None:
        self._wanted = wanted
        self._tools = tools
        self._sources = tuple(sources)
        self._root = wanted.root
        self._scratch = wanted.root / _SCRATCH
        self._python = wanted.root / "bin" / "python"
        self._requirements = wanted.root / "requirements.txt"

    def create(self) -> None:
        """Make the environment, its launchers, and the files that uv will read."""
        wanted = self._wanted
        self._venv(self._root)
        _write_launchers(self._root, wanted.locked.variant.python)
        plain = {name: uv_binary.without_login(address)[0] for name, address in self._tools.indexes.items()}
        self._requirements.write_text(lock.requirements(wanted.locked, wanted.profile, plain), encoding="utf-8")
        self._configure()

    def _configure(self) -> None:
        if self._sources:
            self._scratch.mkdir()
            named = sorted(file.sha256 for package in self._wanted.locked.build for file in package.artifacts)
            salt = hashlib.sha256("\n".join(named).encode()).hexdigest()
            rows = "".join(f"{json.dumps(name)} = {{ {_SALT} = {json.dumps(salt)} }}\n" for name in self._sources)
            (self._scratch / "uv.toml").write_text(f"[extra-build-variables]\n{rows}", encoding="utf-8")

    def build_sources(self) -> None:
        """Build what comes as source only, or take it from uv's cache."""
        if not self._sources:
            return
        self._tools.stage(f"Building from source: {', '.join(self._sources)}")
        bench = self._sound_bench()
        sources = self._scratch / "sources.txt"
        sources.write_text(self._source_requirements(), encoding="utf-8")
        options = ("--python", str(bench / "bin" / "python"), "--no-deps", "--no-build-isolation", "--require-hashes")
        self._pip("install", *options, "-r", str(sources), what="building from source", names=self._sources)

    def build_wheels(self, sdists: Mapping[str, Path]) -> dict[str, Path]:
        """Build each source into a wheel that can be carried elsewhere."""
        self._configure()
        bench = self._sound_bench()
        found = {}
        for name in self._sources:
            self._tools.stage(f"Building {name} from source")
            place = self._scratch / "wheels" / name
            options = ("--wheel", "--no-build-isolation", "--no-create-gitignore", "--out-dir", str(place))
            asked = ("build", *options, "--python", str(bench / "bin" / "python"), str(sdists[name]))
            _demand(self._tools, ("--no-config",), asked, what=f"building {name}", place=self._root)
            (found[name],) = place.glob("*.whl")
        return found

    def _sound_bench(self) -> Path:
        """Return the environment to build in, every file of it checked."""
        bench = self._bench()
        state = integrity.check(bench, packages(self._wanted.locked, build=True), cache=self._tools.hashes)
        if state.damaged and not self._tools.offline:
            self._forget(state.damaged)
            bench = self._bench()
            state = integrity.check(bench, packages(self._wanted.locked, build=True), cache=self._tools.hashes)
        if state.damaged:
            raise _damaged(state, self._tools)
        return bench

    def _bench(self) -> Path:
        """Make the environment to build in: the locked build requirements and nothing else."""
        bench = self._scratch / "bench"
        shutil.rmtree(bench, ignore_errors=True)
        self._venv(bench)
        needs = self._scratch / "build-requirements.txt"
        needs.write_text(lock.build_requirements(self._wanted.locked, self._wanted.profile), encoding="utf-8")
        options = ("--python", str(bench / "bin" / "python"), "--require-hashes", "--only-binary", ":all:")
        verb, *files = self._from(needs, self._wanted.locked.build)
        names = packages(self._wanted.locked, build=True)
        self._pip(verb, *options, *files, what="installing what building needs", names=names)
        return bench

    def sync(self) -> float:
        """Install what the lock names, and nothing else; return the seconds that uv says linking took."""
        # A wheel of a source package comes from the cache. Were it not there, building must not find a way out.
        building = ("--no-build-isolation",) if self._sources else ("--only-binary", ":all:")
        options = ("--python", str(self._python), "--require-hashes", *building)
        names = packages(self._wanted.locked).keys() - set(self._sources)
        verb, *files = self._from(self._requirements, self._wanted.locked.packages)
        done = self._pip(verb, *options, *files, what="installing", names=names)
        return _linking_seconds(done.stderr)

    def _from(self, requirements: Path, chosen: Sequence[LockedPackage]) -> tuple[str, ...]:
        """Return what makes uv install what is written there: each package from the index that the lock names for it.

        `uv pip sync` knows no such thing, and would take what another index has under the very same name.
        """
        named = lock.indexed(chosen)
        if not named:
            return ("sync", "--allow-empty-requirements", str(requirements))
        variant = self._wanted.locked.variant
        asked = Resolution(
            root="environment",
            python=variant.python,
            platform=variant.platform,
            requires=tuple(f"{package.name}=={package.version}" for package in chosen),
            exclude_newer=None,
            indexes=named,
        )
        plain = {name: uv_binary.without_login(address)[0] for name, address in self._tools.indexes.items()}
        project = self._scratch / requirements.stem / "pyproject.toml"
        project.parent.mkdir(parents=True, exist_ok=True)
        project.write_text(pyproject(asked, plain), encoding="utf-8")
        return ("install", "--no-deps", "--requirements", str(project), "--constraints", str(requirements))

    def check(self) -> Integrity:
        """Hash every file."""
        return integrity.check(self._root, packages(self._wanted.locked), cache=self._tools.hashes)

    def start_over(self, *, without: Sequence[str]) -> None:
        """Fill the folder again, with those packages fetched afresh.

        They are taken out of uv's cache: an index that calls its files immutable, as the common ones do, is not even
        asked again by `--refresh`, and what uv unpacked once it does not look at again.
        """
        self._forget(without)
        shutil.rmtree(self._root)
        self._root.mkdir()
        self.create()
        self.build_sources()
        self.sync()

    def _forget(self, names: Sequence[str]) -> None:
        what = "taking damaged packages out of uv's cache"
        _demand(self._tools, ("--no-config",), ("cache", "clean", *names), what=what, place=self._root)

    def _venv(self, root: Path) -> None:
        wanted = self._wanted
        options = ("--python", str(wanted.python), "--no-project", f"--prompt={wanted.prompt}")
        _demand(
            self._tools,
            ("--no-config",),
            ("venv", *options, str(root)),
            what="creating the environment",
            place=self._root,
            brief=True,
        )

    def _pip(self, verb: str, *arguments: str, what: str, names: Collection[str] = ()) -> Completed:
        """Run `uv pip`. uv believes an index page for ten minutes: what a newer lock names is looked for afresh."""
        config = ("--config-file", str(self._scratch / "uv.toml")) if self._sources else ("--no-config",)
        plain = ("pip", verb, *arguments)
        try:
            return _demand(self._tools, config, plain, what=what, place=self._root)
        except WorldFailed as error:
            if error.code != "artifact-missing" or not names:
                raise
        fresh = (f"--refresh-package={name}" for name in sorted(names))
        return _demand(self._tools, config, (*plain, *fresh), what=what, place=self._root)

    def _source_requirements(self) -> str:
        chosen = [package for package in self._wanted.locked.packages if package.name in self._sources]
        return "".join(
            f"{package.name}=={package.version}"
            + "".join(f" --hash=sha256:{file.sha256}" for file in package.artifacts if not file.file.endswith(".whl"))
            + "\n"
            for package in chosen
        )


def _demand(
    tools: Tools, config: Sequence[str], arguments: Sequence[str], *, what: str, place: Path, brief: bool = False
) -> Completed:
    """Run uv, on a leash unless it is over in an instant; raise what it means if it fails."""
    uv, options = uv_binary.binary(tools.environ), (*config, "--color", "never", *arguments)
    tools.log(shlex.join((str(uv), *options)))
    env = uv_binary.environment(tools.environ, indexes=tools.indexes, offline=tools.offline)
    done = tools.run(Command(argv=(str(uv), *options) if brief else leash.argv(uv, options), env=env))
    if done.code != 0:
        raise uv_failures.explain(done, what=what, place=place, offline=tools.offline)
    return done


def _write_launchers(root: Path, version: str) -> None:
    """Let `python` and its other names start the interpreter by its real path, which `sys.executable` then is."""
    real = interpreter(root, version)
    (real.parent / "python").rename(real)
    for launcher in frame.launchers(real):
        launcher.unlink(missing_ok=True)
        launcher.write_text(frame.launcher(real), encoding="utf-8")
        launcher.chmod(0o755)


# ---- numbers ------------------------------------------------------------------------------------------------------


def _require_space(root: Path, files: Collection[Artifact], tools: Tools) -> None:
    """Refuse early what cannot fit: the downloads alone are larger than what is free, and none is in uv's cache."""
    needed, free = sum(file.size or 0 for file in files), shutil.disk_usage(root).free
    if needed > free and not tools.offline and _nothing_cached(root, tools):
        raise WorldFailed(
            f"the disk is too small: {needed:,} bytes to download, {free:,} bytes free at `{root.parent.parent}`",
            code="disk-full",
            hint=f"df -h {shlex.quote(str(root.parent.parent))}",
        )


def _nothing_cached(root: Path, tools: Tools) -> bool:
    """Say whether uv's cache holds no wheel at all; what it holds is linked, which takes hardly any space."""
    what = "asking uv for its cache"
    done = _demand(tools, ("--no-config",), ("cache", "dir"), what=what, place=root, brief=True)
    return not any(Path(done.stdout.strip()).glob("archive-v*/*"))


def _amount(files: Collection[Artifact]) -> str:
    known = sum(file.size or 0 for file in files)
    size = f" ({known / 1e9:.1f} GB)" if known >= _SHOWN_BYTES else ""
    return f"{len(files)} package{'s' if len(files) != 1 else ''}{size}"


def _linking_seconds(said: str) -> float:
    """Return the time in uv's `Installed 104 packages in 1m 02s`; 0 where it installed nothing."""
    found = _INSTALLED.search(said)
    parts = _SPAN.finditer(found["span"]) if found else ()
    return sum(float(part["number"]) * _UNIT_SECONDS[part["unit"]] for part in parts)


def _damaged(state: Integrity, tools: Tools) -> Refused:
    failed = [check for check in state.checks if check.status == "fail"]
    return Refused(
        f"files are not as released, even when fetched afresh: {', '.join(state.damaged)}",
        code="integrity-failed",
        problems=tuple(
            Problem(message=f"{check.message or 'failed'}: {check.have}", key=check.id, expected=check.want)
            for check in failed
        ),
        hint=uv_binary.command(tools.environ, "cache", "clean"),
    )
