"""`envlock diff`: two locks, wherever they are kept, or an environment and a lock. Nothing is changed."""

from __future__ import annotations

import difflib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from envlock import env, integrity, lock, lock_diff, profile, record, store
from envlock.app import reading
from envlock.app.world import World
from envlock.errors import Misuse, Problem, Refused, WorldFailed
from envlock.lock_diff import Content, Environment
from envlock.model import Diffed, Side
from envlock.proc import Command, Completed

__all__ = ["run"]

_GIT_SECONDS: Final = 60.0  # a partial clone fetches what is asked for
_NO_PROGRAM: Final = 127


def run(world: World, before: str, after: str | None = None, *, strict: bool = False) -> Diffed:
    """Compare two of: a profile (its lock), a lock file, `REV:` and either (as git keeps it), an environment's path.

    Left out, `after` is the lock at hand of the same profile, and `before`, if it is that, what git's HEAD has of it.
    Of an environment, what is in it now is compared; of one that envlock did not make, the versions alone. With
    `strict` a difference is a no. Raises `Refused` (`lock-missing`), `Misuse` (`profile-unknown`, `env-missing`,
    `revision-unknown`, `not-a-repository`, or whatever is wrong with a profile, a lock or a record), `WorldFailed`
    (`git-missing`, `git-failed`, `file-unreadable`).
    """
    first = _read(world, before)
    if after is None:
        after = first.side.profile
        if not after:
            message = f"`{before}` was not made by envlock: name the profile to compare it with"
            raise Misuse(message, code="usage", hint="envlock profiles")
        if _is_at_hand(world, before, first):
            first = _read(world, f"HEAD:{after}")
    known = reading.facts().gpu_capabilities
    return lock_diff.compare(first, _read(world, after), digest=env.digest, gpus=known.values(), strict=strict)


def _is_at_hand(world: World, asked: str, found: Content) -> bool:
    at_hand = store.lock_file(found.side.profile, world.cwd)
    return ":" not in asked and at_hand is not None and found.side.file == store.shown(at_hand, world.cwd)


# ---- what is meant ------------------------------------------------------------------------------------------------


def _read(world: World, asked: str) -> Content:
    path = store.typed(asked, world.cwd)
    there = os.path.exists(path)  # noqa: PTH110  unlike `Path.exists`, False for whatever cannot be a path
    revision, colon, rest = asked.rpartition(":")
    if colon and not there:
        if not rest:
            problem = Problem(message="names no profile or file of it", key=asked, expected=f"{asked}PROFILE")
            raise Misuse("a revision alone is nothing to compare", code="usage", problems=(problem,))
        return _at_revision(world, _Revision(asked=asked, name=revision, rest=rest))
    if os.sep in asked or asked.endswith(".lock") or (there and not _is_named(world, asked)):
        if asked.endswith(".toml"):
            return _of_profile(world, asked)
        return _environment(world, asked, path) if path.is_dir() else _file(world, asked, path)
    return _of_profile(world, asked)


def _is_named(world: World, name: str) -> bool:
    return name in store.profile_names(world.cwd) or store.lock_file(name, world.cwd) is not None


def _of_profile(world: World, asked: str) -> Content:
    name = _profile_name(world, asked)
    found = store.lock_file(name, world.cwd)
    if found is None:
        raise Refused(f"`{name}` is not locked", code="lock-missing", hint=f"envlock lock {shlex.quote(asked)}")
    return _file(world, asked, found)


def _profile_name(world: World, asked: str) -> str:
    """Return what the profile calls itself; a lock without a profile goes by its own name."""
    try:
        file = store.profile_file(asked, world.cwd)
    except Misuse:
        if store.lock_file(asked, world.cwd) is None:
            raise
        return asked
    return profile.parse(store.profile_text(file), store.shown(file, world.cwd)).name


def _file(world: World, asked: str, path: Path) -> Content:
    shown = store.shown(path, world.cwd)
    text = store.read_text(path, what="lock")
    try:
        read = lock.parse(text, shown, copied=True)
    except Misuse as error:
        # Only what stands where locks are written is made anew by locking.
        anew = path.suffix == ".lock" and path == store.lock_target(path.stem, world.cwd)
        hint = error.hint if anew else "envlock diff --help"
        raise Misuse(error.message, code=error.code, problems=error.problems, hint=hint) from error
    return Content(side=Side(asked=asked, file=shown, profile=read.profile), read=read)


