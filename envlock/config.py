"""Settings with their origins: flag > `ENVLOCK_*` > `[tool.envlock]` > uv's and pip's own > default.

Pure: everything is handed in.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from envlock.errors import Misuse, Problem
from envlock.model import DEFAULT_INDEX, Policy, Setting

__all__ = ["CHOICES", "Ambient", "Config", "Given", "Section", "default", "names_index", "resolve"]

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

INDEX_VARIABLE: Final = "ENVLOCK_INDEX_"

TABLES: Final = ("index", "channels")
"""The settings that are tables of name = URL."""

TRUE: Final = frozenset({"1", "true", "yes", "on"})
FALSE: Final = frozenset({"0", "false", "no", "off", ""})
INDEX_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
CHANNEL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
URL: Final = re.compile(r"(https?|file)://\S+")
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
class Given:
    """One value from one layer, not looked at yet; `key`, `file` and `line` say where it was set."""

    name: str
    value: object
    origin: str
    key: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambient:
    """The address of the default index as uv and pip have it set: `index`, None where neither has one.

    `fault` says why it can't be told. `unused` is what else they have set that says where packages come from: envlock
    does not go by it.
    """

    index: Given | None = None
    fault: Problem | None = None
    unused: tuple[Setting, ...] = ()


NOTHING: Final = Ambient()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The effective settings. `entries` maps a setting (`offline`, `index.pypi`, …) to its value and origin.

    `fault` is what is wrong with uv's or pip's settings, where no better layer says where the default index is, and
    `unused` what they hold that envlock does not go by.
    """

    entries: Mapping[str, tuple[Value, str]]
    fault: Problem | None = None
    unused: tuple[Setting, ...] = ()

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
        """The addresses that are set, by the names of the indexes, with credentials where they have some.

        Raises `Misuse` (`config-invalid`) where it can't be told which one uv or pip have set: it would be another.
        """
        if self.fault:
            others = Problem(message=f"{INDEX_VARIABLE}PYPI=ADDRESS goes before it; --no-config reads no such file")
            message = "where the default index is, cannot be told from uv's and pip's settings"
            problems = (self.fault, others)
            raise Misuse(message, code="config-invalid", problems=problems, hint="envlock detect -v")
        found = ((name, value) for name, (value, _) in self.entries.items() if name.startswith("index."))
        return {name.removeprefix("index."): str(value) for name, value in found}

    @property
    def channels(self) -> Mapping[str, str]:
        """The addresses of conda's channels that are set, by name, with credentials where they have some."""
        found = ((name, value) for name, (value, _) in self.entries.items() if name.startswith("channels."))
        return {name.removeprefix("channels."): str(value) for name, value in found}

    def settings(self) -> tuple[Setting, ...]:
        """Return every setting and its origin, credentials taken out, and what of uv's and pip's is not used."""
        found = [
            Setting(name=name, value=None if value is None else _shown(value), origin=origin)
            for name, (value, origin) in self.entries.items()
        ]
        if self.fault:
            found.append(Setting(name=f"index.{DEFAULT_INDEX}", value="cannot be told", origin=str(self.fault)))
        return tuple(sorted((*found, *self.unused), key=lambda one: one.name))


def default() -> Config:
    """Return the settings of a machine that sets nothing."""
    return resolve(flags={}, environ={}, table={}, table_file=None)


def names_index(environ: Mapping[str, str], table: Mapping[str, Any]) -> bool:
    """Tell whether envlock's own settings name an index, so that it matters which there are."""
    return "index" in table or any(variable.startswith(INDEX_VARIABLE) for variable in environ)


def resolve(
    *,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    table: Mapping[str, Any],
    table_file: str | None,
    ambient: Ambient = NOTHING,
    names: Collection[str] | None = None,
) -> Config:
    """Combine the layers; flag names may be written with `_`. A `Section` as the table lends its lines to the problems.

    `names` are those that an index may have; None for any. Raises `Misuse` (`config-invalid`) with every unknown key
    and every wrong value, except those of other tools: see `Config.indexes`.
    """
    problems: list[Problem] = []
    given = [
        *_from_table(table, table_file, problems),
        *_from_environ(environ, problems),
        *(
            Given(name=name, value=value, origin="flag", key=f"--{name}")
            for raw, value in flags.items()
            if (name := raw.replace("_", "-")) in DEFAULTS
        ),
    ]
    checked: dict[str, tuple[Value, str]] = {name: (value, "default") for name, value in DEFAULTS.items()}
    for one in given:
        if problem := _unknown(one, names) or _misfit(one):
            problems.append(problem)
        else:
            checked[one.name] = (cast("Value", one.value), one.origin)
    if problems:
        raise Misuse("the settings are wrong", code="config-invalid", problems=tuple(problems))
    index, fault = ambient.index, ambient.fault
    if f"index.{DEFAULT_INDEX}" in checked:
        fault = None
    elif index and not fault and not (fault := _misfit(index)):
        checked[index.name] = (cast("Value", index.value), index.origin)
    return Config(entries=checked, fault=fault, unused=ambient.unused)


