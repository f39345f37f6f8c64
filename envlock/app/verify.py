"""`envlock verify`: prove an environment, from the root causes to their consequences."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from envlock import checks, drift, generations, hashes, integrity, record, store
from envlock.app import detect, reading
from envlock.app import locked as locks
from envlock.app.world import World
from envlock.checks import Selection
from envlock.errors import Misuse, Problem, WorldFailed
from envlock.model import Check, Device, HostFacts, Level, Verified
from envlock.probe import run as probe
from envlock.probe import script
from envlock.probe.run import ProbeReport, ProbeRequest
from envlock.record import Record

__all__ = ["KNOWN", "check", "run"]

_HOME: Final = ".envlock"
KNOWN: Final = (
    *(f"drift.{name}" for name in checks.DRIFT),
    locks.MOVED,
    *(f"integrity.{name}" for name in checks.INTEGRITY),
    *probe.KERNELS,
)
"""Every check there is, but for the imports: of those there is one for each package."""

_LONGER_SECONDS: Final = 600  # for a check that was stopped
_OPEN: Final = ("import",)  # one check for each package
_NO_KERNELS: Final = ("none",)  # the probe takes an empty list for all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What is asked of one environment: `root` is its real folder, `path` how the user calls it.

    `installed` is False for one that was made just now from the lock at hand.
    """

    root: Path
    path: str
    record: Record
    level: Level
    selection: Selection
    require_gpu: bool = False
    deep: bool = False
    timeout: float | None = None
    host: HostFacts | None = None
    installed: bool = True

    @property
    def install(self) -> str:
        """The command that builds this environment anew."""
        return checks.install(self.record.profile, self.path)

    @property
    def again(self) -> str:
        """The command that this is part of."""
        return self.install if self.host else f"envlock verify {shlex.quote(self.path)}"

    @property
    def plan(self) -> str:
        """The command that chooses anew."""
        return f"envlock plan {shlex.quote(self.record.profile)}"


def run(
    world: World,
    target: str | None = None,
    *,
    level: Level = "kernels",
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    require_gpu: bool = False,
    deep: bool = False,
    timeout: float | None = None,
) -> Verified:
    """Verify the environment at `target`: a path, a profile under `.envlock/`, or None for the only one there.

    `timeout` limits each kernel check (seconds). Raises `Misuse` (`env-missing`, `env-ambiguous`,
    `env-record-invalid`, `check-unknown`, `nothing-to-check`) and `WorldFailed` (`env-unreadable`).
    """
    selection = checks.select(only, skip, known=KNOWN, open_groups=_OPEN)
    _require_something(level, selection, require_gpu=require_gpu)
    path = _find(world, target)
    root = path.resolve()  # from here on a switch of the link does not matter
    order = _Order(
        root=root,
        path=store.shown(path, world.cwd),
        record=_record(root),
        level=level,
        selection=selection,
        require_gpu=require_gpu,
        deep=deep,
        timeout=timeout,
    )
    return _verify(world, order)


def check(
    world: World, generation: Path, *, level: Level = "kernels", path: Path | None = None, host: HostFacts | None = None
) -> Verified:
    """Verify a generation that no link names yet; `path` is where it will stand, `host` this machine if it is known."""
    order = _Order(
        root=generation.resolve(),
        path=store.shown(path or generation, world.cwd),
        record=_record(generation),
        level=level,
        selection=Selection(),
        host=host,
        installed=False,
    )
    return _verify(world, order)


# ---- which environment --------------------------------------------------------------------------------------------


def _find(world: World, target: str | None) -> Path:
    home = world.cwd / _HOME
    names = _environments(home)
    configured = store.typed(world.config.path, world.cwd) if world.config.path else None
    if target is None:
        return _existing(configured, names) if configured else _only(home, names)
    if configured and (configured / record.FILE).is_file() and _record(configured).profile == target:
        return configured
    if target in names:
        return home / target
    path = store.typed(target, world.cwd)
    if not path.exists() and target in store.profile_names(world.cwd):
        message = f"`{target}` is not installed: there is no environment `{_HOME}/{target}`"
        raise Misuse(message, code="env-missing", hint=f"envlock install {shlex.quote(target)}")
    return _existing(path, names)


