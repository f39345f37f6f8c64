"""Fetch one small file over HTTP: the only module that does so itself. Everything large is the engines' business."""

from __future__ import annotations

import base64
import hashlib
import http.client
import urllib.request
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from envlock.errors import Refused, WorldFailed

__all__ = ["fetch"]

LIMIT_SECONDS: Final = 30.0  # without a byte
LARGEST: Final = 1 << 28  # no sdist that is read for its build requirements comes near


def fetch(url: str, *, sha256: str, environ: Mapping[str, str], what: str) -> bytes:
    """Return the bytes at a URL, which must have that hash; `what` names them in an error.

    Proxies come from `environ`. Raise `WorldFailed` (`network`) or `Refused` (`hash-mismatch`).
    """
    proxies = {
        scheme: proxy
        for scheme in ("http", "https", "no")
        if (proxy := environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY"))
    }
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    try:
        with opener.open(_request(url), timeout=LIMIT_SECONDS) as answer:
            raw: bytes = answer.read(LARGEST)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise WorldFailed(f"cannot fetch {what}: {error}", code="network", hint="envlock lock --help") from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise Refused(
            f"the index serves other bytes than its page names: {what}",
            code="hash-mismatch",
            hint="envlock lock --help",
        )
    return raw


def _request(url: str) -> urllib.request.Request:
    """Return the request, a user name and password in the URL made a header: urllib would take them for a host."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        raise ValueError(f"no HTTP address: {parts.scheme}")
    login, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit(parts._replace(netloc=host)), headers={"User-Agent": "envlock"})  # noqa: S310
    if login:
        token = base64.b64encode(unquote(login).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    return request
