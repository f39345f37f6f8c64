"""Settings with their origins: flag > `ENVLOCK_*` > `[tool.envlock]` > default. Pure: everything is handed in."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from envlock.errors import Misuse, Problem
from envlock.model import Policy, Setting

__all__ = ["CHOICES", "Config", "Section", "default", "resolve"]

Value: TypeAlias = "bool | str | None"

DEFAULTS: Final[Mapping[str, Value]] = {
    "offline": False,
    "driver-policy": "minor-version",
    "resolver": "uv",
    "path": None,
    "color": "auto",
}
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "driver-policy": ("minor-version", "strict"),
    "resolver": ("uv", "pip-tools"),
    "color": ("auto", "always", "never"),
}
"""The values of each setting that takes a word."""

TABLES: Final = ("index", "channels")
"""The settings that are tables of name = URL."""

# The default index of the tools envlock drives, by the names that they read it from themselves.
INDEX_VARIABLES: Final = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
TRUE: Final = frozenset({"1", "true", "yes", "on"})
FALSE: Final = frozenset({"0", "false", "no", "off", ""})
INDEX_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
CHANNEL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
URL: Final = re.compile(r"(https?|file)://\S+")
# uv takes an index with a name before it: `company=https://index.example/simple`.
TOOLS_NAME: Final = re.compile(r"^[A-Za-z0-9._-]+=(?=[a-z]+://)")
BARE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
USER: Final = re.compile(r"(?<=://)[^/@\s]+@")


class Section(dict[str, Any]):
    """`[tool.envlock]` with the line on which each of its keys stands, by the path inside the table."""

    __slots__ = ("lines",)

    def __init__(self, values: Mapping[str, Any], lines: Mapping[tuple[str | int, ...], int]) -> None:
        """Take the keys as they are."""
        super().__init__(values)
        self.lines = lines


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """One value from one layer, not looked at yet; `key`, `file` and `line` say where it was set."""

    name: str
    value: object
    origin: str
    key: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The effective settings. `entries` maps a setting (`offline`, `index.pypi`, …) to its value and origin."""

    entries: Mapping[str, tuple[Value, str]]

    @property
    def offline(self) -> bool:
        """Whether the network must not be used."""
        return self.entries["offline"][0] is True

    @property
    def driver_policy(self) -> Policy:
        """How far below a toolkit's own driver a driver may be."""
        return cast("Policy", self.entries["driver-policy"][0])

    @property
    def resolver(self) -> str:
        """The engine that resolves."""
        return str(self.entries["resolver"][0])

    @property
    def path(self) -> str | None:
        """Where an environment is installed; None for `.envlock/<profile>`."""
        return cast("str | None", self.entries["path"][0])

    @property
    def indexes(self) -> Mapping[str, str]:
        """The addresses that are set, by the names of the indexes, with credentials where they have some."""
        found = ((name, value) for name, (value, _) in self.entries.items() if name.startswith("index."))
        return {name.removeprefix("index."): str(value) for name, value in found}

    @property
    def channels(self) -> Mapping[str, str]:
        """The addresses of conda's channels that are set, by name, with credentials where they have some."""
        found = ((name, value) for name, (value, _) in self.entries.items() if name.startswith("channels."))
        return {name.removeprefix("channels."): str(value) for name, value in found}

    def settings(self) -> tuple[Setting, ...]:
        """Return every setting and its origin, credentials taken out."""
        return tuple(
            Setting(name=name, value=None if value is None else _shown(value), origin=origin)
            for name, (value, origin) in sorted(self.entries.items())
        )


def default() -> Config:
    """Return the settings of a machine that sets nothing."""
    return resolve(flags={}, environ={}, table={}, table_file=None)


def resolve(
    *, flags: Mapping[str, object], environ: Mapping[str, str], table: Mapping[str, Any], table_file: str | None
) -> Config:
    """Combine the layers; flag names may be written with `_`. A `Section` as the table lends its lines to the problems.

    Raises `Misuse` (`config-invalid`) with every unknown key and every wrong value.
    """
    problems: list[Problem] = []
    given = [
        *_from_tools(environ),
        *_from_table(table, table_file, problems),
        *_from_environ(environ, problems),
        *(
            _Given(name=name, value=value, origin="flag", key=f"--{name}")
            for raw, value in flags.items()
            if (name := raw.replace("_", "-")) in DEFAULTS
        ),
    ]
    checked: dict[str, tuple[Value, str]] = {name: (value, "default") for name, value in DEFAULTS.items()}
    for one in given:
        if expected := _mistake(one.name, one.value):
            message = f"{_described(one.value)} does not fit"
            problems.append(Problem(message=message, file=one.file, line=one.line, key=one.key, expected=expected))
        else:
            checked[one.name] = (cast("Value", one.value), one.origin)
    if problems:
        raise Misuse("the settings are wrong", code="config-invalid", problems=tuple(problems))
    return Config(entries=checked)


