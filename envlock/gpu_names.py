"""Names of GPUs: which compute capability a name stands for, whichever way people and drivers write it.

A table maps names to capabilities; a key may hold several names apart by ` / ` (`"A10 / A40 / RTX 3090"`). What may
follow a name without another chip behind it (`Ti`, `80GB`, `SXM4`, `Laptop GPU`) is no part of it. `Quadro` is: an
RTX 6000 is another card with it than without.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from envlock.model import Gpu

__all__ = ["canonical", "capability", "is_foreign", "meant", "processor", "similar"]

MAKER: Final = re.compile(r"^(nvidia|tesla|geforce|grid)\s+")
FOREIGN: Final = re.compile(r"\b(amd|radeon|rx|instinct|mi[0-9]{2,3}[a-z]?|firepro|intel|arc|iris|apple)\b")
FOLLOWS: Final = re.compile(
    r"(?:[ -]+(?:[0-9]+ ?gb?|sxm[0-9]?|pcie|hbm[0-9]?e?|nvl[0-9]*|3e|mig [0-9]\S*|[0-9]+[qcab]"
    r"|ti|super|d|n|ls|v[0-9]|lhr|active|laptop|mobile|max-q|with|design|gpu"
    r"|generation|sff|server|workstation|collectors|edition|\(nvgpu\)))*"
)
SIMILAR: Final = 0.75  # as `difflib` counts it: from here on a name may have been misspelt


def capability(name: str, table: Mapping[str, str]) -> str | None:
    """Return the compute capability of a GPU of that name; None where no entry, or several that differ, would fit."""
    found = set(meant(name, table).values())
    return found.pop() if len(found) == 1 else None


def canonical(name: str, table: Mapping[str, str]) -> str:
    """Return the name as the table writes it where that is one and nothing was added to it, else as it is given."""
    found = list(meant(name, table))
    return found[0] if len(found) == 1 and _bare(name) in _bare(found[0]) else name.strip()


def meant(name: str, table: Mapping[str, str]) -> Mapping[str, str]:
    """Return the names in the table that this one may stand for, with their compute capabilities.

    Those that it is, else the longest that it begins with, else those that it is a part of: `3090` is enough.
    """
    asked = _bare(name)
    known = {each: (_bare(each), found) for each, found in _names(table)}
    led = [bare for bare, _ in known.values() if asked.startswith(bare) and FOLLOWS.fullmatch(asked[len(bare) :])]
    whole = max(led, key=len, default=None)
    word = re.compile(rf"(?<![0-9a-z]){re.escape(asked)}(?![0-9a-z])")
    telling = any(mark.isdigit() for mark in asked)
    return {
        each: found
        for each, (bare, found) in known.items()
        if (bare == whole if whole is not None else telling and word.search(bare))
    }


def similar(name: str, table: Mapping[str, str]) -> tuple[str, ...]:
    """Return up to three known names that look like this one, the nearest first."""
    names = {_bare(known): known for known, _ in _names(table)}
    near = difflib.get_close_matches(_bare(name), list(names), n=3, cutoff=SIMILAR) or [
        known for known in sorted(names) if _bare(name) and _bare(name) in known
    ]
    return tuple(names[known] for known in near[:3])


def is_foreign(name: str) -> bool:
    """Return whether the name is that of a GPU of another maker."""
    return FOREIGN.search(name.casefold()) is not None


def processor(gpu: Gpu, archs: Mapping[str, str]) -> str | None:
    """Return the only processor that a GPU is built together with; `archs` maps names and compute capabilities."""
    return archs.get(gpu.compute_capability or "") or capability(gpu.name, archs)


def _names(table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, found in table.items():
        for name in key.split(" / "):
            yield name.strip(), found


def _bare(name: str) -> str:
    """Return the name in small letters without its maker: `NVIDIA GeForce RTX 3090` is `rtx 3090`."""
    bare = " ".join(name.casefold().split())
    while (shorter := MAKER.sub("", bare)) != bare:
        bare = shorter
    return bare
