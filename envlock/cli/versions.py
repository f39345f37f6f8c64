"""`envlock --version -v`: what a bug report needs. Apart, since reading metadata costs a tenth of a whole start-up."""

from __future__ import annotations

import platform
from importlib import metadata

from envlock import __version__

__all__ = ["found"]


def found(*, verbose: bool) -> dict[str, str | None]:
    """Return envlock's version, and with `verbose` the engines' and Python's; None for an engine that is not there."""
    versions: dict[str, str | None] = {"envlock": __version__}
    if verbose:
        versions |= {"uv": _distribution("uv"), "python": platform.python_version()}
    return versions


def _distribution(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
