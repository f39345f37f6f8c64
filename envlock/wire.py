"""An answer as JSON: the shapes that programs may rely on. `schema` moves when one of them changes its meaning.

Keys stand in a fixed order; a key that does not apply is there and null.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from envlock import host
from envlock.adopted import Adopted
from envlock.errors import EnvlockError, unreachable
from envlock.model import (
    Answer,
    Caution,
    Cell,
    Checked,
    Detected,
    Diffed,
    Exported,
    Held,
    Installed,
    Listed,
    Locked,
    LockedAll,
    Plan,
    Planned,
    ProfileRow,
    Refusal,
    Verified,
)

__all__ = ["SCHEMA", "document", "result"]

SCHEMA = 1


def document(
    *, command: str | None, code: int, result: dict[str, Any] | None, error: EnvlockError | None
) -> dict[str, Any]:
    """Return the one document of a run; `code` is the exit status, `command` is null where no verb was understood."""
    return {
        "schema": SCHEMA,
        "command": command,
        "exit": code,
        "result": result,
        "error": None if error is None else _error(error),
    }


def result(answer: Answer) -> dict[str, Any]:  # noqa: C901, PLR0911  one for each member of the union
    """Return what stands under `result`."""
    match answer:
        case Detected():
            return host.dump(answer.host)
        case Listed():
            return {"profiles": [_profile(row) for row in answer.rows]}
        case Planned():
            return _plan(answer.plan)
        case LockedAll():
            return {"locks": [_locked(lock) for lock in answer.locks]}
        case Installed():
            return _installed(answer)
        case Verified():
            return _verified(answer)
        case Checked():
            return _checked(answer)
        case Diffed():
            return _diffed(answer)
        case Exported():
            return _exported(answer)
        case Adopted():
            return _adopted(answer)
        case _:
            raise unreachable(answer)


def _error(error: EnvlockError) -> dict[str, Any]:
    context = [
        {"file": p.file, "line": p.line, "key": p.key, "message": p.message, "expected": p.expected}
        for p in error.problems
    ]
    return {"code": error.code, "message": error.message, "context": context, "hint": error.hint}


def _profile(row: ProfileRow) -> dict[str, Any]:
    profile = row.profile
    return {
        "name": profile.name,
        "summary": profile.summary,
        "file": profile.file,
        "platforms": list(profile.platforms),
        "backends": [
            {"name": spec.name, "python": list(spec.python), "pypi_python": list(spec.pypi_python)}
            for spec in profile.backends
        ],
        "locked": list(row.locked),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    decision, variant = plan.decision, plan.variant
    return {
        "profile": decision.profile,
        "variant": variant.name if variant else None,
        "backend": decision.backend,
        "source": variant.source if variant else None,
        "torch": plan.torch,
        "python": variant.python if variant else None,
        "platform": variant.platform if variant else None,
        "policy": decision.policy,
        "precision": decision.precision,
        "locked": plan.locked,
        "packages": plan.packages,
        "download": plan.download,
        "evidence": dict(plan.evidence),
        "eligible": list(decision.eligible),
        "refused": [_refusal(row) for row in decision.refused],
        "warnings": [_caution(row) for row in (*decision.warnings, *plan.warnings)],
        "table": {name: {cell.rule: _cell(cell) for cell in cells} for name, cells in decision.table.items()},
        "next": plan.command,
        "elsewhere": plan.elsewhere,
    }


def _checked(answer: Checked) -> dict[str, Any]:
    decision = answer.decision
    return {
        "file": answer.file,
        "python": answer.python,
        "backend": answer.backend,
        "packages": answer.packages,
        "left_open": list(answer.left_open),
        "unjudged": list(answer.unjudged),
        "rules": answer.rules,
        "violations": [dataclasses.asdict(row) for row in answer.violations],
        "fits": None if decision is None else decision.backend is not None,
        "refused": [_refusal(row) for row in decision.refused] if decision else [],
        "warnings": [_caution(row) for row in (*(decision.warnings if decision else ()), *answer.warnings)],
    }


def _refusal(row: Refusal) -> dict[str, Any]:
    return dataclasses.asdict(row)


def _caution(row: Caution) -> dict[str, Any]:
    return {"code": row.code, "backend": row.backend, "message": row.message}


def _cell(cell: Cell) -> dict[str, Any]:
    return {"ok": cell.ok, "have": cell.have, "need": cell.need}


def _locked(lock: Locked) -> dict[str, Any]:
    return {
        "profile": lock.profile,
        "path": lock.path,
        "mode": lock.mode,
        "changed": lock.changed,
        "moved": list(lock.moved),
        "changes": [dataclasses.asdict(change) for change in lock.changes],
        "variants": list(lock.variants),
        "absent": dict(lock.absent),
        "engines": list(lock.engines),
        "unconfirmed": list(lock.unconfirmed),
        "conda": list(lock.conda),
        "conda_absent": dict(lock.conda_absent),
        "seconds": round(lock.seconds, 3),
    }


def _installed(answer: Installed) -> dict[str, Any]:
    return {
        "profile": answer.profile,
        "variant": answer.variant,
        "path": answer.path,
        "generation": answer.generation,
        "previous": answer.previous,
        "installed": answer.installed,
        "packages": answer.packages,
        "seconds": {stage: round(seconds, 3) for stage, seconds in answer.seconds.items()},
        "warnings": [_caution(row) for row in answer.warnings],
        "verify": _verified(answer.verify) if answer.verify else None,
    }


def _verified(answer: Verified) -> dict[str, Any]:
    return {
        "path": answer.path,
        "profile": answer.profile,
        "variant": answer.variant,
        "level": answer.level,
        "device": answer.device,
        "verdict": answer.verdict,
        "only": list(answer.only),
        "skip": list(answer.skip),
        "checks": [{**dataclasses.asdict(check), "seconds": round(check.seconds, 3)} for check in answer.checks],
    }


def _diffed(answer: Diffed) -> dict[str, Any]:
    return {
        "before": dataclasses.asdict(answer.before),
        "after": dataclasses.asdict(answer.after),
        "differ": answer.differ,
        "moved": list(answer.moved),
        "came": [_held(row) for row in answer.came],
        "went": [_held(row) for row in answer.went],
        "same": list(answer.same),
        "changes": [dataclasses.asdict(change) for change in answer.changes],
        "files": list(answer.files),
        "machines": [dataclasses.asdict(shift) for shift in answer.shifts],
    }


def _exported(answer: Exported) -> dict[str, Any]:
    return {
        "profile": answer.profile,
        "variant": answer.variant,
        "format": answer.format,
        "path": answer.path,
        "files": list(answer.files),
        "packages": answer.packages,
        "built": list(answer.built),
        "command": answer.command,
        "warnings": [_caution(row) for row in answer.warnings],
        "text": answer.text,
    }


def _adopted(answer: Adopted) -> dict[str, Any]:
    return {
        "profile": answer.profile,
        "path": answer.path,
        "file": answer.file,
        "kind": answer.kind,
        "python": answer.python,
        "backends": [build.name for build in answer.builds],
        "kept": list(answer.kept),
        "added": list(answer.added),
        "dropped": [dataclasses.asdict(row) for row in answer.dropped],
        "reasons": {"python": answer.reason, **{build.name: build.why for build in answer.builds}},
        "notes": list(answer.notes),
        "command": answer.command,
        "text": answer.text,
    }


def _held(row: Held) -> dict[str, Any]:
    floors = dataclasses.asdict(row.floors)
    return {
        "variant": row.variant,
        "python": row.python,
        "platform": row.platform,
        **{key: list(value) if key == "sm" else value for key, value in floors.items()},
        "packages": dict(row.packages),
    }
