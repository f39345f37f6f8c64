"""What the header of a `requirements.txt` says, done in a folder that holds nothing but the files."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

__all__ = ["command", "do", "installed"]


def command(text: str, tool: str) -> str:
    """Return the command that the header has for a tool."""
    (found,) = re.findall(rf"^#   {re.escape(tool)}: +(.+)$", text, re.MULTILINE)
    return str(found)


def do(line: str, where: Path, environ: Mapping[str, str], *, seconds: int = 300) -> Path:
    """Give a command to a shell in that folder; return the site-packages of the environment that it makes."""
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=where,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    (found,) = where.glob(".venv/lib/python3*/site-packages")
    return found


def installed(site: Path, *, own: Collection[str] = ()) -> dict[str, str]:
    """Return name and version of all that is there, but for the names that are an environment's `own`."""
    rows = (path.name.removesuffix(".dist-info").rsplit("-", 1) for path in site.glob("*.dist-info"))
    found = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in rows}
    return {name: version for name, version in found.items() if name not in own}
