"""The line of each key and element of a TOML text, and of what is no TOML."""

from __future__ import annotations

import pytest

from envlock import lines

TEXT = '''\
# a comment = 1
first = 1

"quoted key" = [    # three, ["and", a comment]
    "a ] # no comment",
    'b, c', """x
]""",
    [1, 2,
     3], { deep = [
        4,
     ] },
]    # behind
a . 'b' . "c\\u0020d" = { e.f = 1, g = {} }
long = """
[table]
no = "key"
\\"""
"""
  last = 2024-01-01 00:00:00.5

[ table ]   # [comment]
k = -inf
[table.sub."x.y"]
k = [[], [[]], [
    [1.5, 0xff]
]]
[[list]]
k = 1
[[list]]
[list.inner]
k = 2
[apart.one]
[[list]]
[[list.tables]]
[[list.tables]]
k = 3
[apart]
k = """"quoted"""""
z = 4
'''
WANTED: dict[lines.Path, int] = {
    ("first",): 2,
    ("quoted key",): 4,
    ("quoted key", 0): 5,
    ("quoted key", 1): 6,
    ("quoted key", 2): 6,
    ("quoted key", 3): 8,
    ("quoted key", 3, 0): 8,
    ("quoted key", 3, 1): 8,
    ("quoted key", 3, 2): 9,
    ("quoted key", 4): 9,
    ("quoted key", 4, "deep"): 9,
    ("quoted key", 4, "deep", 0): 10,
    ("a",): 13,
    ("a", "b"): 13,
    ("a", "b", "c d"): 13,
    ("a", "b", "c d", "e"): 13,
    ("a", "b", "c d", "e", "f"): 13,
    ("a", "b", "c d", "g"): 13,
    ("long",): 14,
    ("last",): 19,
    ("table",): 21,
    ("table", "k"): 22,
    ("table", "sub"): 23,
    ("table", "sub", "x.y"): 23,
    ("table", "sub", "x.y", "k"): 24,
    ("table", "sub", "x.y", "k", 0): 24,
    ("table", "sub", "x.y", "k", 1): 24,
    ("table", "sub", "x.y", "k", 1, 0): 24,
    ("table", "sub", "x.y", "k", 2): 24,
    ("table", "sub", "x.y", "k", 2, 0): 25,
    ("table", "sub", "x.y", "k", 2, 0, 0): 25,
    ("table", "sub", "x.y", "k", 2, 0, 1): 25,
    ("list",): 27,
    ("list", 0): 27,
    ("list", 0, "k"): 28,
    ("list", 1): 29,
    ("list", 1, "inner"): 30,
    ("list", 1, "inner", "k"): 31,
    ("apart",): 32,
    ("apart", "one"): 32,
    ("list", 2): 33,
    ("list", 2, "tables"): 34,
    ("list", 2, "tables", 0): 34,
    ("list", 2, "tables", 1): 35,
    ("list", 2, "tables", 1, "k"): 36,
    ("apart", "k"): 38,
    ("apart", "z"): 39,
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_key_and_element_has_its_line(end: str) -> None:
    text = TEXT.replace("\n", end)
    assert not isinstance(lines.load(text), lines.Fault)
    assert lines.of(text) == WANTED


@pytest.mark.parametrize("text", ["", "\n", "# only = 1", " \t\n\n"])
def test_a_text_without_keys(text: str) -> None:
    assert lines.of(text) == {}


def test_a_depth_that_the_reader_takes_has_lines_too() -> None:
    text = f"x = 1\ny = {'[' * 200}\n7{']' * 200}"
    assert not isinstance(lines.load(text), lines.Fault)
    found = lines.of(text)
    assert (found["y",], found[("y",) + (0,) * 200]) == (2, 3)


def test_a_text_is_a_table() -> None:
    assert lines.load("a.b = 1\nc = [2]") == {"a": {"b": 1}, "c": [2]}


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("a = 1\nb = !\n", ", column 5", 2),
        ("a = 1\nb = [1,", ", at the end of the file", 2),
        ("a = 1\nb = [1,\n\n", ", at the end of the file", 3),
        ("[" * 4 + "a", "", 1),
        (f"a = {'[' * 9999}", "is nested too deeply", None),
        (f"a = 1\nb = 1{'_0' * 4300}\n", "holds a number of too many digits", 2),
        (f"a = '''\n{'1' * 9999}\n'''\nb = {'2' * 4400}\n", "holds a number of too many digits", 4),
    ],
)
def test_what_is_no_toml_says_so_on_its_line(text: str, says: str, line: int | None) -> None:
    fault = lines.load(text)
    assert isinstance(fault, lines.Fault)
    assert fault.message.endswith(says)
    assert fault.message[0].islower()
    assert fault.line == line


@pytest.mark.parametrize(
    "line",
    [
        "{}a = 1",
        "[{}a]",
        "[[{}a]]",
        "x = {{ {}a = 1 }}",
        "x = [{{ b = ',', {}a = 1 }}]",
    ],
)
@pytest.mark.parametrize("part", ["a.", "'a.b' . ", '"a\\"." .\t'])
def test_a_key_of_very_many_parts_is_refused_before_it_costs_anything(line: str, part: str) -> None:
    at_most = "\n" + line.format(part * (lines.DEEPEST - 1)) + "\n"
    assert isinstance(lines.load(at_most), dict)
    for parts in (lines.DEEPEST, 20_000):
        fault = lines.load("\n" + line.format(part * parts) + "\n")
        assert fault == lines.Fault(message="holds a key of more than 32 parts", line=2)


def test_dots_that_are_no_key_are_taken() -> None:
    dots = "a." * 500
    text = f"# {dots}\na = '{dots}'\nb = [\n  '{dots}', {', '.join(['1.5'] * 500)},\n]\n"
    assert isinstance(lines.load(text), dict)
