"""The face of `envlock check`."""

from __future__ import annotations

from collections.abc import Iterable

from envlock import conflicts
from envlock.judgement import Violation
from envlock.model import Checked
from envlock.report import plan
from envlock.report.canvas import MARKS, Canvas

__all__ = ["draw"]

_NAMED = 5  # requirements without a version, before they are only counted
# Warnings with which nothing refuses a machine, and something that it would have to pass was not known.
_DOUBTS = {"build-unknown", "driver-floor-unknown", "glibc-unknown", "gpu-unknown", "no-visible-gpu"}


def draw(canvas: Canvas, answer: Checked, *, verbose: bool) -> None:
    """Draw what was judged, each violation with what would fit, and whether the machines can run it."""
    count = f"{answer.packages} pinned package{'s' if answer.packages != 1 else ''}"
    torch = f", torch built for {answer.backend}" if answer.backend else ""
    canvas.line((answer.file, "bold"), f"  {count} for Python {answer.python}{torch}")
    if answer.left_open:
        canvas.line((f"not judged, since no version is pinned: {_few(answer.left_open)}", "yellow"), indent=2)
    if answer.unjudged:
        canvas.line((f"not judged: {_few(answer.unjudged)}", "yellow"), indent=2)
    for row in answer.violations:
        canvas.gap()
        _violation(canvas, row, verbose=verbose)
    if answer.decision is not None:
        plan.draw_decision(canvas, answer.decision, answer.warnings, verbose=verbose)
    else:
        plan.draw_warnings(canvas, answer.warnings)
    canvas.gap()
    canvas.line(_sentence(answer))


def _violation(canvas: Canvas, row: Violation, *, verbose: bool) -> None:
    canvas.line(MARKS["fail"], f" {conflicts.told(row)}", (f"  [{row.rule}]", "dim"))
    canvas.line(row.because, indent=2)
    canvas.line(f"fits: {conflicts.fitting(row)}", indent=2)
    if verbose:
        canvas.line((row.evidence, "dim"), indent=2)


def _sentence(answer: Checked) -> tuple[str, str]:
    rules = len(answer.violations)
    said = [f"{rules} rule{'s' if rules != 1 else ''} broken"] if rules else []
    if answer.decision is not None and answer.decision.backend is None:
        said.append("not for this machine")
    if said:
        return ("; ".join(said), "bold red")
    if not answer.packages:
        return ("nothing could be judged: no version is pinned", "bold yellow")
    held = "no rule broken" if answer.rules else "no rule is about what is pinned"
    if answer.unanswered:
        return (f"{held}; {answer.unanswered}", "bold yellow")
    if answer.decision is None:
        return (held, "bold green")
    codes = {caution.code for caution in answer.decision.warnings}
    if codes & _DOUBTS:
        return (f"{held}; that the machine can run it is not certain", "bold yellow")
    return (held + ("" if "no-driver" in codes else ", and the machine can run it"), "bold green")


def _few(lines: Iterable[str]) -> str:
    every = list(lines)
    rest = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
