"""The console script: hold the signals, then import what answers them; nothing heavy may be imported before."""

from __future__ import annotations

from importlib import import_module

from envlock.cli import signals

__all__ = ["entry"]


def entry() -> None:
    """Run as a process."""
    signals.hold()
    import_module("envlock.cli.main").entry()