def _unknown(one: Given, names: Collection[str] | None) -> Problem | None:
    """Return what is wrong with the name of an index, None where it is one of those there are."""
    name = one.name.removeprefix("index.")
    if names is None or name in names or name == one.name or not INDEX_NAME.fullmatch(name):
        return None
    begun = sorted(each for each in names if each.startswith(name))
    near = begun or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    by_variable = one.key.startswith(INDEX_VARIABLE)
    known = [_variable(f"index-{each}") if by_variable else each for each in near or sorted(names)]
    meant = f"; did you mean {', '.join(f'`{each}`' for each in known)}?" if near else ""
    expected = None if near else f"one of {', '.join(known)}"
    return Problem(message=f"no such index{meant}", file=one.file, line=one.line, key=one.key, expected=expected)


def _misfit(one: Given) -> Problem | None:
    """Return what is wrong with a value, None where it fits."""
    expected = _mistake(one.name, one.value)
    if expected is None:
        return None
    message = f"{_described(one.value)} does not fit"
    return Problem(message=message, file=one.file, line=one.line, key=one.key, expected=expected)


def _from_table(table: Mapping[str, Any], file: str | None, problems: list[Problem]) -> Iterator[Given]:
    places = table.lines if isinstance(table, Section) else {}
    for key, value in table.items():
        spelled, line = _spelled("tool.envlock", key), places.get((key,))
        if key in DEFAULTS:
            meant = _beside(file, value) if key == "path" else value
            yield Given(name=key, value=meant, origin=_origin(file, line), key=spelled, file=file, line=line)
        elif key not in TABLES:
            near = difflib.get_close_matches(key, [*DEFAULTS, *TABLES], n=1)
            expected = f"`{near[0]}`?" if near else f"one of {', '.join([*DEFAULTS, *TABLES])}"
            problems.append(Problem(message="unknown key", file=file, line=line, key=spelled, expected=expected))
        elif not isinstance(value, dict):
            wanted = "a table of name = URL"
            problems.append(Problem(message="wrong type", file=file, line=line, key=spelled, expected=wanted))
        else:
            for name, url in value.items():
                line = places.get((key, name))
                yield Given(
                    name=f"{key}.{name}",
                    value=url,
                    origin=_origin(file, line),
                    key=_spelled(spelled, name),
                    file=file,
                    line=line,
                )


def _origin(file: str | None, line: int | None) -> str:
    return ":".join(str(part) for part in (file or "table", line) if part is not None)


def _beside(file: str | None, path: object) -> object:
    """Return a relative path as one beside the file that names it: who reads it may stand in a folder below."""
    if file is None or not isinstance(path, str) or not path or path.startswith("~"):
        return path
    return str(PurePath(file).parent / path)


def _from_environ(environ: Mapping[str, str], problems: list[Problem]) -> Iterator[Given]:
    for variable, text in environ.items():
        if not variable.startswith("ENVLOCK_"):
            continue
        name = variable.removeprefix("ENVLOCK_").lower().replace("_", "-")
        if name.startswith("index-"):
            index = name.removeprefix("index-")
            yield Given(name=f"index.{index}", value=text, origin=variable, key=variable)
        elif name.startswith("channel-"):
            channel = name.removeprefix("channel-")
            yield Given(name=f"channels.{channel}", value=text, origin=variable, key=variable)
        elif name in DEFAULTS:
            value = _boolean(text) if name == "offline" else text
            yield Given(name=name, value=value, origin=variable, key=variable)
        else:
            near = difflib.get_close_matches(name, DEFAULTS, n=1)
            known = [_variable(one) for one in near or DEFAULTS]
            others = "ENVLOCK_INDEX_<NAME>, ENVLOCK_CHANNEL_<NAME>"
            expected = f"`{known[0]}`?" if near else f"one of {', '.join(known)}, {others}"
            spelled = variable if variable.isprintable() else repr(variable)
            problems.append(Problem(message="unknown variable", key=spelled, expected=expected))


def _variable(setting: str) -> str:
    return f"ENVLOCK_{setting.upper().replace('-', '_')}"


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
        return _mistaken_index(name.removeprefix("index."), value)
    if name.startswith("channels."):
        fits = isinstance(value, str) and _is_url(value) and CHANNEL_NAME.fullmatch(name.removeprefix("channels."))
        return None if fits else "the name of a channel with an http, https or file URL"
    if name == "offline":
        return None if isinstance(value, bool) else "true or false"
    if name in CHOICES:
        return None if value in CHOICES[name] else f"one of {', '.join(CHOICES[name])}"
    if isinstance(value, str) and "\0" in value:
        return "a path, which holds no NUL"
    return None if isinstance(value, str) and value else "a text that is not empty"


def _mistaken_index(name: str, value: object) -> str | None:
    """Return what was expected of an index; the pages of a named one are read, and a folder has none."""
    is_url = isinstance(value, str) and _is_url(value)
    if not is_url or not INDEX_NAME.fullmatch(name):
        return "an index name of a-z, 0-9 and - with an http, https or file URL"
    if name != DEFAULT_INDEX and str(value).startswith("file:"):
        return f"an http or https URL: no index but `{DEFAULT_INDEX}` can be a folder"
    return None


def _is_url(text: str) -> bool:
    try:
        return bool(URL.fullmatch(text)) and text.isprintable() and (urlsplit(text).port or 1) > 0
    except ValueError:
        return False


def _shown(value: bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else USER.sub("****@", value)
