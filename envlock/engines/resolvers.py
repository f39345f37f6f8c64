"""The resolvers there are, by the name that `--resolver` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from envlock.engines import pip_tools, uv
from envlock.engines.resolver import Resolver

__all__ = ["RESOLVERS"]

RESOLVERS: Final[Mapping[str, Resolver]] = {"uv": uv, "pip-tools": pip_tools}
