"""A replay of the PyTorch index on the loopback: the recorded names and hashes, and METADATA made after the records.

`python -m tests.servers.torch_index` prints the settings that point envlock at it, and serves until Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename

if TYPE_CHECKING:
    from typing_extensions import Self  # for the type checker, which brings it; Python has it from 3.11 on

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["TorchIndex", "Wheel", "metadata", "wheels"]

RECORDS: Final = Path(__file__).resolve().parents[1] / "data" / "torch_index"
EVIDENCE: Final = {"cross-checked": "recorded, cross-checked", "single-source": "recorded, one source"}
LINUX: Final = 'platform_system == "Linux" and platform_machine == "x86_64"'  # as torch's own lines have it
ABSENT: Final = (
    b"the replay knows the hash of this file, not its bytes: install from a machine that reaches the index\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One recorded file; `index` is the folder it lies in, `sources` name where its hash was read."""

    index: str
    file: str
    sha256: str
    status: str
    sources: tuple[str, ...]
    size: int | None = None

    @property
    def project(self) -> str:
        """The project it is a wheel of."""
        return parse_wheel_filename(self.file)[0]

    @property
    def path(self) -> str:
        """Where the index has it: below the backend, not below the project."""
        return f"/whl/{self.index}/{quote(self.file)}"


def wheels() -> tuple[Wheel, ...]:
    """Return every recorded wheel, by index and name."""
    rows = json.loads((RECORDS / "wheels.json").read_text(encoding="utf-8"))
    return tuple(Wheel(**row | {"sources": tuple(row["sources"])}) for row in rows)


def metadata(wheel: Wheel) -> str | None:
    """Return the wheel's METADATA: PyPI's of that version, with the requirements of its backend.

    None where PyPI's was not recorded, or nobody said what this backend's build requires.
    """
    project, version = parse_wheel_filename(wheel.file)[:2]
    base = RECORDS / "metadata" / f"{project}-{version.public}.txt"
    change = _change(wheel) if project == "torch" else {}
    if change is None or not base.is_file():
        return None
    lines = [line for line in base.read_text(encoding="utf-8").splitlines() if not _replaced(line, change)]
    lines[lines.index(f"Version: {version.public}")] = f"Version: {version}"
    lines += [f"Requires-Dist: {one} ; {LINUX}" for one in change.get("nvidia", ())]
    return "\n".join(lines) + "\n"


def _change(wheel: Wheel) -> Mapping[str, Any] | None:
    version = parse_wheel_filename(wheel.file)[1].public
    rows = tomllib.loads((RECORDS / "requires.toml").read_text(encoding="utf-8"))["requires"]
    return next((row for row in rows if wheel.index in row["backends"] and version in SpecifierSet(row["torch"])), None)


def _replaced(line: str, change: Mapping[str, Any]) -> bool:
    key, _, value = line.partition(": ")
    name = Requirement(value).name if key == "Requires-Dist" else ""
    return (name.startswith("nvidia-") and "nvidia" in change) or (name == "triton" and not change.get("triton", True))


class TorchIndex:
    """Serve the recorded index under `url("cu121")` and the like from a thread, until the `with` block ends.

    `requested` are the paths that were asked for, in order.
    """

    def __init__(self, port: int = 0) -> None:
        """Take the port, a free one by default, at once; nothing is served before the `with` block begins."""
        self.requested: list[str] = []
        self.answers = dict(_answers(wheels()))
        self.backends = tuple(sorted({wheel.index for wheel in wheels()}))
        self._server = _Server(self, port)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

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
        self._thread.join()

    def url(self, backend: str) -> str:
        """Return the address an installer takes as its index."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/whl/{backend}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    type: str = "text/html"


def _answers(recorded: tuple[Wheel, ...]) -> Iterator[tuple[str, _Answer]]:
    """Yield path and answer for everything the index has."""
    projects: dict[str, dict[str, list[str]]] = {}
    for wheel in recorded:
        made = metadata(wheel)
        links = projects.setdefault(wheel.index, {}).setdefault(wheel.project, [])
        links.append(_link(wheel, hashlib.sha256(made.encode()).hexdigest() if made is not None else None))
        path = unquote(wheel.path)
        yield path, _Answer(status=HTTPStatus.NOT_FOUND, body=ABSENT, type="text/plain")
        if made is not None:
            yield f"{path}.metadata", _Answer(status=HTTPStatus.OK, body=made.encode(), type="text/plain")
    for backend, pages in projects.items():
        yield f"/whl/{backend}/", _page([f'<a href="{name}/">{name}</a><br>' for name in pages])
        yield from ((f"/whl/{backend}/{name}/", _page(links)) for name, links in pages.items())


def _link(wheel: Wheel, described: str | None) -> str:
    both = f' data-dist-info-metadata="sha256={described}" data-core-metadata="sha256={described}"' if described else ""
    evidence = f' data-evidence="{EVIDENCE[wheel.status]}"'
    return f'<a href="{wheel.path}#sha256={wheel.sha256}"{both}{evidence}>{escape(wheel.file)}</a><br>'


def _page(rows: list[str]) -> _Answer:
    text = "\n".join(["<!DOCTYPE html>", "<html><body>", *rows, "</body></html>", ""])
    return _Answer(status=HTTPStatus.OK, body=text.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, index: TorchIndex, port: int) -> None:
        self.index = index
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Write no log: `TorchIndex.requested` is one."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.index.requested.append(path)
        unknown = _Answer(status=HTTPStatus.NOT_FOUND, body=b"not found\n", type="text/plain")
        answer = self.server.index.answers.get(path, unknown)
        self.send_response(answer.status)
        self.send_header("Content-Type", f"{answer.type}; charset=utf-8")
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "max-age=600")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def main() -> None:
    """Serve until Ctrl-C, the settings that point envlock here on standard output."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers.torch_index", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (default: a free one)")
    with TorchIndex(parser.parse_args().port) as index, contextlib.suppress(KeyboardInterrupt):
        for backend in index.backends:
            if "_" not in backend:  # `cu121_full` is a folder beside the indexes
                sys.stdout.write(f"export ENVLOCK_INDEX_{backend.upper()}={index.url(backend)}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
