"""Packages that came, went or changed, a row each: in `envlock lock` and in `envlock diff`."""

from __future__ import annotations

from collections.abc import Sequence

from envlock.model import Change
from envlock.report.canvas import Canvas, Cell

__all__ = ["draw"]

# Changes beyond these are only counted: a first lock has hundreds.
SHOWN = 30


def draw(canvas: Canvas, changes: Sequence[Change], *, verbose: bool) -> None:
    """Draw a row a change, and after it the variants that it is the same in; `verbose` shows all, however many."""
    variants: dict[tuple[str, str | None, str | None], list[str]] = {}
    for change in changes:
        variants.setdefault((change.package, change.was, change.now), []).append(change.variant)
    rows = [_row(*what, ", ".join(names)) for what, names in sorted(variants.items(), key=lambda row: row[0][0])]
    shown = len(rows) if verbose else SHOWN
    canvas.table(rows[:shown])
    if len(rows) > shown:
        canvas.line((f"… and {len(rows) - shown} more (-v shows all)", "dim"), indent=2)


def _row(package: str, was: str | None, now: str | None, variants: str) -> tuple[Cell, ...]:
    if was is None:
        sign, what = ("+", "green"), f"{now}"
    elif now is None:
        sign, what = ("-", "red"), was
    else:
        sign, what = ("~", "yellow"), f"{was} → {now}"
    return ((sign,), (package,), (what,), ((variants, "dim"),))
