"""Ask uv which index is the default one: envlock itself knows no address that a mirror could stand in for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from envlock.engines import uv_binary
from envlock.errors import WorldFailed
from envlock.proc import Command, Runner

__all__ = ["default"]

_SECONDS: Final = 60.0
_OPTION: Final = "--index-url "


def default(run: Runner, environ: Mapping[str, str]) -> str:
    """Return the address that uv asks where nobody names one; `WorldFailed` (`engine-failed`, `engine-missing`)."""
    # Of nothing at all nothing is resolved; what is written is the address alone.
    asked = ("pip", "compile", os.devnull, "--emit-index-url", "--no-header", "--quiet", "--python", sys.executable)
    argv = (str(uv_binary.binary(environ)), "--no-config", *asked)
    env = uv_binary.environment(environ, offline=True)
    done = run(Command(argv=argv, env=env, timeout=_SECONDS))
    told = (line.removeprefix(_OPTION).strip() for line in done.stdout.splitlines() if line.startswith(_OPTION))
    address = next(told, None)
    if done.code != 0 or address is None:
        message = f"uv does not say which index it asks: {done.stderr.strip() or done.stdout.strip() or 'nothing'}"
        raise WorldFailed(message, code="engine-failed", hint="envlock --version -v")
    return address
