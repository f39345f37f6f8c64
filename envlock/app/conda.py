"""The conda part of a lock: solve what is asked beside the wheels, and keep what still answers it.

A part is kept, byte for byte and without the engines, while what it was made from is the same: who has no py-rattler
can lock the wheels anew all the same. One that would answer another question is made anew or goes, never left to lie.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from envlock import conda, lines, lock, net, store
from envlock.app.world import World
from envlock.conda import Question, Record
from envlock.engines import conda_lock, rattler
from envlock.errors import EnvlockError, Interrupted, Misuse, Problem, Refused, WorldFailed
from envlock.facts import Facts
from envlock.model import Caution, Change, CondaPart, LockedVariant, Profile

__all__ = ["Parts", "Task", "Use", "contents", "digests", "fits", "known", "make", "moved", "names", "unsatisfied"]

Use: TypeAlias = Literal["auto", "always", "never"]
"""Whether the conda part is solved: where its engines are there, by all means, or not at all."""

_RECORDED: Final = "recorded"
_OK: Final = 200
_NAME: Final = re.compile(rb"^- name: (?P<name>\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The variants that are locked, and what there is of their conda parts: `held` and `contents` by variant.

    `free` names the packages that need not keep their versions; with `upgrade` none needs to.
    """

    profile: Profile
    facts: Facts
    variants: Sequence[LockedVariant]
    held: Mapping[str, CondaPart]
    contents: Mapping[str, bytes]
    use: Use
    upgrade: bool
    free: AbstractSet[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The variants with their conda parts, the files of those, and of the others why there is none."""

    variants: tuple[LockedVariant, ...]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, Refused] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()


def known() -> conda.Known:
    """Return what is known of conda's names."""
    return conda.parse(store.facts_texts())


def digests(profile: Profile, facts: Facts, variants: Sequence[LockedVariant]) -> dict[str, str]:
    """Return variant -> digest of what its conda part would be made from now; none where none is asked for."""
    questions = _questions(profile, facts, variants)
    return {one.variant.name: _digest(profile, one, questions[one.variant.name]) for one in variants if questions}


def make(world: World, task: Task) -> Parts:
    """Return every variant with its conda part: the one there is while it still answers, else a new one.

    That some cannot be satisfied is an answer; a package keeps its version where it fits. Without the engines nothing
    is solved, and where a part would be lost for that, or `use` demands one, `WorldFailed` (`engine-missing`) is
    raised. Raise `Misuse` (`profile-invalid`, `config-invalid`), and what `rattler.solve` raises.
    """
    questions = _questions(task.profile, task.facts, task.variants)
    if not questions:
        return Parts(variants=tuple(replace(one, conda=None) for one in task.variants))
    wanted = digests(task.profile, task.facts, task.variants)
    kept = {name: task.contents[name] for name, digest in wanted.items() if _holds(task, name, digest)}
    missing = {name: asked for name, asked in questions.items() if name not in kept}
    absent = _left_out(world, task, missing)
    if absent or not missing:
        return _parts(task, wanted, kept, absent)
    _require_channels(world, missing)
    _require_specs(world, task.profile)
    world.reporter.stage(f"Solving the conda part of {task.profile.name}")
    old = {name: _records(task, name, asked) for name, asked in missing.items()}
    answers = _solved(world, task, missing, old)
    solved = {name: answers[asked] for name, asked in missing.items()}
    refused = {name: answer for name, answer in solved.items() if isinstance(answer, Refused)}
    records = {name: answer for name, answer in solved.items() if not isinstance(answer, Refused)}
    by_name = {one.variant.name: one for one in task.variants}
    evidence = _evidence(world, missing.values()) if records else None
    made = {
        name: _content(task.profile, by_name[name], missing[name], some, evidence) for name, some in records.items()
    }
    parts = _parts(task, wanted, {**kept, **made}, {name: error.message for name, error in refused.items()})
    changes = [change for name in missing for change in _changes(name, old[name], records.get(name, ()))]
    return replace(parts, refused=refused, changes=tuple(changes))


def contents(folder: Path, held: Sequence[LockedVariant], profile: str) -> dict[str, bytes]:
    """Return variant -> `conda-lock.yml` as it lies beside a lock in that folder, for those that have one."""
    found = {one.variant.name: store.content(folder / lock.conda_place(profile, one.variant.name)) for one in held}
    return {name: content for name, content in found.items() if content is not None}


def moved(profile: Profile, facts: Facts, variants: Sequence[LockedVariant]) -> tuple[str, ...]:
    """Return the variants whose conda part would be made from something else now."""
    wanted = digests(profile, facts, variants)
    return tuple(one.variant.name for one in variants if one.conda and one.conda.inputs != wanted.get(one.variant.name))


def fits(part: CondaPart | None, content: bytes | None) -> bool:
    """Say whether what lies there, or does not, is what a lock says; what envlock did not write is not its business."""
    if part is None:
        return content is None or not lock.is_rendered(content)
    return content is not None and _sha256(content) == part.sha256


def names(contents: Iterable[bytes]) -> set[str]:
    """Return the names of all packages in these files."""
    return {found["name"].decode() for content in contents for found in _NAME.finditer(content)}


def unsatisfied(profile: Profile, refused: Mapping[str, Refused]) -> Refused | None:
    """Return one error for the variants whose conda part could not be had, where the rest could."""
    if not refused:
        return None
    told: dict[tuple[Problem, ...], list[str]] = {}
    for name, error in refused.items():
        told.setdefault(error.problems, []).append(name)
    problems = tuple(replace(one, key=", ".join(names)) for some, names in told.items() for one in some)
    first = next(iter(refused.values())).message
    message = f"`{profile.name}` is locked without the conda part of {', '.join(refused)}: {first}"
    hint = f"change [conda] of {profile.file}, then: envlock lock {profile.typed}"
    return Refused(message, code="unsatisfiable", problems=problems, hint=hint)


# ---- what is asked ------------------------------------------------------------------------------------------------


def _questions(profile: Profile, facts: Facts, variants: Sequence[LockedVariant]) -> dict[str, Question]:
    if not profile.conda_requires:
        return {}
    names = known()
    return {one.variant.name: conda.question(profile, one.variant, one.floors, facts, names) for one in variants}


def _custom(profile: Profile, locked: LockedVariant, asked: Question) -> dict[str, str]:
    """Return what a file says of the variant that it belongs to, and of machines."""
    rows = {
        "profile": profile.name,
        "variant": locked.variant.name,
        "backend": locked.variant.backend,
        "python": locked.variant.python,
        "driver": locked.floors.driver,
        "driver-windows": locked.floors.driver_windows,
        **{one.name.strip("_"): one.version for one in asked.virtual if one.name in {"__glibc", "__cuda"}},
    }
    return {f"envlock-{key}": value for key, value in rows.items() if value is not None}


def _digest(profile: Profile, locked: LockedVariant, asked: Question) -> str:
    text = json.dumps([conda.digest(asked), _custom(profile, locked, asked)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _require_channels(world: World, asked: Mapping[str, Question]) -> None:
    """Raise `Misuse` (`config-invalid`) for the address of a channel that nobody asks: it is misspelt."""
    there = {channel.name for one in asked.values() for channel in one.channels} | known().channels.keys()
    for name in world.config.channels:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1)
            expected = f"`{near[0]}`?" if near else f"one of {', '.join(sorted(there))}"
            origin = world.config.entries[f"channels.{name}"][1]
            problem = Problem(
                message="no such channel is asked", key=f"channels.{name}", file=origin, expected=expected
            )
            raise Misuse("the settings are wrong", code="config-invalid", problems=(problem,), hint="envlock detect -v")


def _require_specs(world: World, profile: Profile) -> None:
    """Raise `Misuse` (`profile-invalid`) for what conda cannot read, each with its line."""
    wrong = rattler.mistakes(profile.conda_requires)
    if not wrong:
        return
    places = lines.of(store.profile_text(world.cwd / profile.file))
    problems = tuple(
        Problem(
            file=profile.file,
            line=places.get(("conda", "requires", number), places.get(("conda", "requires"))),
            key=f"conda.requires[{number}]",
            message=wrong[spec],
            expected="a conda spec, such as `gcc_linux-64 12.*`",
        )
        for number, spec in enumerate(profile.conda_requires)
        if spec in wrong
    )
    counted = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    raise Misuse(f"{counted} in the profile", code="profile-invalid", problems=problems)


# ---- what there is ------------------------------------------------------------------------------------------------


def _holds(task: Task, name: str, digest: str) -> bool:
    """Say whether a part answers today's question, is what was locked, and none of it is to move."""
    part, content = task.held.get(name), task.contents.get(name)
    if task.upgrade or part is None or content is None or part.inputs != digest or part.sha256 != _sha256(content):
        return False
    return not task.free & names([content])


def _left_out(world: World, task: Task, missing: Mapping[str, Question]) -> dict[str, str]:
    """Return why each of these is not solved; nothing where they are to be."""
    if not missing:
        return {}
    lost = [name for name in missing if name in task.held]
    if task.use == "never":
        if lost:
            message = f"the conda part of {', '.join(lost)} answers another question by now, and goes"
            world.reporter.warn(Caution(code="conda-not-locked", message=message))
        return dict.fromkeys(missing, "not asked for: --no-conda")
    try:
        conda_lock.require()
        rattler.require()
    except WorldFailed as error:
        if task.use == "always":
            raise
        if lost:
            message = f"{error.message}; without it the conda part of {', '.join(lost)} cannot be made anew"
            problem = Problem(message="`--no-conda` locks the wheels all the same, and takes those away")
            raise WorldFailed(message, code=error.code, problems=(problem,), hint=error.hint) from error
        message = f"{error.message}: the conda part is not locked; to lock it: {error.hint}"
        world.reporter.warn(Caution(code="conda-not-locked", message=message))
        return dict.fromkeys(missing, "py-rattler or conda-lock is not there")
    return {}


def _records(task: Task, name: str, asked: Question) -> tuple[Record, ...]:
    """Return what is locked there by now; nothing where that is not what was written, or no longer to be read."""
    part, content = task.held.get(name), task.contents.get(name)
    if part is None or content is None or part.sha256 != _sha256(content):
        return ()
    try:
        return conda_lock.read(content, f"{name}/conda-lock.yml", asked.channels)
    except Misuse:
        return ()


# ---- what is made -------------------------------------------------------------------------------------------------


def _solved(
    world: World, task: Task, missing: Mapping[str, Question], old: Mapping[str, Sequence[Record]]
) -> dict[Question, rattler.Answer]:
    """Return the answer to each question; variants that ask the same share one, and what is locked of the first."""
    asked: dict[Question, Sequence[Record]] = {}
    for name, question in missing.items():
        kept = () if task.upgrade else tuple(one for one in old[name] if one.name not in task.free)
        asked[question] = asked.get(question) or kept
    bench = rattler.Bench(
        cache=rattler.cache(world.environ), addresses=world.config.channels, offline=world.config.offline
    )
    try:
        return dict(zip(asked, rattler.solve(list(asked.items()), bench), strict=True))
    except KeyboardInterrupt as error:
        message = f"interrupted: the lock of `{task.profile.name}` is as it was"
        raise Interrupted(message, code="interrupted", hint=f"envlock lock {task.profile.typed}") from error
    except EnvlockError as error:
        message = (
            f"the conda part of `{task.profile.name}` cannot be locked, and its lock stays as it was: {error.message}"
        )
        hint = error.hint and error.hint.replace("PROFILE", task.profile.typed)
        raise type(error)(message, code=error.code, problems=error.problems, hint=hint) from error


def _evidence(world: World, asked: Iterable[Question]) -> str | None:
    """Return where the hashes were read, where another address of a channel serves a record of it, and says so.

    None for a channel itself and for a mirror of one, which says nothing.
    """
    names = {channel.name for one in asked for channel in one.channels}
    for name in sorted(names & world.config.channels.keys()):
        url = f"{world.config.channels[name].rstrip('/')}/evidence.txt"
        if not url.startswith("http"):
            continue
        with contextlib.suppress(EnvlockError), net.ask(url, environ=world.environ, what=url) as answer:
            if answer.status == _OK and next(answer.chunks, b"").strip() == _RECORDED.encode():
                return _RECORDED
    return None


def _content(
    profile: Profile, locked: LockedVariant, asked: Question, records: Sequence[Record], evidence: str | None
) -> bytes:
    return conda_lock.content(
        asked,
        records,
        head=lock.conda_head(locked, profile.name),
        source=f"{profile.name}.toml",
        custom=_custom(profile, locked, asked) | ({"envlock-evidence": evidence} if evidence else {}),
    )


def _parts(task: Task, wanted: Mapping[str, str], contents: Mapping[str, bytes], absent: Mapping[str, str]) -> Parts:
    def part(name: str) -> CondaPart | None:
        return CondaPart(inputs=wanted[name], sha256=_sha256(contents[name])) if name in contents else None

    variants = tuple(replace(one, conda=part(one.variant.name)) for one in task.variants)
    return Parts(variants=variants, contents=contents, absent=absent)


def _changes(variant: str, old: Sequence[Record], new: Sequence[Record]) -> list[Change]:
    """Return what came, went or changed; another build of the same version is a change too."""
    was, now = ({one.name: one for one in some} for some in (old, new))
    return [
        Change(variant=variant, package=f"{name} (conda)", was=_told(was.get(name)), now=_told(now.get(name)))
        for name in sorted({*was, *now})
        if _told(was.get(name)) != _told(now.get(name))
    ]


def _told(record: Record | None) -> str | None:
    return f"{record.version} {record.build}" if record else None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
