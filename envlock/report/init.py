"""The face of `envlock init`."""

from __future__ import annotations

from collections.abc import Sequence

from envlock.adopted import Adopted, Dropped
from envlock.report.canvas import MARKS, Canvas, Cell

__all__ = ["draw"]

_NAMED = 4  # of what is lost for one reason, before the rest is only counted


def draw(canvas: Canvas, answer: Adopted, *, verbose: bool) -> None:
    """Draw the profile itself, else where it was written, what it takes, and what it does not keep and why.

    `verbose` names each of those with its line, else those lost for one reason stand together.
    """
    if answer.text is not None:
        canvas.verbatim(answer.text)
        return
    kept = len(answer.kept) - len(answer.added)
    canvas.line((answer.profile, "bold"), f"  written to {answer.path}: {_requirements(kept)} of {answer.file} kept")
    canvas.line(f"Python {answer.python}: {answer.reason}", indent=2)
    canvas.gap()
    canvas.table([(("backend",), (build.name,), (build.why,)) for build in answer.builds])
    _added(canvas, answer)
    if answer.dropped:
        canvas.gap()
        canvas.line(("not kept:", "bold"))
        groups = [[one] for one in answer.dropped] if verbose else _together(answer.dropped)
        canvas.table([_row(group, answer.file) for group in groups])
    if answer.notes:
        canvas.gap()
    for note in answer.notes:
        canvas.line(MARKS["warn"], f" {note}")
    if answer.command is not None:
        canvas.gap()
        canvas.code(answer.command)


def _added(canvas: Canvas, answer: Adopted) -> None:
    if answer.added:
        canvas.gap()
        canvas.line(f"added, since what is kept needs it and says so nowhere: {', '.join(answer.added)}")


def _requirements(count: int) -> str:
    return f"{count} requirement{'s' if count != 1 else ''}"


def _together(dropped: Sequence[Dropped]) -> list[list[Dropped]]:
    groups: dict[str, list[Dropped]] = {}
    for one in dropped:
        groups.setdefault(one.why, []).append(one)
    return list(groups.values())


def _row(group: Sequence[Dropped], file: str) -> tuple[Cell, Cell, Cell]:
    """Return where the first of a group stands, what they are, and the reason that they share."""
    rest = len(group) - _NAMED
    what = ", ".join(one.what for one in group[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return (_place(group[0], file) + (" …" if len(group) > 1 else ""),), (what,), (group[0].why,)


def _place(one: Dropped, file: str) -> str:
    if one.line is None:
        return ""
    return f"line {one.line}" if one.file in {None, file} else f"{one.file}:{one.line}"
