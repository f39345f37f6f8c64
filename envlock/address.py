"""Addresses of indexes and files: whose login goes where, and which part of one opens a door. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import SplitResult, urlsplit

__all__ = ["PORTS", "SECRET", "carried", "origin", "without_secrets"]

PORTS: Final = {"http": 80, "https": 443}
"""Where a scheme is served unless an address says otherwise."""

SECRET: Final = re.compile(
    r"(?i)(?<=[?&])([\w.-]*(?:token|api[-_]?key|accesskeyid|passw(?:or)?d|secret|signature|credential)"
    r"|(?:[\w.-]*[-_])?(?:sig|policy|key-pair-id))=[^&\s'\"<>]+"
)
"""A field of a query, in whatever text, that opens a door; its name is the first group."""


def origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port; `ValueError` where the port is no number."""
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


def carried(url: str, indexes: Iterable[str]) -> str:
    """Return the URL with the login of the first index that is served from the very same scheme, host and port.

    A URL of any other host stays as it is, and so does one that would carry the login another way than the index's own:
    in clear text, say.
    """
    try:
        parts = urlsplit(url)
        for index in map(urlsplit, indexes):
            login = index.netloc.rpartition("@")[0]
            if login and origin(index) == origin(parts):
                return parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}").geturl()
    except ValueError:  # of neither can be said where it leads
        return url
    return url


def without_secrets(url: str) -> str:
    """Return a URL without its query where a field of that is secret: one that is signed is of no use without it."""
    return url.partition("?")[0] if SECRET.search(url) else url
