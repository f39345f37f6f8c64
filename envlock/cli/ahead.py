"""Use the time that other programs take: import what the answer will be shown with while the first of them runs."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from threading import Thread

from envlock.proc import Command, Completed, Runner

__all__ = ["importing"]


def importing(module: str, run: Runner) -> Runner:
    """Return a runner that begins to import the module when it is first called, and runs as `run` does."""
    once = iter([Thread(target=import_module, args=(module,), daemon=True)])

    def running(command: Command) -> Completed:
        for thread in once:
            with suppress(RuntimeError):  # no memory for another stack: it will be imported when it is needed
                thread.start()
        return run(command)

    return running
