"""A profile, whatever is in it, is read or refused with places that exist; its digest follows its meaning alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envlock import lines, profile
from envlock.errors import Misuse, Problem

ROOT = Path(__file__).parents[2]
SHIPPED = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "profiles").glob("*.toml"))]
# What mutations put in: pieces of TOML, of profiles, and of what neither should hold.
PIECES = (
    *('"', "'", '"""', "'''", "[", "]", "[[", "]]", "{", "}", "=", ".", ",", "#", "\n", "\r\n", "\r", "\\", "\0"),
    *("\x1b", "\u2028", "\ufeff", "true", "-1", "1.5", "inf", "2024-01-01", "07:32:00", "0xffffffffffffffffffff"),
    *("backend = 3\n", "[[backend]]\n", "[backend.cu999]\n", "backend.cpu.python = []\n", "a.b.c = { d = 1 }\n"),
    *(
        '"torch>=2", ',
        '"torch @ https://index.example", ',
        '"cu118", ',
        '"3.9"',
        "[conda]\n",
        '"a b" = 1\n',
        "schema = 2\n",
    ),
)
VALUES = (
    "1",
    "-0.5",
    "true",
    '"a # ] text"',
    "'b, ['",
    '"""two\n"" lines"""',
    "'''\n\n]'''",
    "2024-01-01 00:00:00Z",
    '""',
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A shipped profile with pieces of it cut out, doubled, exchanged or put in."""
    text = draw(st.sampled_from(SHIPPED))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        middle = draw(st.sampled_from(["", text[start:end] * 2, *PIECES]) | st.text(max_size=5))
        text = text[:start] + middle + text[end:]
    return text


@st.composite
def replaced(draw: st.DrawFn) -> str:
    """A shipped profile with the values of some of its lines exchanged: mostly TOML still."""
    rows = draw(st.sampled_from(SHIPPED)).split("\n")
    for _ in range(draw(st.integers(1, 4))):
        number = draw(st.integers(0, len(rows) - 1))
        key, equals, _ = rows[number].partition(" = ")
        new = draw(st.sampled_from(VALUES) | st.sampled_from(rows).map(lambda row: row.partition(" = ")[2] or "[]"))
        name = draw(st.sampled_from([key, "extra", "exclude-newer", "python", '"a\\u0007"']))
        rows[number] = f"{name}{equals}{new}" if equals else rows[number]
    return "\n".join(rows)


def mistakes(text: str) -> tuple[Problem, ...]:
    try:
        profile.parse(text, "mine.toml")
    except Misuse as error:
        return error.problems or (Problem(message="nothing is said"),)
    return ()


@given(text=st.text() | st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | mutated() | replaced())
def test_a_profile_is_read_or_refused_with_places_that_exist(text: str) -> None:
    last = text.count("\n") + 1
    for problem in mistakes(text):
        assert problem.file == "mine.toml"
        assert problem.line is None or 1 <= problem.line <= last
        assert str(problem).isprintable()


def spelled(draw: st.DrawFn, key: str) -> str:
    plain = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else None
    literal = f"'{key}'" if key.isprintable() and "'" not in key else None
    return draw(st.sampled_from([one for one in (plain, literal, json.dumps(key, ensure_ascii=False)) if one]))


keys = st.text(st.characters(exclude_categories=["C"]), max_size=4) | st.sampled_from(["a", "b", "c", "d"])


@st.composite
def values(draw: st.DrawFn, depth: int = 0) -> str:
    """A TOML value, spread over several lines where TOML lets it be."""
    kind = draw(st.sampled_from(["scalar", "array", "table"])) if depth < 3 else "scalar"
    space = st.sampled_from(["", " ", "\n", " # ] , [\n  "])
    if kind == "array":
        elements = draw(st.lists(values(depth=depth + 1), max_size=3))
        return "[" + draw(space) + f"{draw(space)},{draw(space)}".join(elements) + draw(space) + "]"
    if kind == "table":
        names = draw(st.lists(keys, max_size=3, unique=True))
        return "{" + ", ".join(f"{spelled(draw, name)} = {draw(values(depth=depth + 1))}" for name in names) + "}"
    return draw(st.sampled_from(VALUES))


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A TOML text of keys, dotted keys, tables and arrays of tables; now and then one that repeats itself."""
    rows: list[str] = []
    for _ in range(draw(st.integers(0, 8))):
        name = draw(st.sampled_from([".", " . "])).join(
            spelled(draw, draw(keys)) for _ in range(draw(st.integers(1, 3)))
        )
        form = draw(st.sampled_from(["{} = {}", "{}={} # z = 1", "[{}]", "  [ {} ] # [z]", "[[{}]]", "# {}", "\n"]))
        rows.append(form.format(name, draw(values())) if form.count("{}") > 1 else form.format(name))
    return draw(st.sampled_from(["\n", "\r\n"])).join([*rows, ""])


def paths(value: Any, path: lines.Path = ()) -> Iterator[tuple[lines.Path, Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key), one
        yield from paths(one, (*path, key))


@given(documents())
def test_every_key_and_element_has_a_line_that_holds_it(text: str) -> None:
    read = lines.load(text)
    if isinstance(read, lines.Fault):
        return
    found = lines.of(text)
    there = dict(paths(read))
    assert found.keys() == there.keys()
    rows = text.split("\n")
    for path, line in found.items():
        key = path[-1]
        row = rows[line - 1]
        if isinstance(key, str):
            assert key in row or json.dumps(key, ensure_ascii=False) in row
        elif isinstance(there[path], str):
            assert "'" in row or '"' in row


@given(shipped=st.sampled_from(SHIPPED), data=st.data())
def test_the_digest_does_not_depend_on_layout_and_order(shipped: str, data: st.DataObject) -> None:
    head, *tables = re.split(r"(?m)^(?=\[)", re.sub(r"(?m)(^| +)#.*$", "", shipped))
    rows = [row for row in re.split(r"(?m)^(?=[a-z])", head) if row.strip()]
    comment = st.sampled_from(["", "\n", "# a comment\n", "\t# requires = []\n"])
    mixed = [data.draw(comment) + piece for part in (rows, tables) for piece in data.draw(st.permutations(part))]
    spaced = "".join(mixed).replace(" = ", data.draw(st.sampled_from(["=", "  = ", " =\t"])))
    spaced = spaced.replace("==", data.draw(st.sampled_from(["==", " == ", "== "])))
    spaced = spaced.replace("\n", data.draw(st.sampled_from(["\n", "\r\n"])))
    assert profile.parse(spaced, "elsewhere").digest == profile.parse(shipped, "here").digest


@given(shipped=st.sampled_from(SHIPPED), data=st.data())
def test_the_digest_depends_on_each_pin(shipped: str, data: st.DataObject) -> None:
    pin = data.draw(st.sampled_from([*re.finditer(r'(?m)^ +"[a-z0-9_-]+(?P<version>[=<>][^"]*)?",', shipped)]))
    where = pin.end() - 2
    changed = shipped[:where] + ("1" if pin["version"] else ">=0.9") + shipped[where:]
    assert profile.parse(changed, "here").digest != profile.parse(shipped, "here").digest
