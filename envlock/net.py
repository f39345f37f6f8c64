"""Ask for one thing over HTTP: the only module that does so itself. What is installed, the engines download."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import netrc
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import SplitResult, unquote, urljoin, urlsplit, urlunsplit

from envlock.document import safe
from envlock.errors import Refused, WorldFailed

__all__ = ["Answer", "ask", "fetch"]

LIMIT_SECONDS: Final = 30.0  # without a byte
LARGEST: Final = 1 << 28  # no sdist that is read for its build requirements comes near
_CHUNK: Final = 1 << 16
_HOPS: Final = 5  # answers in a row that only lead on
_PORTS: Final = {"http": 80, "https": 443}
_HINT: Final = "envlock detect -v"  # shows which address an index name stands for, and who says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answers: `url` is where it comes from, without login; `chunks` are its bytes, 64 KiB at most each.

    Taking them raises `WorldFailed` (`network`) where the body ends too early.
    """

    status: int
    reason: str
    url: str
    content_type: str
    chunks: Iterator[bytes]


def fetch(url: str, *, sha256: str, environ: Mapping[str, str], what: str) -> bytes:
    """Return the bytes at a URL, which must have that hash; `what` names them in an error.

    Proxies come from `environ`. Raise `WorldFailed` (`network`) or `Refused` (`hash-mismatch`).
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies(environ)))
    try:
        with opener.open(_request(url, environ), timeout=LIMIT_SECONDS) as answer:
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


@contextlib.contextmanager
def ask(
    url: str,
    *,
    environ: Mapping[str, str],
    what: str,
    accept: str = "*/*",
    unpack: bool = False,
    seconds: float = LIMIT_SECONDS,
) -> Iterator[Answer]:
    """Give what a URL answers, whatever its status; `what` names it in an error.

    With `unpack` the body may travel compressed, so whoever takes its chunks sets a bound. `seconds` is how long the
    server may stay silent. Raise `WorldFailed`: `network`, or `redirected` where the server leads to another host.
    """
    try:
        at = urlsplit(url)
    except ValueError:
        raise _failed(what, "the address is not valid") from None
    for _ in range(_HOPS):
        with _response(at, environ, what=what, accept=accept, unpack=unpack, seconds=seconds) as response:
            location = response.headers.get("Location")
            if location is None or response.status not in {301, 302, 303, 307, 308}:
                packed = unpack and response.headers.get("Content-Encoding", "identity") != "identity"
                pieces = _pieces(response, what)
                yield Answer(
                    status=response.status,
                    reason=safe(response.reason),
                    url=at._replace(netloc=_host(at)).geturl(),
                    content_type=response.headers.get("Content-Type", ""),
                    chunks=_unpacked(pieces, what) if packed else pieces,
                )
                return
        at = _led(at, location, what)
    raise _failed(what, "it leads on and on")


def _response(
    at: SplitResult, environ: Mapping[str, str], *, what: str, accept: str, unpack: bool, seconds: float
) -> http.client.HTTPResponse:
    """Return the answer as it stands: nothing is followed, and no status is an error."""
    proxies = _proxies(environ)
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(proxies), urllib.request.UnknownHandler()):
        opener.add_handler(handler)
    opener.add_handler(urllib.request.HTTPHandler())
    opener.add_handler(urllib.request.HTTPSHandler())
    try:
        request = _request(at.geturl(), environ)
        request.add_header("Accept", accept)
        request.add_header("Accept-Encoding", "gzip" if unpack else "identity")
        return cast("http.client.HTTPResponse", opener.open(request, timeout=seconds))
    except (ValueError, http.client.InvalidURL):  # either may repeat the address, login and all
        raise _failed(what, "the address is not valid") from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        proxy = _host(urlsplit(proxies.get(at.scheme, "")))
        raise _failed(what, f"{reason} (through the proxy {proxy})" if proxy else str(reason)) from error


def _pieces(response: http.client.HTTPResponse, what: str) -> Iterator[bytes]:
    try:
        while piece := response.read(_CHUNK):
            yield piece
    except (OSError, http.client.HTTPException) as error:
        raise _failed(what, str(error)) from error
    if response.length:  # `read` with a size keeps silent about it
        raise _failed(what, "the answer ends too early")


def _unpacked(pieces: Iterator[bytes], what: str) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    for piece in pieces:
        packed, more = piece, True
        while more:
            try:
                chunk = unpacker.decompress(packed, _CHUNK)
            except zlib.error as error:
                raise _failed(what, str(error)) from error
            yield chunk
            packed = unpacker.unconsumed_tail
            more = bool(packed) or len(chunk) == _CHUNK  # a full chunk may have left some behind
    if not unpacker.eof:
        raise _failed(what, "the answer ends too early")


def _led(at: SplitResult, location: str, what: str) -> SplitResult:
    """Return where an answer leads, with the login: the same host and port, or that host's own way to TLS."""
    try:
        to = urlsplit(urljoin(at.geturl(), location))
        ends = [(end.scheme, end.port or _PORTS.get(end.scheme)) for end in (at, to)]
    except ValueError:
        raise _failed(what, "it leads to an address that is not valid") from None
    if to.hostname != at.hostname or (ends[0] != ends[1] and ends != [*_PORTS.items()]):
        hosts = f"{at.scheme}://{_host(at)} leads to {to.scheme}://{_host(to)}"
        raise WorldFailed(f"cannot fetch {what}: {safe(hosts)}, another host", code="redirected", hint=_HINT)
    return to._replace(netloc=at.netloc[: -len(_host(at))] + _host(to))


def _failed(what: str, reason: str) -> WorldFailed:
    return WorldFailed(f"cannot fetch {what}: {safe(reason)}", code="network", hint=_HINT)


def _proxies(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        scheme: proxy
        for scheme in ("http", "https", "no")
        if (proxy := environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY"))
    }


def _request(url: str, environ: Mapping[str, str]) -> urllib.request.Request:
    """Return the request, with the login in the URL or in netrc as a header: urllib would take one for a host."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError(f"no HTTP address: {parts.scheme}")
    own, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit(parts._replace(netloc=host)), headers={"User-Agent": "envlock"})  # noqa: S310
    if login := unquote(own) or _netrc(parts.hostname or "", environ):
        token = base64.b64encode(login.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    return request


def _netrc(host: str, environ: Mapping[str, str]) -> str:
    """Return `user:password` for a host from the file that $NETRC names, else from ~/.netrc; nothing if it has none."""
    with contextlib.suppress(OSError, ValueError, netrc.NetrcParseError):
        found = netrc.netrc(environ.get("NETRC") or f"{environ.get('HOME', '')}/.netrc").authenticators(host)
        return f"{found[0]}:{found[2]}" if found else ""
    return ""


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]
