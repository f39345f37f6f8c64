"""Settings with their origins: flag > `ENVLOCK_*` > `[tool.envlock]` > default. Pure: everything is handed in."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from envlock.errors import Misuse, Problem
from envlock.model import Policy, Setting

__all__ = ["Config", "default", "resolve"]

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
    "resolver": ("uv",),
    "color": ("auto", "always", "never"),
}
# The default index of the tools envlock drives, by the names that they read it from themselves.
INDEX_VARIABLES: Final = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
TRUE: Final = frozenset({"1", "true", "yes", "on"})
FALSE: Final = frozenset({"0", "false", "no", "off", ""})
INDEX_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
USER: Final = re.compile(r"(?<=://)[^/@\s]+@")


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

    def index_url(self, name: str) -> str | None:
        """Return an index's URL, with credentials if it has some; None for the tools' own default."""
        return cast("str | None", self.entries.get(f"index.{name}", (None, "default"))[0])

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
    """Combine the layers; flag names may be written with `_`.

    Raises `Misuse` (`config-invalid`) with every unknown key and every wrong value.
    """
    problems: list[Problem] = []
    given = _from_tools(environ) | _from_table(table, table_file, problems) | _from_environ(environ, problems)
    given |= {name: (value, "flag") for raw, value in flags.items() if (name := raw.replace("_", "-")) in DEFAULTS}
    checked: dict[str, tuple[Value, str]] = {name: (value, "default") for name, value in DEFAULTS.items()}
    for name, (value, origin) in given.items():
        if expected := _mistake(name, value):
            file = table_file if origin == table_file else None
            key = f"tool.envlock.{name}" if file else f"{origin} {name}"
            problems.append(Problem(message=f"{value!r} does not fit", file=file, key=key, expected=expected))
        else:
            checked[name] = (cast("Value", value), origin)
    if problems:
        raise Misuse("the settings are wrong", code="config-invalid", problems=tuple(problems))
    return Config(entries=checked)


def _from_table(table: Mapping[str, Any], file: str | None, problems: list[Problem]) -> dict[str, tuple[object, str]]:
    flat = {key: value for key, value in table.items() if key != "index"}
    given: dict[str, tuple[object, str]] = {}
    for key, value in flat.items():
        if key in DEFAULTS:
            given[key] = (value, file or "table")
            continue
        near = difflib.get_close_matches(key, [*DEFAULTS, "index"], n=1)
        expected = f"`{near[0]}`?" if near else f"one of {', '.join([*DEFAULTS, 'index'])}"
        problems.append(Problem(message="unknown key", file=file, key=f"tool.envlock.{key}", expected=expected))
    index = table.get("index", {})
    if not isinstance(index, dict):
        wanted = "a table of name = URL"
        problems.append(Problem(message="wrong type", file=file, key="tool.envlock.index", expected=wanted))
        return given
    return given | {f"index.{name}": (url, file or "table") for name, url in index.items()}


def _from_tools(environ: Mapping[str, str]) -> dict[str, tuple[object, str]]:
    outer = next((variable for variable in INDEX_VARIABLES if environ.get(variable)), None)
    return {"index.pypi": (environ[outer], outer)} if outer else {}


def _from_environ(environ: Mapping[str, str], problems: list[Problem]) -> dict[str, tuple[object, str]]:
    given: dict[str, tuple[object, str]] = {}
    for variable, text in environ.items():
        name = variable.removeprefix("ENVLOCK_").lower().replace("_", "-")
        if not variable.startswith("ENVLOCK_"):
            continue
        if name.startswith("index-"):
            given[f"index.{name.removeprefix('index-')}"] = (text, variable)
        elif name == "offline":
            given[name] = (_boolean(text), variable)
        elif name in DEFAULTS:
            given[name] = (text, variable)
        else:
            near = difflib.get_close_matches(name, DEFAULTS, n=1)
            meant = f"`ENVLOCK_{near[0].upper().replace('-', '_')}`?" if near else None
            problems.append(Problem(message="unknown variable", key=variable, expected=meant))
    return given


def _boolean(text: str) -> bool | str:
    lowered = text.strip().lower()
    return True if lowered in TRUE else False if lowered in FALSE else text


def _mistake(name: str, value: object) -> str | None:
    """Return what was expected, or None where the value fits."""
    if name.startswith("index."):
        fits = isinstance(value, str) and re.match(r"(https?|file)://", value) and INDEX_NAME.fullmatch(name[6:])
        return None if fits else "an index name of a-z, 0-9 and - with an http, https or file URL"
    if name == "offline":
        return None if isinstance(value, bool) else "true or false"
    if name in CHOICES:
        return None if value in CHOICES[name] else f"one of {', '.join(CHOICES[name])}"
    return None if isinstance(value, str) and value else "a text that is not empty"


def _shown(value: bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else USER.sub("****@", value)
