"""The faces of `envlock verify` and `envlock install`: what was checked, and one sentence that says what it proves."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import groupby

from envlock import checks
from envlock.model import Check, Installed, Verified
from envlock.report.canvas import MARKS, Canvas, Cell, Span, duration

__all__ = ["draw_installed", "draw_verified"]


def draw_verified(canvas: Canvas, answer: Verified, *, verbose: bool) -> None:
    """Draw one line a check, grouped, the sentence last; `verbose` adds the numbers of those that passed."""
    where = {"cuda": ", on the GPU", "cpu": ", on the CPU", None: ""}[answer.device]
    canvas.line((answer.profile, "bold"), f"  {answer.variant} at {answer.path}, level {answer.level}{where}")
    _checks(canvas, answer.checks, verbose=verbose)
    canvas.gap()
    _sentence(canvas, answer)


def draw_installed(canvas: Canvas, answer: Installed, *, verbose: bool) -> None:
    """Draw what was installed where, what did not pass (`verbose`: every check), the sentence and what to run.

    The warnings stand on stderr already, said when they arose.
    """
    denied = answer.verify is not None and answer.verify.verdict in ("failed", "could-not-run")
    canvas.line((answer.profile, "bold"), f"  {_headline(answer, denied=denied)}")
    if answer.installed:
        stages = (f"{stage} {duration(seconds)}" for stage, seconds in answer.seconds.items())
        canvas.line((", ".join(stages), "dim"), indent=2)
    if verbose:
        canvas.line((f"generation {answer.generation}, before it {answer.previous or 'none'}", "dim"), indent=2)
    if answer.verify is None:
        canvas.line(("! not verified", "yellow"), f": envlock verify {answer.path}", indent=2)
    else:
        noteworthy = (check for check in answer.verify.checks if verbose or check.status in ("fail", "warn"))
        _checks(canvas, noteworthy, verbose=verbose)
        canvas.gap()
        _sentence(canvas, answer.verify)
    if not denied:
        canvas.gap()
        canvas.code(f"source {shlex.quote(f'{answer.path}/bin/activate')}")
    if answer.installed:
        again = f"name it there, `envlock lock {answer.profile}`, install again"
        note = f"no pip is in it unless the profile asks for it; to add a package, {again}"
        canvas.line((note, "dim"), indent=2)


def _headline(answer: Installed, *, denied: bool) -> str:
    if answer.installed:
        return f"installed {answer.variant} at {answer.path}, {answer.packages} packages"
    if denied:
        return f"not switched: {answer.path} is what it was before"
    return f"nothing to do: {answer.variant} is installed at {answer.path}"


def _sentence(canvas: Canvas, answer: Verified) -> None:
    good = answer.verdict not in ("failed", "could-not-run")
    canvas.line((checks.sentence(answer), "bold green" if good else "bold red"))


def _checks(canvas: Canvas, shown: Iterable[Check], *, verbose: bool) -> None:
    rows = tuple(shown)
    width = max((len(_name(check)) for check in rows), default=0)
    for group, members in groupby(rows, key=lambda check: check.id.partition(".")[0]):
        canvas.gap()
        canvas.line((group, "bold"))
        canvas.table([_row(check, width, verbose=verbose) for check in members])


def _row(check: Check, width: int, *, verbose: bool) -> tuple[Cell, ...]:
    mark, style = MARKS[check.status]
    seconds = duration(check.seconds) if check.seconds >= 1 or verbose else ""
    return (((mark, style),), (f"{_name(check):<{width}}",), tuple(_words(check, verbose=verbose)), ((seconds, "dim"),))


def _name(check: Check) -> str:
    return check.id.partition(".")[2]


def _words(check: Check, *, verbose: bool) -> list[Span]:
    """Return the message, then the numbers where they say something, then what to run."""
    words: list[Span] = [check.message] if check.message else []
    if check.status in ("fail", "warn") or verbose:
        numbers = [f"have {check.have}"] if check.have else []
        numbers += [f"want {check.want}"] if check.want else []
        if numbers:
            words.append((("\n" if words else "") + ", ".join(numbers), "dim"))
    if check.fix and check.status in ("fail", "warn"):
        words += ["\n" if words else "", ("run: ", ""), (check.fix, "cyan")]
    return words
