"""Ask a package index what it lists, and hold it to what it said: pages, METADATA, and the hashes it does not give.

Pages, and files whose hash only their bytes can tell, come from the index itself: a redirect to another host is not
followed. Bytes whose hash is known may lie wherever one leads, which gets no login: mirrors keep them in some storage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from packaging.metadata import RawMetadata, parse_email
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from envlock import address, index_page, net
from envlock.document import safe
from envlock.errors import Problem, Refused, WorldFailed
from envlock.index_page import IndexFile, release, shown

__all__ = ["DOWNLOADED", "Index", "download", "files", "hashed", "metadata", "unchanged"]

DOWNLOADED: Final = "downloaded and hashed"
"""The evidence of a hash that the index does not give."""

# Bytes, unpacked: far above whatever an index of this kind holds, and a stop for one that never ends. Of a page: some
# 16,000 files at a kilobyte each, where the longest that are known have a few thousand.
_PAGE: Final = 1 << 24
_METADATA: Final = 1 << 22
_FILE: Final = 1 << 34

_OK: Final = 200
_ABSENT: Final = (404, 410)
_HINT: Final = "envlock detect -v"  # shows which address an index name stands for, and who says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A package index: the name that locks know it by, and its address of the day, with a login if it needs one."""

    name: str
    url: str


def files(
    project: str,
    index: Index,
    *,
    environ: Mapping[str, str],
    seconds: float = net.LIMIT_SECONDS,
    only: Collection[str] | None = None,
) -> tuple[IndexFile, ...]:
    """Return what the index lists for a project, at least one file; with `only`, what it has of these names.

    `seconds` is how long it may stay silent.

    Raise `Refused` (`index-lacks-package`, `index-ambiguous`) or `WorldFailed` (`index-page-invalid`, `network`,
    `redirected`, `answer-too-large`).
    """
    name = canonicalize_name(project)
    url = f"{index.url.rstrip('/')}/{name}/"
    what = f"the page of `{name}` on the index `{index.name}` ({shown(url)})"
    with net.ask(
        url, environ=environ, what=what, accept=index_page.ACCEPT, unpack=True, index=index.url, seconds=seconds
    ) as answer:
        _there(answer, what, code="index-lacks-package")
        body = b"".join(net.bounded(answer.chunks, _PAGE, what))
    kind, place = answer.content_type, answer.url
    found = index_page.parse(body, content_type=kind, url=place, project=name, index=index.name, only=only)
    if not found and only is None:
        raise Refused(f"{what} lists no file", code="index-lacks-package", hint=_HINT)
    return found


def metadata(file: IndexFile, index: Index, *, environ: Mapping[str, str], seconds: float = net.LIMIT_SECONDS) -> bytes:
    """Return the METADATA of a file that has it beside it: the bytes its page names, of the release it is named for.

    Raise `Refused` (`artifact-missing`, `hash-mismatch`, `metadata-mismatch`) or `WorldFailed` as `files` does.
    """
    parts = urlsplit(file.url)
    url = parts._replace(path=f"{parts.path}.metadata").geturl()
    what = f"the METADATA of `{file.file}` on the index `{index.name}` ({shown(url)})"
    known = file.metadata_sha256 is not None
    with _asked(url, index, environ, what=what, anywhere=known, seconds=seconds) as answer:
        _there(answer, what, code="artifact-missing")
        body = b"".join(net.bounded(answer.chunks, _METADATA, what))
    sha256 = hashlib.sha256(body).hexdigest()
    if file.metadata_sha256 not in {None, sha256}:
        problem = Problem(file=file.file, message=f"METADATA has sha256 {sha256}", expected=file.metadata_sha256)
        raise Refused(
            f"{what} is another one than its page names", code="hash-mismatch", problems=(problem,), hint=_HINT
        )
    raw, _ = parse_email(body)
    if _release(raw) != release(file.file):
        said = safe(f"{raw.get('name')} {raw.get('version')}")
        problem = Problem(file=file.file, message=f"METADATA is of `{said}`", expected="what the file is named for")
        raise Refused(f"{what} is of another release", code="metadata-mismatch", problems=(problem,), hint=_HINT)
    return body


