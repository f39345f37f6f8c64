"""`python -m envlock`: the same command, for an interpreter whose scripts folder is not on PATH."""

from __future__ import annotations

from envlock.cli.start import entry

if __name__ == "__main__":
    entry()