def _existing(path: Path, names: Sequence[str]) -> Path:
    """Return the path where an environment of ours stands there; else say what does, and what was meant perhaps."""
    if (path / record.FILE).is_file():
        return path
    if path.exists():
        message = f"`{path}` is no environment that envlock made"
        problem = Problem(message=f"no {record.FILE}", file=str(path))
        raise Misuse(message, code="env-missing", problems=(problem,), hint="envlock profiles")
    near = difflib.get_close_matches(path.name, names, n=1)
    if near:
        message = f"there is no environment `{path.name}`; did you mean `{near[0]}`?"
        raise Misuse(message, code="env-missing", hint=f"envlock verify {near[0]}")
    raise Misuse(f"there is no environment `{path}`", code="env-missing", hint="envlock profiles")


def _only(home: Path, names: Sequence[str]) -> Path:
    if len(names) == 1:
        return home / names[0]
    if not names:
        raise Misuse(f"there is no environment under `{_HOME}/`", code="env-missing", hint="envlock profiles")
    raise Misuse(
        f"there are {len(names)} environments under `{_HOME}/`: {', '.join(names)}",
        code="env-ambiguous",
        problems=tuple(Problem(message="an environment", file=f"{_HOME}/{name}") for name in names),
        hint=f"envlock verify {names[0]}",
    )


def _environments(home: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(path.name for path in home.iterdir() if (path / record.FILE).is_file()))
    except OSError:
        return ()


def _record(root: Path) -> Record:
    try:
        return generations.read(root)
    except UnicodeDecodeError as error:
        problem = Problem(message=f"byte {error.start} is not UTF-8", file=str(root / record.FILE))
        message = f"the record of `{root}` is not text"
        raise Misuse(message, code="env-record-invalid", problems=(problem,), hint="envlock profiles") from error
    except OSError as error:
        message = f"the record of `{root}` cannot be read: {error.strerror}"
        raise WorldFailed(message, code="env-unreadable", hint=f"ls -l {shlex.quote(str(root))}") from error


# ---- what of it ---------------------------------------------------------------------------------------------------


def _require_something(level: Level, selection: Selection, *, require_gpu: bool) -> None:
    entered = [group for group in checks.groups(level) if selection.enters(group)]
    if not entered:
        raise _nothing(f"nothing of level `{level}` is left to check")
    if require_gpu and "kernels" not in entered:
        raise _nothing("`--require gpu` asks for kernels, and none would run")


def _nothing(message: str) -> Misuse:
    return Misuse(message, code="nothing-to-check", hint="envlock verify --level kernels")


def _verify(world: World, order: _Order) -> Verified:
    found: tuple[Check, ...] = ()
    report = ProbeReport()
    steps: tuple[tuple[str, Callable[[], Iterable[Check]]], ...] = (
        ("drift", lambda: _drift(world, order)),
        ("integrity", lambda: _integrity(world, order)),
    )
    for group, step in steps:
        if order.selection.enters(group):
            failed = checks.cause(group, found)
            made = checks.skip_after(failed, _ids(group)) if failed else step()
            found += tuple(check for check in made if order.selection.wants(check.id))
    if "kernels" in checks.groups(order.level):
        report, computed = _computed(world, order, found)
        found += computed
    ran = report.failure is None
    if not found:
        raise _nothing("this environment has none of the checks that were asked for")
    device = report.device if checks.computed(found) else None
    if order.require_gpu and ran:
        found = checks.require_gpu(found, device)
    return Verified(
        path=order.path,
        profile=order.record.profile,
        variant=order.record.variant,
        level=order.level,
        device=device,
        verdict=checks.verdict(found, device, ran=ran),
        checks=found,
        only=order.selection.only,
        skip=order.selection.skip,
    )


def _ids(group: str) -> tuple[str, ...]:
    return tuple(known for known in KNOWN if known.startswith(f"{group}."))


def _drift(world: World, order: _Order) -> Iterable[Check]:
    world.reporter.stage("Comparing this machine with the day of the install")
    known = reading.facts()
    (now,) = (order.host,) if order.host else detect.hosts(world, known=known)
    capabilities = {gpu.compute_capability for gpu in now.gpus if gpu.compute_capability}
    kept = order.record
    machine = drift.compare(
        kept.host,
        now,
        floors=kept.floors,
        variant=kept.variant,
        gpu_drivers={each: row.linux for each in capabilities if (row := known.gpu_driver(each))},
        plan=order.plan,
        install=order.install,
    )
    return (*machine, *(locks.moved(world, kept, install=order.install) if order.installed else ()))


