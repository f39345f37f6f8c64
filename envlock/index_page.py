"""Read a project's page on a package index: PEP 503 HTML or PEP 691 JSON, bytes in and files out.

HTML is brought into the shape of a JSON page first, so that both are held to the same rules.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin, urlsplit

from packaging.utils import NormalizedName, canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from envlock.document import Scope, Shape, decode, quoted, safe
from envlock.errors import Problem, Refused, WorldFailed

__all__ = ["ACCEPT", "READ", "RECORDED", "IndexFile", "parse", "release", "shown"]

ACCEPT: Final = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
"""What to ask an index for; an answer of any of these types can be read here."""

READ: Final = "index page read"
"""The evidence of a hash that the index itself gives."""

RECORDED: Final = ("recorded, cross-checked", "recorded, one source")
"""The evidence of a hash that a replay of an index gives: its links say which, in `data-evidence`."""

_JSON: Final = "application/vnd.pypi.simple.v1+json"
_HTML: Final = ("application/vnd.pypi.simple.v1+html", "text/html")
_HINT: Final = "envlock detect -v"  # shows which address an index name stands for, and who says so
_LISTED: Final = 12  # problems of one page that are shown

_MAJOR_1: Final = Shape(pattern=r"1(\.[0-9]+)*", expected="version 1 of the simple API")
_SHA256: Final = Shape(pattern=r"[0-9A-Fa-f]{64}", expected="64 hexadecimal digits")
_MOMENTS: Final = ("%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%SZ")  # PEP 700: always UTC
# Fits into a folder as one name, and leads nowhere else.
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,254}")
# What an address holds as it is. A `+` is not among it: a store that reads it as a space would not find `2.4.1+cu121`.
_PATH: Final = "/%:@!$&'()*,;=~"
_QUERY: Final = f"{_PATH}+?"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A distribution that a page lists. `url` is absolute and without login; `size` is in bytes.

    `yanked` is the reason, empty where none is given; None says that the file is not yanked. Where `metadata` is set,
    the file's METADATA lies beside it, with `.metadata` behind the path of its `url` (PEP 658).
    """

    file: str
    url: str
    sha256: str | None = None
    size: int | None = None
    requires_python: str | None = None
    yanked: str | None = None
    metadata: bool = False
    metadata_sha256: str | None = None
    uploaded: datetime | None = None
    evidence: str = READ


def parse(
    body: bytes, *, content_type: str, url: str, project: str, index: str, only: Collection[str] | None = None
) -> tuple[IndexFile, ...]:
    """Return the project's distributions in the page's order; any other link is passed over.

    `url` is the page's own address, after redirects; `index` is named in errors; with `only`, files of no other name
    are looked at: there may be thousands. A JSON page may list no file; HTML that lists none of the project is some
    other page. Raise `WorldFailed` (`index-page-invalid`) with what was expected, or `Refused` (`index-ambiguous`) with
    both values where one file name has two hashes.
    """
    kind, name = content_type.partition(";")[0].strip().lower(), canonicalize_name(project)
    page = f"the page of `{name}` on the index `{index}`"
    if kind != _JSON and kind not in _HTML:
        raise _invalid(page, url, Problem(message=f"is of type `{safe(kind)}`", expected=f"one of {ACCEPT}"))
    text = body.decode("utf-8", "replace")
    values = decode(text, shown(url)) if kind == _JSON else _as_json(text, url, name)
    if isinstance(values, Problem):
        raise _invalid(page, url, values)
    top = Scope(values=values, path="", file=shown(url), problems=[])
    found = _found(top, url, name, only)
    own = [file for owner, file in found if owner == name]
    if not own and (found or kind != _JSON):
        others = ", ".join(sorted({f"`{owner}`" for owner, _ in found})[:3])
        top.complain("files", f"are of {others}" if others else "are missing", expected=f"files of `{name}`")
    if top.problems:
        raise _invalid(page, url, *top.problems)
    return _distinct([file for file in own if file], page, url)


def release(file: str) -> tuple[NormalizedName, Version] | None:
    """Return project and version of a wheel or a source distribution; None for any other file name."""
    if not _PLAIN.fullmatch(file):
        return None
    try:
        return parse_wheel_filename(file)[:2] if file.endswith(".whl") else parse_sdist_filename(file)
    except ValueError:
        return None


def shown(url: str) -> str:
    """Return an address as it may be printed: without login, query and fragment."""
    return safe(re.split(r"[?#]", re.sub(r"(?<=//)[^/]*@", "", url), maxsplit=1)[0])


def _found(
    top: Scope, url: str, name: str, only: Collection[str] | None
) -> list[tuple[NormalizedName, IndexFile | None]]:
    """Return every distribution on the page with its project; what is wrong goes to `top.problems`.

    What is not asked for is not looked at, and counts as the page's own.
    """
    meta = top.inner("meta", required=True)
    if meta:
        meta.text("api-version", _MAJOR_1)
    said = top.text("name")
    if said is None or canonicalize_name(said) != name:
        top.complain("name", f"is {quoted(said)}", expected=f"`{name}`")
    found: list[tuple[NormalizedName, IndexFile | None]] = []
    for row in top.each("files"):
        file = row.values.get("filename")
        if not isinstance(file, str):
            row.complain("filename", f"is {quoted(file)}", expected="a text")
        elif only is not None and file not in only:
            found.append((canonicalize_name(name), None))
        elif owner := release(file):
            found.append((owner[0], _file(replace(row, path=file), file, url)))
    return found


