"""Find the Pythons of this machine: on PATH, the one that runs envlock, from pyenv, from uv, from conda.

Each is asked for its version, once, in a child that reads neither the environment nor site-packages: a folder's name
proves nothing. Version managers' shims are never started, since they run whatever they are configured to run.
Virtual environments stand for the interpreter they were made from.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from envlock import files, limits
from envlock.proc import Command, Runner

__all__ = ["Interpreter", "choose_for", "find"]

LIMIT_SECONDS = 5.0
# Interpreters are asked side by side; they do little but start.
AT_ONCE = 4
# Folders conda's installers propose, under HOME and /opt.
CONDA_FOLDERS = ("miniforge3", "mambaforge", "miniconda3", "anaconda3", "micromamba", "conda")
# The Python that runs envlock may lie in none of the known places.
OWN = Path(sys.base_prefix) / "bin"

# Runs under any Python, also 2.7, so that each says for itself that it is too old.
QUESTION = """\
import sys
v = sys.version_info
i = getattr(sys, "implementation", None)
sys.stdout.write(" ".join([
    "%d.%d.%d" % v[:3], v[3], i.name if i else "cpython", str(sys.maxsize > 2**32), getattr(sys, "abiflags", "") or "-",
]))
"""
ANSWER = r"[0-9]+\.[0-9]+\.[0-9]+( \S+){4}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A CPython that answered.

    `path` has no links left, `version` is the full one, `origin` is PATH, envlock, pyenv, uv or conda.
    """

    path: Path
    version: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    path: Path
    origin: str


def find(
    *,
    run: Runner,
    environ: Mapping[str, str],
    own: Path | None = OWN,
    only: Collection[str] = (),
    note: Callable[[str], None] = lambda _: None,
) -> tuple[Interpreter, ...]:
    """Return the usable Pythons, oldest version first, those of one version in the order they were found in.

    `own` is the folder of the interpreter that runs envlock. With `only`, minor versions such as `3.10`, an interpreter
    whose name says another one is not started.
    `note` gets one line for each that was passed over: broken, hanging, not CPython, free-threaded, a pre-release.
    """
    candidates = [it for it in _candidates(environ, own, note) if _may_be(it.path.name, only)]

    def ask(candidate: _Candidate) -> Interpreter | str:
        return _ask(run, environ, candidate)

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        answers = list(pool.map(ask, candidates))
    for answer in answers:
        if isinstance(answer, str):
            note(answer)
    found = [answer for answer in answers if isinstance(answer, Interpreter)]
    return tuple(sorted(found, key=lambda interpreter: _numbers(interpreter.version)))


def choose_for(version: str, found: tuple[Interpreter, ...]) -> Interpreter | None:
    """Return the interpreter of that minor version (`3.10`), or of exactly that full one: the newest patch.

    One of conda's is taken last: it goes, or changes, with its environment.
    """
    fitting = [it for it in found if it.version == version or it.version.rpartition(".")[0] == version]
    return max(fitting, key=lambda it: (it.origin != "conda", _numbers(it.version)), default=None)


def _may_be(name: str, only: Collection[str]) -> bool:
    """Return whether a program of that name may be of one of these versions: `python3` may be of any."""
    said = re.fullmatch(r"python(3\.[0-9]+)", name)
    return not only or said is None or said[1] in only


def _candidates(environ: Mapping[str, str], own: Path | None, note: Callable[[str], None]) -> Iterator[_Candidate]:
    """Yield each interpreter once: links are followed, and the first place that names it gives the origin."""
    seen: set[Path] = set()
    for origin, folder in _folders(environ, own):
        shims: list[str] = []
        for name in files.matching(folder, "python3*"):
            if not re.fullmatch(r"python3(\.[0-9]+)?", name.name):
                continue
            path = _real(name)
            if path is None or path in seen:
                continue
            seen.add(path)
            if _is_shim(path):
                shims.append(name.name)
                continue
            conda = (path.parent.parent / "conda-meta").is_dir()
            yield _Candidate(path=path, origin="conda" if conda else origin)
        if shims:
            note(f"{folder}: a version manager's shims, not started: {', '.join(shims)}")


