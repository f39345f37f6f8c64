"""What a lock means: which file a machine takes, what moved since it was made, and what pip and uv are given."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Final

from packaging import tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from envlock.errors import Problem, Refused
from envlock.lock_text import parse, render
from envlock.model import Artifact, Change, Inputs, Lock, LockedPackage, LockedVariant
from envlock.request import DEFAULT_INDEX, GLIBC

__all__ = [
    "build_requirements",
    "conda_head",
    "conda_place",
    "diff",
    "files",
    "find_links",
    "fits",
    "indexed",
    "is_rendered",
    "moved",
    "needed",
    "parse",
    "pick",
    "pins",
    "places",
    "render",
    "requirements",
    "sources",
]

# The legacy names of manylinux tags: PEP 600, "Legacy manylinux tags".
_LEGACY: Final = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}
_OLDEST_MINOR: Final = 5  # of glibc 2: manylinux1, the first there was
_MARK: Final = "Written by envlock; changed by `envlock lock` only."


# ---- one machine --------------------------------------------------------------------------------------------------


def pick(package: LockedPackage, python: str, platform: str, glibc: str | None) -> Artifact:
    """Return the best wheel for that Python (`"3.10"`), platform (`"linux-x86_64"`) and glibc, else the sdist.

    An unknown glibc counts as the one that was locked for. Raise `Refused` (`no-wheel-fits`) where nothing fits.
    """
    ranks = _ranks(python, platform, glibc)
    wheels = [file for file in package.artifacts if file.file.endswith(".whl")]
    fitting = [(rank, file.file, file) for file in wheels if (rank := _rank(file.file, ranks)) is not None]
    if fitting:
        return min(fitting, key=lambda row: row[:2])[2]
    if len(wheels) < len(package.artifacts):
        return next(file for file in package.artifacts if file not in wheels)
    machine = f"Python {python} on {platform} with glibc {glibc or 'unknown'}"
    raise Refused(
        f"{package.name} {package.version} has no wheel for {machine}",
        code="no-wheel-fits",
        problems=tuple(Problem(message="does not fit", key=file.file, expected=machine) for file in wheels),
        hint="envlock detect",
    )


def needed(locked: LockedVariant) -> tuple[LockedPackage, ...]:
    """Return the packages with those files alone that some machine takes on which all of them can be installed.

    It takes the best that its glibc allows: an older one may need a wheel that a newer one never looks at. Raise
    `Refused` (`no-wheel-fits`) where the glibc that was locked for has none.
    """
    oldest = int(locked.floors.glibc.split(".")[1]) if locked.floors.glibc else _OLDEST_MINOR
    taken = set(_picked(locked, None))
    for minor in range(oldest, GLIBC[1]):
        with contextlib.suppress(Refused):
            taken.update(_picked(locked, f"{GLIBC[0]}.{minor}"))
    kept = ((package, tuple(file for file in package.artifacts if file in taken)) for package in locked.packages)
    return tuple(replace(package, artifacts=files) for package, files in kept)


def _picked(locked: LockedVariant, glibc: str | None) -> list[Artifact]:
    variant = locked.variant
    return [pick(package, variant.python, variant.platform, glibc) for package in locked.packages]


def fits(wheel: str, python: str, platform: str) -> bool:
    """Say whether a wheel of that file name is one that a lock for them holds."""
    return _rank(wheel, _ranks(python, platform, None)) is not None


def _rank(wheel: str, ranks: Mapping[tags.Tag, int]) -> int | None:
    try:
        own = parse_wheel_filename(wheel)[3]
    except InvalidWheelFilename:
        return None
    return min((ranks[tag] for tag in own if tag in ranks), default=None)


@functools.lru_cache(maxsize=16)
def _ranks(python: str, platform: str, glibc: str | None) -> Mapping[tags.Tag, int]:
    """Return each tag such a machine takes, with its rank: 0 is best."""
    major, minor = (int(part) for part in python.split("."))
    interpreter = f"cp{major}{minor}"
    platforms = list(_platforms(platform, glibc))
    ordered = [
        *tags.cpython_tags((major, minor), abis=[interpreter], platforms=platforms),
        *tags.compatible_tags((major, minor), interpreter=interpreter, platforms=platforms),
    ]
    return {tag: rank for rank, tag in reversed(list(enumerate(ordered)))}


def _platforms(platform: str, glibc: str | None) -> Iterator[str]:
    system, _, arch = platform.partition("-")
    newest = tuple(int(part) for part in glibc.split(".")[:2]) if glibc else GLIBC
    for minor in range(newest[1], _OLDEST_MINOR - 1, -1):
        yield f"manylinux_2_{minor}_{arch}"
        if (2, minor) in _LEGACY:
            yield f"{_LEGACY[2, minor]}_{arch}"
    yield f"{system}_{arch}"


# ---- two locks ----------------------------------------------------------------------------------------------------


def moved(lock: Lock, now: Inputs) -> tuple[str, ...]:
    """Return the names of the inputs that are not what the lock was made from; it is stale when there is one."""
    names = (field.name for field in fields(Inputs))
    return tuple(name for name in names if getattr(lock.inputs, name) != getattr(now, name))


def pins(locked: LockedVariant | None) -> dict[str, str]:
    """Return name -> version of all that is locked there, to build with too; empty where nothing is."""
    return {package.name: package.version for package in (*locked.build, *locked.packages)} if locked else {}


def diff(old: Lock | None, new: Lock | None) -> tuple[Change, ...]:
    """Return every package that came, went or changed, by variant; other files of the same version are a change too."""
    was, now = _flat(old), _flat(new)
    return tuple(
        Change(variant=key[0], package=key[1], was=_told(was.get(key)), now=_told(now.get(key), was.get(key)))
        for key in sorted({*was, *now})
        if _bytes(was.get(key)) != _bytes(now.get(key))
    )


def _flat(lock: Lock | None) -> dict[tuple[str, str], LockedPackage]:
    return {
        (locked.variant.name, f"{package.name}{suffix}"): package
        for locked in (lock.variants if lock else ())
        for packages, suffix in ((locked.packages, ""), (locked.build, " (to build)"))
        for package in packages
    }


def _bytes(package: LockedPackage | None) -> tuple[str, frozenset[tuple[str, str, str]]] | None:
    """Return what makes the package itself; where a hash was read, and a size that was learnt, do not."""
    files = package.artifacts if package else ()
    return (package.version, frozenset((one.index, one.file, one.sha256) for one in files)) if package else None


def _told(package: LockedPackage | None, before: LockedPackage | None = None) -> str | None:
    if package is None:
        return None
    same = before is not None and before.version == package.version
    return f"{package.version}, other files" if same else package.version


# ---- what pip and uv take -----------------------------------------------------------------------------------------


def sources(packages: Sequence[LockedPackage]) -> tuple[LockedPackage, ...]:
    """Return the packages that come as source only."""
    return tuple(package for package in packages if not any(file.file.endswith(".whl") for file in package.artifacts))


def indexed(packages: Iterable[LockedPackage]) -> dict[str, str]:
    """Return package -> index for those packages that come from a named index."""
    every = ((package.name, file.index) for package in packages for file in package.artifacts)
    return {name: index for name, index in every if index != DEFAULT_INDEX}


def find_links(packages: Iterable[LockedPackage], profile: str, addresses: Mapping[str, str]) -> list[str]:
    """Return the option for pip and uv that names the page of each package of a named index.

    Raise `Refused` (`index-unknown`) for an index that has no address.
    """
    named = indexed(packages)
    unknown = sorted({index for index in named.values() if index not in addresses})
    if unknown:
        raise Refused(
            f"where the index `{unknown[0]}` is, which the lock of `{profile}` names, is not known",
            code="index-unknown",
            hint=f"envlock lock {profile}",
        )
    return [f"--find-links {addresses[index]}{package}/" for package, index in named.items()]


def requirements(locked: LockedVariant, profile: str, addresses: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return `requirements.txt` of a variant: every package with every hash, and above it how to install by hand.

    `addresses` are those of the named indexes as everybody has them: a mirror's would tie the text to one place. Each
    page that is named lists one package only: of an index with files of the same names and other bytes, as those of
    PyTorch carry them, uv would take the wrong ones and stop at their hashes. Raise what `find_links` raises.
    """
    variant = locked.variant
    python = f"python{variant.python}"
    built = ", ".join(package.name for package in sources(locked.packages))
    options = "--require-hashes --no-build-isolation" if built else "--require-hashes"
    pages = _pages(locked.packages, profile, addresses)
    uv = f"uv pip sync --python .venv {options}{pages} requirements.txt"
    pip = f"{_before('pip', locked, profile, addresses)}.venv/bin/pip install --no-deps {options}{pages}"
    pip += " -r requirements.txt"
    sync = "pip-sync --python-executable .venv/bin/python"
    # pip-sync takes away what only building needs, before it would build.
    synced = f"{pip} && {sync}" if built else f"{sync}{pages} --pip-args '--no-deps {options}'"
    by_hand = f"By hand, in the folder of this file, for glibc systems with {python}:"
    lines = [
        f"`envlock install {profile}` does all this, and verifies. {by_hand}",
        f"  uv:  uv venv --python {variant.python} && {_before('uv', locked, profile, addresses)}{uv}",
        f"  pip: {python} -m venv .venv && {pip}",
        # The pip that a Python brings along is older than pip-sync takes.
        f"  pip-sync: {python} -m venv --upgrade-deps .venv && {synced} requirements.txt",
    ]
    if built:
        lines.append(f"Built from source, with what build-requirements.txt names: {built}")
    return _document(f"{profile}, variant {variant.name} ({variant.platform})", lines, locked.packages)


