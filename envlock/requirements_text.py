"""What a requirements file or `pip freeze` names: exact versions, and what is left open. Pure."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, TypeAlias

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName, default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from envlock import document, lines
from envlock.document import SHOWN, safe
from envlock.errors import EnvlockError, Misuse, Problem

__all__ = ["Beside", "Requirements", "Source", "alone", "logical_lines", "parse"]

_TOLD: Final = 10  # mistakes that are named: a file of another kind has one on every line
_TRAILING: Final = re.compile(r"\s+--?[A-Za-z].*$")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*$")
_EDITABLE: Final = re.compile(r"(?:-e|--editable)[ =]")
_OPTION: Final = re.compile(rf"(?!{_EDITABLE.pattern})-")
_EGG: Final = re.compile(r"[#&]egg=(?P<name>[A-Za-z0-9._-]+)")
# `torch=2.6`, conda's `numpy=1.26.4=py310_0`, and the table of `pip list`.
_ALMOST: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?)(?:\s*=\s*|\s+)(?P<version>[0-9][^\s=;,]*)(?:=[^\s=]+)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a file holds, how it is shown, and its `place`, which is the same for the same file."""

    text: str
    file: str
    place: str


Beside: TypeAlias = Callable[[Source, str], Source]
"""Return the file that another one names by a path; raises what reading it raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """`pins` maps names to versions, `left_open` are the requirements without one, as they were written.

    `open_names` are their names. `constrained` are those that a constraint pins and no requirement names. `indexes`
    maps each address to the option that names it, `unjudged` are the other options that may change what is installed.
    """

    pins: Mapping[str, str]
    left_open: tuple[str, ...]
    open_names: AbstractSet[str] = frozenset()
    constrained: tuple[str, ...] = ()
    indexes: Mapping[str, str] = field(default_factory=dict)
    unjudged: tuple[str, ...] = ()


def parse(source: Source, python: str, beside: Beside) -> Requirements:
    """Read the lines that apply to that Python (`"3.10"`) on Linux, and the files that `-r` and `-c` name, each once.

    A wheel's address pins what its name says. Raises `Misuse` (`requirements-invalid`) with every line that is none,
    and what `beside` raises, with the line that names the file.
    """
    reading = _Reading(python=python, beside=beside)
    reading.take(source, constraint=False)
    if reading.problems:
        rest = len(reading.problems) - _TOLD
        more = [Problem(file=source.file, message=f"and {rest} lines more")] if rest > 0 else []
        told = (*reading.problems[:_TOLD], *more)
        raise Misuse("the requirements cannot be read", code="requirements-invalid", problems=told)
    return reading.result()


def alone(line: str, file: str, python: str) -> Requirements:
    """Read one requirement, which names no other file; raises `Misuse` as `parse` does."""
    return parse(Source(text=line, file=file, place=file), python, lambda source, _: source)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pin:
    """A version, and the line that says so."""

    version: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What is read so far of a file and of those that it names."""

    python: str
    beside: Beside
    pins: dict[str, _Pin] = field(default_factory=dict)
    constraints: dict[str, _Pin] = field(default_factory=dict)
    left_open: dict[str, str | None] = field(default_factory=dict)
    indexes: dict[str, str] = field(default_factory=dict)
    unjudged: dict[str, None] = field(default_factory=dict)
    seen: set[tuple[str, bool]] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def take(self, source: Source, *, constraint: bool) -> None:
        """Read a file, unless it is read already: a circle of files ends there."""
        if (source.place, constraint) in self.seen:
            return
        self.seen.add((source.place, constraint))
        before = len(self.problems)
        for number, line in logical_lines(source.text):
            self._line(line, source, number, constraint=constraint)
        if len(self.problems) > before:
            _require_no_other_kind(source)

    def result(self) -> Requirements:
        """Return what all lines say together: a constraint pins what a requirement leaves open."""
        constraints = {name: pin.version for name, pin in self.constraints.items()}
        named = {name for name in self.left_open.values() if name}
        pins = {name: pin.version for name, pin in self.pins.items()}
        pins |= {name: version for name, version in constraints.items() if name in named - pins.keys()}
        return Requirements(
            pins=pins,
            left_open=tuple(line for line, name in self.left_open.items() if name not in pins),
            open_names=frozenset(named - pins.keys()),
            constrained=tuple(name for name in constraints if name not in pins),
            indexes=self.indexes,
            unjudged=tuple(self.unjudged),
        )

    def _line(self, line: str, source: Source, number: int, *, constraint: bool) -> None:
        try:
            if _OPTION.match(line):
                self._options(line, source, number)
            else:
                self._requirement(line, source, number, constraint=constraint)
        except InvalidRequirement as error:
            self.problems.append(_mistake(line, error, source.file, number))

    def _requirement(self, line: str, source: Source, number: int, *, constraint: bool) -> None:
        found = _requirement(line, self.python)
        if found is None:
            return
        name, version = found
        if name is None or version is None:
            self.left_open.update({} if constraint else {line: name})
            return
        pin = _Pin(version=version, file=source.file, line=number)
        others = (self.pins.get(name), self.constraints.get(name))
        other = next((one for one in others if one and one.version != version), None)
        if other:
            where = "above" if other.file == source.file else f"in {other.file}:{other.line}"
            message = f"`{name}` is pinned to {other.version} {where}"
            self.problems.append(Problem(file=source.file, line=number, message=message, expected="one version"))
        (self.constraints if constraint else self.pins).setdefault(name, pin)

    def _options(self, line: str, source: Source, number: int) -> None:
        try:
            said, rest = _OPTIONS.parse_known_args(shlex.split(line))
        except ValueError as error:
            raise InvalidRequirement(str(error)) from error
        for flag in ("-i", "--extra-index-url", "-f"):
            self.indexes.update((address, f"{flag} {address}") for address in getattr(said, _DESTINATIONS[flag]))
        for flag in ("-r", "-c"):
            for name in getattr(said, _DESTINATIONS[flag]):
                if "://" in name:
                    rest.append(f"{flag} {name}")
                else:
                    self.take(self._beside(source, f"{flag} {name}", name, number), constraint=flag == "-c")
        self.unjudged.update({" ".join(rest): None} if rest else {})

    def _beside(self, source: Source, option: str, name: str, number: int) -> Source:
        try:
            return self.beside(source, name)
        except EnvlockError as error:
            problems = tuple(replace(one, file=source.file, line=number, key=option) for one in error.problems)
            raise type(error)(error.message, code=error.code, problems=problems, hint=error.hint) from error


