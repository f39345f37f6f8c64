"""Resolve with pip-tools: `pip-compile` in a scratch environment of the target Python, gone when it has answered.

pip-compile says which versions and who asks. For hashes it would download every file of every platform: they are read
from the pages of the indexes instead. pip knows no index that serves some packages only, so it gets none but the
default one: what comes from a named index lies in a folder, as its METADATA, and is pinned to what lies there.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import Version

from envlock import index, lock, logins, scratch, writing
from envlock.engines import pip_failures, pip_links, uv_binary, uv_failures, uv_index
from envlock.engines.resolver import Resolved, Workbench
from envlock.errors import Refused, WorldFailed
from envlock.index import Index
from envlock.index_page import IndexFile, release
from envlock.model import Artifact, LockedPackage
from envlock.proc import Command, Completed
from envlock.request import DEFAULT_INDEX, ROOT, Resolution, snapshot

__all__ = ["resolve", "series"]

_LIMIT_SECONDS: Final = 3600.0  # pip downloads whole wheels where an index gives no METADATA beside them
_AT_ONCE: Final = 8  # pages that are read side by side
_MADE_OF: Final = "data/pip-tools.txt"
_ASKED: Final = "requirements.in"
_ANSWER: Final = "requirements.txt"
_LOG: Final = "pip.log"
_AGAIN: Final = "envlock lock PROFILE --resolver pip-tools"

# pip's own variables that say how the network is reached and where its cache is; any other would change the answer.
_KEPT: Final = frozenset(
    {
        "PIP_CACHE_DIR",
        "PIP_CERT",
        "PIP_CLIENT_CERT",
        "PIP_KEYRING_PROVIDER",
        "PIP_PROXY",
        "PIP_RETRIES",
        "PIP_TIMEOUT",
        "PIP_TRUSTED_HOST",
    }
)
_LINE: Final = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>\S+)(?:\s+# via (?P<why>.+))?")
_VERSION: Final = re.compile(r"^pip-tools==(?P<major>\d+)", re.MULTILINE)
_RUNS_ON: Final = re.compile(r"^version(?:_info)? *= *(?P<python>\d+\.\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """A version that pip-compile took, and who asks for it."""

    version: str
    why: tuple[str, ...]


def series(bench: Workbench) -> str:
    """Return `pip-tools-<major>`: that of the pinned requirement, which is all that is ever installed."""
    del bench
    found = _VERSION.search(_made_of())
    return f"pip-tools-{found['major'] if found else '?'}"


def resolve(asked: Resolution, bench: Workbench) -> Resolved:
    """Return the packages that answer the question; see `Resolver.resolve`.

    It resolves for the machine and the Python that it runs on only: raise `WorldFailed` (`python-missing`) or `Refused`
    (`platform-unsupported`) for any other, and `Refused` (`pin-missing`) where the profile leaves the version open of
    what comes from a named index.
    """
    if bench.offline:
        raise WorldFailed("pip-tools cannot resolve without a network", code="not-cached", hint=_AGAIN)
    here = f"{sys.platform}-{platform.machine()}"
    if asked.platform != here:
        message = f"pip-tools resolves for the machine it runs on, {here}, and not for {asked.platform}"
        raise Refused(message, code="platform-unsupported", hint="envlock lock PROFILE")
    try:
        with scratch.folder() as folder:
            return _resolve(asked, bench, folder)
    except OSError as error:
        raise writing.failed(error, hint=f"TMPDIR=FOLDER {_AGAIN}") from error


def _resolve(asked: Resolution, bench: Workbench, scratch: Path) -> Resolved:
    default = bench.indexes.get(DEFAULT_INDEX) or uv_index.default(bench.run, bench.environ)
    where = {**bench.indexes, DEFAULT_INDEX: default}
    python = _environment(asked, bench, scratch)
    fixed = pip_links.offer(asked, where, bench.environ, scratch)
    chosen = _compile(asked, bench, scratch, python=python, index_url=default, fixed=fixed)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda row: _files(row[0], row[1].version, asked, where, bench), chosen.items()))
    packages = [
        LockedPackage(name=name, version=one.version, artifacts=_artifacts(name, files, asked), why=one.why)
        for (name, one), files in zip(chosen.items(), found, strict=True)
    ]
    urls = {name: files[0].url for name, files in zip(chosen, found, strict=True) if not _is_wheel(files[0])}
    return Resolved(packages=tuple(sorted(packages, key=lambda one: one.name)), urls=urls)


# ---- running pip-compile ------------------------------------------------------------------------------------------


def _environment(asked: Resolution, bench: Workbench, scratch: Path) -> Path:
    """Make an environment that holds pip-tools, each file of it with a known hash, and return its interpreter."""
    place = scratch / "pip-tools"
    listed = scratch / "pip-tools.txt"
    listed.write_text(_made_of(), encoding="utf-8")
    _uv(bench, scratch, "venv", "--quiet", "--python", str(bench.python), str(place))
    config = (place / "pyvenv.cfg").read_text(encoding="utf-8")
    found = _RUNS_ON.search(config)
    if found is None or found["python"] != asked.python:
        message = f"pip-tools resolves for the Python it runs on, and there is no Python {asked.python} here"
        hint = uv_binary.command(bench.environ, "python", "install", asked.python)
        raise WorldFailed(message, code="python-missing", hint=hint)
    python = place / "bin" / "python"
    _uv(bench, scratch, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(listed))
    return python


def _uv(bench: Workbench, scratch: Path, *arguments: str) -> None:
    argv = (str(uv_binary.binary(bench.environ)), "--no-config", *arguments)
    env = uv_binary.environment(bench.environ, indexes=bench.indexes)
    done = bench.run(Command(argv=argv, env=env, cwd=scratch, timeout=_LIMIT_SECONDS))
    if done.code != 0:
        raise uv_failures.explain(done, what="installing pip-tools", place=scratch, offline=False, again=_AGAIN)


def _made_of() -> str:
    return resources.files("envlock").joinpath(_MADE_OF).read_text(encoding="utf-8")


def _compile(
    asked: Resolution,
    bench: Workbench,
    scratch: Path,
    *,
    python: Path,
    index_url: str,
    fixed: Mapping[str, str],
) -> dict[str, _Chosen]:
    """Return name -> version and reasons; `fixed` are the versions of what lies in the folder of links."""
    exact = [f"{name}=={version}" for name, version in fixed.items()]
    (scratch / _ASKED).write_text("\n".join([*asked.requires, *exact, ""]), encoding="utf-8")
    kept = (f"{name}=={version}\n" for name, version in sorted(asked.pins.items()) if name not in fixed)
    (scratch / _ANSWER).write_text("".join(kept), encoding="utf-8")
    done = _run_compile(asked, bench, scratch, python=python, index_url=index_url)
    log = scratch / _LOG
    failure = pip_failures.explain(
        done, log.read_text(encoding="utf-8", errors="replace") if log.exists() else "", again=_AGAIN
    )
    if failure:
        raise failure
    return _read(scratch / _ANSWER)


def _run_compile(asked: Resolution, bench: Workbench, scratch: Path, *, python: Path, index_url: str) -> Completed:
    date = ("--uploaded-prior-to", snapshot(asked.exclude_newer)) if asked.exclude_newer else ()
    wheels = ("--only-binary", ":all:") if asked.only_binary else ()
    pip = ("--log", _LOG, "--find-links", pip_links.FOLDER, *wheels)
    argv = (
        *(str(python), "-I", "-m", "piptools", "compile", "--quiet", "--no-config", "--no-header", "--allow-unsafe"),
        *("--no-emit-index-url", "--no-emit-options", "--no-emit-trusted-host", "--no-emit-find-links"),
        *("--strip-extras", "--annotation-style", "line", "--cache-dir", str(scratch / "cache")),
        *date,
        *("--pip-args", shlex.join(pip), "--output-file", _ANSWER, _ASKED),
    )
    return bench.run(Command(argv=argv, env=_pip_environ(bench, index_url), cwd=scratch, timeout=_LIMIT_SECONDS))


def _pip_environ(bench: Workbench, index_url: str) -> dict[str, str]:
    """Return pip's environment: no setting but `_KEPT`. The address goes by variable: it may hold a password."""
    env = {name: value for name, value in bench.environ.items() if name in _KEPT or not uv_binary.is_ambient(name)}
    if logins.asks_keyring(bench.environ):
        env["PIP_KEYRING_PROVIDER"] = "subprocess"
    return env | {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_INDEX_URL": index_url,
        "PIP_NO_INPUT": "1",
        "NO_COLOR": "1",
    }


