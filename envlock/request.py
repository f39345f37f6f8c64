"""The variants of a profile: their names, and the order in which they are locked and looked up."""

from __future__ import annotations

from envlock.model import BackendSpec, Profile, Source, Variant

__all__ = ["name", "spec_of", "variants"]


def variants(profile: Profile) -> tuple[Variant, ...]:
    """Return every variant of the profile: backends in the profile's order, index before PyPI, Pythons ascending."""
    return tuple(
        Variant(
            name=name(spec, source, python), backend=spec.name, source=source, python=python, platform=platform
        )
        for platform in profile.platforms
        for spec in profile.backends
        for source, pythons in (("index", spec.python), ("pypi", spec.pypi_python))
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
    return next(spec for spec in profile.backends if spec.name == backend)
