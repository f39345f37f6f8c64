"""Take credentials out of whatever is about to be shown."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from envlock import address
from envlock.errors import EnvlockError, Problem
from envlock.model import Exported

__all__ = ["error", "text", "value"]

Shown = TypeVar("Shown")

# The user part is taken out too: some registries take a token in its place. One slash: a URL that was read as a path.
USERINFO = re.compile(r"(:/{1,2})[^/\s@'\"<>]+@")
# What was asked for is handed over as it is: an export without what it may not hold, and an address cut is none.
AS_IT_IS = ((Exported, "text"),)


def text(shown: str) -> str:
    """Return the text with `****` for the user info and secret query fields of any URL in it."""
    return address.SECRET.sub(r"\1=****", USERINFO.sub(r"\1****@", shown))


def value(shown: Shown) -> Shown:
    """Return an answer with every text inside it redacted."""
    return cast("Shown", _walk(shown))


def error(shown: EnvlockError) -> EnvlockError:
    """Return an error of the same class with every text inside it redacted."""
    return type(shown)(
        text(shown.message),
        code=shown.code,
        problems=cast("tuple[Problem, ...]", _walk(shown.problems)),
        hint=text(shown.hint) if shown.hint else shown.hint,
    )


def _walk(shown: Any) -> Any:
    if isinstance(shown, str):
        return text(shown)
    if isinstance(shown, tuple):
        return tuple(_walk(item) for item in shown)
    if isinstance(shown, Mapping):
        return {key: _walk(item) for key, item in shown.items()}
    if dataclasses.is_dataclass(shown) and not isinstance(shown, type):
        kept = {name for kind, name in AS_IT_IS if isinstance(shown, kind)}
        fields = (field.name for field in dataclasses.fields(shown) if field.init and field.name not in kept)
        return dataclasses.replace(shown, **{name: _walk(getattr(shown, name)) for name in fields})
    return shown
