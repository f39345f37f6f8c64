"""Read the index pages that a failed resolver speaks of, to tell a conflict from an index that is out of order.

To a resolver a page that lists nothing is a package without versions, whether it is a login form or a mirror's fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from packaging.utils import canonicalize_name

from envlock import index
from envlock.engines import uv_index
from envlock.engines.resolver import Workbench
from envlock.errors import EnvlockError, Refused, WorldFailed
from envlock.index import Index
from envlock.index_page import IndexFile, shown
from envlock.request import DEFAULT_INDEX, Resolution

__all__ = ["find"]

_LOOKED_AT: Final = 8  # pages, at most
_NAME: Final = r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]|[A-Za-z0-9])"
# As uv 0.13 and pip 26 say it: what has no version, whose METADATA is no good, and a page's address.
_DOUBTFUL: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_NAME} was not found in the package registry",
        rf"no versions? of {_NAME}",
        rf"{_NAME}==\S+ has (?:no publish time|(?:an )?invalid|inconsistent)",
        rf"`{_NAME}` was filtered by `exclude-newer`",
        rf"satisfies the requirement {_NAME}.*\(from versions: none\)",
        rf"https?://\S+/{_NAME}/`",
    )
)


def find(error: EnvlockError, asked: Resolution, bench: Workbench) -> EnvlockError | None:
    """Return what is wrong with an index that `error` comes from; None where the pages bear it out.

    `WorldFailed` (`index-undated`) where the question has a date and the page none; whatever else `index.files` raises.
    A package that is not listed is one more fact of a conflict, unless `asked.pins` says that it was there before.
    """
    if bench.offline or error.code not in {"unsatisfiable", "engine-failed"}:
        return None
    names = list(dict.fromkeys(_named(str(problem) for problem in error.problems)))[:_LOOKED_AT]
    where = dict(bench.indexes)
    if names and DEFAULT_INDEX not in where:
        where[DEFAULT_INDEX] = uv_index.default(bench.run, bench.environ)
    found = (_fault(name, asked, bench, where[asked.indexes.get(name, DEFAULT_INDEX)]) for name in names)
    return next((fault for fault in found if fault), None)


def _named(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        for pattern in _DOUBTFUL:
            yield from (str(canonicalize_name(one["name"])) for one in pattern.finditer(text))


def _fault(name: str, asked: Resolution, bench: Workbench, url: str) -> EnvlockError | None:
    place = Index(name=asked.indexes.get(name, DEFAULT_INDEX), url=url)
    try:
        listed = index.files(name, place, environ=bench.environ)
    except WorldFailed as fault:
        return fault
    except Refused as fault:
        return fault if fault.code != "index-lacks-package" or name in asked.pins else None
    return _undated(name, listed, place, asked)


def _undated(name: str, listed: Iterable[IndexFile], place: Index, asked: Resolution) -> EnvlockError | None:
    if asked.exclude_newer is None or name in asked.indexes or any(file.uploaded for file in listed):
        return None
    day = f"{asked.exclude_newer:%Y-%m-%d}"
    return WorldFailed(
        f"the index `{place.name}` ({shown(place.url)}) does not say when the files of `{name}` were uploaded, and the"
        f" profile wants those before {day} only",
        code="index-undated",
        hint=f"ENVLOCK_INDEX_{place.name.upper()}=https://index.example/simple/ envlock lock PROFILE",
    )
