"""Put a locked variant behind a path: reuse or build a generation, have it proven, then move the link.

Whatever happens before the last step, the path goes on naming what it named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from envlock import __version__, env, generations, integrity, record, store
from envlock.app.world import World
from envlock.env import Tools
from envlock.errors import Interrupted, Misuse
from envlock.generations import Generation
from envlock.model import Caution, Check, HostFacts, Installed, Level, LockedVariant, Verified

__all__ = ["Prove", "Wanted", "put"]

Prove: TypeAlias = Callable[[Path, Level], Verified]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to stand at `path`.

    `python` finds the interpreter, asked only when one is needed; `prove` verifies a generation's folder at a level,
    None for no verification; `level` is that of a new environment.
    """

    path: Path
    profile: str
    locked: LockedVariant
    host: HostFacts
    python: Callable[[], Path]
    prove: Prove | None
    level: Level = "kernels"


def put(world: World, wanted: Wanted, tools: Tools) -> Installed:
    """Return what stands at the path now, or what failed its verification and therefore does not.

    Raises what building raises; `Interrupted` says what the path still is.
    """
    path = generations.locate(wanted.path)
    try:
        with generations.hold(path):
            placing = _Placing(world, replace(wanted, path=path), tools, shown=store.shown(wanted.path, world.cwd))
            return placing.standing() or placing.made()
    except OSError as error:
        raise generations.unwritable(path, error) from error
    except KeyboardInterrupt as error:
        now = generations.current(path)
        stands = f"`{path}` is {now.id} ({now.variant})" if now else f"nothing stands at `{path}`"
        raise Interrupted(f"interrupted: {stands}", code="interrupted") from error


class _Placing:
    """One install under way; `path` is held by this process."""

    def __init__(self, world: World, wanted: Wanted, tools: Tools, *, shown: str) -> None:
        self._world = world
        self._wanted = wanted
        self._tools = tools
        self._path = wanted.path
        self._shown = shown
        self._digest = env.digest(wanted.locked)
        self._previous = generations.current(wanted.path)
        self._begun = world.clock()

    def standing(self) -> Installed | None:
        """Return the answer if the path already names a sound copy of just this; a damaged one is built anew."""
        now = self._previous
        if now is None or not self._is_this(now):
            return None
        prove = self._wanted.prove
        if prove is None:
            return self._answer(now.id, {"verify": self._elapsed()}) if self._is_sound(now) else None
        root = generations.folder(self._path, now.id)
        level: Level = "quick" if generations.proven(root) else self._wanted.level
        verified = self._proof(prove, root, level)
        if any(_damages(check) for check in verified.checks):
            return None
        return self._answer(now.id, {"verify": self._elapsed()}, verify=verified)

    def made(self) -> Installed:
        """Finish a generation that an earlier run completed, or build one; prove it and move the link."""
        found = generations.find(self._path, self._digest)
        if found and found != self._previous and self._is_this(found) and self._is_sound(found):
            identity, seconds = found.id, {"download": 0.0, "install": 0.0, "verify": self._elapsed()}
        else:
            identity, seconds = self._build()
        verified = None
        if self._wanted.prove is not None:
            begun = self._world.clock()
            root = generations.folder(self._path, identity)
            verified = self._proof(self._wanted.prove, root, self._wanted.level)
            seconds["verify"] += self._world.clock() - begun
        if verified and _denies(verified):
            return self._kept(identity, seconds, verified)
        self._world.reporter.stage(f"Switching {self._shown} to {identity}")
        generations.switch(self._path, identity)
        return self._answer(identity, seconds, installed=True, verify=verified)

    def _build(self) -> tuple[str, dict[str, float]]:
        wanted = self._wanted
        python = wanted.python()
        root = generations.begin(self._path, self._digest)
        build = env.Build(
            root=root,
            python=python,
            prompt=self._path.name,
            profile=wanted.profile,
            locked=wanted.locked,
            glibc=wanted.host.glibc,
        )
        try:
            built = env.build(build, self._tools)
            generations.complete(root, record.dump(self._record(root)))
        except BaseException:
            generations.discard(root)
            raise
        return root.name, {"download": built.download, "install": built.install, "verify": built.hashing}

    def _record(self, root: Path) -> record.Record:
        wanted = self._wanted
        return record.Record(
            profile=wanted.profile,
            variant=wanted.locked.variant.name,
            lock=self._digest,
            packages=env.packages(wanted.locked),
            floors=wanted.locked.floors,
            host=wanted.host,
            envlock=__version__,
            records=integrity.records(root),
            modules=integrity.modules(root, env.asked(wanted.locked)),
        )

    def _is_this(self, generation: Generation) -> bool:
        root = generations.folder(self._path, generation.id)
        if not generation.complete or generation.broken:
            return False
        try:
            same = generations.read(root).lock == self._digest
        except Misuse as error:
            self._world.reporter.log(error.message)
            return False
        return same and env.interpreter(root, self._wanted.locked.variant.python).exists()

    def _is_sound(self, generation: Generation) -> bool:
        self._world.reporter.stage("Checking the files of the environment that is there")
        root = generations.folder(self._path, generation.id)
        kept = generations.read(root).records
        state = integrity.check(root, env.packages(self._wanted.locked), kept=kept, cache=self._tools.hashes)
        return not any(_damages(check) for check in state.checks)

    def _proof(self, prove: Prove, root: Path, level: Level) -> Verified:
        verified = prove(root, level)
        if level != "quick" and not _denies(verified):
            generations.mark_proven(root, verified.verdict)
        return verified

    def _kept(self, identity: str, seconds: dict[str, float], verified: Verified) -> Installed:
        """Leave the link alone. Only a failure condemns the new generation: what could not be run may run next time."""
        root = generations.folder(self._path, identity)
        if verified.verdict == "failed":
            generations.mark_broken(root, _root_cause(verified.checks))
        stands = f"still is {self._previous.id}" if self._previous else "is not there yet"
        caution = Caution(code="not-switched", message=f"`{self._shown}` {stands}; the new environment is at `{root}`")
        self._world.reporter.warn(caution)
        return self._answer(identity, seconds, verify=verified, warnings=(caution,))

    def _answer(
        self,
        identity: str,
        seconds: dict[str, float],
        *,
        installed: bool = False,
        verify: Verified | None = None,
        warnings: Sequence[Caution] = (),
    ) -> Installed:
        previous = self._previous.id if self._previous and self._previous.id != identity else None
        return Installed(
            profile=self._wanted.profile,
            variant=self._wanted.locked.variant.name,
            path=self._shown,
            generation=identity,
            previous=previous,
            installed=installed,
            packages=len(self._wanted.locked.packages),
            seconds={"download": 0.0, "install": 0.0, **seconds},
            verify=verify,
            warnings=tuple(warnings),
        )

    def _elapsed(self) -> float:
        return self._world.clock() - self._begun


def _denies(verified: Verified) -> bool:
    return verified.verdict in {"failed", "could-not-run"}


def _damages(check: Check) -> bool:
    return check.status == "fail" and check.id.startswith("integrity.")


def _root_cause(checks: Sequence[Check]) -> str:
    failed = next((check for check in checks if check.status == "fail"), None)
    return f"{failed.id}: {failed.message or 'failed'}" if failed else "failed"
