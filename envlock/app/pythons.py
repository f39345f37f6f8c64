"""An interpreter to make an environment with: one that is here, else one that uv fetches."""

from __future__ import annotations

from pathlib import Path

from envlock import env, interpreters
from envlock.app.world import World
from envlock.engines import uv_binary
from envlock.env import Tools
from envlock.errors import Problem, WorldFailed

__all__ = ["find"]


def find(world: World, version: str, tools: Tools, *, near: Path) -> Path:
    """Return an interpreter of this machine, else one that uv fetches."""
    world.reporter.stage(f"Looking for Python {version}")
    found = interpreters.find(run=world.run, environ=world.environ, only=(version,), note=world.reporter.log)
    chosen = interpreters.choose_for(version, found)
    if chosen is not None:
        world.reporter.log(f"Python {chosen.version} from {chosen.origin}: {chosen.path}")
        return chosen.path
    others = interpreters.find(run=world.run, environ=world.environ)
    looked = tuple(Problem(message=f"{row.version}, from {row.origin}", file=str(row.path)) for row in others)
    looked = (Problem(message="looked on PATH and at what pyenv, uv and conda have installed; found:"), *looked)
    if tools.offline:
        raise _missing(world, version, "and offline none is fetched", looked)
    world.reporter.stage(f"Fetching Python {version}")
    try:
        return env.fetch_python(version, tools, home=near)
    except WorldFailed as error:
        raise _missing(world, version, "and uv could not fetch one", (*looked, *error.problems)) from error


def _missing(world: World, version: str, why: str, problems: tuple[Problem, ...]) -> WorldFailed:
    return WorldFailed(
        f"there is no Python {version} here, {why}",
        code="python-missing",
        problems=problems,
        hint=uv_binary.command(world.environ, "python", "install", version),
    )
