"""What uv and pip have set about where packages come from: the address of the default index, and all the rest. Pure.

Each is read as that tool reads it; envlock goes by the address alone, and names the rest as not used.
"""

from __future__ import annotations

import configparser
import io
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote, urlsplit

from envlock import lines
from envlock.config import Ambient, Given, Section
from envlock.document import safe
from envlock.errors import Problem
from envlock.model import DEFAULT_INDEX, Setting

__all__ = ["Table", "by_strength", "pip", "pip_variables", "uv", "uv_table", "uv_variables"]

# What names the default index, the stronger first; and what else says where packages come from.
_UV_VARIABLES: Final = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
_UV_OTHERS: Final = ("constraint-dependencies", "extra-index-url", "find-links", "no-index", "override-dependencies")
_UV_OTHER_VARIABLES: Final = ("CONSTRAINT", "EXTRA_INDEX_URL", "FIND_LINKS", "INDEX", "NO_INDEX", "OVERRIDE")
_PIP_OTHERS: Final = ("constraint", "extra-index-url", "find-links", "no-index")
_PIP_SECTIONS: Final = ("install", "global")
_PIP_NOTHING: Final = frozenset({"", "0", "false", "no", "off"})

_ADDRESS: Final = "index-url"
_UNUSED: Final = "not used"
_HEADER: Final = re.compile(r"\[(?P<name>.+)\]")
# uv takes an index with a name before it: `company=https://index.example/simple`.
_NAMED: Final = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]+)=(?=[a-z]+://|[./]))?(?P<url>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The settings of uv in one file."""

    file: str
    values: Section


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One option of pip's: where it stands, and what it says."""

    file: str
    line: int | None
    value: str

    @property
    def place(self) -> str:
        return _place(self.file, self.line)


def by_strength(layers: Iterable[Ambient]) -> Ambient:
    """Return the first layer that names an index, or can't be read; nothing of any layer is used beside it."""
    every = tuple(layers)
    first = next((one for one in every if one.index or one.fault), Ambient())
    return replace(first, unused=tuple(unused for one in every for unused in one.unused))


# ---- uv -----------------------------------------------------------------------------------------------------------


def uv_variables(environ: Mapping[str, str], folder: str) -> Ambient:
    """Return what uv's variables say; a path among them begins in `folder`."""
    unused = _variables(environ, "uv", _UV_OTHER_VARIABLES)
    variable = next((one for one in _UV_VARIABLES if environ.get(one)), None)
    if variable is None:
        return Ambient(unused=unused)
    found = _NAMED.fullmatch(environ[variable])
    name, url = found.groups() if found else (None, "")
    value = _with_login(_located(url, folder), name, environ)
    return Ambient(index=_given(value, origin=variable, key=variable), unused=unused)


def uv_table(text: str, file: str) -> Table | Problem | None:
    """Return the settings in a uv.toml, or in a pyproject.toml; None for one of those that has none for uv.

    uv steps over a pyproject.toml that is not TOML, and stops at any other such file.
    """
    within = ("tool", "uv") if posixpath.basename(file) == "pyproject.toml" else ()
    text = text.removeprefix("\ufeff")
    found: object = lines.load(text)
    if isinstance(found, lines.Fault):
        return None if within else Problem(message=found.message, file=file, line=found.line, expected="TOML")
    for part in within:
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return None
    places = lines.of(text).items()
    inside = {path[len(within) :]: line for path, line in places if path[: len(within)] == within}
    return Table(file=file, values=Section(found, inside))


def uv(tables: Sequence[Table], environ: Mapping[str, str]) -> Ambient:
    """Return what uv's files say, the strongest first.

    An `[[index]]` that is the default one goes before any `index-url`, and of several of one name the first counts.
    """
    indexes: list[tuple[str | None, bool, Given]] = []
    addresses: list[Given] = []
    unused: list[Setting] = []
    for table in tables:
        for found in (*_indexes(table, environ), *_address(table)):
            if isinstance(found, Problem):
                return Ambient(fault=found)
            if isinstance(found, Given):
                addresses.append(found)
            elif found[0] is None or found[0] not in {name for name, _, _ in indexes}:
                indexes.append(found)
        others = (key for key in _UV_OTHERS if table.values.get(key))
        unused += (_setting(f"uv {key}", _place(table.file, table.values.lines.get((key,)))) for key in others)
    named = (_setting(f"uv index {safe(name or '')}".rstrip(), one.origin) for name, is_it, one in indexes if not is_it)
    chosen = next((one for _, is_default, one in indexes if is_default), None)
    return Ambient(index=chosen or next(iter(addresses), None), unused=(*unused, *named))


def _indexes(table: Table, environ: Mapping[str, str]) -> Iterator[Problem | tuple[str | None, bool, Given]]:
    rows = table.values.get("index", [])
    for place, row in enumerate(rows if isinstance(rows, list) else [rows]):
        line = table.values.lines.get(("index", place))
        if not isinstance(row, dict) or not isinstance(row.get("url"), str):
            yield Problem(message="is no index", file=table.file, line=line, key="index", expected="a table with a url")
            continue
        name = row["name"] if isinstance(row.get("name"), str) else None
        line = table.values.lines.get(("index", place, "url"), line)
        url = _with_login(_located(row["url"], posixpath.dirname(table.file)), name, environ)
        given = _given(url, origin=_place(table.file, line), key="index.url", file=table.file, line=line)
        yield name, row.get("default") is True, given


def _address(table: Table) -> Iterator[Problem | Given]:
    url, line = table.values.get(_ADDRESS), table.values.lines.get((_ADDRESS,))
    if isinstance(url, str):
        place = _place(table.file, line)
        url = _located(url, posixpath.dirname(table.file))
        yield _given(url, origin=place, key=_ADDRESS, file=table.file, line=line)
    elif url is not None:
        yield Problem(message="is no address", file=table.file, line=line, key=_ADDRESS, expected="a text")


def _with_login(url: str, name: str | None, environ: Mapping[str, str]) -> str:
    """Return the address with the login that uv's variables have for an index of that name, if it has none itself."""
    variable = f"UV_INDEX_{re.sub('[^A-Z0-9]', '_', (name or '').upper())}"
    user, password = (environ.get(f"{variable}_{one}") for one in ("USERNAME", "PASSWORD"))
    try:
        parts = urlsplit(url)
    except ValueError:  # said where it is looked at
        return url
    if not name or not (user or password) or "@" in parts.netloc or not parts.scheme.startswith("http"):
        return url
    login = ":".join(quote(one, safe="") for one in (user or "", password) if one is not None)
    return parts._replace(netloc=f"{login}@{parts.netloc}").geturl()


# ---- pip ----------------------------------------------------------------------------------------------------------


def pip_variables(environ: Mapping[str, str], folder: str) -> Ambient:
    """Return what pip's variables say; a path among them begins in `folder`."""
    variable = "PIP_INDEX_URL"
    unused = _variables(environ, "pip", tuple(key.replace("-", "_").upper() for key in _PIP_OTHERS))
    if not environ.get(variable):
        return Ambient(unused=unused)
    return Ambient(
        index=_given(_located(environ[variable], folder), origin=variable, key=variable),
        unused=unused,
    )


def pip(texts: Iterable[tuple[str, str]], folder: str) -> Ambient:
    """Return what pip's files say, each its name and its text, the weakest first: an option replaces that of before.

    Of its sections `[install]` goes before `[global]`, whatever file each stands in.
    """
    merged: dict[tuple[str, str], _Row] = {}
    for file, text in texts:
        rows = _ini(text, file)
        if isinstance(rows, Problem):
            return Ambient(fault=rows)
        merged |= rows
    said = {(section, key): row for (section, key), row in merged.items() if section in _PIP_SECTIONS and row.value}
    unused = tuple(
        _setting(f"pip {key}", row.place)
        for (_, key), row in said.items()
        if key in _PIP_OTHERS and row.value.lower() not in _PIP_NOTHING
    )
    found = ((section, said.get((section, _ADDRESS))) for section in _PIP_SECTIONS)
    for section, row in found:
        if row:
            url, key = _located(row.value, folder), f"{section}.{_ADDRESS}"
            index = _given(url, origin=row.place, key=key, file=row.file, line=row.line)
            return Ambient(index=index, unused=unused)
    return Ambient(unused=unused)


def _ini(text: str, file: str) -> dict[tuple[str, str], _Row] | Problem:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text, file)
    except configparser.Error as error:
        return _fault(error, file)
    places = dict(_places(text))
    found = {}
    for section in parser.sections():
        for name, value in parser.items(section):  # with those of [DEFAULT]
            key = _option(name)
            line = places.get((section, key), places.get((parser.default_section, key)))
            found[section, key] = _Row(file=file, line=line, value=value.strip())
    return found


