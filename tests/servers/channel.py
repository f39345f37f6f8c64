"""A conda channel on the loopback: real HTTP over the recorded records, or over any folder, with faults on request.

`python -m tests.servers.channel` prints the setting that points envlock at it, and serves until Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from tests.servers.index import STALL_SECONDS, Fault

if TYPE_CHECKING:
    from typing_extensions import Self  # for the type checker, which brings it; Python has it from 3.11 on

__all__ = ["RECORDED", "Channel"]

RECORDED: Final = Path(__file__).resolve().parents[1] / "data" / "conda"


class Channel:
    """Serve `directory`, which holds `linux-64/` and `noarch/`, under `url` from a thread, until the `with` block ends.

    `requested` are the paths that were asked for, in order. `faults` and `instead` map a path to what goes wrong there,
    and to another body.
    """

    def __init__(self, directory: Path = RECORDED, port: int = 0) -> None:
        """Take the port, a free one by default, at once; nothing is served before the `with` block begins."""
        self.directory = directory
        self.requested: list[str] = []
        self.faults: dict[str, Fault] = {}
        self.instead: dict[str, bytes] = {}
        self.closing = threading.Event()
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and let no stalled request outlive the test."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The address of the channel."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/conda-forge"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, channel: Channel, port: int) -> None:
        self.channel = channel
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet about clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Write no log: `Channel.requested` is one."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        channel = self.server.channel
        path = unquote(urlsplit(self.path).path).removeprefix("/conda-forge/")
        channel.requested.append(path)
        fault = channel.faults.get(path)
        if fault is not None and fault.kind == "stall":
            channel.closing.wait(fault.value or STALL_SECONDS)
            self.close_connection = True
            return
        if fault is not None and fault.kind == "status":
            self._send(HTTPStatus(int(fault.value)), b"fault\n")
            return
        body = channel.instead.get(path, self._body(path))
        if body is None:
            self._send(HTTPStatus.NOT_FOUND, b"not found\n")
        else:
            self._send(HTTPStatus.OK, body, cut=int(fault.value) if fault is not None else None)

    def _body(self, path: str) -> bytes | None:
        file = (self.server.channel.directory / path).resolve()
        inside = file.is_relative_to(self.server.channel.directory.resolve())
        return file.read_bytes() if inside and file.is_file() else None

    def _send(self, status: HTTPStatus, body: bytes, *, cut: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()[:32]}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True


def main() -> None:
    """Serve until Ctrl-C, the setting that points envlock here on standard output."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers.channel", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (default: a free one)")
    with Channel(port=parser.parse_args().port) as channel, contextlib.suppress(KeyboardInterrupt):
        sys.stdout.write(f"export ENVLOCK_CHANNEL_CONDA_FORGE={channel.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
