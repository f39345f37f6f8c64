"""`envlock init`: a profile from what people have, written where the other verbs find it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from envlock import adopting, foreign, foreign_names, profile, profile_keys, profile_text, store, writing
from envlock.adopted import Adopted, Dropped
from envlock.adopting import Draft, Known
from envlock.app import judging, reading
from envlock.app.world import World
from envlock.errors import Misuse, Problem, WorldFailed
from envlock.foreign import Foreign, Line
from envlock.model import Caution

__all__ = ["run"]

STDIN: Final = "-"
_STDIN_FILE: Final = Path("/dev/stdin")
_NESTED: Final = re.compile(r"(?:(?P<wish>-r|--requirement)|-c|--constraint)[ =]?\s*(?P<file>\S.*)")
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
# Of a file that is called so its folder says more.
_COMMON: Final = frozenset({"environment", "env", "freeze", "pyproject", "requirements", "stdin"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What was asked for: `source` as it was typed, `shown` as messages name it."""

    source: str
    shown: str
    name: str | None
    python: str | None
    output: str | None

    def again(self, *more: str) -> str:
        """Return the command that asks for the same, and for more."""
        parts = ["envlock", "init", "--from", self.source]
        parts += ["--python", self.python] if self.python else []
        return shlex.join([*parts, *more])


def run(world: World, source: str, *, name: str | None, python: str | None, output: str | None) -> Adopted:
    """Make a profile of a file, or of standard input for `-`; `output` says where to, `-` that it is to be printed.

    Nothing is asked of an index. Raises `Misuse` for what cannot be read (`source-unknown`, `requirements-invalid`,
    `environment-invalid`, `pyproject-invalid`), chosen (`version-unknown`, `python-without-build`, `nothing-kept`) or
    named (`usage`, `name-invalid`), and for a profile that is there (`profile-exists`); what writing a file raises.
    """
    file = _STDIN_FILE if source == STDIN else store.typed(source, world.cwd)
    shown = STDIN if source == STDIN else store.shown(file, world.cwd)
    asked = _Asked(source=source, shown=shown, name=name, python=_python(python), output=output)
    texts = store.facts_texts()
    facts = reading.facts()
    known = Known(facts=facts, rules=judging.rules(facts), names=foreign_names.parse(texts))
    found = _read(world, file, asked, known)
    called = _name(world, file, asked, found)
    target = _target(world, called, asked)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        draft = adopting.derive(found, known, python=asked.python, here=here)
    except Misuse as error:
        raise _placed(error, asked) from error
    origin = "standard input" if source == STDIN else file.name
    text = profile_text.render(draft, name=called, summary=_summary(found, origin), origin=origin)
    profile.parse(text, f"{called}.toml")
    if target is None:
        _warn(world, draft)
    else:
        _write(target, text, asked, called)
    path = store.shown(target, world.cwd) if target else None
    return Adopted(
        profile=called,
        file=asked.shown,
        kind=found.kind,
        text=None if target else text,
        path=path,
        python=draft.python,
        reason=draft.reason,
        builds=draft.builds,
        kept=tuple(draft.requires),
        added=tuple(one for one, remark in draft.requires.items() if remark),
        dropped=draft.dropped,
        notes=draft.notes,
        command=_next(world, called, path),
    )


# ---- reading ------------------------------------------------------------------------------------------------------


def _read(world: World, path: Path, asked: _Asked, known: Known) -> Foreign:
    text = _text(path, asked)
    kind = foreign.kind(text, asked.shown)
    folder = world.cwd if asked.source == STDIN else path.parent
    if kind == "environment.yml":
        from envlock import environment_yml  # noqa: PLC0415  what reads YAML is loaded where some is read

        found = environment_yml.parse(text, asked.shown, known.names)
    elif kind == "pyproject.toml":
        return foreign.pyproject(text, asked.shown)
    else:
        lines, hashes = foreign.requirements(text, asked.shown)
        found = Foreign(kind=kind, lines=lines, dropped=hashes)
    dropped: list[Dropped] = []
    lines = tuple(_expanded(world, found.lines, folder, dropped, (path.resolve(),)))
    return replace(found, lines=lines, dropped=(*found.dropped, *dropped))


def _text(path: Path, asked: _Asked) -> str:
    """Return the text of the file; of one in UTF-16, as some shells of Windows redirect to, the error says the cure."""
    try:
        return store.read_text(path, what="file", piped=True)
    except Misuse as error:
        if error.code != "file-not-text" or (store.content(path) or b"")[:2] not in _UTF_16:
            raise
        called = asked.name or _slug(path.stem) or "mine"
        hint = (
            f"iconv -f utf-16 -t utf-8 {shlex.quote(asked.source)} | envlock init --from - --name {shlex.quote(called)}"
        )
        raise Misuse(error.message, code=error.code, problems=error.problems, hint=hint) from error


def _expanded(
    world: World, lines: Iterable[Line], folder: Path, dropped: list[Dropped], inside: tuple[Path, ...]
) -> Iterator[Line]:
    """Yield the lines with those of the files that they name, each read once on the way down."""
    for line in lines:
        named = _NESTED.fullmatch(line.text)
        if named is None:
            yield line
            continue
        if "://" in named["file"]:
            dropped.append(
                Dropped(what=line.text, why="an address: only files are read", file=line.file, line=line.number)
            )
            continue
        path = folder / named["file"]
        if path.resolve() in inside:
            continue
        try:
            text = store.read_text(path, what="requirements file")
        except Misuse as error:
            problem = Problem(message=f"names {named['file']}", file=line.file, line=line.number)
            raise Misuse(error.message, code=error.code, problems=(problem, *error.problems)) from error
        inner, hashes = foreign.requirements(text, store.shown(path, world.cwd))
        dropped += hashes
        marked = (replace(one, constraint=line.constraint or not named["wish"]) for one in inner)
        yield from _expanded(world, marked, path.parent, dropped, (*inside, path.resolve()))


