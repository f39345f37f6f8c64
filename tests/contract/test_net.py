"""One thing asked for over real HTTP: through the proxies that uv would take, and with the bytes that were promised."""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import uv

from envlock import net
from envlock.errors import EnvlockError, Refused, WorldFailed
from tests.servers import certificates

BODY = b"an sdist, say"
SHA256 = hashlib.sha256(BODY).hexdigest()
LOGIN = f"Basic {base64.b64encode(b'me:s&cret').decode()}"


class Server(ThreadingHTTPServer):
    """Answer with `BODY`, lead on from a path in `leads`, refuse tunnels: an index and a proxy in one."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self.body = BODY
        self.leads: dict[str, str] = {}
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def verify_request(self, request: object, client_address: object) -> bool:
        """Count who comes, whatever they say."""
        del request, client_address
        self.connections += 1
        return True

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet about clients that refuse the certificate."""

    @property
    def was_a_proxy(self) -> bool:
        return any(path.startswith("http://") or ":443" in path for path, _ in self.asked)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Write no log."""

    def do_CONNECT(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        lead = self.server.leads.get(self.path)
        self.send_response(302 if lead else 404 if self.path.endswith("/absent/") else 200)
        if lead:
            self.send_header("Location", lead)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)


@contextmanager
def running(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    with Server(context) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as one:
        yield one


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    with running() as one:
        yield one


def fetched(url: str, environ: Mapping[str, str] | None = None, sha256: str = SHA256) -> bytes:
    with net.fetch(url, sha256=sha256, environ=environ or {}, what="old-1.0.tar.gz") as file:
        return file.read()


def failure(url: str, environ: Mapping[str, str] | None = None, sha256: str = SHA256) -> EnvlockError:
    with pytest.raises(EnvlockError) as caught:
        fetched(url, environ, sha256)
    assert "old-1.0.tar.gz" in caught.value.message
    assert "cret" not in caught.value.message
    assert caught.value.hint == "envlock detect -v"
    return caught.value


# ---- proxies --------------------------------------------------------------------------------------------------------

# What is asked for, what the environment says, and whether it is asked of the proxy. `PROXY` stands for its address.
PLAIN = {"http_proxy": "http://PROXY"}
PROXIES = [
    ("http://index.example/", {}, False),
    ("http://index.example/", PLAIN, True),
    ("http://index.example/", {"HTTP_PROXY": "http://PROXY"}, True),
    ("http://index.example/", {"HTTP_PROXY": "PROXY"}, True),
    ("http://index.example/", {"https_proxy": "http://PROXY"}, False),
    ("https://index.example/", {"https_proxy": "http://PROXY"}, True),
    ("https://index.example/", PLAIN, False),
    ("http://index.example/", {"all_proxy": "http://PROXY"}, True),
    ("https://index.example/", {"ALL_PROXY": "http://PROXY"}, True),
    ("http://index.example/", {"http_proxy": "", "all_proxy": "http://PROXY"}, True),
    ("http://index.example/", {"http_proxy": "http://PROXY", "HTTP_PROXY": ""}, False),
    ("http://index.example/", {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://PROXY"}, True),
    ("http://index.example/", {**PLAIN, "no_proxy": "index.example"}, False),
    ("http://index.example/", {**PLAIN, "NO_PROXY": "INDEX.example"}, False),
    ("http://Index.Example/", {**PLAIN, "no_proxy": "index.example"}, False),
    ("http://index.example:8080/", {**PLAIN, "no_proxy": "index.example"}, False),
    ("http://index.example:8080/", {**PLAIN, "no_proxy": "index.example:8080"}, True),
    ("http://index.example/", {**PLAIN, "no_proxy": "example"}, False),
    ("http://index.example/", {**PLAIN, "no_proxy": ".example"}, False),
    ("http://index.example/", {**PLAIN, "no_proxy": ".index.example"}, False),
    ("http://index.example/", {**PLAIN, "no_proxy": "ample"}, True),
    ("http://index.example/", {**PLAIN, "no_proxy": "*.example"}, True),
    ("http://index.example/", {**PLAIN, "no_proxy": "*"}, False),
    ("http://index.example/", {**PLAIN, "no_proxy": "a, *"}, False),
    ("http://index.example/", {**PLAIN, "no_proxy": "a, index.example ,b"}, False),
    ("http://index.example/", {**PLAIN, "no_proxy": "a,,b"}, True),
    ("http://index.example/", {**PLAIN, "no_proxy": "a", "NO_PROXY": "index.example"}, False),
    ("http://index.example/", {**PLAIN, "no_proxy": "index.example", "NO_PROXY": ""}, True),
    ("http://PROXY/", PLAIN, True),
    ("http://PROXY/", {**PLAIN, "no_proxy": "127.0.0.1"}, False),
    ("http://PROXY/", {**PLAIN, "no_proxy": "127.0.0.0/8"}, False),
    ("http://PROXY/", {**PLAIN, "no_proxy": "10.0.0.0/8,::/0"}, True),
    ("http://[::1]:9/", {**PLAIN, "no_proxy": "::1"}, False),
    ("http://[::1]:9/", {**PLAIN, "no_proxy": "::/64"}, False),
    ("http://[::1]:9/", {**PLAIN, "no_proxy": "127.0.0.0/8"}, True),
]


@pytest.fixture(scope="module")
def both() -> Iterator[Server]:
    with running() as one:
        yield one


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a refused tunnel, on Python 3.10
@pytest.mark.parametrize(("url", "environ", "through"), PROXIES)
def test_a_proxy_is_taken_where_uv_takes_it(
    url: str, environ: Mapping[str, str], through: bool, both: Server, isolated_environ: dict[str, str]
) -> None:
    url = url.replace("PROXY", both.address)
    environ = {key: value.replace("PROXY", both.address) for key, value in environ.items()}
    reached = through or both.address in url
    both.asked.clear()
    with suppress(WorldFailed), net.ask(url, environ=environ, what="it", seconds=5.0) as answer:
        assert b"".join(answer.chunks) == BODY
    assert (both.was_a_proxy, bool(both.asked)) == (through, reached)
    both.asked.clear()
    compile_ = (uv.find_uv_bin(), "--no-config", "pip", "compile", "-", "--no-cache", "--python", sys.executable)
    quick = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "5", "UV_DEFAULT_INDEX": url}
    subprocess.run(
        compile_, env=isolated_environ | quick | environ, input=b"absent", capture_output=True, check=False, timeout=60
    )
    assert (both.was_a_proxy, bool(both.asked)) == (through, reached)


def test_the_proxy_of_this_process_does_not_count(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert fetched(f"http://{server.address}/old") == BODY
    monkeypatch.setenv("no_proxy", "*")
    assert fetched("http://index.example/old", {"http_proxy": f"http://{server.address}"}) == BODY


def test_each_login_goes_to_its_own_host(server: Server) -> None:
    proxy = {"http_proxy": f"http://me:s%26cret@{server.address}"}
    assert fetched("http://you:secret@index.example:8080/old", proxy) == BODY
    ((path, headers),) = server.asked
    assert (path, headers["Host"]) == ("http://index.example:8080/old", "index.example:8080")
    assert headers["Proxy-Authorization"] == LOGIN
    assert headers["Authorization"] == f"Basic {base64.b64encode(b'you:secret').decode()}"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a refused tunnel, on Python 3.10
def test_a_tunnel_is_asked_for_with_the_login_of_the_proxy_only(server: Server) -> None:
    proxy = {"https_proxy": f"http://me:s%26cret@{server.address}"}
    error = failure("https://you:secret@index.example/old", proxy)
    assert error.message.endswith(f"Tunnel connection failed: 403 Forbidden (through the proxy {server.address})")
    ((path, headers),) = server.asked
    assert path == "index.example:443"
    assert (headers["Proxy-Authorization"], headers.get("Authorization")) == (LOGIN, None)


@pytest.mark.parametrize(
    ("proxy", "says"),
    [
        ("http://me:secret@127.0.0.1:x", "the address of the proxy is not valid"),
        ("http://[", "the address of the proxy is not valid"),
        ("http://", "the address of the proxy is not valid"),
        ("socks5://me:secret@127.0.0.1:9", "only a proxy that speaks HTTP can be used, not socks5://127.0.0.1:9"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_told_and_not_passed_by(proxy: str, says: str, server: Server) -> None:
    error = failure(f"http://{server.address}/old", {"ALL_PROXY": proxy})
    assert (error.code, error.message) == ("network", f"cannot fetch old-1.0.tar.gz: {says}")
    assert server.asked == []


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Server]:
    """A server that is spoken to over TLS, with the certificate `cert.pem`."""
    with running(certificates.made(tmp_path)[1]) as one:
        yield one


def test_a_proxy_over_tls_is_no_way_to_another_tls_and_gets_not_a_byte(server: Server) -> None:
    for proxy in (f"https://me:s%26cret@{server.address}", f"HTTPS://me:s%26cret@{server.address}"):
        error = failure("https://index.example/old", {"https_proxy": proxy})
        assert error.message.endswith(f"only http://{server.address} can be the proxy for https")
        assert (error.code, server.connections) == ("network", 0)


def test_a_proxy_over_tls_is_asked_for_the_rest_over_tls(secure: Server, tmp_path: Path) -> None:
    environ = {"http_proxy": f"https://me:s%26cret@{secure.address}", "SSL_CERT_FILE": str(tmp_path / "cert.pem")}
    assert fetched("http://index.example/old", environ) == BODY
    ((path, headers),) = secure.asked
    assert (path, headers["Proxy-Authorization"]) == ("http://index.example/old", LOGIN)
    error = failure("http://index.example/old", {"http_proxy": environ["http_proxy"]})
    assert "CERTIFICATE_VERIFY_FAILED" in error.message
    assert len(secure.asked) == 1


# ---- a file with a hash ---------------------------------------------------------------------------------------------


def test_a_file_may_lie_on_another_host_which_gets_no_login(server: Server, elsewhere: Server) -> None:
    server.leads["/old"] = f"http://{elsewhere.address}/far"
    assert fetched(f"http://me:s%26cret@{server.address}/old") == BODY
    assert [(path, headers.get("Authorization")) for path, headers in server.asked] == [("/old", LOGIN)]
    assert [(path, headers.get("Authorization")) for path, headers in elsewhere.asked] == [("/far", None)]


def test_a_file_that_was_moved_is_asked_of_the_proxy_of_where_it_lies_now(server: Server, elsewhere: Server) -> None:
    server.leads["/old"] = f"http://{elsewhere.address}/far"
    environ = {"http_proxy": f"http://{server.address}", "no_proxy": elsewhere.address.partition(":")[0]}
    server.leads["http://index.example/old"] = server.leads["/old"]
    assert fetched("http://index.example/old", environ) == BODY
    assert [path for path, _ in elsewhere.asked] == ["/far"]


def test_a_large_file_is_not_held_in_memory(server: Server) -> None:
    server.body = bytes(48 << 20)
    tracemalloc.start()
    try:
        large = hashlib.sha256(server.body).hexdigest()
        with net.fetch(f"http://{server.address}/old", sha256=large, environ={}, what="old") as file:
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
            assert file.seek(0, os.SEEK_END) == 48 << 20
    finally:
        tracemalloc.stop()


def test_other_bytes_than_promised_are_refused(server: Server) -> None:
    error = failure(f"http://{server.address}/old", sha256="0" * 64)
    assert (type(error), error.code) == (Refused, "hash-mismatch")
    assert [str(problem) for problem in error.problems] == [
        f"old-1.0.tar.gz: has sha256 {SHA256} (expected {'0' * 64})"
    ]


@pytest.mark.parametrize(
    ("path", "says"), [("absent/", "HTTP 404 Not Found"), ("loop", "it leads on and on"), ("file", "is not valid")]
)
def test_a_file_that_cannot_be_had_is_told(path: str, says: str, server: Server) -> None:
    server.leads |= {"/loop": "/loop", "/file": "file:///etc/hostname"}
    error = failure(f"http://me:s%26cret@{server.address}/{path}")
    assert (type(error), error.code) == (WorldFailed, "network")
    assert says in error.message
