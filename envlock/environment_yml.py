"""What a conda `environment.yml` asks for, by PyPI's names. Pure.

The text is composed to nodes and never constructed: `3.10` stays what it is, every mistake has its line, and nothing
in it is run or multiplied.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from envlock.adopted import Dropped
from envlock.document import quoted
from envlock.errors import Misuse, Problem
from envlock.foreign import Foreign, Hint, Line
from envlock.foreign_names import Names

__all__ = ["parse"]

_LARGEST: Final = 1 << 20  # characters: an environment has some hundreds of lines, and composing is slow
_SPEC: Final = re.compile(r"(?:[^\s:]+::)?(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)\s*(?P<version>[^\[\]]*)")
_EXACT: Final = re.compile(r"(?:==?\s*)?(?P<version>[A-Za-z0-9][A-Za-z0-9_.!+*-]*)(?:[=\s]+(?P<build>\S+))?")
_CUDA_BUILD: Final = re.compile(r"cuda_?(?P<major>[0-9]{2})\.?(?P<minor>[0-9])")
_PARTS: Final = 3  # of a release that is written out: `=2.1.2` means no other, `=2.1` all of 2.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """A conda spec; `version` as PEP 440 writes it, empty where it is open, None where it cannot be written so."""

    name: str
    version: str | None
    build: str | None
    text: str
    line: int


@dataclass(slots=True, kw_only=True)
class _Reader:
    """One environment while it is read."""

    file: str
    names: Names
    lines: list[Line] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    python: Line | None = None

    def complain(self, node: Any, message: str, expected: str) -> None:
        """Note what is wrong at a node."""
        self.problems.append(Problem(message=message, file=self.file, line=_line(node), expected=expected))

    def drop(self, what: str, why: str, line: int) -> None:
        """Note what is not kept."""
        self.dropped.append(Dropped(what=what, why=why, file=self.file, line=line))

    def dependencies(self, node: Any) -> None:
        """Read the list of conda's specs, and the lists of other installers in it."""
        if not isinstance(node, SequenceNode):
            self.complain(node, f"`dependencies` is {_described(node)}", "a list")
            return
        for one in node.value:
            if isinstance(one, ScalarNode):
                self._conda(one)
            elif isinstance(one, MappingNode):
                self._others(one)
            else:
                self.complain(one, f"is {_described(one)}", "a package, or `pip:` with a list")

    def _others(self, node: MappingNode) -> None:
        for key, value in node.value:
            if key.value != "pip":
                self.drop(f"{key.value}:", "only conda's packages and those under `pip:` are read", _line(key))
            elif not isinstance(value, SequenceNode) or not all(isinstance(one, ScalarNode) for one in value.value):
                self.complain(value, f"`pip` is {_described(value)}", "a list of requirements")
            else:
                self.lines += [Line(text=one.value.strip(), file=self.file, number=_line(one)) for one in value.value]

    def _conda(self, node: ScalarNode) -> None:
        spec = _spec(str(node.value), _line(node))
        if spec is None:
            self.complain(node, f"is {quoted(node.value)}", "a package such as `numpy=1.26`")
        elif spec.name == "python":
            self._python(spec)
        elif spec.name in self.names.cuda:
            self._cuda(spec)
        elif spec.name in self.names.pypi:
            self._package(spec, self.names.pypi[spec.name])
        else:
            unknown = "what PyPI calls it is not known here: under `pip:` it would be kept"
            self.drop(spec.text, self.names.only.get(spec.name, unknown), spec.line)

    def _python(self, spec: _Spec) -> None:
        if spec.version is None:
            self.drop(spec.text, "its version is not one that PEP 440 knows", spec.line)
        elif spec.version:
            self.python = Line(text=spec.version, file=self.file, number=spec.line)
        if spec.build:
            self.drop(f"{spec.name} {spec.build}", "a build of conda's", spec.line)

    def _cuda(self, spec: _Spec) -> None:
        found = re.match(r"[=>~]+(?P<major>[0-9]{2})\.(?P<minor>[0-9])", spec.version or "")
        if found is None:
            self.drop(spec.text, "names no CUDA line, such as 12.1", spec.line)
            return
        backend = f"cu{found['major']}{found['minor']}"
        self.hints.append(Hint(backend=backend, why=f"named by {spec.text}"))
        self.drop(spec.text, f"conda's alone: the backend {backend} says it", spec.line)

    def _package(self, spec: _Spec, pypi: str) -> None:
        if spec.version is None:
            self.drop(f"{spec.text}: its version", "not one that PEP 440 knows: it is left open", spec.line)
        self.lines.append(Line(text=f"{pypi}{spec.version or ''}", file=self.file, number=spec.line))
        if pypi == "torch":
            self._torch(spec)
        if spec.build:
            self.drop(f"{spec.name} {spec.build}", "a build of conda's: PyPI has its own", spec.line)

    def _torch(self, spec: _Spec) -> None:
        built = _CUDA_BUILD.search(spec.build or "")
        if built:
            backend = f"cu{built['major']}{built['minor']}"
            self.hints.append(Hint(backend=backend, why=f"named by the build {spec.build}"))
        elif spec.name == "pytorch-cpu" or "cpu" in (spec.build or ""):
            self.hints.append(Hint(backend="cpu", why=f"named by {spec.text}"))