def _read(answer: Path) -> dict[str, _Chosen]:
    chosen = {}
    for line in answer.read_text(encoding="utf-8").splitlines():
        found = _LINE.fullmatch(line.strip())
        if found:
            name = str(canonicalize_name(found["name"]))
            # A package with extras asks for itself without them.
            why = {_asking(one) for one in (found["why"] or "").split(", ") if one} - {name}
            chosen[name] = _Chosen(version=found["version"], why=tuple(sorted(why)))
    return chosen


def _asking(told: str) -> str:
    return ROOT if told.startswith("-r ") else str(canonicalize_name(told))


# ---- files and hashes ---------------------------------------------------------------------------------------------


def _files(
    name: str, version: str, asked: Resolution, where: Mapping[str, str], bench: Workbench
) -> Sequence[IndexFile]:
    """Return what the page of its index lists of that version: the wheels that fit, else the sdist, each hashed."""
    source = asked.indexes.get(name, DEFAULT_INDEX)
    place = Index(name=source, url=where[source])
    listed = index.files(name, place, environ=bench.environ)
    own = [file for file in listed if _is_of(file, version) and not _too_new(file, asked, source)]
    wheels = [file for file in own if _is_wheel(file) and lock.fits(file.file, asked.python, asked.platform)]
    found = wheels or [file for file in own if not _is_wheel(file)][:1]
    if not found:
        message = f"the index `{source}` lists no file of {name} {version} for Python {asked.python}"
        raise WorldFailed(message, code="engine-failed", hint=_AGAIN)
    return [index.hashed(file, place, environ=bench.environ) for file in found]


def _is_of(file: IndexFile, version: str) -> bool:
    found = release(file.file)
    return found is not None and found[1] == Version(version)


def _is_wheel(file: IndexFile) -> bool:
    return file.file.endswith(".whl")


def _too_new(file: IndexFile, asked: Resolution, source: str) -> bool:
    """Say whether the snapshot hides a file; those of a named index have no date and are pinned exactly instead."""
    if asked.exclude_newer is None or source != DEFAULT_INDEX:
        return False
    return file.uploaded is None or file.uploaded >= asked.exclude_newer


def _artifacts(name: str, files: Sequence[IndexFile], asked: Resolution) -> tuple[Artifact, ...]:
    source = asked.indexes.get(name, DEFAULT_INDEX)
    rows = (Artifact(index=source, file=one.file, sha256=str(one.sha256), size=one.size) for one in files)
    return tuple(sorted(rows, key=lambda one: (one.file, one.sha256)))