def _python(said: str | None) -> str | None:
    if said is None:
        return None
    mistake = profile_keys.PYTHON.mistake(said)
    if mistake is not None:
        problem = Problem(message=mistake, key="--python", expected=profile_keys.PYTHON.expected)
        raise Misuse("that is no Python", code="usage", problems=(problem,))
    return said


def _placed(error: Misuse, asked: _Asked) -> Misuse:
    """Return the error with the file at the problems that have none."""
    problems = tuple(replace(one, file=one.file or asked.shown) for one in error.problems)
    return Misuse(error.message, code=error.code, problems=problems, hint=error.hint)


# ---- naming -------------------------------------------------------------------------------------------------------


def _name(world: World, path: Path, asked: _Asked, found: Foreign) -> str:
    """Return what the profile is called: as was said, as the file says, or as it or its folder is called."""
    output = asked.output if asked.output not in (None, STDIN) else None
    stem = Path(output).stem if output else None
    said = asked.name or stem
    if said is not None:
        mistake = profile_keys.NAME.mistake(said)
        if mistake is not None:
            problem = Problem(message=mistake, key="--name", expected=profile_keys.NAME.expected)
            raise Misuse("the profile cannot be called so", code="name-invalid", problems=(problem,))
        if stem is not None and stem != said:
            message = f"a profile that is called {said} stands in {said}.toml, and `-o` says {output}"
            raise Misuse(message, code="usage", hint=asked.again("--name", stem, "-o", output or ""))
        return said
    if asked.source == STDIN and found.name is None:
        message = "what comes from standard input has no name: `--name` gives the profile one"
        raise Misuse(message, code="usage", hint=asked.again("--name", "mine"))
    folder = world.cwd if asked.source == STDIN else path.resolve().parent
    for one in (found.name, path.stem if path.stem.lower() not in _COMMON else None, folder.name):
        if one and (plain := _slug(one)):
            return plain
    return "mine"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("._-")[:64].rstrip("._-")


def _summary(found: Foreign, origin: str) -> str:
    said = " ".join("".join(one if one.isprintable() else " " for one in found.summary or "").split())
    return said if said and profile_keys.TEXT.mistake(said) is None else f"what {_slug(origin) or 'a file'} asks for"


def _target(world: World, called: str, asked: _Asked) -> Path | None:
    """Return the file to write, None to print; raise `profile-exists` where there is a profile already."""
    if asked.output == STDIN:
        return None
    if asked.output is not None:
        target = store.typed(asked.output, world.cwd)
        if target.suffix != ".toml":
            message = f"a profile is a .toml file, and `-o` says {asked.output}"
            raise Misuse(message, code="usage", hint=asked.again("-o", f"{asked.output.rstrip('/')}/{called}.toml"))
    else:
        target = store.profile_target(called, world.cwd)
        if called in store.profile_names(world.cwd):
            raise _exists(store.profile_file(called, world.cwd), world, asked, called)
    if target.exists() or target.is_symlink():
        raise _exists(target, world, asked, called)
    return target


def _exists(path: Path, world: World, asked: _Asked, called: str) -> Misuse:
    other = next(name for number in range(2, 1000) if not _is_taken(world, path, name := f"{called[:60]}-{number}"))
    problem = Problem(message="is left as it is", file=store.shown(path, world.cwd))
    more = ("-o", str(Path(asked.output).with_name(f"{other}.toml"))) if asked.output else ("--name", other)
    return Misuse(
        f"there is a profile called {called}", code="profile-exists", problems=(problem,), hint=asked.again(*more)
    )


def _is_taken(world: World, path: Path, name: str) -> bool:
    return name in store.profile_names(world.cwd) or path.with_name(f"{name}.toml").exists()


# ---- writing ------------------------------------------------------------------------------------------------------


def _write(target: Path, text: str, asked: _Asked, called: str) -> None:
    try:
        with writing.hold(target, again=asked.again("--name", called)):
            if target.exists():
                raise Misuse(
                    f"there is a profile called {called}", code="profile-exists", hint=f"envlock plan {called}"
                )
            writing.put({target: text.encode()})
    except WorldFailed as error:
        if error.code != "lock-busy":
            raise
        message = f"another envlock is writing `{target}`"
        raise WorldFailed(message, code="target-busy", hint=error.hint) from error


def _warn(world: World, draft: Draft) -> None:
    """Say on stderr what the profile on stdout does not hold."""
    for one in draft.dropped:
        place = ":".join(str(part) for part in (one.file, one.line) if part is not None)
        message = f"{place}: {one.what} is not kept: {one.why}" if place else f"{one.what} is left out: {one.why}"
        world.reporter.warn(Caution(code="not-kept", message=message))
    for note in draft.notes:
        world.reporter.warn(Caution(code="note", message=note))


def _next(world: World, called: str, path: str | None) -> str | None:
    if path is None:
        return None
    return shlex.join(["envlock", "lock", called if called in store.profile_names(world.cwd) else path])
