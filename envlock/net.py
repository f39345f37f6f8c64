"""Ask for one thing over HTTP: the only module that does so itself. What is installed, the engines download."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import ipaddress
import os
import ssl
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Final, cast
from urllib.parse import SplitResult, urljoin, urlsplit

from envlock import address, logins, writing
from envlock.document import safe
from envlock.errors import Problem, Refused, WorldFailed

__all__ = ["LIMIT_SECONDS", "Answer", "ask", "bounded", "fetch"]

LIMIT_SECONDS: Final = 30.0  # without a byte
_CHUNK: Final = 1 << 16
_LARGEST: Final = 1 << 29  # bytes: no sdist that is read for its build requirements comes near
_SLACK: Final = 1 << 20  # bytes: what packing may add, far above what gzip ever does
_OK: Final = 200
_HOPS: Final = 5  # answers in a row that only lead on
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


def fetch(url: str, *, sha256: str, environ: Mapping[str, str], what: str, index: str | None = None) -> IO[bytes]:
    """Return the bytes at a URL, wherever it leads, as an open file without a name, which must have that hash.

    `what` names them in an error; `index` is the address that lists them, for a keyring to know. Raise `WorldFailed`
    (`network`, `answer-too-large`, `disk-full`, `not-writable`) or `Refused` (`hash-mismatch`).
    """
    with contextlib.ExitStack() as undone:
        try:
            file = undone.enter_context(tempfile.TemporaryFile(prefix="envlock-"))
            found = _kept(url, file, environ=environ, what=what, index=index)
        except OSError as error:
            raise writing.failed(error) from error
        if found != sha256:
            problem = Problem(message=f"has sha256 {found}", file=what, expected=sha256)
            message = f"the index serves other bytes than its page names: {what}"
            raise Refused(message, code="hash-mismatch", problems=(problem,), hint=_HINT)
        undone.pop_all()
    return file


def _kept(url: str, file: IO[bytes], *, environ: Mapping[str, str], what: str, index: str | None) -> str:
    """Put the bytes at a URL into a file, from its start, and return their sha256."""
    digest = hashlib.sha256()
    with ask(url, environ=environ, what=what, anywhere=True, index=index) as answer:
        if answer.status != _OK:
            raise _failed(what, f"HTTP {answer.status} {answer.reason}")
        for chunk in bounded(answer.chunks, _LARGEST, what):
            digest.update(chunk)
            file.write(chunk)
    file.seek(0)
    return digest.hexdigest()


def bounded(chunks: Iterable[bytes], largest: int, what: str) -> Iterator[bytes]:
    """Pass chunks on; raise `WorldFailed` (`answer-too-large`) before there are more than `largest` bytes of them."""
    left = largest
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise WorldFailed(f"{what} is larger than {largest >> 20} MiB", code="answer-too-large", hint=_HINT)
        yield chunk


@contextlib.contextmanager
def ask(
    url: str,
    *,
    environ: Mapping[str, str],
    what: str,
    accept: str = "*/*",
    unpack: bool = False,
    anywhere: bool = False,
    index: str | None = None,
    seconds: float = LIMIT_SECONDS,
) -> Iterator[Answer]:
    """Give what a URL answers, whatever its status; `what` names it in an error.

    With `unpack` the body may travel compressed, so whoever takes its chunks sets a bound. `anywhere` follows the
    server to another host as well, without the login: right for bytes whose hash is known, and for nothing else.
    `index` is the address of the index that leads here: a keyring knows logins by it. `seconds` is how long a server
    may stay silent. Proxies, certificates and hosts that need none (`UV_INSECURE_HOST`) are those that `environ` names,
    read as uv reads them, which asks for all the rest.

    Raise `WorldFailed`: `network`, or `redirected` where the server leads to another host and may not.
    """
    try:
        at = urlsplit(url)
    except ValueError:
        raise _failed(what, "the address is not valid") from None
    headers = {"Accept": accept, "Accept-Encoding": "gzip" if unpack else "identity"}
    for _ in range(_HOPS):
        with _response(at, environ, what=what, headers=headers, index=index, seconds=seconds) as response:
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
    at: SplitResult,
    environ: Mapping[str, str],
    *,
    what: str,
    headers: Mapping[str, str],
    index: str | None,
    seconds: float,
) -> http.client.HTTPResponse:
    """Return the answer as it stands: nothing is followed, and no status is an error."""
    proxy = _proxy(at, environ, what)
    opener = urllib.request.OpenerDirector()
    try:
        context = _context(proxy if proxy and proxy.scheme == "https" else at, environ)
        for handler in (urllib.request.HTTPHandler(), urllib.request.HTTPSHandler(context=context)):
            opener.add_handler(handler)
        request = _request(at, proxy, logins.find(at, environ, index=index), headers)
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
    """Unpack gzip, member after member (RFC 1952); what stands behind the last one has to be another."""
    unpacker, ahead = _unpacker(), 0
    for piece in pieces:
        packed, more = piece, True
        ahead += len(piece)
        while more:
            unpacker = _unpacker() if unpacker.eof and packed else unpacker
            try:
                chunk = unpacker.decompress(packed, _CHUNK)
            except zlib.error as error:
                raise _failed(what, str(error)) from error
            ahead -= len(chunk)
            yield chunk
            packed = unpacker.unused_data or unpacker.unconsumed_tail
            more = bool(packed) or len(chunk) == _CHUNK  # a full chunk may have left some behind
        if ahead > _SLACK:
            raise _failed(what, "it unpacks to nothing, without end")
    if not unpacker.eof:
        raise _failed(what, "the answer ends too early")


def _unpacker() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _led(at: SplitResult, location: str, what: str, *, anywhere: bool = False) -> SplitResult:
    """Return where an answer leads, with the login: the same host and port, or that host's own way to TLS.

    Another host is another matter: it is refused unless the answer may lead `anywhere`, and gets no login.
    """
    try:
        to = urlsplit(urljoin(at.geturl(), location))
        ends = [address.origin(end) for end in (at, to)]
    except ValueError:
        raise _failed(what, "it leads to an address that is not valid") from None
    own_tls = [(scheme, at.hostname, port) for scheme, port in address.PORTS.items()]
    if ends[0] != ends[1] and ends != own_tls:
        if anywhere:
            return to
        hosts = f"{at.scheme}://{_host(at)} leads to {to.scheme}://{_host(to)}"
        raise WorldFailed(f"cannot fetch {what}: {safe(hosts)}, another host", code="redirected", hint=_HINT)
    return to._replace(netloc=at.netloc[: -len(_host(at))] + _host(to))


def _failed(what: str, reason: str) -> WorldFailed:
    return WorldFailed(f"cannot fetch {what}: {safe(reason)}", code="network", hint=_HINT)


def _request(
    at: SplitResult, proxy: SplitResult | None, login: str, headers: Mapping[str, str]
) -> urllib.request.Request:
    """Return the request, each login in a header of its own: urllib would take one in an address for a host."""
    if at.scheme not in address.PORTS:
        raise ValueError(f"no HTTP address: {at.scheme}")
    host = _host(at)
    sent = {"User-Agent": "envlock", "Host": host, **headers}
    if login:
        sent["Authorization"] = _basic(login)
    if proxy and (login := logins.own(proxy)):
        sent["Proxy-Authorization"] = _basic(login)
    request = urllib.request.Request(at._replace(netloc=host).geturl(), headers=sent)  # noqa: S310 - see above
    if proxy:
        request.set_proxy(_host(proxy), proxy.scheme)
    return request


def _basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


# ---- certificates -------------------------------------------------------------------------------------------------


def _context(at: SplitResult, environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return whom to believe: what SSL_CERT_FILE and SSL_CERT_DIR name and is there, else this system's own."""
    file = Path(environ.get("SSL_CERT_FILE", ""))
    folders = [one for one in environ.get("SSL_CERT_DIR", "").split(os.pathsep) if one and Path(one).is_dir()]
    named = str(file) if file.is_file() else ""
    return _believing(named, os.pathsep.join(folders), anybody=_is_insecure(at, environ))


