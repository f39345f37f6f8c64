"""Resolve with uv: `uv pip compile` on a generated pyproject.toml, in a folder of its own, with no ambient setting.

Two runs answer one question. The first resolves and names every file with its hash (PEP 751); the second, against the
cache that the first has filled, says why each package is there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from packaging.pylock import Package, PackageSdist, PackageWheel, Pylock, PylockValidationError
from packaging.utils import canonicalize_name
from packaging.version import Version

from envlock import address, scratch, writing
from envlock.engines import uv_binary, uv_failures
from envlock.engines.resolver import Resolved, Workbench
from envlock.errors import EnvlockError, Problem, Refused, WorldFailed
from envlock.model import Artifact, LockedPackage
from envlock.proc import Command, Completed
from envlock.request import DEFAULT_INDEX, GLIBC, ROOT, Resolution, pyproject, snapshot

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["resolve", "series"]


_LIMIT_SECONDS: Final = 900.0  # of one run; uv's own limit is 30 s without a byte
_PYLOCK: Final = "pylock.toml"
_PLAIN: Final = "requirements.txt"
_PIN: Final = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==(?P<version>\S+)")
_VIA: Final = re.compile(r" +#(?: via |   )(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<file> \(.+\))?")
_CONFLICT: Final = "No solution found when resolving"
_REFUSED_ADDRESS: Final = re.compile(r"40[13] (?:Unauthorized|Forbidden)")
_NOT_CACHED: Final = re.compile(r"network was disabled|not found in the cache")
_AGAIN: Final = "envlock lock PROFILE"


def series(bench: Workbench) -> str:
    """Return `uv-<major>`; raise `WorldFailed` (`engine-missing`) for a uv that cannot be started or is too old."""
    done = _run(bench, ("--version",))
    found = re.match(r"uv (?P<version>\d[0-9A-Za-z.]*)", done.stdout)
    if done.code != 0 or found is None:
        raise WorldFailed(f"uv does not start: {done.stderr.strip()}", code="engine-missing", hint=uv_binary.UPGRADE)
    version = Version(found["version"])
    if version < Version(uv_binary.OLDEST):
        raise WorldFailed(
            f"uv {version} is too old: {uv_binary.OLDEST} is needed", code="engine-missing", hint=uv_binary.UPGRADE
        )
    return f"uv-{version.major}"


def resolve(asked: Resolution, bench: Workbench) -> Resolved:
    """Return the packages that answer the question; see `Resolver.resolve`."""
    try:
        with scratch.folder() as folder:
            return _resolve(asked, bench, folder)
    except OSError as error:
        raise writing.failed(error, hint=f"TMPDIR=FOLDER {_AGAIN}") from error


def _resolve(asked: Resolution, bench: Workbench, scratch: Path) -> Resolved:
    plain = {name: uv_binary.without_login(url)[0] for name, url in bench.indexes.items()}
    (scratch / "pyproject.toml").write_text(pyproject(asked, plain), encoding="utf-8")
    if asked.pins:
        (scratch / _PYLOCK).write_text(_preferences(asked.pins), encoding="utf-8")
    _compile(asked, bench, scratch, "--format", "pylock.toml", "--output-file", _PYLOCK)
    packages, urls = _read(scratch / _PYLOCK, asked, bench.indexes)
    why = _reasons(asked, bench, scratch, {package.name: package.version for package in packages})
    explained = (
        LockedPackage(name=one.name, version=one.version, artifacts=one.artifacts, why=why.get(one.name, ()))
        for one in packages
    )
    return Resolved(packages=tuple(sorted(explained, key=lambda one: one.name)), urls=urls)


# ---- running uv ---------------------------------------------------------------------------------------------------


def _compile(asked: Resolution, bench: Workbench, scratch: Path, *output: str) -> None:
    system, _, arch = asked.platform.partition("-")
    target = f"{arch}-manylinux_{GLIBC[0]}_{GLIBC[1]}" if system == "linux" else asked.platform
    date = ("--exclude-newer", snapshot(asked.exclude_newer)) if asked.exclude_newer else ()
    # An index without upload times would have nothing before any date: what comes from there is pinned exactly.
    undated = (f"--exclude-newer-package={name}=false" for name in asked.indexes) if date else ()
    wheels = ("--only-binary", ":all:") if asked.only_binary else ()
    arguments = (
        *("--no-config", "--quiet", "--directory", str(scratch), "pip", "compile", "pyproject.toml", "--no-header"),
        *("--python", str(bench.python), "--python-version", asked.python, "--python-platform", target),
        *date,
        *undated,
        *wheels,
        *output,
    )
    done = _run(bench, arguments)
    if done.code != 0 or done.timed_out:
        raise _failure(done, asked, bench, scratch)


def _run(bench: Workbench, arguments: tuple[str, ...]) -> Completed:
    argv = (str(uv_binary.binary(bench.environ)), *arguments)
    env = uv_binary.environment(bench.environ, indexes=bench.indexes, offline=bench.offline)
    return bench.run(Command(argv=argv, env=env, timeout=_LIMIT_SECONDS))


def _failure(done: Completed, asked: Resolution, bench: Workbench, scratch: Path) -> EnvlockError:
    """Return what uv's failure means. Its exit status alone does not tell a conflict from an unreachable index."""
    said = done.stderr.replace(f"{scratch}/", "")
    problems = tuple(Problem(message=line.strip()) for line in said.splitlines() if line.strip())
    if done.timed_out:
        return WorldFailed(f"uv did not end within {_LIMIT_SECONDS:.0f} s", code="engine-failed", problems=problems)
    if _NOT_CACHED.search(said):
        return WorldFailed("uv's cache does not hold what is needed", code="not-cached", problems=problems)
    if _REFUSED_ADDRESS.search(said):
        return WorldFailed("the index refused to answer", code="network", problems=problems)
    if said.lstrip().startswith(f"error: {_CONFLICT}"):
        return Refused(
            f"no set of versions for Python {asked.python} satisfies the requirements",
            code="unsatisfiable",
            problems=tuple(Problem(message=line) for line in _explanation(said)),
        )
    error = uv_failures.explain(done, what="resolving", place=scratch, offline=bench.offline, again=_AGAIN)
    if error.code == "artifact-missing":  # there is no lock yet whose file could be missing
        message = "no set of versions satisfies what is needed to resolve"
        return Refused(message, code="unsatisfiable", problems=error.problems)
    return error