def hashed(
    file: IndexFile, index: Index, *, environ: Mapping[str, str], seconds: float = net.LIMIT_SECONDS
) -> IndexFile:
    """Return the file with a hash: its page's, else that of its bytes, which are downloaded once and not kept.

    The evidence then says so. Raise `Refused` (`artifact-missing`, `hash-mismatch`, `index-insecure`) or `WorldFailed`
    as `files` does.
    """
    if file.sha256:
        return file
    what = f"`{file.file}` on the index `{index.name}` ({shown(file.url)})"
    if urlsplit(index.url).scheme == "https" != urlsplit(file.url).scheme:
        raise Refused(f"{what} has no hash and would come without TLS", code="index-insecure", hint=_HINT)
    digest, size = hashlib.sha256(), 0
    for chunk in _content(file, index, environ, what=what, anywhere=False, seconds=seconds):
        digest.update(chunk)
        size += len(chunk)
    if file.size not in {None, size}:
        problem = Problem(file=file.file, message=f"has {size} bytes", expected=f"{file.size}, as its page says")
        raise Refused(f"{what} is not what its page names", code="hash-mismatch", problems=(problem,), hint=_HINT)
    return replace(file, sha256=digest.hexdigest(), size=size, evidence=DOWNLOADED)


def download(
    file: IndexFile,
    index: Index,
    to: Path,
    *,
    sha256: str,
    environ: Mapping[str, str],
    seconds: float = net.LIMIT_SECONDS,
) -> None:
    """Write a file's bytes to `to`: they have that sha256, or nothing is there afterwards.

    Raise `Refused` (`artifact-missing`, `hash-mismatch`), `WorldFailed` as `files` does, or `OSError`.
    """
    what = f"`{file.file}` on the index `{index.name}` ({shown(file.url)})"
    digest, sound = hashlib.sha256(), False
    try:
        with to.open("wb") as place:
            for chunk in _content(file, index, environ, what=what, anywhere=True, seconds=seconds):
                digest.update(chunk)
                place.write(chunk)
        sound = digest.hexdigest() == sha256
    finally:
        if not sound:
            to.unlink(missing_ok=True)
    if not sound:
        problem = Problem(file=file.file, message=f"has sha256 {digest.hexdigest()}", expected=sha256)
        raise Refused(f"{what} is not what is locked", code="hash-mismatch", problems=(problem,), hint=_HINT)


def unchanged(known: Mapping[str, str], found: Iterable[IndexFile], index: Index) -> None:
    """Raise `Refused` (`index-changed`) with both values unless the files have the hashes known of them.

    `known` maps a file name to a sha256; a file that the index lists without one is not held to it.
    """
    listed = {file.file: file.sha256 for file in found}
    now = {file: listed.get(file, "not listed") for file in sorted(known)}
    problems = tuple(
        Problem(file=file, message=f"is {value}", expected=f"sha256 {known[file]}")
        for file, value in now.items()
        if value not in {None, known[file]}
    )
    if problems:
        message = f"the index `{index.name}` ({shown(index.url)}) gives other files than it did"
        raise Refused(message, code="index-changed", problems=problems, hint=_HINT)


def _content(
    file: IndexFile, index: Index, environ: Mapping[str, str], *, what: str, anywhere: bool, seconds: float
) -> Iterator[bytes]:
    with _asked(file.url, index, environ, what=what, anywhere=anywhere, seconds=seconds) as answer:
        _there(answer, what, code="artifact-missing")
        yield from net.bounded(answer.chunks, _FILE, what)


def _asked(
    url: str, index: Index, environ: Mapping[str, str], *, what: str, anywhere: bool, seconds: float
) -> AbstractContextManager[net.Answer]:
    own = address.carried(url, [index.url])
    return net.ask(own, environ=environ, what=what, anywhere=anywhere, index=index.url, seconds=seconds)


def _there(answer: net.Answer, what: str, *, code: str) -> None:
    if answer.status in _ABSENT:
        raise Refused(f"{what} is not there", code=code, hint=_HINT)
    if answer.status != _OK:
        raise WorldFailed(f"cannot fetch {what}: HTTP {answer.status} {answer.reason}", code="network", hint=_HINT)


def _release(raw: RawMetadata) -> tuple[NormalizedName, Version] | None:
    try:
        return canonicalize_name(raw.get("name", "")), Version(raw.get("version", ""))
    except ValueError:  # also for a number of more digits than Python reads
        return None
