from __future__ import annotations

import io
import json
import os
import pty
import re
import time
from pathlib import Path

import pytest

from envlock.cli import invocation, main, redact, terminal
from envlock.cli.progress import Progress
from envlock.cli.terminal import Terminal
from envlock.errors import Misuse, Problem
from envlock.model import Caution, Setting
from envlock.report.canvas import Canvas, duration, size

FILE = Terminal(colour=False, live=False, unicode=True, width=80)
LIVE = Terminal(colour=True, live=True, unicode=True, width=40)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://joe:s3cret@index.example/simple", "https://****@index.example/simple"),
        ("https://t0ken@index.example/", "https://****@index.example/"),
        ("two https://a:b@x.example and http://c@y.example", "two https://****@x.example and http://****@y.example"),
        ("https://x.example/?token=abc&page=2", "https://x.example/?token=****&page=2"),
        ("https://x.example/?a=1&access_token=abc", "https://x.example/?a=1&access_token=****"),
        (
            "https://x.example/a.whl?X-Amz-Credential=AK%2Fs3&X-Amz-Date=1&X-Amz-Signature=abc",
            "https://x.example/a.whl?X-Amz-Credential=****&X-Amz-Date=1&X-Amz-Signature=****",
        ),
        ("https://x.example/?X-Goog-Signature=a&sig=b&se=1", "https://x.example/?X-Goog-Signature=****&sig=****&se=1"),
        (
            "https://x.example/?Expires=1&Signature=a&Key-Pair-Id=b",
            "https://x.example/?Expires=1&Signature=****&Key-Pair-Id=****",
        ),
        (
            "https://x.example/?AWSAccessKeyId=a&api-key=b&accessToken=c",
            "https://x.example/?AWSAccessKeyId=****&api-key=****&accessToken=****",
        ),
        ("https://x.example/?design=a&tokens=2&page=sig", "https://x.example/?design=a&tokens=2&page=sig"),
        ("/home/https:/joe:s3cret@index.example/simple", "/home/https:/****@index.example/simple"),
        ("mail joe@index.example", "mail joe@index.example"),
        ("https://x.example/a@b", "https://x.example/a@b"),
        ("torch @ https://x.example/torch.whl", "torch @ https://x.example/torch.whl"),
    ],
)
def test_credentials_go_and_nothing_else(text: str, shown: str) -> None:
    assert redact.text(text) == shown


def test_an_error_and_an_answer_lose_their_credentials_everywhere() -> None:
    url, clean = "https://a:b@x.example", "https://****@x.example"
    problem = Problem(message=url, file=url, line=3, key=url, expected=url)
    error = redact.error(Misuse(url, code="usage", problems=(problem,), hint=url))
    assert (type(error), error.message, error.hint, error.code) == (Misuse, clean, clean, "usage")
    assert error.problems == (Problem(message=clean, file=clean, line=3, key=clean, expected=clean),)
    assert redact.value({"x": (Setting(name="n", value=url, origin=url), 3)}) == {
        "x": (Setting(name="n", value=clean, origin=clean), 3)
    }


def test_a_pipe_is_no_terminal_and_columns_are_believed() -> None:
    stream = io.StringIO()
    assert terminal.look(stream, mode="auto", environ={}) == Terminal(colour=False, live=False, unicode=False, width=80)
    assert terminal.look(stream, mode="always", environ={"COLUMNS": "132"}).width == 132
    assert terminal.look(stream, mode="auto", environ={"COLUMNS": "3"}).width == 40
    assert terminal.look(stream, mode="auto", environ={"COLUMNS": "wide"}).width == 80


@pytest.mark.parametrize(
    ("environ", "colour", "live"),
    [
        ({}, True, True),
        ({"TERM": "dumb"}, False, False),
        ({"CI": "true"}, True, False),
        ({"NO_COLOR": "1"}, False, True),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "0"}, True, True),
    ],
)
def test_a_terminal_is_one(environ: dict[str, str], *, colour: bool, live: bool) -> None:
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb"), os.fdopen(follower, "w", encoding="utf-8") as stream:
        look = terminal.look(stream, mode="auto", environ=environ)
    assert (look.colour, look.live, look.unicode, look.width) == (colour, live, True, 80)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 中 ✓\nnext\tcell", "plain é 中 ✓\nnext\tcell"),
        ("a\x1b[31mb\x07\x00\r\x7f", r"a\x1b[31mb\x07\x00\r\x7f"),
        ("\x9b31m\u202e\u2028\udc80", r"\x9b31m\u202e\u2028\udc80"),
        ("no\u00a0break\u3000wide", "no\u00a0break\u3000wide"),
    ],
)
def test_nothing_reaches_a_terminal_that_it_would_obey(text: str, shown: str) -> None:
    assert terminal.printable(text) == shown
    canvas = Canvas(FILE)
    canvas.line(text)
    canvas.code(text)
    canvas.table([[(text,)]], header=[text])
    stream = io.StringIO()
    reporter = Progress(stream, terminal=FILE, verbosity=1, silent=False)
    with reporter:
        reporter.stage(text)
        reporter.log(text)
        reporter.warn(Caution(code="w", message=text))
    assert terminal.printable(canvas.text()) == canvas.text()
    assert stream.getvalue() == f"{shown}\n{shown}\nwarning: {shown}\n"


