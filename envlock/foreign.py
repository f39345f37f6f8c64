"""What others write to say which packages they want: of which kind a text is, and what it asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from envlock import lines, requirements_text
from envlock.adopted import Dropped, Kind
from envlock.errors import Misuse, Problem
from envlock.profile_keys import described

__all__ = ["Foreign", "Hint", "Line", "kind", "pyproject", "requirements"]

TAKEN: Final = "a requirements file, a pip freeze, a conda environment.yml, or a pyproject.toml"
_HEADER: Final = re.compile(r"^\[+\s*[A-Za-z\"'][^\]\n]*\]+\s*(?:#.*)?$", re.MULTILINE)
_PROJECT: Final = re.compile(r"^\[+\s*(?:project|build-system|dependency-groups|tool)\b", re.MULTILINE)
_YAML: Final = re.compile(r"^(?:dependencies|channels)\s*:", re.MULTILINE)
_YAML_LOCK: Final = re.compile(r"^(?:metadata|environments|packages?)\s*:", re.MULTILINE)
_HASH: Final = re.compile(r"\s--hash[= ]")
_HEAD: Final = 1 << 20  # what shows the kind of a file stands at its beginning


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What pip would read as one line, and where it stands; a `constraint` says which version, not that it is wanted.

    `number` counts from 1, None where the place is not known.
    """

    text: str
    file: str
    number: int | None
    constraint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A backend that is meant, and what says so."""

    backend: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A file as it was read: `lines` as pip would read them, and of `python` what a specifier says of its version."""

    kind: Kind
    lines: tuple[Line, ...]
    name: str | None = None
    summary: str | None = None
    python: Line | None = None
    hints: tuple[Hint, ...] = ()
    dropped: tuple[Dropped, ...] = ()


def kind(text: str, file: str) -> Kind:
    """Return which kind of file a text is, by what it holds before what it is called.

    Raises `Misuse` (`source-unknown`) for one that is of none that is taken.
    """
    head, name = text[:_HEAD].replace("\r\n", "\n").removeprefix("\ufeff"), file.lower()
    if head.lstrip().startswith(("{", "<")):
        raise _unknown(file, "is JSON" if head.lstrip().startswith("{") else "is markup")
    if re.search(r"^@EXPLICIT\s*$", head, re.MULTILINE):
        raise _unknown(file, "is a list of conda's files")
    if name.endswith("pyproject.toml") or _PROJECT.search(head):
        return "pyproject.toml"
    if name.endswith(".toml") or _HEADER.search(head):
        raise _unknown(file, "is TOML without a [project]")
    if _YAML.search(head):
        return "environment.yml"
    if name.endswith((".yml", ".yaml", ".lock")) or _YAML_LOCK.search(head):
        raise _unknown(file, "has no `dependencies` as an environment.yml has them")
    return "requirements"


def requirements(text: str, file: str) -> tuple[tuple[Line, ...], tuple[Dropped, ...]]:
    """Return what a requirements file or freeze asks for, and that its hashes are not taken."""
    text = text.removeprefix("\ufeff")
    found = tuple(Line(text=line, file=file, number=number) for number, line in requirements_text.logical_lines(text))
    hashes = len(_HASH.findall(text))
    if not hashes:
        return found, ()
    line = text.count("\n", 0, next(_HASH.finditer(text)).end()) + 1
    why = "`envlock lock` writes those of every file it takes"
    return found, (Dropped(what=f"{hashes} hash{'es' * (hashes > 1)}", why=why, file=file, line=line),)


def pyproject(text: str, file: str) -> Foreign:
    """Return what `[project]` asks for; raises `Misuse` (`pyproject-invalid`) with every mistake in what is read."""
    text = text.removeprefix("\ufeff")
    raw = lines.load(text)
    if isinstance(raw, lines.Fault):
        problem = Problem(file=file, line=raw.line, message=raw.message, expected="TOML")
        raise Misuse("the project file is not TOML", code="pyproject-invalid", problems=(problem,))
    reader = _Reader(file=file, places=lines.of(text), problems=[])
    project = reader.typed(raw, ("project",), dict, "a table") or {}
    wanted = reader.typed(project, ("project", "dependencies"), list, "a list of requirements") or []
    asked = [
        Line(text=one, file=file, number=reader.places.get(("project", "dependencies", place)))
        for place, one in enumerate(wanted)
        if reader.is_text(one, ("project", "dependencies", place))
    ]
    texts = {
        key: reader.typed(project, ("project", key), str, "a text")
        for key in ("name", "description", "requires-python")
    }
    dropped = tuple(reader.left(raw, project))
    if reader.problems:
        raise Misuse("the project file is wrong", code="pyproject-invalid", problems=tuple(reader.problems))
    python = texts["requires-python"]
    place = reader.places.get(("project", "requires-python"))
    return Foreign(
        kind="pyproject.toml",
        lines=tuple(asked),
        name=texts["name"],
        summary=texts["description"],
        python=Line(text=python, file=file, number=place) if python else None,
        dropped=dropped,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """A pyproject.toml while it is read: where its keys stand, and what was wrong so far."""

    file: str
    places: Mapping[lines.Path, int]
    problems: list[Problem]

    def typed(self, table: Mapping[str, Any], path: lines.Path, kind: type, expected: str) -> Any:
        """Return what stands under the last key of the path; None where nothing does, or a mistake."""
        value = table.get(str(path[-1]))
        if value is None or isinstance(value, kind):
            return value
        self._complain(path, f"is {described(value)}", expected)
        return None

    def is_text(self, value: object, path: lines.Path) -> bool:
        """Say whether an element is a text, and complain if not."""
        if not isinstance(value, str):
            self._complain(path, f"is {described(value)}", "a requirement")
        return isinstance(value, str)

    def _complain(self, path: lines.Path, message: str, expected: str) -> None:
        key = ".".join(str(part) for part in path)
        place = Problem(message=message, file=self.file, line=self.places.get(path), key=key, expected=expected)
        self.problems.append(place)

    def left(self, raw: Mapping[str, Any], project: Mapping[str, Any]) -> Iterator[Dropped]:
        """Yield what else asks for packages, and is not read."""
        extra = "optional: what of it is wanted goes into `requires` of the profile"
        for name in _keys(project.get("optional-dependencies")):
            yield self._dropped(("project", "optional-dependencies", name), extra)
        for name in _keys(raw.get("dependency-groups")):
            yield self._dropped(("dependency-groups", name), extra)
        if "dependencies" in (project.get("dynamic") or ()):
            yield self._dropped(("project", "dynamic"), "the dependencies stand in another file: that one can be taken")
        tools = _keys(raw.get("tool"))
        for tool, key in (("uv", "sources"), ("uv", "index"), ("poetry", "dependencies"), ("pdm", "source")):
            if tool in tools and key in _keys(raw["tool"][tool]):
                yield self._dropped(("tool", tool, key), f"{tool}'s own: only [project] is read")

    def _dropped(self, path: lines.Path, why: str) -> Dropped:
        what = f"[{'.'.join(str(part) for part in path)}]"
        return Dropped(what=what, why=why, file=self.file, line=self.places.get(path))


def _keys(value: object) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _unknown(file: str, what: str) -> Misuse:
    problem = Problem(file=file, message=what, expected=TAKEN)
    return Misuse("no profile can be made of this kind of file", code="source-unknown", problems=(problem,))
