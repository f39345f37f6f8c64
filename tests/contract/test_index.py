"""What an index does wrong over real HTTP becomes one clear error that names it, and a login is never in there."""

from __future__ import annotations

import base64
import gc
import gzip
import hashlib
import ssl
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uv

from envlock import index as indexes
from envlock import net
from envlock.errors import EnvlockError, Refused, WorldFailed
from envlock.index import DOWNLOADED, Index
from envlock.index_page import READ, IndexFile
from tests.servers import certificates
from tests.servers import index as served
from tests.servers.index import Fault
from tests.servers.wheels import make_wheel

WHEEL = "torch-2.4.1+cu121-cp310-cp310-linux_x86_64.whl"
ESCAPED = WHEEL.replace("+", "%2B")
PAGE = f'<!DOCTYPE html><a href="../{ESCAPED}#sha256={"a" * 64}">{WHEEL}</a>'.encode()
METADATA = b"Metadata-Version: 2.1\nName: torch\nVersion: 2.4.1+cu121\nRequires-Dist: triton (==3.0.0)\n\ntext\n"
SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Canned:
    """One answer: `length` is what the header promises, if it is not the truth."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/html"})
    length: int | None = None


class Shelf(ThreadingHTTPServer):
    """A server that answers each path with what stands there, over TLS where it has a context; a proxy, if asked."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Canned] = {}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet about clients that hang up or refuse the certificate."""

    @property
    def headers(self) -> list[str | None]:
        """The logins that came, in order."""
        return [headers.get("Authorization") for _, headers in self.asked]


