"""Ask for one thing over HTTP: the only module that does so itself. What is installed, the engines download."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import ipaddress
import itertools
import netrc
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from envlock.document import safe
from envlock.errors import Problem, Refused, WorldFailed

__all__ = ["Answer", "ask", "fetch"]

LIMIT_SECONDS: Final = 30.0  # without a byte
_CHUNK: Final = 1 << 16
_MOST: Final = 1 << 12  # chunks: no sdist that is read for its build requirements comes near
_OK: Final = 200
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
    """Return the bytes at a URL, wherever it leads, which must have that hash; `what` names them in an error.

    Raise `WorldFailed` (`network`) or `Refused` (`hash-mismatch`).
    """
    with ask(url, environ=environ, what=what, anywhere=True) as answer:
        if answer.status != _OK:
            raise _failed(what, f"HTTP {answer.status} {answer.reason}")
        raw = b"".join(itertools.islice(answer.chunks, _MOST))
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        problem = Problem(message=f"has sha256 {found}", file=what, expected=sha256)
        message = f"the index serves other bytes than its page names: {what}"
        raise Refused(message, code="hash-mismatch", problems=(problem,), hint=_HINT)
    return raw


@contextlib.contextmanager
def ask(
    url: str,
    *,
    environ: Mapping[str, str],
    what: str,
    accept: str = "*/*",
    unpack: bool = False,
    anywhere: bool = False,
    seconds: float = LIMIT_SECONDS,
) -> Iterator[Answer]:
    """Give what a URL answers, whatever its status; `what` names it in an error.

    With `unpack` the body may travel compressed, so whoever takes its chunks sets a bound. `anywhere` follows the
    server to another host as well, without the login. `seconds` is how long a server may stay silent. Proxies are those
    that `environ` names, read as uv reads them, which asks for all the rest.

    Raise `WorldFailed`: `network`, or `redirected` where the server leads to another host and may not.
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
        at = _led(at, location, what, anywhere=anywhere)
    raise _failed(what, "it leads on and on")


def _response(
    at: SplitResult, environ: Mapping[str, str], *, what: str, accept: str, unpack: bool, seconds: float
) -> http.client.HTTPResponse:
    """Return the answer as it stands: nothing is followed, and no status is an error."""
    proxy = _proxy(at, environ, what)
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()):
        opener.add_handler(handler)
    try:
        request = _request(at, proxy, environ)
        request.add_header("Accept", accept)
        request.add_header("Accept-Encoding", "gzip" if unpack else "identity")
        return cast("http.client.HTTPResponse", opener.open(request, timeout=seconds))
    except (ValueError, http.client.InvalidURL):  # either may repeat the address, login and all
        raise _failed(what, "the address is not valid") from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise _failed(what, f"{reason} (through the proxy {_host(proxy)})" if proxy else str(reason)) from error


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


def _led(at: SplitResult, location: str, what: str, *, anywhere: bool = False) -> SplitResult:
    """Return where an answer leads, with the login: the same host and port, or that host's own way to TLS.

    Another host is another matter: it is refused unless the answer may lead `anywhere`, and gets no login.
    """
    try:
        to = urlsplit(urljoin(at.geturl(), location))
        ends = [(end.scheme, end.port or _PORTS.get(end.scheme)) for end in (at, to)]
    except ValueError:
        raise _failed(what, "it leads to an address that is not valid") from None
    if to.hostname != at.hostname or (ends[0] != ends[1] and ends != [*_PORTS.items()]):
        if anywhere:
            return to
        hosts = f"{at.scheme}://{_host(at)} leads to {to.scheme}://{_host(to)}"
        raise WorldFailed(f"cannot fetch {what}: {safe(hosts)}, another host", code="redirected", hint=_HINT)
    return to._replace(netloc=at.netloc[: -len(_host(at))] + _host(to))


def _failed(what: str, reason: str) -> WorldFailed:
    return WorldFailed(f"cannot fetch {what}: {safe(reason)}", code="network", hint=_HINT)


def _request(at: SplitResult, proxy: SplitResult | None, environ: Mapping[str, str]) -> urllib.request.Request:
    """Return the request, each login in a header of its own: urllib would take one in an address for a host."""
    if at.scheme not in _PORTS:
        raise ValueError(f"no HTTP address: {at.scheme}")
    host = _host(at)
    headers = {"User-Agent": "envlock", "Host": host}
    if login := _login(at) or _netrc(at.hostname or "", environ):
        headers["Authorization"] = _basic(login)
    if proxy and (login := _login(proxy)):
        headers["Proxy-Authorization"] = _basic(login)
    request = urllib.request.Request(at._replace(netloc=host).geturl(), headers=headers)  # noqa: S310 - see above
    if proxy:
        request.set_proxy(_host(proxy), proxy.scheme)
    return request


# ---- proxies ------------------------------------------------------------------------------------------------------


def _proxy(at: SplitResult, environ: Mapping[str, str], what: str) -> SplitResult | None:
    """Return the proxy for an address, None where it is asked for directly; raise `network` for one that is no use."""
    address = _said(f"{at.scheme}_proxy", environ) or _said("all_proxy", environ)
    if not address or _is_direct(at.hostname or "", _said("no_proxy", environ)):
        return None
    proxy = _proxy_at(address)
    if proxy is None:
        raise _failed(what, "the address of the proxy is not valid")
    if proxy.scheme not in _PORTS:
        raise _failed(what, f"only a proxy that speaks HTTP can be used, not {proxy.scheme}://{_host(proxy)}")
    return proxy


def _proxy_at(address: str) -> SplitResult | None:
    with contextlib.suppress(ValueError):
        parts = urlsplit(address if "://" in address else f"http://{address}")
        return parts if parts.hostname and parts.port != 0 else None
    return None


def _said(name: str, environ: Mapping[str, str]) -> str:
    """Return what a variable says; the one in capital letters goes first, also where it says nothing."""
    return environ.get(name.upper(), environ.get(name, ""))


def _is_direct(host: str, listed: str) -> bool:
    """Tell whether `no_proxy` lists a host: by name, with all below it, by address or network, or with `*`."""
    names = [name.strip().lower().removeprefix(".") for name in listed.split(",")]
    return any(name == "*" or _is_in(host, name) for name in names if name)


def _is_in(host: str, name: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return host == name or host.endswith(f".{name}")


# ---- logins -------------------------------------------------------------------------------------------------------


def _basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def _login(parts: SplitResult) -> str:
    return unquote(parts.netloc.rpartition("@")[0])


def _netrc(host: str, environ: Mapping[str, str]) -> str:
    """Return `user:password` for a host from the file that $NETRC names, else from ~/.netrc; nothing if it has none."""
    with contextlib.suppress(OSError, ValueError, netrc.NetrcParseError):
        found = netrc.netrc(environ.get("NETRC") or f"{environ.get('HOME', '')}/.netrc").authenticators(host)
        return f"{found[0]}:{found[2]}" if found else ""
    return ""


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]
