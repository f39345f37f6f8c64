"""How far a use case is, on stderr: a live line on a terminal, one line a stage elsewhere, or nothing."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TextIO

from envlock.cli import redact
from envlock.cli.terminal import Terminal, printable
from envlock.model import Caution

__all__ = ["Progress"]

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_FRAMES = "|/-\\"
TICK_SECONDS = 0.1
CLEAR = "\r\x1b[2K"
YELLOW, DIM, RESET = "\x1b[33m", "\x1b[2m", "\x1b[0m"


class Progress:
    """A `Reporter`; as a context manager it leaves no half-drawn line behind. `verbosity` counts `-v` minus `-q`."""

    def __init__(self, stream: TextIO, *, terminal: Terminal, verbosity: int, silent: bool) -> None:
        """Draw nothing yet: the first stage does; `silent` keeps even warnings, as `--json` carries them itself."""
        self._stream = stream
        self._terminal = terminal
        self._verbosity = verbosity
        self._silent = silent
        # A live line would be torn apart by the details that `-v` prints.
        self._live = terminal.live and verbosity == 0 and not silent
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._text = ""
        self._since = 0.0

    def __enter__(self) -> None:
        """Draw nothing yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing and clear the line."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._write(CLEAR)

    def stage(self, text: str) -> None:
        """Begin a stage."""
        if self._silent or self._verbosity < 0:
            return
        shown = _fit(text)
        if not self._live:
            self._write(f"{shown}\n")
            return
        with self._lock:
            self._text, self._since = shown, time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()

    def warn(self, caution: Caution) -> None:
        """Show a warning at once, above a live line; only `--json` holds it back, since the document has it."""
        if not self._silent:
            self._line(f"{self._paint('warning:', YELLOW)} {_fit(caution.message)}")

    def log(self, text: str) -> None:
        """Show a detail, with `-v`."""
        if not self._silent and self._verbosity > 0:
            self._line(self._paint(_fit(text), DIM))

    def _line(self, text: str) -> None:
        self._write(f"{CLEAR if self._thread else ''}{text}\n")

    def _paint(self, text: str, colour: str) -> str:
        return f"{colour}{text}{RESET}" if self._terminal.colour else text

    def _draw(self) -> None:
        frames = FRAMES if self._terminal.unicode else ASCII_FRAMES
        tick = 0
        while not self._done.wait(TICK_SECONDS):
            with self._lock:
                text, seconds = self._text, time.monotonic() - self._since
            clock = f"  {seconds:.0f} s" if seconds >= 1 else ""
            room = self._terminal.width - len(clock) - 3
            self._write(f"{CLEAR}{frames[tick % len(frames)]} {text[:room]}{clock}")
            tick += 1

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # Nobody reads stderr any more; the work itself goes on.
            self._live = False


def _fit(text: str) -> str:
    return printable(redact.text(text))