class Handler(BaseHTTPRequestHandler):
    server: Shelf

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Write no log."""

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        answer = self.server.answers.get(self.path, Canned(status=404))
        self.send_response(answer.status)
        for key, value in answer.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
        self.end_headers()
        self.wfile.write(answer.body)


def running(shelf: Shelf) -> Iterator[Shelf]:
    thread = threading.Thread(target=shelf.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield shelf
    shelf.shutdown()
    shelf.server_close()
    thread.join()


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    yield from running(Shelf())


@pytest.fixture
def elsewhere() -> Iterator[Shelf]:
    yield from running(Shelf())


@pytest.fixture
def cu121(shelf: Shelf) -> Index:
    return Index(name="cu121", url=f"http://{shelf.address}/whl/cu121/")


def listed(index: Index, environ: Mapping[str, str] | None = None) -> tuple[IndexFile, ...]:
    return indexes.files("torch", index, environ=environ or {}, seconds=SECONDS)


def failure(attempt: Callable[[], Any], kind: type[EnvlockError], code: str) -> str:
    """Return the whole text of the error, after a look at what every one of them must have."""
    with pytest.raises(EnvlockError) as caught:
        attempt()
    error = caught.value
    text = "\n".join([error.message, *map(str, error.problems)])
    assert (type(error), error.code) == (kind, code), text
    assert "`cu121`" in text
    assert error.hint == "envlock detect -v"
    assert "secret" not in text + str(error.__cause__)
    return text


def on_page(shelf: Shelf, cu121: Index, canned: Canned) -> tuple[IndexFile, ...]:
    shelf.answers["/whl/cu121/torch/"] = canned
    return listed(cu121)


# ---- pages ----------------------------------------------------------------------------------------------------------


def test_a_page_is_asked_for_by_the_normal_name_and_read(shelf: Shelf, cu121: Index) -> None:
    shelf.answers["/whl/cu121/torch/"] = Canned(body=PAGE)
    for url in (cu121.url, cu121.url.rstrip("/")):
        (file,) = indexes.files("Torch", replace(cu121, url=url), environ={})
        assert (file.file, file.url, file.evidence) == (WHEEL, f"{cu121.url}{ESCAPED}", READ)
    assert "vnd.pypi.simple.v1+json" in shelf.asked[0][1]["Accept"]


def test_html_and_json_of_one_index_say_the_same(wheelhouse: Path) -> None:
    wheel = make_wheel(wheelhouse, "torch", "2.4.1+cu121", requires_python=">=3.8")
    with served.Index(wheelhouse) as running_index:
        index = Index(name="cu121", url=running_index.url)
        (file,) = listed(index)
        found = indexes.metadata(file, index, environ={})
    assert (file.file, file.sha256) == (wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert (file.size, file.requires_python, file.metadata) == (wheel.stat().st_size, ">=3.8", True)
    assert b"Name: torch\nVersion: 2.4.1+cu121\n" in found


def test_a_page_may_travel_packed(shelf: Shelf, cu121: Index) -> None:
    rows = PAGE + b"".join(PAGE.replace(b"2.4.1", b"2.4.1.post%d" % one) for one in range(2000))
    headers = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    assert len(on_page(shelf, cu121, Canned(body=gzip.compress(rows), headers=headers))) == 2001
    assert len(on_page(shelf, cu121, Canned(body=gzip.compress(PAGE + b" " * 300_000), headers=headers))) == 1


PACKED = {"Content-Type": "text/html", "Content-Encoding": "gzip"}


def test_a_page_may_be_packed_in_parts(shelf: Shelf, cu121: Index) -> None:
    half = len(PAGE) // 2
    parts = gzip.compress(PAGE[:half]) + gzip.compress(b"") + gzip.compress(PAGE[half:])
    (file,) = on_page(shelf, cu121, Canned(body=parts, headers=PACKED))
    assert file.sha256 == "a" * 64


@pytest.mark.parametrize("behind", [b"trailing", gzip.compress(PAGE)[:-4], gzip.compress(b"") * (1 << 16)])
def test_what_stands_behind_a_packed_page_is_not_passed_over(behind: bytes, shelf: Shelf, cu121: Index) -> None:
    packed = Canned(body=gzip.compress(PAGE) + behind, headers=PACKED)
    assert "cannot fetch the page of `torch`" in failure(lambda: on_page(shelf, cu121, packed), WorldFailed, "network")


@pytest.mark.parametrize("status", [404, 410])
def test_an_index_without_the_package(status: int, shelf: Shelf, cu121: Index) -> None:
    text = failure(lambda: on_page(shelf, cu121, Canned(status=status)), Refused, "index-lacks-package")
    assert text == f"the page of `torch` on the index `cu121` ({cu121.url}torch/) is not there"


def test_a_page_that_lists_nothing(shelf: Shelf, cu121: Index) -> None:
    empty = Canned(
        body=b'{"meta": {"api-version": "1.0"}, "name": "torch", "files": []}',
        headers={"Content-Type": "application/vnd.pypi.simple.v1+json"},
    )
    assert "lists no file" in failure(lambda: on_page(shelf, cu121, empty), Refused, "index-lacks-package")


@pytest.mark.parametrize("status", [204, 400, 401, 403, 500, 503])
def test_an_index_that_does_not_answer_the_question(status: int, shelf: Shelf, cu121: Index) -> None:
    text = failure(lambda: on_page(shelf, cu121, Canned(status=status)), WorldFailed, "network")
    assert f"`torch` on the index `cu121` ({cu121.url}torch/): HTTP {status} " in text


def test_garbage_in_place_of_a_page(shelf: Shelf, cu121: Index) -> None:
    text = failure(lambda: on_page(shelf, cu121, Canned(body=b"\0\xffjunk")), WorldFailed, "index-page-invalid")
    assert f"{cu121.url}torch/" in text
    assert "expected files of `torch`" in text
    binary = Canned(body=PAGE, headers={"Content-Type": "application/zip"})
    assert "application/zip" in failure(lambda: on_page(shelf, cu121, binary), WorldFailed, "index-page-invalid")


def test_one_file_with_two_hashes(shelf: Shelf, cu121: Index) -> None:
    twice = Canned(body=PAGE + PAGE.replace(b"a" * 64, b"b" * 64))
    text = failure(lambda: on_page(shelf, cu121, twice), Refused, "index-ambiguous")
    assert f"`{WHEEL}`: has sha256 {'a' * 64} and {'b' * 64}" in text


def test_a_page_that_unpacks_without_end_is_left_in_time(shelf: Shelf, cu121: Index) -> None:
    bomb = gzip.compress(b" " * (96 << 20))
    assert len(bomb) < 1 << 17
    packed = Canned(body=bomb, headers={"Content-Type": "text/html", "Content-Encoding": "gzip"})
    tracemalloc.start()
    try:
        text = failure(lambda: on_page(shelf, cu121, packed), WorldFailed, "answer-too-large")
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()
    assert text.endswith("is larger than 16 MiB")


@pytest.mark.parametrize(
    "canned",
    [
        Canned(body=PAGE[:40], length=len(PAGE)),
        Canned(body=gzip.compress(PAGE)[:-12], headers={"Content-Type": "text/html", "Content-Encoding": "gzip"}),
        Canned(body=b"99\r\n" + PAGE[:40], headers={"Content-Type": "text/html", "Transfer-Encoding": "chunked"}),
        Canned(body=PAGE, headers={"Content-Type": "text/html", "Content-Encoding": "br"}),
    ],
    ids=["plain", "packed", "chunked", "otherwise"],
)
def test_a_body_that_is_cut_or_packed_otherwise(canned: Canned, shelf: Shelf, cu121: Index) -> None:
    assert "cannot fetch the page of `torch`" in failure(lambda: on_page(shelf, cu121, canned), WorldFailed, "network")


@pytest.mark.parametrize("fault", [Fault(kind="reset"), Fault(kind="stall", value=30)], ids=["reset", "stall"])
def test_a_connection_that_breaks_or_goes_silent(fault: Fault, index: served.Index, wheelhouse: Path) -> None:
    make_wheel(wheelhouse, "torch", "2.4.1+cu121")
    index.break_at("/simple/torch/", fault)
    here = Index(name="cu121", url=index.url)
    failure(lambda: indexes.files("torch", here, environ={}, seconds=0.2), WorldFailed, "network")
    index.mend()
    assert listed(here)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/whl/",
        "http://me:secret@127.0.0.1:9/whl/",
        "file:///whl/",
        "http://me:secret@127.0.0.1:port/whl/",
        "http://me:secret@[::1/whl/",
        "http://me:secret@127.0.0.1:9/a b\n/",
    ],
)
def test_an_address_that_leads_nowhere(url: str) -> None:
    failure(lambda: listed(Index(name="cu121", url=url)), WorldFailed, "network")


# ---- redirects ------------------------------------------------------------------------------------------------------


def led(to: str, status: int = 302) -> Canned:
    return Canned(status=status, headers={"Location": to})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_same_host_may_lead_on_and_links_are_read_from_there(status: int, shelf: Shelf, cu121: Index) -> None:
    shelf.answers["/pub/whl/torch/"] = Canned(body=PAGE)
    (file,) = on_page(
        shelf, replace(cu121, url=cu121.url.replace("//", "//me:secret@")), led("/pub/whl/torch/", status)
    )
    assert file.url == f"http://{shelf.address}/pub/whl/{ESCAPED}"
    assert shelf.headers == [f"Basic {base64.b64encode(b'me:secret').decode()}"] * 2


def test_another_host_is_not_followed_and_both_are_named(shelf: Shelf, elsewhere: Shelf, cu121: Index) -> None:
    away = led(f"http://you:secret@{elsewhere.address}/torch/")
    text = failure(lambda: on_page(shelf, cu121, away), WorldFailed, "redirected")
    assert f"http://{shelf.address} leads to http://{elsewhere.address}, another host" in text
    assert elsewhere.asked == []


def test_bytes_with_a_known_hash_may_lie_anywhere_and_that_host_gets_no_login(
    described: IndexFile, shelf: Shelf, elsewhere: Shelf, cu121: Index, tmp_path: Path
) -> None:
    shelf.answers |= {
        f"/whl/cu121/{ESCAPED}?x=1": led(f"http://{elsewhere.address}/storage"),
        f"/whl/cu121/{ESCAPED}.metadata?x=1": led(f"http://{elsewhere.address}/storage.metadata"),
    }
    elsewhere.answers |= {"/storage": Canned(body=b"wheel"), "/storage.metadata": Canned(body=METADATA)}
    private = replace(cu121, url=cu121.url.replace("//", "//me:secret@"))
    sha256 = hashlib.sha256(b"wheel").hexdigest()
    indexes.download(described, private, tmp_path / WHEEL, sha256=sha256, environ={})
    assert (tmp_path / WHEEL).read_bytes() == b"wheel"
    assert indexes.metadata(described, private, environ={}) == METADATA
    assert shelf.headers == [token("me:secret")] * 2
    assert elsewhere.headers == [None] * 2
    elsewhere.answers["/storage"] = Canned(body=b"another")
    other = lambda: indexes.download(described, private, tmp_path / WHEEL, sha256=sha256, environ={})  # noqa: E731
    failure(other, Refused, "hash-mismatch")


def test_bytes_without_one_may_not(described: IndexFile, shelf: Shelf, elsewhere: Shelf, cu121: Index) -> None:
    shelf.answers |= {
        f"/whl/cu121/{ESCAPED}?x=1": led(f"http://{elsewhere.address}/storage"),
        f"/whl/cu121/{ESCAPED}.metadata?x=1": led(f"http://{elsewhere.address}/storage.metadata"),
    }
    unknown = replace(described, metadata_sha256=None)
    failure(lambda: indexes.hashed(unknown, cu121, environ={}), WorldFailed, "redirected")
    failure(lambda: indexes.metadata(unknown, cu121, environ={}), WorldFailed, "redirected")
    assert elsewhere.asked == []


@pytest.mark.parametrize("to", ["https://127.0.0.1/", "ftp://127.0.0.1/", "//localhost/", "http://127.0.0.1:80/"])
def test_neither_is_another_door_of_the_same_host(to: str, shelf: Shelf, cu121: Index) -> None:
    failure(lambda: on_page(shelf, cu121, led(to)), WorldFailed, "redirected")


def test_only_its_way_to_tls_is_one() -> None:
    plain, secured = (urlsplit(f"{scheme}://me:secret@index.example/whl/") for scheme in ("http", "https"))
    assert net._led(plain, "https://index.example/whl/", "x") == secured
    for there, back in ((secured, "http://index.example/whl/"), (plain, "https://index.example:444/whl/")):
        with pytest.raises(WorldFailed, match="another host"):
            net._led(there, back, "x")


@pytest.mark.parametrize("to", ["", "http://127.0.0.1:x/", "http://[", "/whl/cu121/torch/"])
def test_a_redirect_that_leads_nowhere_or_in_circles(to: str, shelf: Shelf, cu121: Index) -> None:
    failure(lambda: on_page(shelf, cu121, led(to)), WorldFailed, "network")
    assert len(shelf.asked) <= 5


def test_a_redirect_to_nowhere_said_is_an_answer(shelf: Shelf, cu121: Index) -> None:
    bare = Canned(status=302, headers={})
    assert "HTTP 302" in failure(lambda: on_page(shelf, cu121, bare), WorldFailed, "network")


# ---- TLS and proxies ------------------------------------------------------------------------------------------------


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Shelf]:
    """A server whose certificate, `cert.pem`, nobody vouches for."""
    _, context = certificates.made(tmp_path)
    shelf = Shelf(context)
    shelf.answers["/whl/torch/"] = Canned(body=PAGE)
    yield from running(shelf)


def test_a_certificate_that_nobody_vouches_for(secure: Shelf) -> None:
    untrusted = Index(name="cu121", url=f"https://me:secret@{secure.address}/whl/")
    text = failure(lambda: listed(untrusted), WorldFailed, "network")
    assert f"(https://{secure.address}/whl/torch/): [SSL: CERTIFICATE_VERIFY_FAILED]" in text
    assert secure.asked == []


def test_a_certificate_that_the_environment_vouches_for(secure: Shelf, tmp_path: Path) -> None:
    index = Index(name="cu121", url=f"https://{secure.address}/whl/")
    assert listed(index, {"SSL_CERT_FILE": str(tmp_path / "cert.pem")})
    hashed = tmp_path / "hashed"
    hashed.mkdir()
    digest = ["openssl", "x509", "-hash", "-noout", "-in", str(tmp_path / "cert.pem")]
    name = subprocess.run(digest, check=True, capture_output=True, text=True).stdout.strip()
    (hashed / f"{name}.0").symlink_to(tmp_path / "cert.pem")
    assert listed(index, {"SSL_CERT_DIR": f"/nowhere:{hashed}"})
    for nothing in ({"SSL_CERT_FILE": "/nowhere"}, {"SSL_CERT_DIR": "/nowhere"}):
        failure(lambda nothing=nothing: listed(index, nothing), WorldFailed, "network")  # type: ignore[misc]
    (tmp_path / "broken.pem").write_text("no certificate")
    failure(lambda: listed(index, {"SSL_CERT_FILE": str(tmp_path / "broken.pem")}), WorldFailed, "network")


# What `UV_INSECURE_HOST` lists, and whether that lets any certificate of https://127.0.0.1:PORT pass.
@pytest.mark.parametrize(
    ("hosts", "passes"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:PORT", True),
        ("https://127.0.0.1", True),
        ("index.example 127.0.0.1", True),
        ("*", True),
        ("", False),
        ("localhost", False),
        ("127.0.0.1:1", False),
        ("127.0.0.1:x", False),
        ("http://127.0.0.1", False),
    ],
)
def test_a_host_that_needs_no_certificate_for_uv_needs_none_here(
    hosts: str, passes: bool, secure: Shelf, isolated_environ: dict[str, str]
) -> None:
    url = f"https://{secure.address}/whl/"
    environ = {"UV_INSECURE_HOST": hosts.replace("PORT", secure.address.partition(":")[2])}
    if passes:
        assert listed(Index(name="cu121", url=url), environ)
    else:
        failure(lambda: listed(Index(name="cu121", url=url), environ), WorldFailed, "network")
    assert bool(secure.asked) is passes
    secure.asked.clear()
    argv = (uv.find_uv_bin(), "--no-config", "pip", "compile", "-", "--no-cache", "--python", sys.executable)
    quick = {"UV_HTTP_RETRIES": "0", "UV_DEFAULT_INDEX": url, **environ}
    subprocess.run(argv, env=isolated_environ | quick, input=b"torch", capture_output=True, check=False, timeout=60)
    assert bool(secure.asked) is passes


def test_a_page_through_a_proxy(shelf: Shelf) -> None:
    shelf.answers["http://index.example/whl/torch/"] = Canned(body=PAGE)
    far = Index(name="cu121", url="http://index.example/whl/")
    assert listed(far, {"http_proxy": f"http://{shelf.address}"})
    assert listed(far, {"HTTP_PROXY": f"http://{shelf.address}"})


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_named_without_its_login(scheme: str) -> None:
    far = Index(name="cu121", url=f"{scheme}://index.example/whl/")
    dead = {f"{scheme}_proxy": "http://me:secret@127.0.0.1:9"}
    assert "(through the proxy 127.0.0.1:9)" in failure(lambda: listed(far, dead), WorldFailed, "network")


# Python 3.10 leaves the socket of a tunnel that is refused to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_proxy_that_refuses(shelf: Shelf) -> None:
    refusing = dict.fromkeys(("http_proxy", "https_proxy"), f"http://me:secret@{shelf.address}")
    shelf.answers["http://index.example/whl/torch/"] = Canned(status=407)
    far = Index(name="cu121", url="http://index.example/whl/")
    assert "HTTP 407" in failure(lambda: listed(far, refusing), WorldFailed, "network")
    tunnel = Index(name="cu121", url="https://index.example/whl/")
    text = failure(lambda: listed(tunnel, refusing), WorldFailed, "network")
    assert f"Tunnel connection failed: 501 Unsupported method ('CONNECT') (through the proxy {shelf.address})" in text
    gc.collect()


# ---- logins ---------------------------------------------------------------------------------------------------------


def token(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_the_login_in_the_address_goes_to_the_index_and_no_further(
    shelf: Shelf, elsewhere: Shelf, cu121: Index
) -> None:
    link = f'<a href="http://{{}}/{ESCAPED}">x</a>'
    shelf.answers |= {"/whl/cu121/torch/": Canned(body=link.format(shelf.address).encode()), f"/{ESCAPED}": Canned()}
    elsewhere.answers[f"/{ESCAPED}"] = Canned()
    private = replace(cu121, url=cu121.url.replace("//", "//me:s%40cret@"))
    (file,) = listed(private)
    indexes.hashed(file, private, environ={})
    assert shelf.headers == [token("me:s@cret")] * 2
    assert "cret" not in repr(file)
    indexes.hashed(replace(file, url=f"http://{elsewhere.address}/{ESCAPED}"), private, environ={})
    assert elsewhere.headers == [None]


def test_the_login_in_netrc(shelf: Shelf, cu121: Index, tmp_path: Path) -> None:
    shelf.answers["/whl/cu121/torch/"] = Canned(body=PAGE)
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / "other").write_text("machine index.example login me password secret\n")
    (tmp_path / "broken").write_text("machine 127.0.0.1 password\nlogin secret {")
    assert listed(cu121, {"HOME": str(tmp_path)})
    assert listed(cu121, {"NETRC": str(tmp_path / ".netrc"), "HOME": "/nowhere"})
    assert listed(replace(cu121, url=cu121.url.replace("//", "//own:word@")), {"HOME": str(tmp_path)})
    for silent in ("other", "broken", "missing"):
        assert listed(cu121, {"NETRC": str(tmp_path / silent)})
    assert shelf.headers == [token("me:secret"), token("me:secret"), token("own:word"), None, None, None]


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_login_that_is_refused_is_not_repeated(status: int, shelf: Shelf, cu121: Index, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    shelf.answers["/whl/cu121/torch/"] = Canned(status=status)
    kind, code = (Refused, "index-lacks-package") if status == 404 else (WorldFailed, "network")
    private = replace(cu121, url=cu121.url.replace("//", "//me:secret@"))
    failure(lambda: listed(private), kind, code)
    failure(lambda: listed(cu121, {"HOME": str(tmp_path)}), kind, code)


# ---- METADATA -------------------------------------------------------------------------------------------------------


@pytest.fixture
def described(shelf: Shelf, cu121: Index) -> IndexFile:
    """A file whose METADATA lies beside it."""
    shelf.answers[f"/whl/cu121/{ESCAPED}.metadata?x=1"] = Canned(body=METADATA)
    sha256 = hashlib.sha256(METADATA).hexdigest()
    return IndexFile(file=WHEEL, url=f"{cu121.url}{ESCAPED}?x=1", metadata=True, metadata_sha256=sha256)


def test_metadata_is_what_its_page_names(described: IndexFile, cu121: Index) -> None:
    assert indexes.metadata(described, cu121, environ={}) == METADATA
    assert indexes.metadata(replace(described, metadata_sha256=None), cu121, environ={}) == METADATA


def test_metadata_of_other_bytes(described: IndexFile, cu121: Index) -> None:
    other = replace(described, metadata_sha256="b" * 64)
    text = failure(lambda: indexes.metadata(other, cu121, environ={}), Refused, "hash-mismatch")
    assert f"METADATA has sha256 {described.metadata_sha256} (expected {'b' * 64})" in text
    assert WHEEL in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((b"2.4.1+cu121", b"2.4.1"), "torch 2.4.1"),
        ((b"2.4.1+cu121", b"2.4.1+cu118"), "torch 2.4.1+cu118"),
        ((b"Name: torch", b"Name: numpy"), "numpy 2.4.1+cu121"),
        ((b"Version: ", b"Vers: "), "torch None"),
        ((b"2.4.1+cu121", b"new\x1b"), '"torch new\\u001b"'),
        ((METADATA, b"\0\xff"), "None None"),
    ],
)
def test_metadata_of_another_release(
    change: tuple[bytes, bytes], said: str, described: IndexFile, shelf: Shelf, cu121: Index
) -> None:
    shelf.answers[f"/whl/cu121/{ESCAPED}.metadata?x=1"] = Canned(body=METADATA.replace(*change))
    other = replace(described, metadata_sha256=None)
    text = failure(lambda: indexes.metadata(other, cu121, environ={}), Refused, "metadata-mismatch")
    assert f"{WHEEL}: METADATA is of `{said}`" in text


def test_metadata_that_is_not_there_or_never_ends(described: IndexFile, shelf: Shelf, cu121: Index) -> None:
    shelf.answers[f"/whl/cu121/{ESCAPED}.metadata?x=1"] = Canned(body=b"x" * ((1 << 22) + 1))
    failure(lambda: indexes.metadata(described, cu121, environ={}), WorldFailed, "answer-too-large")
    shelf.answers.clear()
    text = failure(lambda: indexes.metadata(described, cu121, environ={}), Refused, "artifact-missing")
    assert WHEEL in text


# ---- hashes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def bare(shelf: Shelf, cu121: Index) -> IndexFile:
    """A file without a hash, of more than one chunk."""
    shelf.answers[f"/whl/cu121/{ESCAPED}"] = Canned(body=b"wheel" * 100_000)
    return IndexFile(file=WHEEL, url=f"{cu121.url}{ESCAPED}")


def test_a_hash_that_is_given_is_not_computed(bare: IndexFile, shelf: Shelf, cu121: Index) -> None:
    given = replace(bare, sha256="a" * 64)
    assert indexes.hashed(given, cu121, environ={}) is given
    assert shelf.asked == []


def test_a_hash_that_is_not_given_is_that_of_one_download(bare: IndexFile, shelf: Shelf, cu121: Index) -> None:
    found = indexes.hashed(bare, cu121, environ={})
    sha256 = hashlib.sha256(b"wheel" * 100_000).hexdigest()
    assert found == replace(bare, sha256=sha256, size=500_000, evidence=DOWNLOADED)
    assert [path for path, _ in shelf.asked] == [f"/whl/cu121/{ESCAPED}"]
    assert shelf.asked[0][1]["Accept-Encoding"] == "identity"


def test_a_file_is_hashed_as_it_travels(bare: IndexFile, shelf: Shelf, cu121: Index) -> None:
    packed = gzip.compress(b"sdist")
    shelf.answers[f"/whl/cu121/{ESCAPED}"] = Canned(body=packed, headers={"Content-Encoding": "gzip"})
    assert indexes.hashed(bare, cu121, environ={}).sha256 == hashlib.sha256(packed).hexdigest()


def test_a_file_of_another_size_than_its_page_says(bare: IndexFile, cu121: Index) -> None:
    wrong = replace(bare, size=7)
    text = failure(lambda: indexes.hashed(wrong, cu121, environ={}), Refused, "hash-mismatch")
    assert f"{WHEEL}: has 500000 bytes (expected 7, as its page says)" in text
    assert indexes.hashed(replace(bare, size=500_000), cu121, environ={}).size == 500_000


def test_a_file_that_is_cut_or_gone(bare: IndexFile, shelf: Shelf, cu121: Index) -> None:
    shelf.answers[f"/whl/cu121/{ESCAPED}"] = Canned(body=b"wheel", length=500_000)
    text = failure(lambda: indexes.hashed(bare, cu121, environ={}), WorldFailed, "network")
    assert text.endswith("the answer ends too early")
    assert WHEEL in text
    shelf.answers.clear()
    failure(lambda: indexes.hashed(bare, cu121, environ={}), Refused, "artifact-missing")


def test_a_hash_is_not_made_of_bytes_that_anybody_on_the_way_may_change(bare: IndexFile, shelf: Shelf) -> None:
    secured = Index(name="cu121", url="https://index.example/whl/")
    failure(lambda: indexes.hashed(bare, secured, environ={}), Refused, "index-insecure")
    assert shelf.asked == []


def test_an_index_that_says_what_it_said(shelf: Shelf, cu121: Index) -> None:
    found = on_page(shelf, cu121, Canned(body=PAGE))
    indexes.unchanged({WHEEL: "a" * 64}, found, cu121)
    indexes.unchanged({}, found, cu121)
    indexes.unchanged({WHEEL: "b" * 64}, [replace(found[0], sha256=None)], cu121)


def test_an_index_that_changes_between_two_reads(shelf: Shelf, cu121: Index) -> None:
    first = on_page(shelf, cu121, Canned(body=PAGE))
    known = {file.file: file.sha256 or "" for file in first} | {"torch-9.tar.gz": "c" * 64}
    second = on_page(shelf, cu121, Canned(body=PAGE.replace(b"a" * 64, b"b" * 64)))
    text = failure(lambda: indexes.unchanged(known, second, cu121), Refused, "index-changed")
    assert text.splitlines() == [
        f"the index `cu121` ({cu121.url}) gives other files than it did",
        f"{WHEEL}: is {'b' * 64} (expected sha256 {'a' * 64})",
        f"torch-9.tar.gz: is not listed (expected sha256 {'c' * 64})",
    ]