def _pages(packages: Iterable[LockedPackage], profile: str, addresses: Mapping[str, str]) -> str:
    return "".join(f" {option}" for option in find_links(packages, profile, addresses))


def _before(tool: str, locked: LockedVariant, profile: str, addresses: Mapping[str, str]) -> str:
    if not sources(locked.packages):
        return ""
    wheels = f"--require-hashes --only-binary :all:{_pages(locked.build, profile, addresses)}"
    if tool == "uv":
        return f"uv pip sync --python .venv {wheels} build-requirements.txt && "
    return f".venv/bin/pip install --no-deps {wheels} -r build-requirements.txt && "


def build_requirements(locked: LockedVariant, profile: str) -> str:
    """Return `build-requirements.txt` of a variant: all that its source-only packages need in order to be built."""
    built = ", ".join(package.name for package in sources(locked.packages)) or "nothing"
    return _document(
        f"{profile}, variant {locked.variant.name}: to build {built}",
        ["Installed before requirements.txt, whose header says how."],
        locked.build,
    )


def _document(title: str, lines: Sequence[str], packages: Sequence[LockedPackage]) -> str:
    head = [f"# {title}. {_MARK}", *(f"# {line}" for line in lines)]
    return "\n".join([*head, *(_requirement(package) for package in packages)]) + "\n"


