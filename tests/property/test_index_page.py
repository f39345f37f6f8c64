"""Any page gives files or an error of ours; the same files written as HTML and as JSON are read alike."""

from __future__ import annotations

import html
import json
from contextlib import suppress
from datetime import timezone
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from envlock.errors import Refused, WorldFailed
from envlock.index_page import RECORDED, IndexFile, parse, release

JSON = "application/vnd.pypi.simple.v1+json"
HTML = "application/vnd.pypi.simple.v1+html"
URL = "https://index.example/whl/cu121/torch/"

kinds = st.sampled_from([JSON, HTML, "text/html; charset=utf-8"])
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
printable = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=20)
names = st.builds(
    "torch-{}.{}{}-cp3{}-cp3{}-{}.whl".format,
    st.integers(0, 99),
    st.integers(0, 99),
    st.sampled_from(["", "+cpu", "+cu121", ".post1", "rc2+cu118"]),
    st.integers(8, 14),
    st.sampled_from(["10", "13t"]),
    st.sampled_from(["linux_x86_64", "manylinux_2_28_x86_64", "win_amd64"]),
) | st.builds("torch-{}.{}".format, st.integers(0, 99), st.sampled_from(["0.tar.gz", "1.zip"]))


@st.composite
def files(draw: st.DrawFn) -> IndexFile:
    name = draw(names)
    host, query = (
        draw(st.sampled_from(["index.example", "h:8443"])),
        draw(st.sampled_from(["", "?x=1", "?a=b+c&d=%2F"])),
    )
    metadata = draw(st.booleans())
    return IndexFile(
        file=name,
        url=f"https://{host}/{quote(draw(printable))}/{quote(name)}{query}",
        sha256=draw(st.none() | digests),
        size=draw(st.none() | st.integers(1, 10**12)),
        requires_python=draw(st.none() | printable),
        yanked=draw(st.none() | st.just("") | printable),
        metadata=metadata,
        metadata_sha256=draw(st.none() | digests) if metadata else None,
        uploaded=draw(st.none() | st.datetimes(timezones=st.just(timezone.utc))),
        evidence=draw(st.sampled_from(["index page read", *RECORDED])),
    )


def as_json(listed: list[IndexFile]) -> bytes:
    rows = [
        {
            "filename": file.file,
            "url": file.url,
            "hashes": {"sha256": file.sha256} if file.sha256 else {"md5": "0"},
            "size": file.size,
            "requires-python": file.requires_python,
            "yanked": True if file.yanked == "" else file.yanked,
            "core-metadata": {"sha256": file.metadata_sha256} if file.metadata_sha256 else file.metadata,
            "upload-time": file.uploaded and file.uploaded.isoformat(timespec="microseconds")[:-6] + "Z",
            "_evidence": file.evidence,
            "unheard-of": [file.file],
        }
        for file in listed
    ]
    return json.dumps({"meta": {"api-version": "1.9"}, "name": "Torch", "files": rows}).encode()


def as_html(listed: list[IndexFile]) -> bytes:
    links = []
    for file in listed:
        attributes = {"href": f"{file.url}#sha256={file.sha256}" if file.sha256 else file.url}
        attributes |= {"data-requires-python": file.requires_python} if file.requires_python else {}
        attributes |= {"data-yanked": file.yanked} if file.yanked is not None else {}
        described = f"sha256={file.metadata_sha256}" if file.metadata_sha256 else "true"
        attributes |= {"data-core-metadata": described} if file.metadata else {}
        attributes |= {"data-evidence": file.evidence}
        text = " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items())
        links.append(f"<a {text}>{html.escape(file.file)}</a><br>")
    return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()


pages = st.lists(files(), min_size=1, max_size=6, unique_by=lambda file: file.file)


@given(pages)
def test_what_is_written_as_json_is_read_back(listed: list[IndexFile]) -> None:
    assert list(parse(as_json(listed), content_type=JSON, url=URL, project="torch", index="cu121")) == listed


@given(pages)
def test_html_says_the_same_but_for_sizes_and_times(listed: list[IndexFile]) -> None:
    read = parse(as_html(listed), content_type=HTML, url=URL, project="torch", index="cu121")
    assert [(one.file, one.url, one.sha256, one.requires_python, one.yanked) for one in read] == [
        (one.file, one.url, one.sha256, one.requires_python, one.yanked) for one in listed
    ]
    assert [(one.metadata, one.metadata_sha256, one.evidence, one.size, one.uploaded) for one in read] == [
        (one.metadata, one.metadata_sha256, one.evidence, None, None) for one in listed
    ]


def attempt(body: bytes, kind: str) -> None:
    """Read a page; whatever comes of it is whole, or one of our errors."""
    with suppress(WorldFailed, Refused):
        for file in parse(body, content_type=kind, url=URL, project="torch", index="cu121"):
            found = release(file.file)
            assert found is not None
            assert found[0] == "torch"
            assert file.url.startswith(("http://", "https://"))
            assert file.sha256 is None or len(file.sha256) == 64


@given(st.binary(max_size=300), kinds)
def test_any_bytes_are_read_or_refused(body: bytes, kind: str) -> None:
    attempt(body, kind)


parts = st.sampled_from(["<", ">", "<!", "<![", "<![if", "]]>", "<!--", "<?", "</", "<script>", "<!DOCTYPE [", "\x00"])
parts |= st.sampled_from(
    ["<a ", "<base href=", "<meta name=pypi:repository-version ", "content=", "href=", "data-yanked"]
)
parts |= st.sampled_from(
    ['"', "'", "&#", "99999", ";", "&amp", "http://[", "//", "://", "%", "%2F", " ", "\n", "\ufffd"]
)
parts |= st.sampled_from(["torch-1.tar.gz", "#sha256=", "a" * 64, "data-core-metadata="])


@given(st.lists(parts, max_size=20))
def test_any_markup_is_read_or_refused(markup: list[str]) -> None:
    attempt("".join(markup).encode(), HTML)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | digests | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    ["filename", "url", "hashes", "sha256", "size", "yanked", "core-metadata", "requires-python", "upload-time"]
)


@given(st.lists(st.dictionaries(keys, values | st.just({"sha256": 7})), max_size=3), values, values)
def test_any_json_is_read_or_refused(rows: list[dict[str, object]], meta: object, name: object) -> None:
    whole = [{"filename": "torch-1.tar.gz", "url": "x", "hashes": {}} | row for row in rows]
    for document in (
        meta,
        {"meta": meta, "files": rows},
        {"meta": {"api-version": "1.0"}, "name": name, "files": whole},
    ):
        attempt(json.dumps(document).encode(), JSON)
    attempt(json.dumps({"meta": {"api-version": "1.0"}, "name": "torch", "files": whole}).encode(), JSON)
