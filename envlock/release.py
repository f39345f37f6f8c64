"""Which release a file is of, as its name says. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

from packaging.utils import canonicalize_name
from packaging.version import Version

__all__ = ["is_of", "version"]

_SUFFIX: Final = re.compile(r"\.(?:whl|zip|tgz|tar\.(?:gz|bz2|xz))$")


def is_of(file: str, name: str, number: str) -> bool:
    """Say whether a file is called after that release; a wheel mostly is, letter for letter."""
    if file.endswith(".whl") and file.startswith(f"{name.replace('-', '_')}-{number}-"):
        return True
    meant = version(number)
    return any(canonicalize_name(head) == name and version(tail) == meant for head, tail in _read(file))


def _read(file: str) -> Iterator[tuple[str, str]]:
    """Yield name and version as the file may mean them: those of an sdist may both hold a `-`."""
    parts = _SUFFIX.sub("", file).split("-")
    if file.endswith(".whl"):
        yield parts[0], parts[1]
    else:
        yield from (("-".join(parts[:cut]), "-".join(parts[cut:])) for cut in range(1, len(parts)))


@functools.lru_cache(maxsize=4096)
def version(text: str) -> Version | None:
    """Return the version that a text spells, None where it spells none."""
    try:
        return Version(text)
    except ValueError:  # also for a number of more digits than Python reads
        return None
