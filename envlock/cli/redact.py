"""Take credentials out of whatever is about to be shown."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from envlock.errors import EnvlockError, Problem

__all__ = ["error", "text", "value"]

Shown = TypeVar("Shown")

# The user part is taken out too: some registries take a token in its place. One slash: a URL that was read as a path.
USERINFO = re.compile(r"(:/{1,2})[^/\s@'\"<>]+@")
SECRET_FIELD = re.compile(r"(?i)(?<=[?&])((?:\w+_)?token|api_?key|password|signature)=[^&\s'\"<>]+")


def text(shown: str) -> str:
    """Return the text with `****` for the user info and secret query fields of any URL in it."""
    return SECRET_FIELD.sub(r"\1=****", USERINFO.sub(r"\1****@", shown))


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
        fields = (field.name for field in dataclasses.fields(shown) if field.init)
        return dataclasses.replace(shown, **{name: _walk(getattr(shown, name)) for name in fields})
    return shown
