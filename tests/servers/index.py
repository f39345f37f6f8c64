"""A package index on the loopback: real HTTP over a folder of distributions, with faults on request."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import socket
import struct
import tarfile
import threading
import zipfile
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

if TYPE_CHECKING:
    from typing_extensions import Self  # for the type checker, which brings it; Python has it from 3.11 on

__all__ = ["JSON_TYPE", "Fault", "Hit", "Index"]

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
HTML_TYPE = "application/vnd.pypi.simple.v1+html"
UPLOADED = datetime(2024, 1, 1, tzinfo=timezone.utc)
STALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong at a path, the first `times` times (None: always).

    `status`: answer with that HTTP status. `truncate`: promise the whole body, send that many bytes, hang up.
    `stall`: send nothing for that many seconds (the server's end cuts it short). `reset`: a TCP reset.
    """

    kind: Literal["status", "truncate", "stall", "reset"]
    value: float = 0
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One request as it came in, and the status it was answered with (0: a fault cut it off)."""

    method: str
    path: str
    status: int
    range: str | None = None


class Index:
    """Serve `directory` under `url` from a thread, until the `with` block ends.

    Files are looked up at each request, so a distribution can come, go or change while the index runs.
    `uploaded` maps a file name to its upload time; None for a file leaves the time out, as some indexes do.
    """

    def __init__(self, directory: Path, *, uploaded: dict[str, datetime | None] | None = None) -> None:
        """Take a free port at once; nothing is served before the `with` block begins."""
        self.directory = directory
        self.uploaded = uploaded if uploaded is not None else {}
        self.hashes = True  # some indexes give none
        self.login: str | None = None  # `user:password` that every request has to bring
        self.metadata = True  # so it is with METADATA beside the files
        self.signed = ""  # what follows the address of each file: some sign it
        self.json = True  # some know HTML only
        self.instead: dict[str, tuple[str, bytes]] = {}  # path -> type and body of another answer
        self.cache_control = "max-age=600"  # of the pages; files never change
        self.hits: list[Hit] = []
        self._faults: dict[str, Fault] = {}
        self._fault_lock = threading.Lock()
        self.closing = threading.Event()
        self._server = _Server(self)
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
    def root(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """The address an installer takes as its index."""
        return f"{self.root}/simple/"

    @property
    def requested(self) -> list[str]:
        """The paths asked for, in order."""
        return [hit.path for hit in self.hits]

    def break_at(self, path: str, fault: Fault) -> None:
        """Let `fault` happen at `path` (`/simple/name/` or `/files/name.whl`) from now on."""
        with self._fault_lock:
            self._faults[path] = fault

    def mend(self) -> None:
        """Take all faults away."""
        with self._fault_lock:
            self._faults.clear()

    def fault_at(self, path: str) -> Fault | None:
        """Return the fault for this request and count it."""
        with self._fault_lock:
            fault = self._faults.get(path)
            if fault is None or fault.times is None:
                return fault
            if fault.times <= 0:
                return None
            self._faults[path] = Fault(kind=fault.kind, value=fault.value, times=fault.times - 1)
            return fault

    def files(self) -> dict[str, list[Path]]:
        """Return the distributions by normalized project name."""
        found: dict[str, list[Path]] = {}
        for path in sorted(self.directory.iterdir()):
            if path.name.endswith((".whl", ".tar.gz")):
                parse = parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename
                found.setdefault(parse(path.name)[0], []).append(path)
        return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, index: Index) -> None:
        self.index = index
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet about clients that hang up: tests kill installers in the middle of a download."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Write no log: `Index.hits` is one."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if not self._may():
            self._note(HTTPStatus.UNAUTHORIZED)
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", 'Basic realm="index"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if path in self.server.index.instead:
            self._send(HTTPStatus.OK, *self.server.index.instead[path], cache=self.server.index.cache_control)
            return
        fault = self.server.index.fault_at(path)
        if fault is None or fault.kind == "truncate":
            self._serve(path, cut=None if fault is None else int(fault.value))
        elif fault.kind == "status":
            self._send(HTTPStatus(int(fault.value)), "text/plain", b"fault\n")
        else:
            self._note(0)
            if fault.kind == "stall":
                self.server.index.closing.wait(fault.value or STALL_SECONDS)
            else:  # with a linger time of zero, closing sends a reset
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            self.close_connection = True

    def _may(self) -> bool:
        login = self.server.index.login
        wanted = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None
        return wanted in {None, self.headers.get("Authorization")}

    def _serve(self, path: str, *, cut: int | None) -> None:
        parts = [part for part in path.split("/") if part]
        projects = self.server.index.files()
        if parts == ["simple"]:
            self._page({"meta": {"api-version": "1.1"}, "projects": [{"name": name} for name in projects]}, cut)
        elif len(parts) == 2 and parts[0] == "simple" and canonicalize_name(parts[1]) in projects:
            self._page(self._project(canonicalize_name(parts[1]), projects), cut)
        elif len(parts) == 2 and parts[0] == "files" and self._find(parts[1], projects) is not None:
            self._file(parts[1], projects, cut)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"not found\n")

    @staticmethod
    def _find(name: str, projects: dict[str, list[Path]]) -> Path | None:
        plain = name.removesuffix(".metadata")
        return next((path for paths in projects.values() for path in paths if path.name == plain), None)

    def _file(self, name: str, projects: dict[str, list[Path]], cut: int | None) -> None:
        path = self._find(name, projects)
        if path is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"not found\n")
        elif name.endswith(".metadata"):
            metadata = _metadata(path, path.stat().st_mtime_ns)
            if metadata is None:
                self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no metadata\n")
            else:
                self._send(HTTPStatus.OK, "text/plain", metadata, cut=cut)
        else:
            self._send(HTTPStatus.OK, "application/octet-stream", path.read_bytes(), cut=cut)

    def _project(self, name: str, projects: dict[str, list[Path]]) -> dict[str, object]:
        files: list[dict[str, object]] = []
        versions: dict[str, None] = {}
        for path in projects[name]:
            parse = parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename
            versions[str(parse(path.name)[1])] = None
            raw = path.read_bytes()
            metadata = _metadata(path, path.stat().st_mtime_ns) if self.server.index.metadata else None
            row: dict[str, object] = {
                "filename": path.name,
                "url": f"{self.server.index.root}/files/{path.name}{self.server.index.signed}",
                "hashes": {"sha256": hashlib.sha256(raw).hexdigest()} if self.server.index.hashes else {},
                "size": len(raw),
                "core-metadata": {"sha256": hashlib.sha256(metadata).hexdigest()} if metadata is not None else False,
                "requires-python": _requires_python(metadata),
            }
            uploaded = self.server.index.uploaded.get(path.name, UPLOADED)
            if uploaded is not None:
                row["upload-time"] = uploaded.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            files.append(row)
        return {"meta": {"api-version": "1.1"}, "name": name, "versions": list(versions), "files": files}

    def _page(self, document: dict[str, object], cut: int | None) -> None:
        if self.server.index.json and "json" in self.headers.get("Accept", ""):
            body, kind = json.dumps(document).encode(), JSON_TYPE
        else:
            body, kind = _html(document).encode(), HTML_TYPE
        self._send(HTTPStatus.OK, kind, body, cut=cut, cache=self.server.index.cache_control)

    def _send(
        self, status: HTTPStatus, kind: str, body: bytes, *, cut: int | None = None, cache: str | None = None
    ) -> None:
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if status == HTTPStatus.OK and self.headers.get("If-None-Match") == tag:
            status, body = HTTPStatus.NOT_MODIFIED, b""
        span = _span(self.headers.get("Range"), len(body)) if status == HTTPStatus.OK else None
        whole = len(body)
        if span is not None:
            status, body = HTTPStatus.PARTIAL_CONTENT, body[span[0] : span[1]]
        self._note(int(status))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Accept-Ranges", "bytes")
        if span is not None:
            self.send_header("Content-Range", f"bytes {span[0]}-{span[1] - 1}/{whole}")
        if status < HTTPStatus.BAD_REQUEST:
            self.send_header("ETag", tag)
            self.send_header("Cache-Control", cache or "max-age=31536000, immutable")
        self.end_headers()
        if self.command != "HEAD" and status != HTTPStatus.NOT_MODIFIED:
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True

    def _note(self, status: int) -> None:
        path = unquote(urlsplit(self.path).path)
        hit = Hit(method=self.command, path=path, status=status, range=self.headers.get("Range"))
        self.server.index.hits.append(hit)


@functools.lru_cache(maxsize=1024)
def _metadata(path: Path, changed: int) -> bytes | None:  # noqa: ARG001 - `changed` makes a rewritten file a new key
    if path.suffix == ".whl":
        try:
            with zipfile.ZipFile(path) as archive:
                place = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
                return archive.read(place)
        except zipfile.BadZipFile:
            return None
    with tarfile.open(path) as archive:
        member = archive.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        return member.read() if member else None


def _requires_python(metadata: bytes | None) -> str | None:
    lines = (metadata or b"").decode().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("Requires-Python: ")), None)


def _span(header: str | None, size: int) -> tuple[int, int] | None:
    if header is None or not header.startswith("bytes=") or "," in header:
        return None
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1 if last else size)


def _html(document: dict[str, object]) -> str:
    projects, files = document.get("projects"), document.get("files")
    names = [project["name"] for project in projects] if isinstance(projects, list) else []
    rows = [f'<a href="/simple/{name}/">{name}</a><br>' for name in names]
    for file in files if isinstance(files, list) else []:
        attributes = ""
        if file["requires-python"]:
            attributes += f' data-requires-python="{escape(file["requires-python"])}"'
        if file["core-metadata"]:
            attributes += f' data-core-metadata="sha256={file["core-metadata"]["sha256"]}"'
        fragment = f"#sha256={file['hashes']['sha256']}" if file["hashes"] else ""
        rows.append(f'<a href="{file["url"]}{fragment}"{attributes}>{file["filename"]}</a><br>')
    return "<!DOCTYPE html>\n<html><body>\n" + "\n".join(rows) + "\n</body></html>\n"