def _explanation(said: str) -> list[str]:
    """Return uv's derivation, one sentence an item, and its hints."""
    lines = [line.strip().removeprefix("cause: ") for line in said.splitlines()[1:]]
    return [line for line in lines if line]


# ---- reading what it wrote ----------------------------------------------------------------------------------------


def _preferences(pins: Mapping[str, str]) -> str:
    """Return an output file as if of an earlier run: uv keeps its versions where they still fit."""
    rows = (f'[[packages]]\nname = "{name}"\nversion = "{version}"\n' for name, version in sorted(pins.items()))
    return "\n".join(['lock-version = "1.0"\ncreated-by = "envlock"\n', *rows])


def _read(path: Path, asked: Resolution, indexes: Mapping[str, str]) -> tuple[list[LockedPackage], dict[str, str]]:
    try:
        pylock = Pylock.from_dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, PylockValidationError) as error:
        raise _unreadable(str(error)) from error
    packages, urls = [], {}
    for package in pylock.packages:
        packages.append(_package(package, asked.indexes.get(package.name, DEFAULT_INDEX)))
        if not package.wheels and package.sdist and package.sdist.url:
            # uv keeps logins out of what it writes.
            urls[str(package.name)] = address.carried(package.sdist.url, indexes.values())
    return packages, urls


def _package(package: Package, index: str) -> LockedPackage:
    """Return the package with the wheels that fit; with its sdist only where none does.

    Where it comes from is what was asked: a named index may well link to another host.
    """
    chosen: Sequence[PackageWheel | PackageSdist] = package.wheels or ([package.sdist] if package.sdist else [])
    if not chosen or package.version is None:
        raise _unreadable(f"`{package.name}` has no file on an index")
    unhashed = [file.filename for file in chosen if "sha256" not in file.hashes]
    if unhashed:
        raise _unreadable(f"the index gives no sha256 of `{unhashed[0]}`")
    files = {Artifact(index=index, file=file.filename, sha256=file.hashes["sha256"], size=file.size) for file in chosen}
    artifacts = tuple(sorted(files, key=lambda one: (one.file, one.sha256)))
    for one, other in pairwise(artifacts):
        if one.file == other.file:
            problem = Problem(file=one.file, message=f"has sha256 {one.sha256}", expected=other.sha256)
            message = f"the index `{index}` gives one file two hashes"
            raise Refused(message, code="index-ambiguous", problems=(problem,), hint="envlock detect -v")
    return LockedPackage(name=str(package.name), version=str(package.version), artifacts=artifacts, why=())


def _reasons(
    asked: Resolution, bench: Workbench, scratch: Path, versions: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Return name -> who asks for it; raise `engine-failed` should the second run resolve to anything else."""
    plain = scratch / _PLAIN
    plain.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()), encoding="utf-8")
    try:
        _compile(asked, replace(bench, offline=True), scratch, "--output-file", _PLAIN)
    except EnvlockError:
        if bench.offline:
            raise
        _compile(asked, bench, scratch, "--output-file", _PLAIN)  # an index may forbid to keep its pages
    found: dict[str, str] = {}
    why: dict[str, set[str]] = {}
    name = ""
    for line in plain.read_text(encoding="utf-8").splitlines():
        if pin := _PIN.match(line):
            name = str(canonicalize_name(pin["name"]))
            found[name] = pin["version"]
        elif via := _VIA.fullmatch(line):
            why.setdefault(name, set()).add(ROOT if via["file"] else str(canonicalize_name(via["name"])))
    if found != dict(versions):
        raise _unreadable("two runs of uv on the same request disagree")
    return {name: tuple(sorted(asking)) for name, asking in why.items()}


def _unreadable(reason: str) -> WorldFailed:
    return WorldFailed(f"uv's answer cannot be used: {reason}", code="engine-failed", hint="uv --version")
