"""The face of `envlock init`."""

from __future__ import annotations

from collections.abc import Sequence

from envlock.adopted import Adopted, Dropped
from envlock.report.canvas import MARKS, Canvas

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
        rows = _each(answer.dropped) if verbose else _together(answer.dropped)
        canvas.table([((place,), (what,), (why,)) for place, what, why in rows])
    if answer.notes:
        canvas.gap()
    for note in answer.notes:
        canvas.line(MARKS["warn"], f" {note}")
    canvas.gap()
    canvas.code(answer.command or f"envlock lock {answer.profile}")


def _added(canvas: Canvas, answer: Adopted) -> None:
    if answer.added:
        canvas.gap()
        canvas.line(f"added, since what is kept needs it and says so nowhere: {', '.join(answer.added)}")


def _requirements(count: int) -> str:
    return f"{count} requirement{'s' if count != 1 else ''}"


def _each(dropped: Sequence[Dropped]) -> list[tuple[str, str, str]]:
    return [(_place([one]), one.what, one.why) for one in dropped]


def _together(dropped: Sequence[Dropped]) -> list[tuple[str, str, str]]:
    groups: dict[str, list[Dropped]] = {}
    for one in dropped:
        groups.setdefault(one.why, []).append(one)
    return [(_place(group), _few([one.what for one in group]), why) for why, group in groups.items()]


def _place(group: Sequence[Dropped]) -> str:
    numbers = [one.line for one in group if one.line is not None]
    if not numbers:
        return ""
    return f"line {numbers[0]}" + (" …" if len(numbers) > 1 else "")


def _few(texts: Sequence[str]) -> str:
    rest = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