def _from_table(table: Mapping[str, Any], file: str | None, problems: list[Problem]) -> Iterator[_Given]:
    places = table.lines if isinstance(table, Section) else {}
    origin = file or "table"
    for key, value in table.items():
        spelled, line = _spelled("tool.envlock", key), places.get((key,))
        if key in DEFAULTS:
            meant = _beside(file, value) if key == "path" else value
            yield _Given(name=key, value=meant, origin=origin, key=spelled, file=file, line=line)
        elif key not in TABLES:
            near = difflib.get_close_matches(key, [*DEFAULTS, *TABLES], n=1)
            expected = f"`{near[0]}`?" if near else f"one of {', '.join([*DEFAULTS, *TABLES])}"
            problems.append(Problem(message="unknown key", file=file, line=line, key=spelled, expected=expected))
        elif not isinstance(value, dict):
            wanted = "a table of name = URL"
            problems.append(Problem(message="wrong type", file=file, line=line, key=spelled, expected=wanted))
        else:
            for name, url in value.items():
                yield _Given(
                    name=f"{key}.{name}",
                    value=url,
                    origin=origin,
                    key=_spelled(spelled, name),
                    file=file,
                    line=places.get((key, name)),
                )


def _beside(file: str | None, path: object) -> object:
    """Return a relative path as one beside the file that names it: who reads it may stand in a folder below."""
    if file is None or not isinstance(path, str) or not path or path.startswith("~"):
        return path
    return str(PurePath(file).parent / path)


def _from_tools(environ: Mapping[str, str]) -> Iterator[_Given]:
    outer = next((variable for variable in INDEX_VARIABLES if environ.get(variable)), None)
    if outer:
        url = TOOLS_NAME.sub("", environ[outer])
        yield _Given(name="index.pypi", value=url, origin=outer, key=outer)


def _from_environ(environ: Mapping[str, str], problems: list[Problem]) -> Iterator[_Given]:
    for variable, text in environ.items():
        if not variable.startswith("ENVLOCK_"):
            continue
        name = variable.removeprefix("ENVLOCK_").lower().replace("_", "-")
        if name.startswith("index-"):
            index = name.removeprefix("index-")
            yield _Given(name=f"index.{index}", value=text, origin=variable, key=variable)
        elif name.startswith("channel-"):
            channel = name.removeprefix("channel-")
            yield _Given(name=f"channels.{channel}", value=text, origin=variable, key=variable)
        elif name in DEFAULTS:
            value = _boolean(text) if name == "offline" else text
            yield _Given(name=name, value=value, origin=variable, key=variable)
        else:
            near = difflib.get_close_matches(name, DEFAULTS, n=1)
            known = [f"ENVLOCK_{one.upper().replace('-', '_')}" for one in near or DEFAULTS]
            expected = (
                f"`{known[0]}`?" if near else f"one of {', '.join(known)}, ENVLOCK_INDEX_<NAME>, ENVLOCK_CHANNEL_<NAME>"
            )
            spelled = variable if variable.isprintable() else repr(variable)
            problems.append(Problem(message="unknown variable", key=spelled, expected=expected))


def _spelled(table: str, key: str) -> str:
    return f"{table}.{key}" if BARE.fullmatch(key) else f"{table}.{key!r}"


def _described(value: object) -> str:
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, bool):
        return str(value).lower()
    kinds = {int: "a number", float: "a number", dict: "a table", list: "a list"}
    return kinds.get(type(value), "a date or a time")


def _boolean(text: str) -> bool | str:
    lowered = text.strip().lower()
    return True if lowered in TRUE else False if lowered in FALSE else text


def _mistake(name: str, value: object) -> str | None:
    """Return what was expected, or None where the value fits."""
    if name.startswith("index."):
        fits = isinstance(value, str) and _is_url(value) and INDEX_NAME.fullmatch(name[6:])
        return None if fits else "an index name of a-z, 0-9 and - with an http, https or file URL"
    if name.startswith("channels."):
        fits = isinstance(value, str) and _is_url(value) and CHANNEL_NAME.fullmatch(name[9:])
        return None if fits else "the name of a channel with an http, https or file URL"
    if name == "offline":
        return None if isinstance(value, bool) else "true or false"
    if name in CHOICES:
        return None if value in CHOICES[name] else f"one of {', '.join(CHOICES[name])}"
    if isinstance(value, str) and "\0" in value:
        return "a path, which holds no NUL"
    return None if isinstance(value, str) and value else "a text that is not empty"


def _is_url(text: str) -> bool:
    try:
        return bool(URL.fullmatch(text)) and text.isprintable() and (urlsplit(text).port or 1) > 0
    except ValueError:
        return False


def _shown(value: bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else USER.sub("****@", value)
