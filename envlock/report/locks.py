"""The face of `envlock lock`."""

from __future__ import annotations

from envlock.model import Locked, LockedAll
from envlock.report import changes
from envlock.report.canvas import Canvas, duration

__all__ = ["draw"]

HEADLINES = {
    ("write", True): "wrote {path}, {count}",
    ("write", False): "unchanged: {path}, {count}",
    ("dry-run", True): "would change {path}, {count}",
    ("dry-run", False): "would not change {path}, {count}",
    ("check", False): "up to date: {path}, {count}",
    ("confirm", True): "every hash is the index's; wrote that to {path}, {count}",
    ("confirm", False): "every hash is the index's: {path}, {count}",
    ("partly", True): "not every hash could be confirmed; wrote what could to {path}, {count}",
    ("partly", False): "not every hash could be confirmed: {path}, {count}",
    ("cross-check", True): "{engines} differ, {count} compared",
    ("cross-check", False): "{engines} agree, {count} compared",
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
    if lock.unconfirmed:
        canvas.line(f"the index gives no hash of: {', '.join(lock.unconfirmed)}", indent=2)
    if lock.changes and lock.engines:
        canvas.line((" → ".join(lock.engines), "dim"), indent=2)
    if lock.changes:
        changes.draw(canvas, lock.changes, verbose=verbose)
    without = "not compared" if lock.engines else "not locked"
    if verbose:
        canvas.line(f"variants: {', '.join(lock.variants)}", indent=2)
        if lock.absent:
            canvas.table([((name,), ((why, "dim"),)) for name, why in lock.absent.items()], header=(without, ""))
    elif lock.absent:
        canvas.line((f"{without}: {', '.join(lock.absent)} (-v says why)", "dim"), indent=2)
    _conda(canvas, lock, verbose=verbose)


def _conda(canvas: Canvas, lock: Locked, *, verbose: bool) -> None:
    whole = len(lock.conda) + len(lock.conda_absent)
    if not whole:
        return
    why = " (-v says why)" if lock.conda_absent and not verbose else ""
    canvas.line(f"conda part: {len(lock.conda)} of {whole} variants{why}", indent=2)
    if verbose and lock.conda_absent:
        canvas.table([((name,), ((said, "dim"),)) for name, said in lock.conda_absent.items()], header=("without", ""))


def _headline(lock: Locked) -> str:
    count = f"{len(lock.variants)} variant{'s' if len(lock.variants) != 1 else ''}"
    mode = "partly" if lock.unconfirmed else lock.mode
    return HEADLINES[mode, lock.changed].format(path=lock.path, count=count, engines=" and ".join(lock.engines))
