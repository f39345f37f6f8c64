"""argparse, with errors as values, help that reads the same under every Python, and "did you mean"."""

from __future__ import annotations

import argparse
import difflib
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from envlock.errors import Misuse

__all__ = ["Parser", "before_dashes", "choice", "number", "suggest"]

HELP_COLUMN = 30
HELP_WIDTH = 100
# Stands before what follows `--` while argparse reads it, which else takes a dash for an option all the same. No
# argument of a process can hold it.
SHELTER = "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One argument in the help: what is typed, and what it does."""

    typed: str
    text: str


class Parser(argparse.ArgumentParser):
    """The parser of one verb: raises `Misuse` instead of exiting, and remembers what it declared to render its help."""

    def __init__(self, *, command: str, summary: str, example: str) -> None:
        """Start with no arguments at all; `--help` is an option like any other."""
        super().__init__(prog=command, add_help=False, allow_abbrev=False)
        self._summary = summary
        self._example = example
        self._named: list[_Line] = []
        self._sections: dict[str, list[_Line]] = {}
        self._flags: set[str] = set()

    def positional(self, name: str, *, metavar: str, text: str, nargs: str | None = None) -> None:
        """Declare a positional argument; `nargs` as in argparse."""
        self.add_argument(name, metavar=metavar, nargs=nargs)
        shown = {"?": f"[{metavar}]", "*": f"[{metavar} ...]", "+": f"{metavar} ..."}.get(nargs or "", metavar)
        self._named.append(_Line(typed=shown, text=text))

    def option(self, *flags: str, text: str, env: str | None = None, section: str = "options", **how: Any) -> None:
        """Declare an option; `env` names the variable that sets it too, `how` goes to argparse."""
        self.add_argument(*flags, **how)
        self._flags.update(flags)
        metavar = how.get("metavar")
        typed = ", ".join(flags) + (f" {metavar}" if metavar else "")
        shown = f"{text} [env: {env}]" if env else text
        self._sections.setdefault(section, []).append(_Line(typed=typed, text=shown))

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse, or raise `Misuse`; a misspelt option is named before anything that is missing because of it."""
        options = before_dashes(argv)
        for word in options:
            flag = word.partition("=")[0]
            if flag.startswith("--") and flag not in self._flags:
                self._refuse(f"unknown option `{flag}`{suggest(flag, self._flags)}", code="unknown-option")
        sheltered = [f"{SHELTER}{word}" for word in argv[len(options) + 1 :]]
        parsed, rest = self.parse_known_intermixed_args([*options, *sheltered])
        if rest:
            what = "option" if rest[0].startswith("-") else "argument"
            self._refuse(f"unknown {what} `{rest[0].removeprefix(SHELTER)}`", code=f"unknown-{what}")
        return argparse.Namespace(**{name: _bare(value) for name, value in vars(parsed).items()})

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would have printed before it exited."""
        self._refuse(message.removeprefix("argument ").replace(SHELTER, ""), code="usage")

    def format_help(self) -> str:
        """Render the help: argparse's own changes from one Python to the next."""
        usage = " ".join([self.prog, *(line.typed for line in self._named), "[options]"])
        blocks = [f"{self._summary}\n", f"usage: {usage}\n"]
        if self._named:
            blocks.append(_block("arguments", self._named))
        blocks += [self.sections(), f"example:\n  {self._example}\n"]
        return "\n".join(blocks)

    def sections(self) -> str:
        """Render the options alone, section by section."""
        return "\n".join(_block(title, lines) for title, lines in self._sections.items())

    def _refuse(self, message: str, *, code: str) -> NoReturn:
        raise Misuse(message, code=code, hint=f"{self.prog} --help")


def choice(*allowed: str) -> Callable[[str], str]:
    """Return an argparse type that takes one of these words."""

    def read(word: str) -> str:
        if word not in allowed:
            raise argparse.ArgumentTypeError(f"`{word}` is not one of {', '.join(allowed)}{suggest(word, allowed)}")
        return word

    return read


def number(word: str) -> float:
    """Read a positive number of seconds: an argparse type."""
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"`{word}` is not a number of seconds above 0")
    return value


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` for the nearest known word, or nothing."""
    near = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def before_dashes(argv: Sequence[str]) -> Sequence[str]:
    """Return the words up to a `--`: those after it are no options, whatever they begin with."""
    return argv[: argv.index("--")] if "--" in argv else argv


def _bare(value: object) -> object:
    if isinstance(value, list):
        return [_bare(one) for one in value]
    return value.removeprefix(SHELTER) if isinstance(value, str) else value


def _block(title: str, lines: Sequence[_Line]) -> str:
    return "\n".join([f"{title}:", *(_wrap(line) for line in lines), ""])


def _wrap(line: _Line) -> str:
    head = f"  {line.typed}"
    start = f"{head:<{HELP_COLUMN}}" if len(head) < HELP_COLUMN - 1 else f"{head}\n{'':<{HELP_COLUMN}}"
    wrapped = textwrap.wrap(line.text, HELP_WIDTH - HELP_COLUMN, break_on_hyphens=False)
    return start + f"\n{'':<{HELP_COLUMN}}".join(wrapped)