def _file(row: Scope, file: str, page: str) -> IndexFile:
    described, described_sha256 = _described(row)
    hashes = row.inner("hashes", required=True)
    return IndexFile(
        file=file,
        url=_address(row, page),
        sha256=_sha256(hashes) if hashes else None,
        size=row.count("size"),
        requires_python=row.text("requires-python", Shape(pattern=".*", expected="printable text")) or None,
        yanked=_yanked(row),
        metadata=described,
        metadata_sha256=described_sha256,
        uploaded=_uploaded(row),
        evidence=row.values["_evidence"] if row.values.get("_evidence") in RECORDED else READ,
    )


def _address(row: Scope, page: str) -> str:
    """Return the file's absolute address; one that is not on the web is a problem, such as `file:`."""
    given = row.values.get("url")
    with contextlib.suppress(ValueError):
        parts = urlsplit(urljoin(page, given) if isinstance(given, str) and given else "")
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:  # `port` refuses what is no number
            host = parts.netloc.rpartition("@")[2]
            path, query = quote(parts.path, safe=_PATH), quote(parts.query, safe=_QUERY)
            return parts._replace(netloc=host, path=path, query=query, fragment="").geturl()
    row.complain("url", f"is {quoted(given)}", expected="an http or https address")
    return ""


def _sha256(hashes: Scope) -> str | None:
    value = hashes.text("sha256", _SHA256)
    return value.lower() if value else None


def _described(row: Scope) -> tuple[bool, str | None]:
    """Return whether the file's METADATA can be had, and its sha256. PEP 714 renamed the key that PEP 658 had."""
    key = next((key for key in ("core-metadata", "dist-info-metadata") if row.values.get(key) is not None), "")
    value = row.values.get(key)
    if value is None or isinstance(value, bool):
        return bool(value), None
    hashes = row.inner(key)
    return (True, _sha256(hashes)) if hashes else (False, None)


def _yanked(row: Scope) -> str | None:
    value = row.values.get("yanked")
    if isinstance(value, str):
        return safe(value) if value else None
    return "" if row.flag("yanked") else None


def _uploaded(row: Scope) -> datetime | None:
    text = row.text("upload-time")
    if text is None:
        return None
    for form in _MOMENTS:
        with contextlib.suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    row.complain("upload-time", f"is {quoted(text)}", expected="such as `2024-12-02T00:00:00Z`")
    return None


def _distinct(files: Iterable[IndexFile], page: str, url: str) -> tuple[IndexFile, ...]:
    """Return each file name once, with its hash where one of its links has it."""
    kept: dict[str, IndexFile] = {}
    problems: list[Problem] = []
    for file in files:
        first = kept.setdefault(file.file, file)
        if first.sha256 is None and file.sha256:
            kept[file.file] = file
        elif file.sha256 not in {None, first.sha256}:
            message = f"has sha256 {first.sha256} and {file.sha256}"
            problems.append(Problem(message=message, file=shown(url), key=file.file, expected="one"))
    if problems:
        listed = tuple(problems[:_LISTED])
        raise Refused(f"{page} gives one file two hashes", code="index-ambiguous", problems=listed, hint=_HINT)
    return tuple(kept.values())


def _invalid(page: str, url: str, *problems: Problem) -> WorldFailed:
    listed = tuple(replace(problem, file=shown(url)) for problem in problems[:_LISTED])
    return WorldFailed(f"{page} cannot be read", code="index-page-invalid", problems=listed, hint=_HINT)


# ---- HTML -----------------------------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """The links of a page, its base address, and the version it states (PEP 629: 1.0 if it states none)."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[Mapping[str, str | None]] = []
        self.base = ""
        self.version = "1.0"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(reversed(attrs))  # of an attribute that is there twice, the first counts
        if tag == "a":
            self.links.append(values)
        elif tag == "base":
            self.base = self.base or values.get("href") or ""
        elif tag == "meta" and values.get("name") == "pypi:repository-version":
            self.version = values.get("content") or ""


def _as_json(text: str, url: str, name: str) -> Mapping[str, Any] | Problem:
    """Return the page as if it were JSON (PEP 691); HTML does not say whose page it is."""
    page = _Page()
    try:
        page.feed(text)  # and no `close`: it would look at what is left again and again
        base = urljoin(url, page.base)
    except (AssertionError, ValueError) as error:  # an unknown declaration, a number of too many digits
        return Problem(message=f"is unreadable HTML: {safe(str(error))}", expected="links to files (PEP 503)")
    return {"meta": {"api-version": page.version}, "name": name, "files": list(_rows(page.links, base))}


def _rows(links: Iterable[Mapping[str, str | None]], base: str) -> Iterator[Mapping[str, Any]]:
    for link in links:
        try:
            parts = urlsplit(urljoin(base, (link.get("href") or "").strip()))
        except ValueError:
            continue  # to no file, then
        file = unquote(parts.path.rpartition("/")[2])
        if not release(file):
            continue
        metadata = link.get("data-core-metadata", link.get("data-dist-info-metadata", "false"))
        yield {
            "filename": file,
            "url": parts.geturl(),
            "hashes": _hash(parts.fragment),
            "requires-python": link.get("data-requires-python"),
            "yanked": (link["data-yanked"] or True) if "data-yanked" in link else None,
            "core-metadata": metadata != "false" and _hash(metadata or ""),
            "_evidence": link.get("data-evidence"),
        }


def _hash(text: str) -> Mapping[str, str]:
    """Return the sha256 in `sha256=…` or `egg=…&sha256=…`; hashes of other names are none to rely on."""
    values = (part.removeprefix("sha256=") for part in text.split("&") if part.startswith("sha256="))
    return {"sha256": value} if (value := next(values, None)) is not None else {}
