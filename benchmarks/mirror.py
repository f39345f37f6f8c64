"""A mirror on the loopback: pages and METADATA of another index, each fetched once, as the common index hands them out.

It lets a client keep them as long as that index does, and says that a wheel's METADATA is there by itself (PEP 658).
What is measured through it is neither the network nor what an index in between takes out of the answers.
"""

from __future__ import annotations

import contextlib
import io
import json
import threading
import time
import urllib.error
import urllib.request
import zipfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Mirror"]

JSON = "application/vnd.pypi.simple.v1+json"
# What the common index and its file host allow.
PAGE_KEPT = "max-age=600, public"
FILE_KEPT = "max-age=365000000, immutable, public"
FILES = "/files/"
METADATA = ".metadata"


class Mirror:
    """Serve the JSON pages of the index at `upstream`, and what they link to, until the `with` block ends.

    It waits `latency` seconds before each answer, as if it were that far away.
    """

    def __init__(self, upstream: str, *, latency: float = 0.0) -> None:
        """Take a free port; nothing is served before the `with` block begins."""
        self.latency = latency
        self.upstream = upstream.rstrip("/")
        self.answers: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address that a client takes as its index."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, path: str) -> bytes:
        """Return a page or a file, from the upstream the first time."""
        if path not in self.answers:
            self.answers[path] = self._file(path) if path.startswith(FILES) else self._page(path)
        return self.answers[path]

    def _file(self, path: str) -> bytes:
        wheel = path.removesuffix(METADATA)
        if wheel == path:
            return _fetched(self.links[path])
        try:
            return _fetched(self.links[wheel] + METADATA)
        except urllib.error.HTTPError:
            return _metadata(_fetched(self.links[wheel]))

    def _page(self, path: str) -> bytes:
        page = json.loads(_fetched(f"{self.upstream}{path}", accept=JSON))
        for file in page["files"]:
            place = f"{FILES}{file['filename']}"
            self.links[place] = file["url"]
            file["url"] = f"{self.url}{place}"
            file["core-metadata"] = file["filename"].endswith(".whl")
        return json.dumps(page).encode()


def _fetched(url: str, accept: str = "*/*") -> bytes:
    asked = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310 - an index
    with urllib.request.urlopen(asked) as answer:  # noqa: S310 - the same
        body: bytes = answer.read()
    return body


def _metadata(wheel: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        name = min((name for name in archive.namelist() if name.endswith(".dist-info/METADATA")), key=len)
        return archive.read(name)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Write no log."""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # a client that has learned enough hangs up
            super().handle()

    def do_GET(self) -> None:
        try:
            body = self.server.mirror.answer(self.path)
            time.sleep(self.server.mirror.latency)
        except (KeyError, urllib.error.HTTPError):
            self.send_response(HTTPStatus.NOT_FOUND)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        file = self.path.startswith(FILES)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/octet-stream" if file else JSON)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", FILE_KEPT if file else PAGE_KEPT)
        self.end_headers()
        self.wfile.write(body)
