"""`envlock export`: one locked variant as other tools take it."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.pylock import is_valid_pylock_path

from envlock import address, exports, lock, request, store, writing
from envlock.app import indexes, plan, reading, wheelhouse
from envlock.app import locked as locks
from envlock.app.located import Located, locate
from envlock.app.world import World
from envlock.errors import Misuse, Problem, Refused, WorldFailed
from envlock.facts import Facts
from envlock.model import Caution, Exported, Format, Lock, LockedVariant, Policy, Profile

__all__ = ["run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What was asked for, and for which machine."""

    name: str
    format: Format
    variant: str | None
    output: str | None
    force: bool
    frozen: bool
    host_files: Sequence[Path]
    driver: str | None
    gpus: Sequence[str]
    glibc: str | None
    backend: str | None
    policy: Policy | None
    python: str | None

    @property
    def again(self) -> str:
        """The command that asks for the same."""
        parts = ["envlock", "export", self.name, "--format", self.format]
        parts += ["--variant", self.variant] if self.variant else []
        parts += ["-o", self.output] if self.output else []
        return shlex.join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What is exported: `addresses` are those of the named indexes as everybody has them.

    `own` is the variant of PyPI's own build, which needs none of them, where that is another one and locked.
    """

    asked: _Asked
    profile: Profile
    locked: LockedVariant
    own: str | None
    facts: Facts
    addresses: Mapping[str, str]
    warnings: tuple[Caution, ...]


def run(
    world: World,
    name: str,
    *,
    kind: Format = "requirements",
    variant: str | None = None,
    output: str | None = None,
    force: bool = False,
    frozen: bool = False,
    host_files: Sequence[Path] = (),
    driver: str | None = None,
    gpus: Sequence[str] = (),
    glibc: str | None = None,
    backend: str | None = None,
    policy: Policy | None = None,
    python: str | None = None,
) -> Exported:
    """Export the variant named, else the one that `plan` chooses for the machines named, else for this one.

    Without an `output` the answer holds the text. `force` allows a file there that is no export to be replaced,
    `frozen` a lock whose inputs moved. Raises `Misuse` (`usage`, `variant-unknown`, what cannot be read), `Refused`
    (`no-compatible-backend`, `variant-not-locked`, `lock-missing`, `lock-stale`), `WorldFailed` (`target-foreign`,
    `target-busy`, `not-writable`, `disk-full`).
    """
    if kind == "wheelhouse" and output is None:
        message = "a wheelhouse is a folder: `-o` says which"
        raise Misuse(message, code="usage", hint=f"envlock export {name} --format wheelhouse -o wheelhouse")
    asked = _Asked(
        name=name,
        format=kind,
        variant=variant,
        output=output,
        force=force,
        frozen=frozen,
        host_files=host_files,
        driver=driver,
        gpus=gpus,
        glibc=glibc,
        backend=backend,
        policy=policy,
        python=python,
    )
    job = _job(world, asked)
    for warning in job.warnings:
        world.reporter.warn(warning)
    if kind == "wheelhouse":
        return _wheelhouse(world, job)
    texts, told = _texts(world, job)
    for warning in told:
        world.reporter.warn(warning)
    return _put(world, replace(job, warnings=(*job.warnings, *told)), texts)


# ---- choosing -----------------------------------------------------------------------------------------------------


def _job(world: World, asked: _Asked) -> _Job:
    wanted, known = reading.profile(world, asked.name), reading.facts()
    held = reading.lock(world, wanted)
    if held is None:
        raise Refused(f"`{wanted.name}` is not locked", code="lock-missing", hint=f"envlock lock {asked.name}")
    locked, warnings = _named(held, wanted, asked) if asked.variant else _chosen(world, held, asked)
    return _Job(
        asked=asked,
        profile=wanted,
        locked=locked,
        own=locks.own(held, locked) if lock.indexed(locked.packages) else None,
        facts=known,
        addresses=indexes.canonical(known),
        warnings=(*warnings, *locks.stale(world, wanted, known, held, frozen=asked.frozen, done="exported")),
    )


def _named(held: Lock, wanted: Profile, asked: _Asked) -> tuple[LockedVariant, tuple[Caution, ...]]:
    found = next((row for row in held.variants if row.variant.name == asked.variant), None)
    if found is not None:
        return found, ()
    there = [row.variant.name for row in held.variants]
    if asked.variant in {one.name for one in request.variants(wanted)}:
        raise locks.missing(asked.variant or "", wanted.name, held, hint=f"envlock lock {asked.name}")
    near = difflib.get_close_matches(asked.variant or "", there, n=1)
    expected = f"`{near[0]}`?" if near else f"one of {', '.join(there)}"
    problem = Problem(message=f"no variant is called `{asked.variant}`", file=wanted.file, expected=expected)
    hint = "envlock profiles -v"
    raise Misuse(f"`{wanted.name}` has no such variant", code="variant-unknown", problems=(problem,), hint=hint)


def _chosen(world: World, held: Lock, asked: _Asked) -> tuple[LockedVariant, tuple[Caution, ...]]:
    made = plan.run(
        world,
        asked.name,
        host_files=asked.host_files,
        driver=asked.driver,
        gpus=asked.gpus,
        glibc=asked.glibc,
        backend=asked.backend,
        policy=asked.policy,
        python=asked.python,
    ).plan
    if made.variant is None:
        raise Refused(
            f"no backend of `{held.profile}` fits this machine; `--variant` takes one by its name",
            code="no-compatible-backend",
            hint=f"envlock plan {asked.name}",
        )
    found = next((row for row in held.variants if row.variant == made.variant), None)
    if found is None:
        raise locks.missing(made.variant.name, held.profile, held, hint=made.command)
    return found, made.decision.warnings


# ---- texts --------------------------------------------------------------------------------------------------------


def _texts(world: World, job: _Job) -> tuple[dict[str, str], tuple[Caution, ...]]:
    """Return name -> text, the export itself first, and what is to be said of them."""
    if job.asked.format == "pylock":
        return _pylock(world, job)
    if job.asked.format == "environment.yml":
        return exports.environment(job.locked, job.profile, job.addresses), ()
    return exports.requirements(job.locked, job.profile.name, job.addresses), ()


def _pylock(world: World, job: _Job) -> tuple[dict[str, str], tuple[Caution, ...]]:
    from envlock import pylock  # noqa: PLC0415  what writes TOML is loaded where some is written

    if job.asked.output is not None and not is_valid_pylock_path(path := _target(world, job)):
        problem = Problem(
            message=f"`{path.name}`", expected="`pylock.toml`, or `pylock.NAME.toml` without a dot in NAME"
        )
        hint = f"envlock export {job.asked.name} --format pylock -o pylock.toml"
        message = "no tool takes a lock of that name for one (PEP 751)"
        raise Misuse(message, code="pylock-name-invalid", problems=(problem,), hint=hint)
    located = _located(world, job)
    profile, variant = job.profile.name, job.locked.variant.name
    file = exports.name("pylock", profile, variant)
    comments = exports.pylock_comments(job.locked, profile, file)
    text = pylock.render(job.locked, profile, located.files, located.plain(), comments=comments)
    beside = {exports.BUILD: lock.build_requirements(job.locked, profile)} if job.locked.build else {}
    return {file: text, **beside}, tuple(_shortened(located))


def _shortened(located: Located) -> Iterator[Caution]:
    closed = [file.file for file in located.files.values() if address.without_secrets(file.url) != file.url]
    if closed:
        which = f"{len(closed)} files, `{closed[0]}` for one," if len(closed) > 1 else f"`{closed[0]}`"
        message = f"the address of {which} is exported without its query, which holds a secret, and may need a login"
        yield Caution(code="address-shortened", message=message)


def _located(world: World, job: _Job) -> Located:
    """Return where the files are; where an index cannot be reached, the hint is the variant that needs none of its."""
    try:
        return locate(world, job.locked, job.facts)
    except WorldFailed as error:
        if error.code != "network" or job.own is None:
            raise
        hint = replace(job.asked, variant=job.own).again
        raise WorldFailed(error.message, code=error.code, problems=error.problems, hint=hint) from error


def _put(world: World, job: _Job, texts: Mapping[str, str]) -> Exported:
    main, *beside = texts
    if job.asked.output is None:
        warnings = job.warnings
        if beside:
            message = f"{main} is not enough: {' and '.join(beside)} must stand beside it, and `-o FOLDER/` writes all"
            caution = Caution(code="files-beside", message=message)
            world.reporter.warn(caution)
            warnings = (*warnings, caution)
        return _answer(job, text=texts[main], files=(main,), warnings=warnings)
    path = _target(world, job)
    placed = {
        path: exports.renamed(texts[main], main, path.name),
        **{path.parent / name: texts[name] for name in beside},
    }
    if len(placed) < len(texts):
        message = f"`{path.name}` is what stands beside the export: it needs another name"
        raise Misuse(message, code="usage", hint="envlock export --help")
    _write(job, {file: text.encode() for file, text in placed.items()})
    files = tuple(store.shown(file, world.cwd) for file in placed)
    return _answer(job, path=files[0], files=files, warnings=job.warnings)


def _target(world: World, job: _Job) -> Path:
    """Return the file to write: what was said, or the usual name in the folder that was said."""
    output = job.asked.output or ""
    path = store.typed(output, world.cwd)
    if output.endswith(os.sep) or path.is_dir():
        return path / exports.name(job.asked.format, job.profile.name, job.locked.variant.name)
    return path


def _write(job: _Job, files: Mapping[Path, bytes]) -> None:
    (target, *_) = files
    with _held(job, target):
        for path in files:
            _refuse_foreign(job, path)
        writing.put(files)


@contextmanager
def _held(job: _Job, target: Path) -> Iterator[None]:
    try:
        with writing.hold(target, again=job.asked.again):
            yield
    except WorldFailed as error:
        if error.code != "lock-busy":
            raise
        message = f"another envlock is writing `{target}`"
        raise WorldFailed(message, code="target-busy", hint=error.hint) from error


def _refuse_foreign(job: _Job, path: Path) -> None:
    """Raise `target-foreign` for what is not a file, and, unless forced, for one that is no export and not empty."""
    if not os.path.lexists(path):
        return
    if path.is_file() and not path.is_symlink():
        held = store.content(path) or b""
        if not held or job.asked.force or exports.is_export(held):
            return
        what, hint = "a file that envlock did not write", f"{job.asked.again} --force"
    else:
        what, hint = "not a file", f"ls -ld {shlex.quote(str(path))}"
    raise WorldFailed(f"`{path}` is {what}; it is left alone", code="target-foreign", hint=hint)


# ---- a wheelhouse -------------------------------------------------------------------------------------------------


def _wheelhouse(world: World, job: _Job) -> Exported:
    target = store.typed(job.asked.output or "", world.cwd)
    order = wheelhouse.Order(
        target=target,
        profile=job.profile.name,
        locked=job.locked,
        locate=lambda: _located(world, job),
        again=job.asked.again,
    )
    with _held(job, target):
        names = wheelhouse.put(world, order)
    path = store.shown(target, world.cwd)
    return _answer(job, path=path, files=tuple(f"{path}/{name}" for name in names), warnings=job.warnings)


# ---- the answer ---------------------------------------------------------------------------------------------------


def _answer(
    job: _Job,
    *,
    files: tuple[str, ...],
    warnings: tuple[Caution, ...],
    text: str | None = None,
    path: str | None = None,
) -> Exported:
    return Exported(
        profile=job.profile.name,
        variant=job.locked.variant.name,
        format=job.asked.format,
        text=text,
        path=path,
        files=files,
        packages=len(job.locked.packages),
        built=tuple(package.name for package in lock.sources(job.locked.packages)),
        command=exports.command(job.asked.format, job.profile.name, job.locked, path) if path else None,
        warnings=warnings,
    )
