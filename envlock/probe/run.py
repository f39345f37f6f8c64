"""Start the probe in a target environment and read its report.

Nothing here raises: whatever befalls the probe is an answer too, and stands in `ProbeReport.failure`.
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from envlock import scratch
from envlock.model import Check, Status
from envlock.probe import script
from envlock.proc import Command, Completed, Runner

__all__ = ["KERNELS", "Import", "ProbeReport", "ProbeRequest", "imports", "run"]

KERNELS: Final = tuple(script.CHECKS)
"""The id of every kernel check there is, in the order they run."""

# What a fine-tuning stack imports, from the root to what builds on it; each module is named as its distribution is.
_IMPORTED: Final = (
    "numpy",
    "torch",
    "triton",
    "torchvision",
    "torchaudio",
    "bitsandbytes",
    "sentencepiece",
    "tiktoken",
    "transformers",
    "accelerate",
    "datasets",
    "peft",
    "trl",
    "deepspeed",
    "xtuner",
)

# On top of the caller's environment, of which LD_LIBRARY_PATH, CUDA_VISIBLE_DEVICES and others are what is tested.
_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "HF_HUB_OFFLINE": "1",  # a check never waits for a network
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # `is_available` must not create the CUDA context that forbids a fork
        "TOKENIZERS_PARALLELISM": "false",  # no thread pool before the fork
        "OPENBLAS_NUM_THREADS": "1",  # the same, in numpy
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # the same, in torch 2.8, which else starts compilers on import
    }
)

_TAIL_LINES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """A distribution to import where it is installed, and its module."""

    distribution: str
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """What to probe: imports in the order given; `only` names kernel checks (none means all). Limits in seconds.

    The import limit is for one module: the first import of a 5 GB stack from a slow disk takes minutes.
    """

    imports: tuple[Import, ...]
    only: tuple[str, ...] = ()
    import_seconds: float = 300.0
    check_seconds: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What the probe found; `failure` says why it could not run to its end, with the end of what it printed.

    `homeless` where that was for want of a folder, or of room in it, for what the probe has to write.
    """

    checks: tuple[Check, ...] = ()
    device: Literal["cuda", "cpu"] = "cpu"
    versions: Mapping[str, str] = field(default_factory=dict)
    cpu_flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str | None = None
    homeless: bool = False


def imports(packages: Iterable[str], modules: Mapping[str, str] = MappingProxyType({})) -> tuple[Import, ...]:
    """Return what to import of these distributions (normalised names), the root of a failure first.

    Those of `modules` (distribution -> module) that a fine-tuning stack is not known by come last.
    """
    names = frozenset(packages)
    rest = (name for name in sorted(modules) if name in names and name not in _IMPORTED)
    known = (Import(distribution=name, module=name) for name in _IMPORTED if name in names)
    return (*known, *(Import(distribution=name, module=modules[name]) for name in rest))


def run(
    *,
    run: Runner,
    python: Path,
    request: ProbeRequest,
    environ: Mapping[str, str],
    timeout: float | None,
    workdir: Path,
) -> ProbeReport:
    """Probe the environment of `python`; the report file lives in a folder of its own under `workdir` meanwhile."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(scratch.folder(workdir))
        except OSError as error:
            return _homeless(workdir, error.strerror)
        report = folder / "report.json"
        options = ("--report", str(report), "--request", _request(request))
        argv = (str(python), "-I", "-X", "faulthandler", script.__file__, *options)
        ended = run(Command(argv=argv, env={**environ, **_SETTINGS}, cwd=folder, timeout=timeout))
        if ended.timed_out:
            return _failure(f"the probe did not end within {timeout:.0f} s", ended)
        if ended.code == script.NO_ROOM:
            return _homeless(workdir, ended.stderr.strip().rpartition("\n")[2])
        return _failure(f"the probe {_death(ended.code)}", ended) if ended.code else _left(report, ended)


def _left(report: Path, ended: Completed) -> ProbeReport:
    """Return what a probe that ended well has left."""
    try:
        return _report(json.loads(report.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return _failure("the probe left no report", ended)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return _failure(f"the probe's report cannot be read: {type(error).__name__}: {error}", ended)


def _request(request: ProbeRequest) -> str:
    wanted = [{"distribution": item.distribution, "module": item.module} for item in request.imports]
    limits = {"import": request.import_seconds, "check": request.check_seconds}
    return json.dumps({"schema": script.SCHEMA, "imports": wanted, "only": list(request.only), "limits": limits})


def _report(document: Mapping[str, Any]) -> ProbeReport:
    """Read a report; `ValueError`, `KeyError` or `TypeError` where it is not one."""
    if document["schema"] != script.SCHEMA:
        raise ValueError(f"schema {document['schema']} is not {script.SCHEMA}")
    device = document["device"]
    if device not in {"cuda", "cpu"}:
        raise ValueError(f"no such device: {device}")
    return ProbeReport(
        checks=tuple(_check(row) for row in document["checks"]),
        device=device,
        versions=dict(document["versions"]),
        cpu_flags=tuple(document["cpu_flags"]),
        notes=tuple(document["notes"]),
    )


def _check(row: Mapping[str, Any]) -> Check:
    if row["status"] not in get_args(Status):
        raise ValueError(f"no such status: {row['status']}")
    texts = {name: None if row[name] is None else str(row[name]) for name in ("have", "want", "message", "fix")}
    return Check(id=str(row["id"]), status=row["status"], seconds=float(row["seconds"]), **texts)


def _death(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    names = {member.value: member.name for member in signal.Signals}
    return f"was killed by {names.get(-code, f'signal {-code}')}"


def _homeless(workdir: Path, reason: str | None) -> ProbeReport:
    return ProbeReport(failure=f"the probe's report has no place in `{workdir}`: {reason}", homeless=True)


def _failure(reason: str, ended: Completed) -> ProbeReport:
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    return ProbeReport(failure="\n".join([reason, *lines[-_TAIL_LINES:]]))