def _folders(environ: Mapping[str, str], own: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield the folders that may hold interpreters."""
    home = Path(environ["HOME"]) if environ.get("HOME") else None
    for entry in environ.get("PATH", "").split(":"):
        # WSL puts Windows folders on PATH: slow to list, and no Linux program in them.
        if entry.startswith("/") and not re.match(r"/mnt/[a-z](/|$)", entry):
            yield "PATH", Path(entry)
    if own:
        yield "envlock", own
    pyenv = _setting(environ, "PYENV_ROOT") or (home and home / ".pyenv")
    if pyenv:
        yield from (("pyenv", version / "bin") for version in files.matching(pyenv / "versions", "*"))
    data = _setting(environ, "XDG_DATA_HOME") or (home and home / ".local/share")
    managed = _setting(environ, "UV_PYTHON_INSTALL_DIR") or (data and data / "uv/python")
    if managed:
        # Wheels are built for glibc: a Python on musl can't load them.
        builds = (build for build in files.matching(managed, "cpython-*") if "musl" not in build.name)
        yield from (("uv", build / "bin") for build in builds)
    yield from (("conda", prefix / "bin") for prefix in _conda_prefixes(environ, home))


def _conda_prefixes(environ: Mapping[str, str], home: Path | None) -> Iterator[Path]:
    active, program = _setting(environ, "CONDA_PREFIX"), _setting(environ, "CONDA_EXE")
    if active:
        yield active
    bases = [_setting(environ, "MAMBA_ROOT_PREFIX"), program and program.parent.parent]
    bases += [parent / folder for parent in (home, Path("/opt")) if parent for folder in CONDA_FOLDERS]
    for base in filter(None, bases):
        yield base
        yield from files.matching(base / "envs", "*")


def _setting(environ: Mapping[str, str], name: str) -> Path | None:
    value = environ.get(name, "")
    return Path(value) if value.startswith("/") else None


def _real(path: Path) -> Path | None:
    """Return the interpreter behind links and a virtual environment; None where there is none."""
    real, prefix = _resolved(path), path.parent.parent
    home = re.search(r"^home\s*=\s*(/.*?)\s*$", files.text(prefix / "pyvenv.cfg"), re.MULTILINE)
    # An environment made with copies instead of links names its base only in its configuration.
    copied = home and real and real.is_relative_to(prefix.resolve())
    return _resolved(Path(home[1]) / path.name) if home and copied else real


def _resolved(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):  # Python before 3.13 says RuntimeError to a loop of links
        return None


def _is_shim(path: Path) -> bool:
    """Return whether this is a script, or a program that is called otherwise than a Python."""
    try:
        script = files.head(path, 2) == b"#!"
    except OSError as error:
        limits.require(error)
        return False
    return script or not path.name.startswith("python")


def _ask(run: Runner, environ: Mapping[str, str], candidate: _Candidate) -> Interpreter | str:
    path = candidate.path
    done = run(Command(argv=(str(path), "-I", "-S", "-c", QUESTION), env=environ, timeout=LIMIT_SECONDS))
    if done.timed_out:
        return f"{path}: no answer in {LIMIT_SECONDS:g} s"
    if done.code != 0 or not re.fullmatch(ANSWER, done.stdout):
        reason = done.stderr.strip().rpartition("\n")[2]
        return f"{path}: broken: {reason or f'ended with {done.code}'}"
    version, level, implementation, wide, flags = done.stdout.split(" ")
    for wrong, what in (
        (implementation != "cpython", f"{implementation}, not CPython"),
        (level != "final", "a pre-release"),
        (wide != "True", "a 32-bit build"),
        ("t" in flags, "a free-threaded build"),
    ):
        if wrong:
            return f"{path}: {version}, {what}"
    return Interpreter(path=path, version=version, origin=candidate.origin)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
