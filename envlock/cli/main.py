"""From argv to an exit code: parse, call, render. The only `sys.exit`, and the only reader of `os.environ`."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from envlock.cli import invocation, redact, signals, terminal
from envlock.cli.invocation import Invocation, Peek
from envlock.cli.terminal import Terminal, printable
from envlock.errors import EnvlockError, Interrupted, Misuse, WorldFailed

if TYPE_CHECKING:
    from envlock.model import Answer

__all__ = ["entry", "main"]

NO_THREAD = "can't start new thread"  # Python's words where there is no memory for another stack
RED, CYAN, RESET = "\x1b[1;31m", "\x1b[36m", "\x1b[0m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a run has to say: a result for programs, a text for people, an error beside or instead of them."""

    command: str | None = None
    result: dict[str, Any] | None = None
    text: str = ""
    error: EnvlockError | None = None

    @property
    def exit(self) -> int:
        """Return the exit code."""
        return self.error.exit if self.error else 0


def entry() -> None:
    """Run as a process: SIGTERM and SIGHUP end it as Ctrl-C does, and a reader that went away is no error."""
    signals.hold()
    signals.interrupt()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        # A stream that the caller closed (`>&-`) is None.
        code = main(
            sys.argv[1:], environ=os.environ, cwd=_here(), stdout=sys.stdout or nowhere, stderr=sys.stderr or nowhere
        )
    sys.exit(code)


def _here() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None


def main(argv: Sequence[str], *, environ: Mapping[str, str], cwd: Path | None, stdout: TextIO, stderr: TextIO) -> int:
    """Do what argv says and return the exit code; with `--json`, stdout gets exactly one document, whatever happens.

    `cwd` is None where the current folder is gone: whatever needs one fails then (`cwd-missing`).
    """
    peek = invocation.peek(argv, environ)
    said = _say(argv, peek, environ=environ, cwd=cwd, stdout=stdout, stderr=stderr)
    text = _document(said) if peek.json else said.text
    lost = _write(stdout, text) if text else None
    error = lost or (None if peek.json else said.error)
    if error is not None:
        look = terminal.look(stderr, mode=peek.colour, environ=environ)
        _write(stderr, ("\n" if text and not lost else "") + _explain(error, colour=look.colour))
    return lost.exit if lost else said.exit


def _say(
    argv: Sequence[str], peek: Peek, *, environ: Mapping[str, str], cwd: Path | None, stdout: TextIO, stderr: TextIO
) -> Said:
    try:
        with signals.heard():
            return _answer(invocation.parse(argv), peek, environ=environ, cwd=cwd, stdout=stdout, stderr=stderr)
    except EnvlockError as error:
        return Said(command=peek.verb, error=redact.error(_hinted(error, peek.verb)))
    except KeyboardInterrupt:
        return Said(command=peek.verb, error=Interrupted("interrupted", code="interrupted"))
    except Exception as error:  # noqa: BLE001  whatever it is, it is our bug, and it is said in one line
        if isinstance(error, MemoryError) or str(error) == NO_THREAD:
            return Said(command=peek.verb, error=_starved(error))
        if peek.verbosity > 1:
            _write(stderr, printable(redact.text("".join(traceback.format_exception(error)))))
        return Said(command=peek.verb, error=redact.error(_bug(error)))


def _answer(
    asked: Invocation, peek: Peek, *, environ: Mapping[str, str], cwd: Path | None, stdout: TextIO, stderr: TextIO
) -> Said:
    if asked.want == "help":
        return Said(command=asked.verb or None, result={"help": asked.text}, text=asked.text)
    if asked.want == "version":
        return _version(asked.verb or None, import_module("envlock.cli.versions").found(verbose=peek.verbosity > 0))
    if cwd is None:
        raise WorldFailed("the current folder is gone: nothing can be found from it", code="cwd-missing", hint="cd")
    # Help and version need none of this: only a verb that is to be done pays for it.
    done = import_module("envlock.cli.session").perform(asked, peek, environ=environ, cwd=cwd, stderr=stderr)
    if peek.json:
        return Said(command=asked.verb, result=import_module("envlock.wire").result(done.answer), error=done.error)
    look = terminal.look(stdout, mode=done.colour, environ=environ)
    return Said(command=asked.verb, text=_render(done.answer, look, verbose=peek.verbosity > 0), error=done.error)


def _document(said: Said) -> str:
    wire = import_module("envlock.wire")  # as in `_answer`
    document = wire.document(command=said.command, code=said.exit, result=said.result, error=said.error)
    return json.dumps(document, indent=2) + "\n"


def _render(answer: Answer, look: Terminal, *, verbose: bool) -> str:
    # rich costs more than all the rest of a start-up: only an answer for a person pays for it.
    report = import_module("envlock.report")
    return str(report.render(answer, terminal=look, verbose=verbose))


def _version(command: str | None, versions: Mapping[str, str | None]) -> Said:
    engines = {name: version for name, version in versions.items() if name != "envlock"}
    lines = [f"{name} {version or 'not found'}\n" for name, version in versions.items()]
    result = {"version": versions["envlock"], "engines": engines}
    return Said(command=command, result=result, text="".join(lines))


def _hinted(error: EnvlockError, verb: str | None) -> EnvlockError:
    """Return the error with a command to run, where whoever raised it had no better one and the asking was wrong."""
    if error.hint is None and isinstance(error, Misuse):
        hint = f"envlock {verb} --help" if verb else "envlock --help"
        return Misuse(error.message, code=error.code, problems=error.problems, hint=hint)
    return error


def _starved(error: Exception) -> EnvlockError:
    said = str(error) or "an allocation failed"
    return WorldFailed(f"this process gets no more memory: {said}", code="memory", hint="ulimit -a")


def _bug(error: Exception) -> EnvlockError:
    spent = import_module("envlock.limits").exhausted(error) if isinstance(error, OSError) else None
    if isinstance(spent, EnvlockError):
        return spent
    said = " ".join(str(error).split())
    message = f"a bug in envlock: {type(error).__name__}: {said}"
    return EnvlockError(message, code="internal", hint="envlock --version -v")


def _explain(error: EnvlockError, *, colour: bool) -> str:
    """Return `error: …`, the problems one a line, and the command to run."""

    def paint(text: str, code: str) -> str:
        return f"{code}{text}{RESET}" if colour else text

    blocks = [f"{paint('error:', RED)} {printable(error.message)}\n"]
    if error.problems:
        blocks.append("".join(f"  {printable(str(problem))}\n" for problem in error.problems))
    if error.hint:
        blocks.append(f"{paint('hint:', CYAN)} {printable(error.hint)}\n")
    return "\n".join(blocks)


def _write(stream: TextIO, text: str) -> EnvlockError | None:
    """Write and flush; return the error of a stream that takes nothing (`output-lost`), None where its reader left.

    Whoever waits for a reader that does not read may be interrupted.
    """
    try:
        with signals.heard():
            stream.write(text)
            stream.flush()
    except KeyboardInterrupt:
        _drop(stream)
        return Interrupted("interrupted", code="interrupted")
    except OSError as error:
        _drop(stream)
        if isinstance(error, BrokenPipeError):
            return None
        reason = error.strerror or str(error)
        return WorldFailed(f"the answer cannot be written: {reason}", code="output-lost", hint="df -h .")
    return None


def _drop(stream: TextIO) -> None:
    """Send what the stream still holds to nobody, or it would be tried again when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