def parse(text: str, file: str, names: Names) -> Foreign:
    """Return what an environment asks for; raises `Misuse` (`environment-invalid`) with every mistake at its line."""
    reader = _Reader(file=file, names=names)
    name: str | None = None
    for key, value in _top(text, file):
        if key.value == "dependencies":
            reader.dependencies(value)
        elif key.value == "name" and isinstance(value, ScalarNode):
            name = str(value.value)
        elif key.value == "channels" and isinstance(value, SequenceNode):
            told = ", ".join(str(one.value) for one in value.value)
            reader.drop(f"channels: {told}", "packages come from the index of PyPI's names", _line(key))
        elif key.value != "prefix":
            reader.drop(f"{key.value}:", "is no part of a profile", _line(key))
    if reader.problems:
        raise Misuse("the environment cannot be read", code="environment-invalid", problems=tuple(reader.problems))
    return Foreign(
        kind="environment.yml",
        lines=tuple(reader.lines),
        name=name,
        python=reader.python,
        hints=tuple(reader.hints),
        dropped=tuple(reader.dropped),
    )


def _top(text: str, file: str) -> list[tuple[Any, Any]]:
    """Return the keys and values of the document; one that names a node to repeat it is refused."""
    if len(text) > _LARGEST:
        problem = Problem(message="is too large", file=file, expected=f"at most {_LARGEST >> 20} MiB")
        raise Misuse("the environment is too large", code="file-too-large", problems=(problem,))
    try:
        node = YAML(typ="safe", pure=True).compose(text.removeprefix("\ufeff"))
    except MarkedYAMLError as error:
        mark = error.problem_mark
        told = f"is not YAML: {error.problem}" + (f", column {mark.column + 1}" if mark else "")
        raise _invalid(file, mark.line + 1 if mark else None, told, "YAML") from error
    except (YAMLError, RecursionError, ValueError) as error:
        told = "is nested too deeply" if isinstance(error, RecursionError) else "holds what YAML does not allow"
        raise _invalid(file, None, told, "YAML") from error
    if not isinstance(node, MappingNode):
        raise _invalid(file, None, f"holds {_described(node)}", "`dependencies:` with a list")
    _refuse_anchors(node, file)
    return [(key, value) for key, value in node.value if isinstance(key, ScalarNode)]


def _refuse_anchors(node: Any, file: str) -> None:
    """Raise for a node with a name: what repeats it would be read, and told, many times over."""
    left = deque([node])
    while left:
        one = left.popleft()
        if one.anchor is not None:
            raise _invalid(file, _line(one), f"has the anchor `&{one.anchor}`", "every package written out")
        left.extend(_inner(one))


def _inner(node: Any) -> Iterator[Any]:
    if isinstance(node, SequenceNode):
        yield from node.value
    elif isinstance(node, MappingNode):
        for pair in node.value:
            yield from pair


def _spec(text: str, line: int) -> _Spec | None:
    found = _SPEC.fullmatch(text.strip())
    if found is None:
        return None
    version, build = _version(found["version"].strip())
    return _Spec(name=found["name"].lower(), version=version, build=build, text=text.strip(), line=line)


def _version(text: str) -> tuple[str | None, str | None]:
    """Return conda's version as PEP 440 writes it, and the build."""
    if not text or text == "*":
        return "", None
    exact = _EXACT.fullmatch(text)
    if exact is None:
        return _specifier(text.replace(" ", "")), None
    version, build = exact["version"].removesuffix("*").removesuffix("."), exact["build"]
    whole = text.startswith("==") or build is not None or (version.count(".") + 1 >= _PARTS and "*" not in text)
    return _specifier(f"=={version}" if whole else f"=={version}.*"), None if build == "*" else build


def _specifier(text: str) -> str | None:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return None
    return text


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _described(node: Any) -> str:
    kinds = {ScalarNode: "a text", SequenceNode: "a list", MappingNode: "a table"}
    return kinds.get(type(node), "nothing")


def _invalid(file: str, line: int | None, message: str, expected: str) -> Misuse:
    problem = Problem(file=file, line=line, message=message, expected=expected)
    return Misuse("the environment cannot be read", code="environment-invalid", problems=(problem,))
