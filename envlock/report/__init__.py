"""An answer for people: the same closed union that `wire` renders for programs."""

from __future__ import annotations

from envlock.adopted import Adopted
from envlock.cli.terminal import Terminal
from envlock.errors import unreachable
from envlock.model import Answer, Checked, Detected, Diffed, Exported, Installed, Listed, LockedAll, Planned, Verified
from envlock.report import check, diff, export, host, init, locks, plan, profiles, proof
from envlock.report.canvas import Canvas

__all__ = ["render"]


def render(answer: Answer, *, terminal: Terminal, verbose: bool) -> str:  # noqa: C901  one for each member of the union
    """Return the text for stdout; `verbose` adds sources and what went well without saying so."""
    canvas = Canvas(terminal)
    match answer:
        case Detected():
            host.draw(canvas, answer, verbose=verbose)
        case Listed():
            profiles.draw(canvas, answer, verbose=verbose)
        case Planned():
            plan.draw(canvas, answer, verbose=verbose)
        case LockedAll():
            locks.draw(canvas, answer, verbose=verbose)
        case Installed():
            proof.draw_installed(canvas, answer, verbose=verbose)
        case Verified():
            proof.draw_verified(canvas, answer, verbose=verbose)
        case Checked():
            check.draw(canvas, answer, verbose=verbose)
        case Diffed():
            diff.draw(canvas, answer, verbose=verbose)
        case Exported():
            export.draw(canvas, answer, verbose=verbose)
        case Adopted():
            init.draw(canvas, answer, verbose=verbose)
        case _:
            raise unreachable(answer)
    return canvas.text()
