"""The face of `envlock lock`."""

from __future__ import annotations

from collections.abc import Sequence

from envlock.model import Change, Locked, LockedAll
from envlock.report.canvas import Canvas, Cell, duration

__all__ = ["draw"]

# Changes beyond these are only counted: a first lock has hundreds.
SHOWN = 30

HEADLINES = {
    ("write", True): "wrote {path}, {count}",
    ("write", False): "unchanged: {path}, {count}",
    ("dry-run", True): "would change {path}, {count}",
    ("dry-run", False): "would not change {path}, {count}",
    ("check", False): "up to date: {path}, {count}",
}


def draw(canvas: Canvas, answer: LockedAll, *, verbose: bool) -> None:
    """Draw a block a profile; `verbose` adds the variants and why some are not locked."""
    for place, lock in enumerate(answer.locks):
        if place:
            canvas.gap()
        _lock(canvas, lock, verbose=verbose)


def _lock(canvas: Canvas, lock: Locked, *, verbose: bool) -> None:
    canvas.line((lock.profile, "bold"), f"  {_headline(lock)}", (f"  {duration(lock.seconds)}", "dim"))
    if lock.moved:
        canvas.line(f"moved: {', '.join(lock.moved)}", indent=2)
    if lock.changes:
        _changes(canvas, lock.changes, shown=len(lock.changes) if verbose else SHOWN)
    if verbose:
        canvas.line(f"variants: {', '.join(lock.variants)}", indent=2)
        if lock.absent:
            canvas.table([((name,), ((why, "dim"),)) for name, why in lock.absent.items()], header=("not locked", ""))
    elif lock.absent:
        canvas.line((f"not locked: {', '.join(lock.absent)} (-v says why)", "dim"), indent=2)


def _headline(lock: Locked) -> str:
    count = f"{len(lock.variants)} variant{'s' if len(lock.variants) != 1 else ''}"
    return HEADLINES[lock.mode, lock.changed].format(path=lock.path, count=count)


def _changes(canvas: Canvas, changes: Sequence[Change], *, shown: int) -> None:
    """Draw a row a change, and after it the variants that it is the same in."""
    variants: dict[tuple[str, str | None, str | None], list[str]] = {}
    for change in changes:
        variants.setdefault((change.package, change.was, change.now), []).append(change.variant)
    rows = [_change(*what, ", ".join(names)) for what, names in sorted(variants.items(), key=lambda row: row[0][0])]
    canvas.table(rows[:shown])
    if len(rows) > shown:
        canvas.line((f"… and {len(rows) - shown} more (-v shows all)", "dim"), indent=2)


def _change(package: str, was: str | None, now: str | None, variants: str) -> tuple[Cell, ...]:
    if was is None:
        sign, what = ("+", "green"), f"{now}"
    elif now is None:
        sign, what = ("-", "red"), was
    else:
        sign, what = ("~", "yellow"), f"{was} → {now}"
    return ((sign,), (package,), (what,), ((variants, "dim"),))
