"""The frame of an environment: an interpreter that starts, and that sees no packages but its own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

from envlock import files
from envlock.model import Check

__all__ = ["REAL", "check", "launcher", "launchers"]

REAL: Final = ".real"
"""What the interpreter's own name ends in: `bin/python3.10.real`."""

_LAUNCHER_BYTES: Final = 8192  # an interpreter is larger by far


def launchers(real: Path) -> Iterator[Path]:
    """Yield the names under which the interpreter at `real` is started."""
    for name in ("python", "python3", real.name.removesuffix(REAL)):
        yield real.parent / name


def launcher(real: Path) -> str:
    """Return the text of such a name: a script that starts `real` by its own path, which `sys.executable` then is."""
    template = resources.files("envlock").joinpath("data/launcher.sh").read_text(encoding="utf-8")
    return template.replace("@INTERPRETER@", shlex.quote(str(real)))


def check(root: Path) -> Check:
    """Check that the environment at `root` (resolved) starts, and that it is itself which starts."""
    wrong = _unstartable(root) or _leaky(root)
    if wrong:
        message, have, want = wrong
        return Check(id="integrity.interpreter", status="fail", message=message, have=have, want=want)
    return Check(id="integrity.interpreter", status="pass", message=str(_started(root / "bin" / "python").resolve()))


def _unstartable(root: Path) -> tuple[str, str, str] | None:
    """Return what is wrong with the interpreter: message, have and want."""
    python = _started(root / "bin" / "python")
    if not python.is_relative_to(root):
        return "this environment was moved or copied: it starts another one", str(python), f"{root}/bin"
    if not os.access(python, os.X_OK):
        return "the interpreter of this environment is gone", f"nothing that starts at {python.resolve()}", str(python)
    edited = [str(each.relative_to(root)) for each in launchers(python) if _is_other(each, launcher(python))]
    if edited and python.name.endswith(REAL):
        return "what starts the interpreter was changed", ", ".join(edited), "as envlock wrote it"
    return None


def _is_other(file: Path, text: str) -> bool:
    try:
        return file.is_symlink() or files.read(file, most=_LAUNCHER_BYTES) != text.encode()
    except OSError:
        return True


def _started(python: Path) -> Path:
    """Return what `bin/python` starts: itself, or what it names where it is envlock's launcher."""
    try:
        if python.is_symlink() or python.stat().st_size > _LAUNCHER_BYTES:
            return python
        words = shlex.split(files.read(python, most=_LAUNCHER_BYTES).decode("utf-8"), comments=True)
        return Path(words[words.index("exec") + 1])
    except (OSError, ValueError, IndexError):
        return python


def _leaky(root: Path) -> tuple[str, str, str] | None:
    """Return through what packages from outside are seen: message, have and want."""
    settings = _settings(root / "pyvenv.cfg")
    if not settings and not (root / "conda-meta").is_dir():
        message = "without it, the interpreter takes the packages of another installation"
        return message, "no readable pyvenv.cfg", "pyvenv.cfg"
    if settings.get("include-system-site-packages", "false").lower() != "false":
        key = "include-system-site-packages"
        return "packages from outside this environment are visible in it", f"{key} = true", f"{key} = false"
    return None


def _settings(file: Path) -> dict[str, str]:
    try:
        lines = files.read(file, most=_LAUNCHER_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}
