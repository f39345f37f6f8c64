"""Names of GPUs: which compute capability a name stands for, whichever way people and drivers write it.

A table maps names to capabilities; a key may hold several names apart by ` / ` (`"A10 / A40 / RTX 30"`). A name
whose last word is two digits is a series: `RTX 30` stands for 3050 to 3090 Ti. It does not stand for `RTX 3000`:
workstation cards count in thousands, across generations.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

__all__ = ["canonical", "capability", "similar"]

MAKER = re.compile(r"^(nvidia|tesla|geforce|quadro)\s+")


def capability(name: str, table: Mapping[str, str]) -> str | None:
    """Return the compute capability of a GPU of that name; None where no entry, or several that differ, would fit."""
    found = _match(name, table)
    return found[1] if found else None


def canonical(name: str, table: Mapping[str, str]) -> str:
    """Return the name as given, or as the table writes it where only the letters' case differs."""
    found = _match(name, table)
    return found[0] if found and found[0].casefold() == name.strip().casefold() else name.strip()


def similar(name: str, table: Mapping[str, str]) -> tuple[str, ...]:
    """Return up to three known names that look like this one, the nearest first."""
    names = {known.casefold(): known for known, _ in _names(table)}
    near = difflib.get_close_matches(_bare(name), list(names), n=3) or [
        known for known in sorted(names) if _bare(name) and _bare(name) in known
    ]
    return tuple(names[known] for known in near[:3])


def _match(name: str, table: Mapping[str, str]) -> tuple[str, str] | None:
    asked = _bare(name)
    if not asked:
        return None
    known = list(_names(table))
    exact = [entry for entry in known if _bare(entry[0]) == asked]
    within = [entry for entry in known if _stands_for(_bare(entry[0]), asked)]
    longest = max((len(_bare(entry[0])) for entry in within), default=0)
    nearest = [entry for entry in within if len(_bare(entry[0])) == longest]
    part = [entry for entry in known if re.search(rf"(?<![0-9a-z]){re.escape(asked)}(?![0-9a-z])", _bare(entry[0]))]
    for candidates in (exact, nearest, part):
        if candidates:
            return candidates[0] if len({found for _, found in candidates}) == 1 else None
    return None


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


def _stands_for(known: str, asked: str) -> bool:
    rest = r"(?!00)[0-9]{2}" if re.search(r"(^| )[0-9]{2}$", known) else ""
    return re.search(rf"(?<![0-9a-z]){re.escape(known)}{rest}(?![0-9a-z])", asked) is not None
