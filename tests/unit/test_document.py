"""A JSON document is read with every mistake named by its path."""

from __future__ import annotations

from datetime import date, datetime, time, timezone

import pytest

from envlock.document import ANY, Object, Scope, Shape, decode, quoted, safe
from envlock.errors import Problem

FILE = "host.json"
NUMBER = Shape(pattern=r"[0-9]+", expected="digits")


def scope(text: str) -> Scope:
    value = decode(text, FILE)
    assert isinstance(value, Object)
    return Scope(values=value, path="", file=FILE, problems=[])


def said(read: Scope) -> list[str]:
    assert {problem.file for problem in read.problems} <= {FILE}
    return [f"{problem.key}: {problem.message}" for problem in read.problems]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "is empty"),
        (" \t\r\n\ufeff", 2, "is empty"),
        ('{"a": 1,\n"b" 2}', 2, "is not JSON: "),
        ("[1]", None, "holds a list"),
        ("null", None, "holds null"),
        ('"a"', None, 'holds "a"'),
        ("[" * 100_000, None, "is nested too deeply"),
        (f'{{"a": {"9" * 5000}}}', None, "holds a number of too many digits"),
    ],
)
def test_a_text_that_is_no_object(text: str, line: int | None, message: str) -> None:
    problem = decode(text, FILE)
    assert isinstance(problem, Problem)
    assert (problem.file, problem.line, problem.expected) == (FILE, line, "a JSON object")
    assert problem.message.startswith(message)


def test_a_mark_of_the_encoding_is_taken_off() -> None:
    assert decode('\ufeff{"a": 1}', FILE) == {"a": 1}


def test_every_key_is_known_and_written_once() -> None:
    read = scope('{"name": 1, "nmae": 1, "x\\u001b": 1, "name": 2, "other": {"a": 1, "a": 1}}')
    read.know("name", "other")
    assert said(read) == [
        "nmae: unknown key; did you mean `name`?",
        '"x\\u001b": unknown key',
        "name: is written twice",
    ]
    inner = read.inner("other")
    assert inner is not None
    inner.know("a")
    assert said(read)[3:] == ["other.a: is written twice"]


def test_keys_of_a_plain_table_are_known_too() -> None:
    read = Scope(values={"a": 1}, path="", file=FILE, problems=[])
    read.know("b")
    assert said(read) == ["a: unknown key"]


def test_values_that_fit() -> None:
    read = scope(
        '{"t": "a b", "n": "12", "l": ["1", "2"], "f": true, "w": "linux", "c": 3, "o": {"k": {"z": "1"}},'
        ' "e": [{"k": 1}, {}], "null": null}'
    )
    assert (read.text("t"), read.text("n", NUMBER), read.text("null"), read.text("gone")) == ("a b", "12", None, None)
    assert (read.texts("l", NUMBER), read.texts("null"), read.texts("gone")) == (("1", "2"), (), ())
    assert (read.flag("f"), read.flag("null"), read.flag("gone")) == (True, False, False)
    assert (read.word("w", "windows", "linux", "windows"), read.word("gone", "windows")) == ("linux", "windows")
    assert (read.count("c"), read.count("null"), read.count("gone")) == (3, None, None)
    assert [one.path for one in read.each("e")] == ["e[0]", "e[1]"]
    assert (read.each("gone"), read.inner("gone")) == ((), None)
    outer = read.inner("o", required=True)
    assert outer is not None
    inner = outer.inner("k")
    assert inner is not None
    assert (inner.path, inner.text("z"), inner.at("z")) == ("o.k", "1", "o.k.z")
    assert read.problems == []


def test_every_value_that_does_not_fit_is_told() -> None:
    read = scope(
        '{"t": 1, "n": "1x", "ctl": "a\\u0007", "l": ["1", null, "x"], "l2": "1", "f": 1, "w": "mac", "c": 0,'
        ' "b": true, "d": 1.5, "o": [], "e": [{}, 3], "e2": {}, "null": null, "big": 18446744073709551616}'
    )
    assert read.count("big") is None
    assert (read.text("t"), read.text("n", NUMBER), read.text("ctl"), read.texts("l2")) == (None, None, None, ())
    assert read.texts("l", NUMBER) == ("1",)
    assert (read.flag("f"), read.word("w", "linux", "linux", "windows")) == (False, "mac")
    assert (read.count("c"), read.count("b"), read.count("d")) == (None, None, None)
    assert (read.inner("o"), read.each("e2"), len(read.each("e"))) == (None, (), 1)
    assert read.inner("null", required=True) is None
    assert said(read) == [
        "big: is a number of more than 64 bits",
        "t: is 1",
        'n: is "1x"',
        'ctl: is "a\\u0007"',
        'l2: is "1"',
        "l[1]: is null",
        'l[2]: is "x"',
        "f: is 1",
        "w: is `mac`",
        "c: is 0",
        "b: is true",
        "d: is 1.5",
        "o: is a list",
        "e2: is an object",
        "e[1]: is 3",
        "null: is missing",
    ]
    assert {problem.expected for problem in read.problems} == {
        ANY.expected,
        NUMBER.expected,
        "a list of texts",
        "true or false",
        "linux or windows",
        "a whole number above 0",
        "an object",
        "a list of objects",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\x7fb\x1b\u202e", '"a\\u007fb\\u001b\\u202e"'),
        ("x" * 58, f'"{"x" * 58}"'),
        ("x" * 59, f'"{"x" * 56}...'),
        ({}, "an object"),
        ([1], "a list"),
        (None, "null"),
        (False, "false"),
        (2**63 - 1, "9223372036854775807"),
        (2**63, "a number of more than 64 bits"),
        (-(2**63) - 1, "a number of more than 64 bits"),
        (float("inf"), "Infinity"),
        (date(1979, 5, 27), "1979-05-27"),
        (time(7, 32), "07:32:00"),
        (datetime(1979, 5, 27, 7, 32, tzinfo=timezone.utc), "1979-05-27T07:32:00+00:00"),
    ],
)
def test_a_value_is_quoted_in_printable_ascii_of_a_fitting_length(value: object, shown: str) -> None:
    assert quoted(value) == shown


@pytest.mark.parametrize(("text", "shown"), [("plain é", "plain é"), ("a\x7f", '"a\\u007f"'), ("a\n", '"a\\n"')])
def test_a_text_is_made_safe_for_a_terminal(text: str, shown: str) -> None:
    assert safe(text) == shown
