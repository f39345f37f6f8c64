"""Look at a machine's files under a root that tests can move; what is missing or forbidden reads as nothing."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

__all__ = ["link_target", "matching", "text", "under"]

# No file that detection reads is longer; /proc can hand out endless ones.
LARGEST = 1 << 20


def under(root: Path, name: str) -> Path:
    """Return an absolute path's place under the root."""
    return root / name.lstrip("/")


def text(path: Path) -> str:
    """Return a file's text, or nothing where it can't be read."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def matching(folder: Path, pattern: str) -> list[Path]:
    """Return the folder's entries whose name matches, with numbers in counting order: nvidia2 before nvidia10."""
    try:
        found = [path for path in folder.iterdir() if fnmatchcase(path.name, pattern)]
    except OSError:
        return []
    return sorted(found, key=lambda path: _counting(path.name))


def link_target(path: Path) -> str:
    """Return the name of the file that a link leads to, or nothing where it is no link."""
    try:
        return path.resolve().name if path.is_symlink() else ""
    except (OSError, RuntimeError):  # Python before 3.13 says RuntimeError to a loop of links
        return ""


def _counting(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name))
