"""Ctrl-C, SIGTERM and SIGHUP: held back while nobody could answer them, let through while a verb is at work.

Held back they are not lost. What comes while Python still imports is answered as soon as there is somebody who can;
what comes once the answer is written has nothing left to end.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["heard", "hold", "interrupt"]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def hold() -> None:
    """Hold them back from now on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def interrupt() -> None:
    """Let each of them end the process as Ctrl-C does; what the caller has ignored, as nohup does, stays ignored."""
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


@contextmanager
def heard() -> Iterator[None]:
    """Let them through meanwhile: `KeyboardInterrupt` is raised, also for one that has been waiting."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
