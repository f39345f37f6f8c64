"""From argv to one invocation: which verb, and what was said to it. Global flags may stand on either side of it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NoReturn, TypeAlias

from envlock.cli import registry
from envlock.cli.arguments import Parser, before_dashes, choice, suggest
from envlock.cli.terminal import Colour
from envlock.errors import Misuse

__all__ = ["Invocation", "Peek", "help_text", "parse", "peek"]

Want: TypeAlias = Literal["run", "help", "version"]
COLOURS: tuple[Colour, ...] = ("auto", "always", "never")
TAKES_VALUE = "--color"

INTRO = """envlock chooses, locks, installs and proves Python environments for NVIDIA GPUs

usage: envlock COMMAND [options]

commands:
"""

OUTRO = """exit codes:
  0  done, or yes             2  asked wrongly            70  a bug in envlock
  1  the answer is no         3  the world failed        130  interrupted

example:
  envlock install gemma-qlora

`envlock COMMAND --help` says more of each.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """What must be known even of a command line that cannot be parsed: how to answer."""

    json: bool
    colour: Colour
    verbosity: int
    verb: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A command line that was understood: the verb is empty where none was named, `text` is the help where wanted."""

    want: Want
    verb: str
    arguments: Namespace
    text: str = ""


def peek(argv: Sequence[str], environ: Mapping[str, str]) -> Peek:
    """Read the global flags that shape the answer, forgiving everything."""
    said = before_dashes(argv)
    clusters = [word[1:] for word in said if word[:1] == "-" and set(word[1:]) in ({"v"}, {"q"}, {"v", "q"})]
    letters = "".join(clusters)
    loud = letters.count("v") + list(said).count("--verbose")
    quiet = letters.count("q") + list(said).count("--quiet")
    place = _verb_at(argv)
    verb = argv[place] if place is not None and argv[place] in registry.VERBS else None
    return Peek(json="--json" in said, colour=_colour(said, environ), verbosity=loud - quiet, verb=verb)


def parse(argv: Sequence[str]) -> Invocation:
    """Find the verb, import its module and parse; raises `Misuse`."""
    place = _verb_at(argv)
    before = list(argv if place is None else argv[:place])
    top = _globals(Parser(command="envlock", summary="", example=""))
    if place is None:
        said = top.read(before)
        want: Want = "version" if said.version and not said.help else "help"
        if want == "help" and not said.help:
            raise Misuse("no command was given", code="usage", hint="envlock --help")
        return Invocation(want=want, verb="", arguments=said, text=help_text())
    top.read(before)
    verb = argv[place]
    if verb == "help":
        return parse([*before, *argv[place + 1 :], "--help"])
    if verb not in registry.VERBS:
        _refuse(verb)
    return _parse_verb(verb, [*before, *argv[place + 1 :]])


def help_text() -> str:
    """Return `envlock --help`, without importing any verb."""
    width = max(map(len, registry.VERBS)) + 3
    verbs = "".join(f"  {name:<{width}}{verb.summary}\n" for name, verb in registry.VERBS.items())
    top = _globals(Parser(command="envlock", summary="", example=""))
    return f"{INTRO}{verbs}\n{top.sections()}\n{OUTRO}"


def _colour(argv: Sequence[str], environ: Mapping[str, str]) -> Colour:
    said = " ".join(argv).replace(f"{TAKES_VALUE}=", f"{TAKES_VALUE} ").split()
    values = [value for flag, value in pairwise(said) if flag == TAKES_VALUE]
    wanted = values[-1] if values else environ.get("ENVLOCK_COLOR")
    return next((known for known in COLOURS if known == wanted), "auto")


def _verb_at(argv: Sequence[str]) -> int | None:
    place = 0
    while place < len(argv) and argv[place].startswith("-"):
        place += 2 if argv[place] == TAKES_VALUE else 1
    return place if place < len(argv) else None


def _parse_verb(verb: str, rest: Sequence[str]) -> Invocation:
    module = registry.load(verb)
    parser = Parser(command=f"envlock {verb}", summary=registry.VERBS[verb].summary, example=module.EXAMPLE)
    module.options(parser)
    _globals(parser)
    if not {"-h", "--help"}.isdisjoint(before_dashes(rest)):
        return Invocation(want="help", verb=verb, arguments=Namespace(), text=parser.format_help())
    said = parser.read(rest)
    return Invocation(want="version" if said.version else "run", verb=verb, arguments=said)


def _globals(parser: Parser) -> Parser:
    where = "global options"
    parser.option("--json", text="print one JSON document, failures too", action="store_true", section=where)
    parser.option("-q", "--quiet", text="no progress", action="count", default=0, section=where)
    parser.option("-v", "--verbose", text="more; twice for tracebacks", action="count", default=0, section=where)
    parser.option(
        "--color",
        text="colour; also NO_COLOR, FORCE_COLOR",
        env="ENVLOCK_COLOR",
        type=choice(*COLOURS),
        metavar="|".join(COLOURS),
        section=where,
    )
    parser.option(
        "--offline",
        text="touch no network",
        env="ENVLOCK_OFFLINE",
        action="store_true",
        default=None,
        section=where,
    )
    parser.option(
        "--no-config",
        text="read no settings from files: [tool.envlock], uv's, pip's",
        action="store_true",
        section=where,
    )
    parser.option(
        "-V", "--version", text="print the version; with -v the engines' too", action="store_true", section=where
    )
    parser.option("-h", "--help", text="print this", action="store_true", section=where)
    return parser


def _refuse(word: str) -> NoReturn:
    known = ", ".join(registry.VERBS)
    near = suggest(word, registry.VERBS)
    raise Misuse(
        f"unknown command `{word}`{near or f' (there are {known})'}", code="unknown-command", hint="envlock --help"
    )
