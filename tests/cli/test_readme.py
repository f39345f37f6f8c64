"""What the README shows is what happens."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from envlock import profile
from tests.cli.conftest import ROOT, Shell
from tests.servers.index import Index
from tests.servers.wheels import make_wheel

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def anywhere(text: str) -> str:
    """Leave out which Pythons this machine has, and the width of that column."""
    named = re.sub(r"✓ (?:to fetch|3\.\d+(?: 3\.\d+)*) +✓ linux", "✓ ANY ✓ linux", text)
    return re.sub(r"Python +platform", "Python platform", named)


def test_the_plan_is_printed_as_it_is_shown(shell: Shell) -> None:
    (shown,) = [block for block in blocks("console") if block.startswith("$ envlock plan ")]
    command, _, output = shown.partition("\n")
    arguments = [
        quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', command.removeprefix("$ envlock "))
    ]
    ran = shell(*arguments, UV_PYTHON_DOWNLOADS="automatic")
    assert (ran.code, ran.stderr) == (0, "")
    assert anywhere(ran.stdout) == anywhere(output)


def test_the_profile_to_begin_with_locks(shell: Shell, tmp_path: Path) -> None:
    (text,) = blocks("toml")
    parsed = profile.parse(text, "profiles/mine.toml")
    assert (parsed.name, len(text.splitlines())) == ("mine", 8)
    for backend in parsed.backends:
        make_wheel(tmp_path / backend.name, "torch", f"2.8.0+{backend.name}")
    for requirement in parsed.backends[0].requires:
        name, _, version = requirement.partition("==")
        make_wheel(tmp_path / "pypi", name, version or "0.8.1")
    shell.write("profiles/mine.toml", text)
    with ExitStack() as stack:
        urls = {
            f"ENVLOCK_INDEX_{name.upper()}": stack.enter_context(Index(tmp_path / name)).url
            for name in ("pypi", *(backend.name for backend in parsed.backends))
        }
        ran = shell("lock", "mine", "--json", **urls)
    assert (ran.code, ran.document["error"]) == (0, None)
    assert ran.document["result"]["locks"][0]["variants"] == ["cu128", "cpu"]


def test_what_is_set_up_is_said_in_two_lines() -> None:
    assert [len(block.splitlines()) for block in blocks("sh")] == [1, 1]
