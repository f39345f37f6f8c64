"""The face of `envlock export`."""

from __future__ import annotations

from envlock.model import Exported
from envlock.report.canvas import Canvas

__all__ = ["draw"]


def draw(canvas: Canvas, answer: Exported, *, verbose: bool) -> None:
    """Draw the export itself, else where it was written and what takes it; `verbose` adds every file.

    The warnings stand on stderr already, said when they arose.
    """
    if answer.text is not None:
        canvas.verbatim(answer.text)
        return
    packages = f"{answer.packages} package{'s' if answer.packages != 1 else ''}"
    canvas.line((answer.profile, "bold"), f"  exported {answer.variant} to {answer.path}, {packages}")
    if verbose or (len(answer.files) > 1 and answer.format != "wheelhouse"):
        canvas.line((f"files: {', '.join(answer.files)}", "dim"), indent=2)
    if answer.built:
        canvas.line(f"built from source: {', '.join(answer.built)}", indent=2)
    if answer.command:
        canvas.gap()
        canvas.code(answer.command)
        if answer.built and answer.format == "environment.yml":
            canvas.line("and then what its first lines say", indent=2)
