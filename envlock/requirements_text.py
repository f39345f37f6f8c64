"""What a requirements file or `pip freeze` names: exact versions, and what is left open. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from envlock.errors import Misuse, Problem

__all__ = ["Requirements", "parse"]

_TOLD: Final = 10  # mistakes that are named: a file of another kind has one on every line
_HASHES: Final = re.compile(r"\s--hash[= ]\S+")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*$")
_EDITABLE: Final = re.compile(r"(?:-e|--editable)[ =]")
_EGG: Final = re.compile(r"[#&]egg=(?P<name>[A-Za-z0-9._-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """`pins` maps names to versions, `left_open` are the requirements without one, as they were written."""

    pins: Mapping[str, str]
    left_open: tuple[str, ...]


def parse(text: str, file: str, python: str) -> Requirements:
    """Read the lines that apply to that Python (`"3.10"`) on Linux; options of pip's are passed over.

    A wheel's address pins what its name says. Raises `Misuse` (`requirements-invalid`) with every line that is none.
    """
    pins: dict[str, str] = {}
    left_open: list[str] = []
    problems: list[Problem] = []
    for number, line in _lines(text):
        if line.startswith("-") and not _EDITABLE.match(line):
            continue
        try:
            found = _requirement(line, python)
        except InvalidRequirement as error:
            reason = str(error).partition("\n")[0]
            problems.append(Problem(file=file, line=number, message=reason, expected="a requirement (PEP 508)"))
            continue
        if found is None:
            continue
        name, version = found
        if version is None:
            left_open.append(line)
        elif pins.setdefault(name, version) != version:
            problems.append(
                Problem(
                    file=file, line=number, message=f"`{name}` is pinned to {pins[name]} above", expected="one version"
                )
            )
    if problems:
        rest = len(problems) - _TOLD
        more = [Problem(file=file, message=f"and {rest} lines more")] if rest > 0 else []
        told = (*problems[:_TOLD], *more)
        raise Misuse("the requirements cannot be read", code="requirements-invalid", problems=told)
    return Requirements(pins=pins, left_open=tuple(left_open))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield what pip takes for a line, and the number of its first: a backslash at an end goes on to the next."""
    whole, first = "", 0
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        first = first or number
        if raw.rstrip().endswith("\\"):
            whole += raw.rstrip()[:-1]
            continue
        line = _HASHES.sub("", _COMMENT.sub("", whole + raw)).strip()
        if line:
            yield first, line
        whole, first = "", 0


def _requirement(line: str, python: str) -> tuple[str, str | None] | None:
    """Return name and version, None for the version where none is exact; None where the line is for another machine."""
    egg = _EGG.search(line)
    if _EDITABLE.match(line) or ("://" in line.partition(";")[0] and " @ " not in line):
        return (str(canonicalize_name(egg["name"])), None) if egg else _wheel(line)
    asked = Requirement(line)
    if asked.marker and not asked.marker.evaluate(_machine(python)):
        return None
    exact = [one.version for one in asked.specifier if one.operator in {"==", "==="} and not one.version.endswith(".*")]
    if exact:
        return str(canonicalize_name(asked.name)), exact[0]
    found = _wheel(asked.url) if asked.url else None
    return found or (str(canonicalize_name(asked.name)), None)


def _wheel(address: str) -> tuple[str, str | None] | None:
    file = re.split(r"[?#;]", address.strip(), maxsplit=1)[0].rstrip().rpartition("/")[2].replace("%2B", "+")
    try:
        name, version, *_ = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return None
    return str(name), str(version)


def _machine(python: str) -> dict[str, str]:
    environment = {key: str(value) for key, value in default_environment().items()}
    linux = {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
    return {**environment, **linux, "python_version": python, "python_full_version": f"{python}.0"}
