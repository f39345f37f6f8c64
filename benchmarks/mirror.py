"""A mirror on the loopback: pages of another index, each fetched once, with the headers that let a client keep them.

What is measured through it is neither the network nor what an index in between takes out of the answers.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Mirror"]

KEPT_SECONDS = 600  # what the common index allows


class Mirror:
    """Serve the pages of the index at `upstream` until the `with` block ends; files are asked of the upstream."""

    def __init__(self, upstream: str) -> None:
        """Take a free port; nothing is served before the `with` block begins."""
        self.upstream = upstream.rstrip("/")
        self.pages: dict[tuple[str, str], tuple[str, bytes]] = {}
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

    def page(self, path: str, accept: str) -> tuple[str, bytes]:
        """Return the type and the bytes of a page, from the upstream the first time."""
        if (path, accept) not in self.pages:
            asked = urllib.request.Request(f"{self.upstream}{path}", headers={"Accept": accept})  # noqa: S310 - an index
            with urllib.request.urlopen(asked) as answer:  # noqa: S310 - the same
                self.pages[path, accept] = answer.headers["Content-Type"], answer.read()
        return self.pages[path, accept]


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

    def do_GET(self) -> None:
        try:
            kind, body = self.server.mirror.page(self.path, self.headers.get("Accept", "*/*"))
        except urllib.error.HTTPError as error:
            self.send_response(error.code)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", f"max-age={KEPT_SECONDS}")
        self.end_headers()
        self.wfile.write(body)
