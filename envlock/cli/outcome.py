"""Is the answer yes? An answer that says no is an answer all the same: it is shown, and the exit code says no."""

from __future__ import annotations

import shlex
from pathlib import Path

from packaging.version import Version

from envlock import generations, store
from envlock.adopted import Adopted
from envlock.errors import EnvlockError, Misuse, Refused, WorldFailed, unreachable
from envlock.model import (
    Answer,
    Check,
    Checked,
    Decision,
    Detected,
    Diffed,
    Exported,
    Installed,
    Listed,
    LockedAll,
    Planned,
    Verified,
)

__all__ = ["judge"]


def judge(answer: Answer) -> EnvlockError | None:  # noqa: PLR0911  one for each member of the union
    """Return the error that stands beside the answer, or None where the answer is yes."""
    match answer:
        case Detected() | Listed() | Exported() | Adopted():
            return None
        case LockedAll():
            return answer.failure
        case Planned():
            return _planned(answer)
        case Installed():
            return _installed(answer)
        case Verified():
            return _verified(answer, fix=_fix(answer, f"envlock verify {shlex.quote(answer.path)} --deep -v"))
        case Checked():
            return _checked(answer)
        case Diffed():
            return _differ(answer) if answer.strict and answer.differ else None
        case _:
            raise unreachable(answer)


def _planned(answer: Planned) -> EnvlockError | None:
    decision = answer.plan.decision
    if decision.backend is not None:
        return None
    message = f"no backend of `{decision.profile}` fits this machine"
    return Refused(message + _nearest(decision), code="no-compatible-backend")


def _nearest(decision: Decision) -> str:
    """Return the oldest driver that would do, and for which backend; nothing where no driver is enough."""
    needs: dict[str, str] = {}
    for name in decision.table:
        rows = [row for row in decision.refused if row.backend == name]
        floors = [(row.need or "").partition(" ")[0] for row in rows if row.code == "driver-too-old"]
        if floors and len(floors) == len(rows) and all(floor[:1].isdigit() for floor in floors):
            needs[name] = max(floors, key=Version)
    if not needs:
        return ""
    name = min(needs, key=lambda each: Version(needs[each]))
    return f": driver {needs[name]} or newer is needed, for {name}"


def _checked(answer: Checked) -> EnvlockError | None:
    file = shlex.quote(answer.file)
    again = f"envlock check {file} -v" if answer.file != store.STDIN else "envlock check --help"
    if answer.violations:
        rules = ", ".join(dict.fromkeys(row.rule for row in answer.violations))
        return Refused(f"what `{answer.file}` pins breaks in use: {rules}", code="conflict", hint=again)
    if answer.decision is not None and answer.decision.backend is None:
        message = f"what `{answer.file}` pins does not run on this machine"
        return Refused(message, code="no-compatible-backend", hint=again)
    if not answer.packages:
        message = f"nothing of `{answer.file}` can be judged: it pins no version"
        return Misuse(message, code="nothing-pinned", hint="pip freeze | envlock check -")
    if answer.unanswered:
        return Misuse(answer.unanswered, code="machine-not-judged", hint="envlock check --help")
    return None


def _differ(answer: Diffed) -> EnvlockError:
    asked = f"envlock diff {shlex.quote(answer.before.asked)} {shlex.quote(answer.after.asked)}"
    message = f"`{answer.before.asked}` and `{answer.after.asked}` differ"
    return Refused(message, code="differs", hint=f"{asked} -v")


def _installed(answer: Installed) -> EnvlockError | None:
    """Return the error of an environment that was not switched to: to install again would meet the same lock again."""
    if answer.verify is None:
        return None
    place = generations.folder(Path(answer.path), answer.generation)
    look = f"envlock verify {shlex.quote(str(place))} -v"
    fix = _fix(answer.verify, look)
    return _verified(answer.verify, fix=look if fix.startswith("envlock install") else fix)


def _verified(answer: Verified, *, fix: str) -> EnvlockError | None:
    if answer.verdict == "could-not-run":
        return WorldFailed(f"`{answer.path}` could not be verified", code="verification-could-not-run", hint=fix)
    if answer.verdict == "failed":
        root = next((check for check in answer.checks if check.status == "fail"), None)
        what = f": {root.id}" if root else ""
        return Refused(f"verification failed{what}", code="verification-failed", hint=fix)
    return None


def _fix(answer: Verified, otherwise: str) -> str:
    fixes = (check.fix for check in answer.checks if check.fix and (check.status == "fail" or _stopped(check)))
    return next(fixes, otherwise)


def _stopped(check: Check) -> bool:
    return check.status == "skip" and check.id == "import.probe"
