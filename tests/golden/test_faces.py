from __future__ import annotations

import json
import re
import typing
from collections.abc import Callable

import pytest

from envlock import report, wire
from envlock.cli import outcome
from envlock.cli.terminal import Terminal
from envlock.model import Answer
from tests.golden.answers import ANSWERS

PLAIN = Terminal(colour=False, live=False, unicode=True, width=80)
each_answer = pytest.mark.parametrize("name", ANSWERS)


def show(name: str, *, verbose: bool = False, colour: bool = False, unicode: bool = True, width: int = 80) -> str:
    terminal = Terminal(colour=colour, live=False, unicode=unicode, width=width)
    return report.render(ANSWERS[name], terminal=terminal, verbose=verbose)


@each_answer
def test_the_face_for_people(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.txt", show(name))


@each_answer
def test_the_verbose_face(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.verbose.txt", show(name, verbose=True))


@each_answer
def test_the_face_for_programs(name: str, golden: Callable[[str, str], None]) -> None:
    error = outcome.judge(ANSWERS[name])
    command = name.partition("-")[0]
    code = error.exit if error else 0
    document = wire.document(command=command, code=code, result=wire.result(ANSWERS[name]), error=error)
    golden(f"{name}.json", json.dumps(document, indent=2) + "\n")


@each_answer
def test_colour_adds_nothing_but_colour(name: str) -> None:
    coloured = re.sub(r"\x1b\[[0-9;]*m", "", show(name, colour=True))
    stripped = "".join(f"{line.rstrip()}\n" for line in coloured.splitlines())
    assert stripped == show(name)


@each_answer
def test_an_ascii_terminal_gets_ascii(name: str) -> None:
    assert show(name, unicode=False, verbose=True).isascii()


@each_answer
@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    text = show(name, verbose=True, width=width)
    command = getattr(ANSWERS[name], "command", None)
    commands = [line for line in text.splitlines() if "/bin/activate" in line or line == f"  {command}"]
    assert not [line for line in text.splitlines() if len(line) > width and line not in commands]


def test_every_member_of_the_union_has_both_faces() -> None:
    assert {type(answer) for answer in ANSWERS.values()} == set(typing.get_args(Answer))


def test_something_else_has_no_face() -> None:
    stranger = typing.cast("Answer", object())
    for render in (wire.result, outcome.judge, lambda answer: report.render(answer, terminal=PLAIN, verbose=False)):
        with pytest.raises(AssertionError, match="not a member of the union"):
            render(stranger)
