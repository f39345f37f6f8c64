"""What is asked of a resolver: the variants of a profile, their names, and the question for one of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envlock.model import DEFAULT_INDEX, BackendSpec, Profile, Source, Variant

__all__ = [
    "DEFAULT_INDEX",
    "GLIBC",
    "ROOT",
    "Resolution",
    "building",
    "name",
    "names",
    "pin",
    "pyproject",
    "resolution",
    "snapshot",
    "spec_of",
    "variants",
]

GLIBC: Final = (2, 28)
"""The newest glibc whose wheels are locked: manylinux_2_28 is what today's wheels are built for."""

ROOT: Final = "profile"
"""Stands in `why` for the profile itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """One question to a resolver: `root` names who asks in its explanations, `pins` are versions to keep if they fit.

    `python` as `"3.10"`: an answer holds for every patch release of it. `only_binary` demands wheels throughout.
    `indexes` maps a package to the name of the index that it comes from and no other does; all others come from the
    default one, and from no named one.
    """

    root: str
    python: str
    platform: str
    requires: tuple[str, ...]
    exclude_newer: datetime | None
    pins: Mapping[str, str] = field(default_factory=dict)
    only_binary: bool = False
    indexes: Mapping[str, str] = field(default_factory=dict)


def variants(profile: Profile) -> tuple[Variant, ...]:
    """Return every variant of the profile: backends in the profile's order, index before PyPI, Pythons ascending."""
    return tuple(
        Variant(name=name(spec, source, python), backend=spec.name, source=source, python=python, platform=platform)
        for platform in profile.platforms
        for spec in profile.backends
        for source, pythons in _sources(spec)
        for python in pythons
    )


def name(spec: BackendSpec, source: Source, python: str) -> str:
    """Return `<backend>[-py312][-pypi]`: the Python where the backend lists several for that source."""
    pythons = spec.python if source == "index" else spec.pypi_python
    several = len(pythons) > 1
    parts = [spec.name, f"py{python.replace('.', '')}" if several else "", "pypi" if source == "pypi" else ""]
    return "-".join(part for part in parts if part)


def spec_of(profile: Profile, backend: str) -> BackendSpec:
    """Return the backend of that name; `KeyError` if the profile has none."""
    found = next((spec for spec in profile.backends if spec.name == backend), None)
    if found is None:
        raise KeyError(backend)
    return found


def pin(asking: BackendSpec | Resolution, package: str) -> str | None:
    """Return the version that a backend pins a package to with `==`; None where it is not named, or not pinned."""
    asked = [one for one in map(Requirement, asking.requires) if canonicalize_name(one.name) == package]
    exact = [each.version for one in asked for each in one.specifier if each.operator == "=="]
    return next((version for version in exact if not version.endswith(".*")), None)


def names(spec: BackendSpec, package: str) -> bool:
    """Say whether a backend asks for a package, in whatever version."""
    return any(canonicalize_name(Requirement(one).name) == package for one in spec.requires)


def resolution(
    profile: Profile, variant: Variant, pins: Mapping[str, str], indexed: Collection[str] = ()
) -> Resolution:
    """Return the question whose answer is that variant's packages; `indexed` are those a backend's own index serves."""
    spec = spec_of(profile, variant.backend)
    own = indexed if variant.source == "index" else ()
    return Resolution(
        root=f"{canonicalize_name(profile.name)}-profile",
        python=variant.python,
        platform=variant.platform,
        requires=spec.requires,
        exclude_newer=spec.exclude_newer,
        pins=pins,
        indexes={package: variant.backend for package in sorted(own) if names(spec, package)},
    )


def building(
    asked: Resolution, requires: Iterable[str], pins: Mapping[str, str], indexed: Collection[str] = ()
) -> Resolution:
    """Return the question what the source-only packages of an answer need to be built: wheels of the same snapshot.

    `indexed` as for `resolution`. What is built against a package of a named index is built against the very one that
    `pins` name: there is no other way for the two to fit.
    """
    own = next(iter(asked.indexes.values()), None)
    wanted = {canonicalize_name(Requirement(one).name) for one in requires}
    named = {package: own for package in sorted(indexed) if own and package in wanted}
    exact = (f"{package}=={pins[package]}" for package in named if package in pins)
    return Resolution(
        root=f"building-{asked.root}",
        python=asked.python,
        platform=asked.platform,
        requires=tuple(sorted({*requires, *exact})),
        exclude_newer=asked.exclude_newer,
        pins=pins,
        only_binary=True,
        indexes=named,
    )


def snapshot(moment: datetime) -> str:
    """Return the moment as uv reads it without knowing where it runs: RFC 3339 in UTC, to the second."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def pyproject(asked: Resolution, addresses: Mapping[str, str]) -> str:
    """Return the pyproject.toml that puts the question; `addresses` maps each name in `asked.indexes` to a URL.

    uv takes an index that is `explicit` for the packages that name it only, and looks for those nowhere else.
    """
    lines = [
        "[project]",
        f"name = {json.dumps(asked.root)}",
        'version = "0"',
        f'requires-python = "=={asked.python}.*"',
        "dependencies = [",
        *(f"    {_quoted(one)}," for one in asked.requires),
        "]",
    ]
    for name in sorted(set(asked.indexes.values())):
        lines += ["", "[[tool.uv.index]]", f"name = {_quoted(name)}", f"url = {_quoted(addresses[name])}"]
        lines += ["explicit = true"]
    if asked.indexes:
        lines += ["", "[tool.uv.sources]"]
        lines += [f"{package} = {{ index = {_quoted(name)} }}" for package, name in sorted(asked.indexes.items())]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a TOML basic string: a JSON one, but for the one character that TOML wants escaped as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _sources(spec: BackendSpec) -> tuple[tuple[Source, tuple[str, ...]], ...]:
    """Return each source with its Pythons. Without torch both are the same: then one of them is enough."""
    index = spec.python if names(spec, "torch") else tuple(one for one in spec.python if one not in spec.pypi_python)
    return (("index", index), ("pypi", spec.pypi_python))
