"""The face of `envlock diff`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from envlock.model import Diffed, Held, Need, Shift
from envlock.report import changes
from envlock.report.canvas import Canvas, Cell, Span

__all__ = ["draw"]

SENTENCES: Final[Mapping[Need, str]] = {
    "driver": "needs driver {now} now, {was} before",
    "driver-windows": "needs driver {now} under WSL now, {was} before",
    "glibc": "needs glibc {now} now, {was} before",
    "python": "needs Python {now} now, {was} before",
    "platform": "is for {now} now, for {was} before",
    "gpu-lost": "no longer runs on GPUs of compute capability {was}",
    "gpu-gained": "also runs on GPUs of compute capability {now}",
}


def draw(canvas: Canvas, answer: Diffed, *, verbose: bool) -> None:
    """Draw the variants that came or went, the packages of the others, and what it means for machines."""
    canvas.line((answer.before.asked, "bold"), " → ", (answer.after.asked, "bold"))
    canvas.line(_headline(answer), indent=2)
    if verbose:
        canvas.line((f"{answer.before.file} → {answer.after.file}", "dim"), indent=2)
        if answer.same:
            canvas.line((f"the same: {', '.join(answer.same)}", "dim"), indent=2)
    if answer.moved:
        canvas.line(f"moved: {', '.join(answer.moved)}", indent=2)
    _variants(canvas, answer)
    if answer.changes:
        canvas.gap()
        changes.draw(canvas, answer.changes, verbose=verbose)
    if answer.files:
        canvas.gap()
        canvas.line(f"the same versions, other files: {', '.join(answer.files)}", indent=2)
    if answer.shifts:
        canvas.gap()
        canvas.line("machines:")
        _shifts(canvas, answer.shifts)


def _headline(answer: Diffed) -> str:
    changed = {row.variant for row in answer.changes} | {row.variant for row in answer.shifts} | {*answer.files}
    counts = [
        f"{count} variant{'s' if count != 1 else ''} {what}"
        for count, what in ((len(changed), "changed"), (len(answer.came), "came"), (len(answer.went), "went"))
        if count
    ]
    return ", ".join(counts) or "no difference"


def _variants(canvas: Canvas, answer: Diffed) -> None:
    rows: list[tuple[Cell, ...]] = [
        ((sign,), (held.variant,), (_needs(held),))
        for sign, some in ((("+", "green"), answer.came), (("-", "red"), answer.went))
        for held in some
    ]
    if rows:
        canvas.gap()
        canvas.table(rows)


def _needs(held: Held) -> str:
    floors = held.floors
    parts = [
        f"{len(held.packages)} package{'s' if len(held.packages) != 1 else ''}",
        held.python and f"Python {held.python}",
        floors.driver and f"driver ≥ {floors.driver}",
        floors.glibc and f"glibc ≥ {floors.glibc}",
    ]
    return ", ".join(part for part in parts if part)


def _shifts(canvas: Canvas, shifts: Sequence[Shift]) -> None:
    """Draw a row a need, and after it the variants that it is the same in."""
    alike: dict[tuple[Need, str | None, str | None], list[str]] = {}
    for shift in shifts:
        alike.setdefault((shift.need, shift.was, shift.now), []).append(shift.variant)
    canvas.table([_shift(*what, ", ".join(variants)) for what, variants in alike.items()])


def _shift(need: Need, was: str | None, now: str | None, variants: str) -> tuple[Cell, ...]:
    sign: Span = ("+", "green") if need == "gpu-gained" else ("!", "yellow")
    told = [(value or "none").replace(" ", ", ") for value in (was, now)]
    return ((sign,), (SENTENCES[need].format(was=told[0], now=told[1]),), ((variants, "dim"),))
