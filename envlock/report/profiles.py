"""The face of `envlock profiles`."""

from __future__ import annotations

from envlock.model import Listed, Profile, ProfileRow
from envlock.report.canvas import Canvas

__all__ = ["draw"]


def draw(canvas: Canvas, answer: Listed, *, verbose: bool) -> None:
    """Draw a block a profile; `verbose` adds the locked variants by name, and the file of one that is envlock's own."""
    if not answer.rows:
        canvas.line("no profiles here")
    for place, row in enumerate(answer.rows):
        if place:
            canvas.gap()
        _profile(canvas, row, verbose=verbose)


def _profile(canvas: Canvas, row: ProfileRow, *, verbose: bool) -> None:
    profile = row.profile
    canvas.line((profile.name, "bold"), f"  {profile.summary}")
    canvas.line(f"backends {', '.join(spec.name for spec in profile.backends)}", indent=2)
    canvas.line(f"Python   {', '.join(_pythons(profile))}", indent=2)
    if not row.locked:
        canvas.line(f"not locked: envlock lock {profile.name}", indent=2)
    elif not verbose:
        canvas.line(f"locked   {len(row.locked)} variants" if len(row.locked) > 1 else "locked   1 variant", indent=2)
    else:
        canvas.line(f"locked   {', '.join(row.locked)}", indent=2)
    canvas.line((f"from     {_origin(row, verbose=verbose)}", "dim"), indent=2)


def _origin(row: ProfileRow, *, verbose: bool) -> str:
    if row.own:
        return row.profile.file
    return f"envlock itself: {row.profile.file}" if verbose else "envlock itself"


def _pythons(profile: Profile) -> list[str]:
    pythons = {python for spec in profile.backends for python in (*spec.python, *spec.pypi_python)}
    return sorted(pythons, key=lambda python: [int(part) for part in python.split(".")])