@lru_cache(maxsize=16)
def _believing(file: str, folders: str, *, anybody: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=file or None, capath=folders or None)
    if anybody:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _is_insecure(at: SplitResult, environ: Mapping[str, str]) -> bool:
    """Tell whether `UV_INSECURE_HOST` lists a host: any (`*`), or by name, where it says so with scheme and port."""
    return any(one == "*" or _is_meant(at, one) for one in environ.get("UV_INSECURE_HOST", "").split())


def _is_meant(at: SplitResult, listed: str) -> bool:
    with contextlib.suppress(ValueError):
        meant = urlsplit(listed if "://" in listed else f"//{listed}")
        port = at.port or address.PORTS.get(at.scheme)
        return meant.hostname == at.hostname and meant.scheme in {"", at.scheme} and meant.port in {None, port}
    return False


# ---- proxies ------------------------------------------------------------------------------------------------------


def _proxy(at: SplitResult, environ: Mapping[str, str], what: str) -> SplitResult | None:
    """Return the proxy for an address, None where it is asked for directly; raise `network` for one that is no use."""
    named = _said(f"{at.scheme}_proxy", environ) or _said("all_proxy", environ)
    if not named or _is_direct(at.hostname or "", _said("no_proxy", environ)):
        return None
    proxy = _proxy_at(named)
    if proxy is None:
        raise _failed(what, "the address of the proxy is not valid")
    if proxy.scheme not in address.PORTS:
        raise _failed(what, f"only a proxy that speaks HTTP can be used, not {proxy.scheme}://{_host(proxy)}")
    if proxy.scheme == at.scheme == "https":  # urllib would ask it for the tunnel in clear text, login and all
        raise _failed(what, f"TLS inside TLS is not spoken here: only http://{_host(proxy)} can be the proxy for https")
    return proxy


def _proxy_at(named: str) -> SplitResult | None:
    with contextlib.suppress(ValueError):
        parts = urlsplit(named if "://" in named else f"http://{named}")
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
