"""What each stream can show: colour, width, characters. Decided for stdout and stderr apart."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TextIO, TypeAlias

__all__ = ["Colour", "Terminal", "look", "printable"]

Colour: TypeAlias = Literal["auto", "always", "never"]
DEFAULT_WIDTH = 80
MIN_WIDTH = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """One stream: `live` means that a line may be drawn over, `unicode` that `✓` can be encoded."""

    colour: bool
    live: bool
    unicode: bool
    width: int


def look(stream: TextIO, *, mode: Colour, environ: Mapping[str, str]) -> Terminal:
    """Return what the stream can show; the flag beats the variables, and `NO_COLOR` beats those that force."""
    tty = stream.isatty()
    return Terminal(
        colour=_colour(mode, environ, tty=tty),
        live=tty and environ.get("TERM") != "dumb" and not environ.get("CI"),
        unicode=_encodes(stream, "✓✗→≥…"),
        width=_width(stream, environ, tty=tty),
    )


def printable(text: str) -> str:
    """Return the text with escapes for all that a terminal would act on instead of showing it; lines stay lines."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode("ascii")


def _colour(mode: Colour, environ: Mapping[str, str], *, tty: bool) -> bool:
    if mode != "auto":
        return mode == "always"
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return tty and environ.get("TERM") != "dumb"


def _encodes(stream: TextIO, sample: str) -> bool:
    try:
        sample.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _width(stream: TextIO, environ: Mapping[str, str], *, tty: bool) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return max(MIN_WIDTH, int(columns))
    if not tty:
        return DEFAULT_WIDTH
    try:
        return max(MIN_WIDTH, os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH)
    except OSError:
        return DEFAULT_WIDTH