def test_stages_are_lines_in_a_file() -> None:
    stream = io.StringIO()
    with Progress(stream, terminal=FILE, verbosity=0, silent=False) as nothing:
        assert nothing is None
    reporter = Progress(stream, terminal=FILE, verbosity=0, silent=False)
    with reporter:
        reporter.stage("Resolving https://a:b@x.example")
        reporter.log("a detail")
        reporter.warn(Caution(code="slow", message="this is slow"))
    assert stream.getvalue() == "Resolving https://****@x.example\nwarning: this is slow\n"


@pytest.mark.parametrize(
    ("verbosity", "silent", "said"),
    [(-1, False, "warning: w\n"), (1, False, "s\nl\nwarning: w\n"), (0, True, ""), (2, True, "")],
)
def test_quiet_is_quiet_and_json_is_silent(verbosity: int, said: str, *, silent: bool) -> None:
    stream = io.StringIO()
    reporter = Progress(stream, terminal=FILE, verbosity=verbosity, silent=silent)
    with reporter:
        reporter.stage("s")
        reporter.log("l")
        reporter.warn(Caution(code="w", message="w"))
    assert stream.getvalue() == said


def test_a_live_line_fits_and_leaves_nothing_behind() -> None:
    stream = io.StringIO()
    reporter = Progress(stream, terminal=LIVE, verbosity=0, silent=False)
    with reporter:
        reporter.stage("Downloading " + "x" * 100)
        time.sleep(0.35)
        reporter.warn(Caution(code="w", message="mind this"))
    text = stream.getvalue()
    assert text.endswith("\r\x1b[2K")
    assert "mind this\n" in text
    drawn = [re.sub(r"\x1b\[[0-9;]*[mK]", "", line) for line in text.split("\r") if "Downloading" in line]
    assert drawn
    assert max(map(len, drawn)) <= LIVE.width


def test_a_stderr_that_is_gone_does_not_stop_the_work() -> None:
    stream = io.StringIO()
    stream.close()
    reporter = Progress(stream, terminal=FILE, verbosity=1, silent=False)
    with reporter:
        reporter.stage("s")
        reporter.log("l")


@pytest.mark.parametrize(
    ("argv", "json_", "verbosity", "verb"),
    [
        (["plan", "x", "--json"], True, 0, "plan"),
        (["-vv", "plan", "x", "-q"], False, 1, "plan"),
        (["--color", "plan"], False, 0, None),
        (["--verbose", "lock"], False, 1, "lock"),
        (["--nonsense"], False, 0, None),
        ([], False, 0, None),
    ],
)
def test_a_peek_forgives(argv: list[str], verbosity: int, verb: str | None, *, json_: bool) -> None:
    seen = invocation.peek(argv, {})
    assert (seen.json, seen.verbosity, seen.verb) == (json_, verbosity, verb)


def test_the_colour_that_is_asked_for() -> None:
    assert invocation.peek(["x", "--color=always"], {}).colour == "always"
    assert invocation.peek(["--color", "never", "x"], {"ENVLOCK_COLOR": "always"}).colour == "never"
    assert invocation.peek(["x"], {"ENVLOCK_COLOR": "always"}).colour == "always"
    assert invocation.peek(["x", "--color", "mauve"], {}).colour == "auto"


def test_a_bug_is_one_document_too(tmp_path: Path) -> None:
    stdout, closed = io.StringIO(), io.StringIO()
    closed.close()
    code = main.main(["profiles", "--json"], environ={}, cwd=tmp_path, stdout=stdout, stderr=closed)
    document = json.loads(stdout.getvalue())
    assert (code, document["exit"], document["error"]["code"]) == (70, 70, "internal")
    assert "ValueError: I/O operation on closed file" in document["error"]["message"]


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_600, "1 MB"), (2_812_345_678, "2.8 GB")]
)
def test_sizes(count: int, shown: str) -> None:
    assert size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0.0 s"), (59.9, "59.9 s"), (60, "1 min 0 s"), (3671, "61 min 11 s")]
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
