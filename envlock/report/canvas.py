"""Where the faces draw: lines and tables for one terminal, in its colours, its width and its characters."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from envlock.cli.terminal import Terminal, printable
from envlock.model import Status

__all__ = ["MARKS", "Canvas", "Cell", "Span", "duration", "size"]

Span: TypeAlias = "str | tuple[str, str]"
Cell: TypeAlias = tuple[Span, ...]

# A shape each, so that nothing is said by colour alone.
MARKS: Mapping[Status, tuple[str, str]] = {
    "pass": ("✓", "green"),
    "fail": ("✗", "bold red"),
    "warn": ("!", "yellow"),
    "skip": ("-", "dim"),
}
ASCII = str.maketrans({"✓": "ok", "✗": "NO", "→": "->", "≥": ">=", "…": "...", "·": "-"})
UNITS = ("B", "kB", "MB", "GB", "TB")
ROUNDS_UP = 999.5  # what would be printed as 1000 belongs to the next unit
MINUTE = 60
WIDE = 1 << 12  # columns: no address or path is as long


class Canvas:
    """Collects what is drawn as text; rich never sees the real stream or the environment."""

    def __init__(self, terminal: Terminal) -> None:
        """Start empty."""
        self._unicode = terminal.unicode
        self._buffer = io.StringIO()
        self._console = Console(
            file=self._buffer,
            force_terminal=terminal.colour,
            color_system="standard" if terminal.colour else None,
            width=terminal.width,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
            _environ={},
        )

    def line(self, *spans: Span, indent: int = 0) -> None:
        """Draw one line; what does not fit continues below it at the same indent."""
        self._console.print(Padding(self._assemble(spans), (0, 0, 0, indent)))

    def code(self, command: str) -> None:
        """Draw a command to copy: on one line, however long it is."""
        self._console.print(self._assemble(("  ", (command, "cyan"))), soft_wrap=True)

    def verbatim(self, text: str) -> None:
        """Draw a text as it is, however wide: it is for other programs."""
        self._buffer.write(text)

    def gap(self) -> None:
        """Draw an empty line."""
        self._console.print()

    def table(
        self, rows: Sequence[Sequence[Cell]], *, header: Sequence[str] = (), indent: int = 2, whole: bool = False
    ) -> None:
        """Draw columns without rules: they read the same in every encoding, and copy as text.

        `whole` rows stay on one line each, however wide: they hold addresses.
        """
        table = Table(box=None, show_header=bool(header), pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for title in header or [""] * max(map(len, rows), default=0):
            table.add_column(self._plain(title), overflow="fold")
        for row in rows:
            table.add_row(*map(self._assemble, row))
        width = self._console.width
        self._console.width = WIDE if whole else width
        self._console.print(Padding(table, (0, 0, 0, indent)))
        self._console.width = width

    def text(self) -> str:
        """Return all that was drawn, without blanks at the ends of lines."""
        return "".join(f"{line.rstrip()}\n" for line in self._buffer.getvalue().splitlines())

    def _assemble(self, spans: Sequence[Span]) -> Text:
        pairs = [(span, "") if isinstance(span, str) else span for span in spans]
        return Text.assemble(*((self._plain(text), style) for text, style in pairs))

    def _plain(self, text: str) -> str:
        shown = printable(text)
        return shown if self._unicode else shown.translate(ASCII)


def size(count: int) -> str:
    """Return bytes as a person reads them, in powers of 1000."""
    value = float(count)
    for unit in UNITS[:-1]:
        if value < ROUNDS_UP:
            return f"{value:.0f} {unit}" if unit in UNITS[:3] else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} {UNITS[-1]}"


def duration(seconds: float) -> str:
    """Return seconds as a person reads them."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), MINUTE)
    return f"{minutes} min {rest} s"
