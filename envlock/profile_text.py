"""Write a profile as people write one: keys in their order, a requirement a line, remarks where they help. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from envlock.adopted import Build
from envlock.adopting import Draft
from envlock.profile_keys import SCHEMA

__all__ = ["render"]

_PLATFORM: Final = "linux-x86_64"
_BLANKS: Final = re.compile(r"[^ -~]+|\s+")


def render(draft: Draft, *, name: str, summary: str, origin: str) -> str:
    """Return the text; `origin` names the file that it comes from."""
    head = [
        f"# From {_plain(origin)}, by `envlock init`.",
        f"schema = {SCHEMA}",
        f"name = {_quoted(name)}",
        f"summary = {_quoted(summary)}",
        f"python = {_quoted(draft.python)}",
        f"platforms = {_list([_PLATFORM])}",
        f"backends = {_list(build.name for build in draft.builds)}    # order of preference",
        "requires = [",
        *_requires(draft),
        "]",
    ]
    return "\n".join([*head, *(line for build in draft.builds for line in _build(build, draft))]) + "\n"


def _requires(draft: Draft) -> Iterator[str]:
    for text, remark in draft.requires.items():
        yield f"    {_quoted(text)}," + (f"    # {_plain(remark)}" if remark else "")


def _build(build: Build, draft: Draft) -> Iterator[str]:
    """Yield the table of a backend, where it differs from what is said for all."""
    if draft.torch is None or (build.index and not build.pypi):
        return
    yield ""
    yield f"[backend.{build.name}]"
    if not build.index:
        yield "python = []    # no index of PyTorch's has that build"
    what = "computes on a CPU too" if build.name == "cpu" else f"{draft.torch} is a {build.name} build"
    yield f"pypi-python = {_list([draft.python])}    # PyPI's own torch {what}"


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    """Return a TOML basic string: a JSON one, but for the one character that TOML wants escaped as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(text: str) -> str:
    """Return a text as a comment holds it: on one line, without what a terminal would act on."""
    return _BLANKS.sub(" ", text).strip()
