"""The face of `envlock plan`: the choice on top, one table of reasons, the command to run below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from envlock import model
from envlock.model import Decision, Plan, Planned, Refusal, Variant
from envlock.report.canvas import MARKS, Canvas, Cell, Span, size

__all__ = ["draw", "draw_decision", "draw_warnings"]

RULES = ("driver", "gpu", "glibc", "python", "platform")
# The rules whose need is a number that what is there must reach; what the others need is said with the refusal.
FLOORS = ("driver", "glibc")
TITLES = ("backend", "driver", "GPU", "glibc", "Python", "platform")
# What a person reads for each refusal; {have}, {need}, {package} and {backend} are the row's own.
WORDS: Mapping[str, str] = MappingProxyType(
    {
        "driver-too-old": "driver {have} is too old: {need} is needed",
        "driver-too-new": "driver {have} is too new: {need} is needed",
        "gpu-arch-missing": "{package} holds no code for {have}; it was built for {need}",
        "library-missing": "{package} has {have}; {need} is needed",
        "glibc-too-old": "glibc {have} is too old: {package} needs {need}",
        "platform-unsupported": "{have} is not among the profile's platforms: {need}",
        "python-unavailable": "no Python that fits: {need} is needed, there is {have}",
        "gpu-present": "{have} is here; `--backend {backend}` takes it all the same",
        "no-driver": "no NVIDIA driver is here; `--backend {backend}` takes it for another machine",
    }
)


def draw(canvas: Canvas, answer: Planned, *, verbose: bool) -> None:
    """Draw the plan; `verbose` adds the source of each number and the policy it was judged by."""
    plan = answer.plan
    _choice(canvas, plan, verbose=verbose)
    draw_decision(canvas, plan.decision, plan.warnings, verbose=verbose)
    if plan.command:
        canvas.gap()
        canvas.line("to run on that machine:" if plan.elsewhere else "to run:")
        canvas.code(plan.command)


def draw_decision(canvas: Canvas, decision: Decision, warnings: Sequence[model.Caution] = (), *, verbose: bool) -> None:
    """Draw the table, a sentence for each refusal, and the warnings, further ones among them."""
    canvas.gap()
    _table(canvas, decision)
    _refusals(canvas, decision, verbose=verbose)
    draw_warnings(canvas, (*decision.warnings, *warnings))


def _choice(canvas: Canvas, plan: Plan, *, verbose: bool) -> None:
    decision, variant = plan.decision, plan.variant
    if decision.backend is None:
        canvas.line((decision.profile, "bold"), " → ", ("no backend fits", "bold red"))
        return
    chosen = variant.name if variant else decision.backend
    canvas.line((decision.profile, "bold"), " → ", (chosen, "bold green"))
    facts = []
    if variant:
        facts = [*_torch(plan, variant), f"Python {variant.python}", variant.platform]
    for_another = any(caution.code == "no-driver" for caution in decision.warnings)
    if decision.precision and not for_another:
        facts.append(f"trains in {decision.precision}")
    if verbose:
        facts.append(f"driver policy {decision.policy}")
    canvas.line(", ".join(facts), indent=2)
    if plan.packages is not None:
        download = f", {size(plan.download)} to download" if plan.download is not None else ""
        canvas.line(f"{plan.packages} packages{download}", indent=2)
    if verbose and plan.evidence:
        for package, evidence in plan.evidence.items():
            canvas.line((f"hash of {package}: {evidence}", "dim"), indent=2)
        canvas.line((f"`envlock lock {decision.profile} --confirm` reads them again", "dim"), indent=2)


def _torch(plan: Plan, variant: Variant) -> list[str]:
    if plan.torch is None:
        return []
    origin = "PyPI's own build" if variant.source == "pypi" else f"the {variant.backend} index of PyTorch"
    return [f"torch {plan.torch} from {origin}"]


def _table(canvas: Canvas, decision: Decision) -> None:
    rows = [
        ((_backend(decision, name),), *(_cell(cells, rule) for rule in RULES)) for name, cells in decision.table.items()
    ]
    canvas.table(rows, header=TITLES)


def _backend(decision: Decision, name: str) -> Span:
    if name == decision.backend:
        return (f"→ {name}", "bold green")
    return (f"  {name}", "" if name in decision.eligible else "dim")


def _cell(cells: Sequence[model.Cell], rule: str) -> Cell:
    """Return the mark and both numbers, what is needed below what is there."""
    cell = next((cell for cell in cells if cell.rule == rule), None)
    if cell is None or cell.ok is None:
        return (("-", "dim"),)
    spans: list[Span] = [MARKS["pass" if cell.ok else "fail"]]
    if rule == "gpu" and not cell.ok and not cell.have:
        spans.append(" no library")  # that of a package: of a GPU that is not seen nothing else is asked
    if cell.have:
        spans.append(f" {_minors(cell.have) if rule == 'python' else cell.have}")
    if cell.need and cell.need[0].isdigit() and rule in FLOORS:
        # `570.26 for NVIDIA B200`: whose floor it is stands with the refusal.
        spans.append((f"\n≥ {cell.need.partition(' ')[0]}", "dim"))
    return tuple(spans)


def _minors(pythons: str) -> str:
    """Return `3.10 3.12` for `3.10.13 3.12.1 3.12.4`; words stay as they are."""
    return " ".join(dict.fromkeys(".".join(word.split(".")[:2]) for word in pythons.split()))


def _refusals(canvas: Canvas, decision: Decision, *, verbose: bool) -> None:
    if not decision.refused:
        return
    canvas.gap()
    canvas.line("refused:")
    rows: list[tuple[Cell, ...]] = []
    for row in decision.refused:
        source: tuple[Span, ...] = ((f"\n{row.source}", "dim"),) if verbose and row.source else ()
        rows.append(((row.backend,), (_sentence(row), *source)))
    canvas.table(rows)


def _sentence(row: Refusal) -> str:
    # One code for two findings: no library at all for this CUDA, or one without code for this GPU.
    missing = row.code == "gpu-arch-missing" and (row.need or "").startswith("one for ")
    words = WORDS.get("library-missing" if missing else row.code, "{code}: {need} is needed, there is {have}")
    return words.format(
        code=row.code,
        backend=row.backend,
        package=row.package or row.backend,
        have=row.have or "none",
        need=row.need or "another",
    )


def draw_warnings(canvas: Canvas, cautions: Sequence[model.Caution]) -> None:
    """Draw the warnings, if there are any."""
    if not cautions:
        return
    canvas.gap()
    rows = [((MARKS["warn"],), (caution.message, (f" [{caution.code}]", "dim"))) for caution in cautions]
    canvas.table(rows, indent=0)