def _fault(error: configparser.Error, file: str) -> Problem:
    """Return what is wrong and where; what stands there may hold a password."""
    if isinstance(error, configparser.MissingSectionHeaderError):
        return Problem(message="stands before any section", file=file, line=error.lineno, expected="[global]")
    if isinstance(error, configparser.DuplicateSectionError | configparser.DuplicateOptionError):
        return Problem(message="is there twice", file=file, line=error.lineno, expected="each section and option once")
    line = error.errors[0][0] if isinstance(error, configparser.ParsingError) and error.errors else None
    return Problem(message="is no option", file=file, line=line, expected="option = value")


def _places(text: str) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the line of each option by its section and name: what is indented goes on with the value before."""
    section, option, depth = "", "", 0
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        bare = line.strip()
        if not bare or bare.startswith(("#", ";")):
            continue
        indent = len(line) - len(line.lstrip())
        if option and indent > depth:
            continue
        depth = indent
        if header := _HEADER.match(bare):
            section, option = header["name"], ""
        else:
            option = _option(re.split("[=:]", bare, maxsplit=1)[0])
            yield (section, option), number


def _option(name: str) -> str:
    return name.strip().lower().replace("_", "-").removeprefix("--")


# ---- both ---------------------------------------------------------------------------------------------------------


def _variables(environ: Mapping[str, str], tool: str, names: Iterable[str]) -> tuple[Setting, ...]:
    set_ = (name for name in names if environ.get(f"{tool.upper()}_{name}", "").lower() not in _PIP_NOTHING)
    return tuple(_setting(f"{tool} {name.lower().replace('_', '-')}", f"{tool.upper()}_{name}") for name in set_)


def _setting(name: str, origin: str) -> Setting:
    return Setting(name=name, value=_UNUSED, origin=origin)


def _given(value: str, *, origin: str, key: str, file: str | None = None, line: int | None = None) -> Given:
    return Given(name=f"index.{DEFAULT_INDEX}", value=value, origin=origin, key=key, file=file, line=line)


def _located(url: str, folder: str) -> str:
    """Return a path as the address of that folder: both tools take one in place of an address."""
    if not url.startswith(("/", "./", "../")):
        return url
    return PurePosixPath(posixpath.normpath(posixpath.join(folder, url))).as_uri()


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"