def _requirement(package: LockedPackage) -> str:
    hashes = sorted(file.sha256 for file in package.artifacts)
    parts = [f"{package.name}=={package.version}", *(f"    --hash=sha256:{digest}" for digest in hashes)]
    via = f"\n    # via {', '.join(package.why)}" if package.why else ""
    return " \\\n".join(parts) + via


def files(lock: Lock, addresses: Mapping[str, str]) -> dict[str, bytes]:
    """Return relative path -> content of all that lies in `lockfiles/` for this lock but the conda parts, itself last.

    `addresses` as `requirements` takes them.
    """
    found = {}
    for locked in lock.variants:
        (main, *build) = _beside(lock, locked)
        found[main] = requirements(locked, lock.profile, addresses)
        found |= {place: build_requirements(locked, lock.profile) for place in build}
    found[f"{lock.profile}.lock"] = render(lock)
    return {place: text.encode() for place, text in found.items()}


def places(lock: Lock) -> list[str]:
    """Return the relative path of all that `files` would give."""
    return [*(place for locked in lock.variants for place in _beside(lock, locked)), f"{lock.profile}.lock"]


def _beside(lock: Lock, locked: LockedVariant) -> list[str]:
    names = ["requirements.txt", "build-requirements.txt"] if locked.build else ["requirements.txt"]
    return [f"{lock.profile}/{locked.variant.name}/{name}" for name in names]


def conda_place(profile: str, variant: str) -> str:
    """Return the relative path of a variant's `conda-lock.yml`, whether or not there is one."""
    return f"{profile}/{variant}/conda-lock.yml"


def conda_head(locked: LockedVariant, profile: str) -> list[str]:
    """Return what stands above a variant's `conda-lock.yml`, the first line as `is_rendered` knows it."""
    variant = locked.variant
    return [
        f"{profile}, variant {variant.name} ({variant.platform}), its conda part. {_MARK}",
        "Python, pip and what else the profile asks of conda; requirements.txt holds the wheels, torch among them.",
        "  conda-lock:  conda-lock install -p .venv conda-lock.yml",
        "  micromamba:  micromamba create -p .venv -f conda-lock.yml",
    ]


def is_rendered(content: bytes) -> bool:
    """Tell whether this is what stands beside a lock, of whatever lock: its first line says so."""
    return content.partition(b"\n")[0].endswith(f". {_MARK}".encode())