def _integrity(world: World, order: _Order) -> Iterable[Check]:
    world.reporter.stage("Checking packages and files")
    kept, cache = order.record, hashes.place(world.environ)
    state = integrity.check(order.root, kept.packages, kept=kept.records, cache=cache, deep=order.deep)
    return (replace(check, fix=order.install) if check.status == "fail" else check for check in state.checks)


# ---- what runs inside it ------------------------------------------------------------------------------------------


def _computed(world: World, order: _Order, found: tuple[Check, ...]) -> tuple[ProbeReport, tuple[Check, ...]]:
    """Import and compute, as far as the checks so far leave sense in it."""
    wanted = order.selection
    kernels = tuple(name for name in _kernels(order.record) if wanted.wants(name))
    imported = tuple(f"import.{item.distribution}" for item in _imports(order.record))
    imports = tuple(name for name in imported if wanted.wants(name))
    no_import, no_kernel = checks.cause("import", found), checks.cause("kernels", found)
    if no_import:
        return ProbeReport(), checks.skip_after(no_import, (*imports, *kernels))
    if not imports and not kernels:
        return ProbeReport(), ()
    report = _probe(world, order, () if no_kernel else kernels)
    if report.failure is not None:
        fix = f"TMPDIR=FOLDER {order.again}" if report.homeless else None
        return report, (Check(id="import.probe", status="skip", message=report.failure, fix=fix),)
    for note in report.notes:
        world.reporter.log(note)
    rows = (_excused(row, order.record, report.device) for row in _shown(report.checks, wanted))
    shown = tuple(_longer(row, order) for row in rows)
    return report, (*shown, *checks.skip_after(no_kernel, kernels)) if no_kernel else shown


def _imports(kept: Record) -> tuple[probe.Import, ...]:
    return probe.imports(kept.packages, kept.modules)


def _excused(row: Check, kept: Record, device: Device) -> Check:
    """Return the failed import of a package that may only want the GPU that is not here as a warning.

    The packages that envlock knows import without one; of those that a profile adds that cannot be told.
    """
    known = {f"import.{item.distribution}" for item in probe.imports(kept.packages)}
    for_gpu = not kept.variant.startswith("cpu")
    if row.status != "fail" or device == "cuda" or not for_gpu or not row.id.startswith("import.") or row.id in known:
        return row
    return replace(row, status="warn", message=f"{row.message}\nthere is no GPU here, which it may need")


def _longer(row: Check, order: _Order) -> Check:
    """Return a kernel check that was stopped with the command that gives it longer."""
    stopped = (row.message or "").startswith(script.SILENT)
    if row.status != "fail" or not stopped or not row.id.startswith("kernels."):
        return row
    seconds = max(_LONGER_SECONDS, round(10 * (order.timeout or 0)))
    return replace(row, fix=f"envlock verify {shlex.quote(order.path)} --only {row.id} --timeout {seconds}")


def _kernels(kept: Record) -> tuple[str, ...]:
    """Return the kernel checks whose packages are in this environment."""
    needs = {name: probe.imports(script.CHECKS[name][1]) for name in probe.KERNELS}
    return tuple(name for name, items in needs.items() if all(item.distribution in kept.packages for item in items))


def _probe(world: World, order: _Order, kernels: Sequence[str]) -> ProbeReport:
    world.reporter.stage("Importing packages and running kernels")
    request = ProbeRequest(imports=_imports(order.record), only=tuple(kernels) or _NO_KERNELS)
    if order.timeout is not None:
        request = replace(request, check_seconds=order.timeout)
    scratch = Path(world.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - a folder of its own is made in there
    return probe.run(
        run=world.run,
        python=order.root / "bin" / "python",
        request=request,
        environ=world.environ,
        timeout=_limit(request),
        workdir=scratch,
    )


def _limit(request: ProbeRequest) -> float:
    """Return what the probe may take altogether: each import twice (with the others and alone), each check once.

    A check that has to import for itself may take as long as both.
    """
    checking = request.import_seconds + request.check_seconds
    return request.import_seconds * 2 * len(request.imports) + checking * len(request.only)


def _shown(rows: Iterable[Check], selection: Selection) -> tuple[Check, ...]:
    """Return what was asked for, and beside it each failed import that something asked for follows from."""
    every = tuple(rows)
    wanted = {row.id for row in every if selection.wants(row.id)}
    causes = {f"{row.message}" for row in every if row.id in wanted and row.status == "skip"}
    return tuple(
        row for row in every if row.id in wanted or (row.status == "fail" and f"follows from {row.id}" in causes)
    )