# ---- a line -------------------------------------------------------------------------------------------------------


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidRequirement(message)


_COLLECTED: Final = (
    ("-r", "--requirement"),
    ("-c", "--constraint"),
    ("-i", "--index-url", "--pypi-url"),
    ("--extra-index-url",),
    ("-f", "--find-links"),
)
_DESTINATIONS: Final = {"-r": "files", "-c": "constraints", "-i": "index", "--extra-index-url": "extra", "-f": "links"}


def _options() -> _Options:
    """Return a parser of pip's options that may stand in a file; those without effect on a pinned version are taken."""
    parser = _Options(add_help=False, allow_abbrev=False)
    for flag, *longer in _COLLECTED:
        parser.add_argument(flag, *longer, dest=_DESTINATIONS[flag], action="append", default=[])
    for flag in ("--no-index", "--require-hashes", "--prefer-binary", "--pre"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--trusted-host", "--only-binary", "--use-feature"):
        parser.add_argument(flag)
    return parser


_OPTIONS: Final = _options()


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield what pip takes for a line, and the number of its first: a backslash at an end goes on to the next.

    A requirement is yielded without the options behind it, such as its hashes.
    """
    whole, first = "", 0
    for number, raw in enumerate([*text.removeprefix("\ufeff").splitlines(), ""], start=1):
        first = first or number
        if raw.rstrip().endswith("\\"):
            whole += raw.rstrip()[:-1]
            continue
        line = _COMMENT.sub("", whole + raw).strip()
        if line:
            yield first, line if _OPTION.match(line) else _TRAILING.sub("", line)
        whole, first = "", 0


def _requirement(line: str, python: str) -> tuple[str | None, str | None] | None:
    """Return name and version, None for what is not said; None where the line is for another machine."""
    egg = _EGG.search(line)
    if _EDITABLE.match(line) or ("://" in line.partition(";")[0] and " @ " not in line):
        return (str(canonicalize_name(egg["name"])), None) if egg else _wheel(line)
    asked = Requirement(line)
    if asked.marker and not _applies(asked.marker, python):
        return None
    name = str(canonicalize_name(asked.name))
    exact = [one.version for one in asked.specifier if one.operator in {"==", "==="}]
    version = next(filter(_is_version, exact), None)
    if version:
        return name, version
    return name, _wheel(asked.url)[1] if asked.url else None


def _applies(marker: Marker, python: str) -> bool:
    try:
        return marker.evaluate(_machine(python))
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        raise InvalidRequirement(f"the marker `{marker}` can be neither true nor false") from error


def _is_version(text: str) -> bool:
    """Return whether this is one version: `2.4.*` is none, nor is what `===` takes beyond PEP 440."""
    try:
        return bool(Version(text))
    except ValueError:  # also for a number of more digits than Python reads
        return False


def _wheel(address: str) -> tuple[str | None, str | None]:
    file = re.split(r"[?#;]", address.strip(), maxsplit=1)[0].rstrip().rpartition("/")[2].replace("%2B", "+")
    try:
        name, version, *_ = parse_wheel_filename(file)
    except ValueError:
        return None, None
    return str(name), str(version)


def _machine(python: str) -> dict[str, str]:
    environment = {key: str(value) for key, value in default_environment().items()}
    linux = {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
    return {**environment, **linux, "python_version": python, "python_full_version": f"{python}.0"}


# ---- mistakes -----------------------------------------------------------------------------------------------------


def _mistake(line: str, error: InvalidRequirement, file: str, number: int) -> Problem:
    reason = str(error).partition("\n")[0]
    shown = safe(line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}...")
    almost = _ALMOST.fullmatch(line)
    expected = f"`{almost['name']}=={almost['version']}`?" if almost else "a requirement (PEP 508)"
    return Problem(file=file, line=number, message=f"`{shown}` is no requirement: {reason}", expected=expected)


def _require_no_other_kind(source: Source) -> None:
    """Raise `Misuse` (`requirements-invalid`) for a text that another format takes: its lines need not be told."""
    table = lines.load(source.text)
    kind = "TOML" if isinstance(table, dict) and any(isinstance(one, dict | list) for one in table.values()) else None
    if isinstance(document.decode(source.text, source.file), document.Object):
        kind = "JSON"
    if kind is None:
        return
    expected = "a requirements file, or what `pip freeze` printed"
    problem = Problem(file=source.file, message=f"is {kind}", expected=expected)
    message = f"this is {kind}, not a requirements file"
    raise Misuse(message, code="requirements-invalid", problems=(problem,), hint="pip freeze | envlock check -")
