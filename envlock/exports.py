"""A locked variant as other tools take it: the texts for pip, uv and conda, and where they go. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from envlock import lock
from envlock.model import Format, LockedPackage, LockedVariant, Profile

__all__ = [
    "BUILD",
    "FORMATS",
    "MARK",
    "REQUIREMENTS",
    "SUMS",
    "command",
    "environment",
    "is_export",
    "name",
    "pylock_comments",
    "renamed",
    "requirements",
    "summed",
    "sums",
    "wheelhouse",
]

FORMATS: Final[tuple[Format, ...]] = ("requirements", "pylock", "environment.yml", "wheelhouse")
MARK: Final = "Written by `envlock export`."
"""Ends the first line of whatever is exported and is not as `envlock lock` writes it."""

REQUIREMENTS: Final = "requirements.txt"
BUILD: Final = "build-requirements.txt"
SUMS: Final = "SHA256SUMS"
"""Lists every other file of a wheelhouse, as sha256sum takes it."""

# The compilers that profiles ask for go by conda-forge's names; `nodefaults` keeps out what a user's settings add.
_CHANNELS: Final = ("conda-forge", "nodefaults")
_CONDA_NAME: Final = re.compile(r"(?:.*::)?\s*([^\s<>=!~\[]+)")


def name(kind: Format, profile: str, variant: str) -> str:
    """Return what an export is called where nobody says so. PEP 751 allows no dot in what names a lock."""
    slug = f"{profile}-{variant}"
    names = {
        "requirements": REQUIREMENTS,
        "pylock": f"pylock.{slug.replace('.', '-')}.toml",
        "environment.yml": "environment.yml",
        "wheelhouse": f"{slug}-wheelhouse",
    }
    return names[kind]


def is_export(content: bytes) -> bool:
    """Tell whether a file is one that `export` writes, of whatever variant: its first line says so."""
    first = content.partition(b"\n")[0]
    return first.endswith(MARK.encode()) or lock.is_rendered(content)


def requirements(locked: LockedVariant, profile: str, addresses: Mapping[str, str]) -> dict[str, str]:
    """Return name -> text of what pip and uv take, as it stands in `lockfiles/`: more than one where it is built from.

    `addresses` are those of the named indexes as everybody has them.
    """
    found = {REQUIREMENTS: lock.requirements(locked, profile, addresses)}
    if locked.build:
        found[BUILD] = lock.build_requirements(locked, profile)
    return found


def command(kind: Format, profile: str, locked: LockedVariant, path: str) -> str | None:
    """Return what installs the export at `path` into an environment of its own, made beside whatever there is.

    It stops where that environment is there already, as uv leaves one alone. None where the export's own first lines
    say it: they alone name the pages, and what building takes.
    """
    place = shlex.quote(path)
    if kind == "environment.yml":
        return f"conda env create -f {place}"
    own = shlex.quote(f".venv-{profile}")
    made = f"uv venv --python {locked.variant.python} {own} && uv pip sync --python {own}"
    if kind == "pylock" and not locked.build:
        return f"{made} {place}"
    if kind == "wheelhouse":
        return f"{made} --no-index --find-links {place} --require-hashes {shlex.quote(f'{path}/{REQUIREMENTS}')}"
    return None


def renamed(text: str, was: str, now: str) -> str:
    """Return a text whose comments say how to install it under another name."""
    named = re.compile(rf"(?<![\w-]){re.escape(was)}")
    return "".join(
        named.sub(lambda _: shlex.quote(now), line) if line.startswith("#") else line
        for line in text.splitlines(keepends=True)
    )


def environment(locked: LockedVariant, profile: Profile, addresses: Mapping[str, str]) -> dict[str, str]:
    """Return name -> text of what `conda env create` takes, and of what must stand beside it.

    conda writes each item below `pip:` into a requirements file as it is, for `pip install -U -r`: hashes and options
    for a file are fine there, options of the command are not. Packages that come as source need one of those
    (`--no-build-isolation`), so where there are any, pip is left to whoever made the environment.
    """
    built = ", ".join(package.name for package in lock.sources(locked.packages))
    variant = locked.variant
    specs = [f"python {variant.python}.*", *(one for one in profile.conda_requires if _conda_name(one) != "python")]
    if "pip" not in map(_conda_name, specs):
        specs.append("pip")
    lines = [
        f"# {profile.name}, variant {variant.name} ({variant.platform}). {MARK}",
        "# conda env create -f environment.yml; mamba and micromamba take it as well.",
        *(_by_hand(locked, profile.name, addresses, built) if built else ()),
        f"name: {json.dumps(profile.name)}",
        "channels:",
        *(f"  - {channel}" for channel in _CHANNELS),
        "dependencies:",
        *(f"  - {json.dumps(spec)}" for spec in specs),
    ]
    if not built:
        items = [*lock.find_links(locked.packages, profile.name, addresses), *map(_requirement, locked.packages)]
        lines += ["  - pip:", *(f"    - {json.dumps(item)}" for item in items)]
    beside = requirements(locked, profile.name, addresses) if built else {}
    return {"environment.yml": "\n".join(lines) + "\n", **beside}


def pylock_comments(locked: LockedVariant, profile: str, file: str) -> list[str]:
    """Return what stands above a pylock of that name."""
    variant = locked.variant
    built = ", ".join(package.name for package in lock.sources(locked.packages))
    called = shlex.quote(file)
    sync = "uv pip sync --python .venv"
    lines = [f"{profile}, variant {variant.name} ({variant.platform}). {MARK}"]
    if not built:
        return [*lines, f"uv venv --python {variant.python} && {sync} {called}"]
    before = f"{sync} --require-hashes --only-binary :all: {BUILD}"
    return [
        *lines,
        f"uv venv --python {variant.python} && {before} && {sync} --no-build-isolation {called}",
        f"Built from source, with what {BUILD} names: {built}",
    ]


def wheelhouse(locked: LockedVariant, profile: str, built: Mapping[str, str]) -> str:
    """Return `requirements.txt` of a folder of wheels, with the commands that need nothing else.

    `built` maps the file names of wheels that were built for it to the sdists that the lock names in their place.
    """
    variant = locked.variant
    offline = "--no-index --find-links . --require-hashes"
    lines = [
        f"{profile}, variant {variant.name} ({variant.platform}). {MARK}",
        f"In this folder, without a network, for glibc systems with python{variant.python}:",
        f"  pip: python{variant.python} -m venv .venv && .venv/bin/pip install {offline} -r {REQUIREMENTS}",
        f"  uv:  uv venv --python {variant.python} && uv pip sync --python .venv {offline} {REQUIREMENTS}",
        f"Whether all of it arrived: sha256sum --check --quiet {SUMS}",
    ]
    if built:
        lines.append("Built for this folder, so that their hashes are not those of the lock:")
        lines += [f"  {wheel} from {sdist}" for wheel, sdist in sorted(built.items())]
    rows = (_requirement(package).replace(" --hash=", " \\\n    --hash=") for package in locked.packages)
    return "\n".join([*(f"# {line}" for line in lines), *rows]) + "\n"


def sums(hashes: Mapping[str, str]) -> str:
    """Return `SHA256SUMS` for files by name."""
    return "".join(f"{digest}  {file}\n" for file, digest in sorted(hashes.items()))


def summed(lines: Iterable[str]) -> set[str]:
    """Return the names that a `SHA256SUMS` lists."""
    return {line.partition("  ")[2] for line in lines}


def _by_hand(locked: LockedVariant, profile: str, addresses: Mapping[str, str], built: str) -> list[str]:
    pip = f"conda run -n {profile} python -m pip install --no-deps --require-hashes"
    options = "".join(f" {option}" for option in lock.find_links(locked.packages, profile, addresses))
    return [
        "# Then, since conda cannot say --no-build-isolation, with the two files that stand beside this one:",
        f"#   {pip} --only-binary :all: -r {BUILD}",
        f"#   {pip} --no-build-isolation{options} -r {REQUIREMENTS}",
        f"# Built from source: {built}",
    ]


def _requirement(package: LockedPackage) -> str:
    hashes = (f" --hash=sha256:{digest}" for digest in sorted(file.sha256 for file in package.artifacts))
    return f"{package.name}=={package.version}{''.join(hashes)}"


def _conda_name(spec: str) -> str:
    found = _CONDA_NAME.match(spec)
    return found[1].lower() if found else ""