def _environment(world: World, asked: str, path: Path) -> Content:
    root, shown = path.resolve(), store.shown(path, world.cwd)
    file = root / record.FILE
    found = integrity.installed(root)
    kept = None
    if file.is_file():
        kept = record.parse(store.read_text(file, what="record of the environment"), f"{shown}/{record.FILE}")
    elif found is None:
        problem = Problem(message=f"no {record.FILE}", file=shown)
        message = f"`{asked}` is no environment that envlock made, and no other one"
        raise Misuse(message, code="env-missing", problems=(problem,), hint="envlock profiles")
    said = kept.packages if kept else {}
    packages = {name: _as_said(version, said.get(name)) for name, version in (found or {}).items()}
    side = Side(asked=asked, file=shown, profile=kept.profile if kept else "")
    return Content(side=side, read=Environment(packages=packages, record=kept))


def _as_said(version: str, said: str | None) -> str:
    """Return the version as the lock spells it, if it is the same one."""
    try:
        return said if said is not None and Version(said) == Version(version) else version
    except InvalidVersion:
        return version


# ---- as git keeps it ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Revision:
    """`REV:FILE` or `REV:PROFILE`, taken apart."""

    asked: str
    name: str
    rest: str


def _at_revision(world: World, wanted: _Revision) -> Content:
    """Return a lock as it was committed, which need not be there any more."""
    commit = _commit(world, wanted)
    path = _place(world, wanted.rest)
    done = _git(world, "cat-file", "blob", f"{commit}:{path}")
    if done.code != 0:
        raise Refused(
            f"`{wanted.name}` holds no `{path}`",
            code="lock-missing",
            problems=(Problem(message=_said(done), file=wanted.asked),),
            hint=f"git log --oneline -- {shlex.quote(path)}",
        )
    file = f"{wanted.name}:{path}"
    try:
        read = lock.parse(done.stdout, file)
    except Misuse as error:
        hint = f"git show {shlex.quote(file)}"
        raise Misuse(error.message, code=error.code, problems=error.problems, hint=hint) from error
    return Content(side=Side(asked=wanted.asked, file=file, profile=read.profile), read=read)


def _place(world: World, rest: str) -> str:
    """Return the lock's path from here, as git takes it in a revision: with `./` or `../` before it."""
    if rest.endswith(".toml"):
        path = store.lock_target(_profile_name(world, rest), world.cwd)
    elif os.sep in rest or rest.endswith(".lock"):
        path = store.typed(rest, world.cwd)
    else:
        path = store.lock_target(rest, world.cwd)
    beside = os.path.relpath(path, world.cwd)
    return beside if beside.startswith("..") else f"./{beside}"


def _commit(world: World, wanted: _Revision) -> str:
    done = _git(world, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted.name}^{{commit}}")
    if done.code == 0:
        return done.stdout.strip()
    inside = _git(world, "rev-parse", "--git-dir")
    if inside.code != 0:
        problem = Problem(message=_said(inside), file=str(world.cwd))
        message = f"`{wanted.asked}` asks git, which knows of no repository here"
        raise Misuse(message, code="not-a-repository", problems=(problem,), hint="git status")
    refs = _git(world, "for-each-ref", "--format=%(refname:short)").stdout.split()
    near = difflib.get_close_matches(wanted.name, ["HEAD", *refs], n=1)
    problem = Problem(message="no such revision", key=wanted.name, expected=f"`{near[0]}`?" if near else None)
    raise Misuse(
        f"`{wanted.asked}` is neither a file nor a revision of git's",
        code="revision-unknown",
        problems=(problem,),
        hint="git log --oneline -5",
    )


def _git(world: World, *arguments: str) -> Completed:
    env = {**world.environ, "GIT_TERMINAL_PROMPT": "0"}
    done = world.run(Command(argv=("git", *arguments), env=env, cwd=world.cwd, timeout=_GIT_SECONDS))
    if done.code == _NO_PROGRAM:
        message = "only git knows what a revision holds, and it is not here"
        raise WorldFailed(message, code="git-missing", problems=(Problem(message=_said(done)),), hint="git --version")
    if done.timed_out:
        message = f"git did not answer within {_GIT_SECONDS:.0f} s"
        raise WorldFailed(message, code="git-failed", hint=shlex.join(done.argv))
    return done


def _said(done: Completed) -> str:
    return " ".join(done.stderr.split()) or f"git ended with {done.code}"
