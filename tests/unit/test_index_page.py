"""A page of an index, in HTML or JSON, is read to files, or refused with what was expected."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from typing import Any

import pytest

from envlock.errors import EnvlockError, Refused, WorldFailed
from envlock.index_page import READ, IndexFile, parse, release, shown

URL = "https://index.example/whl/cu121/torch/"
JSON = "application/vnd.pypi.simple.v1+json"
WHEEL = "torch-2.4.1+cu121-cp310-cp310-linux_x86_64.whl"
ESCAPED = WHEEL.replace("+", "%2B")
A, B = "a" * 64, "b" * 64


def html(text: str, url: str = URL) -> tuple[IndexFile, ...]:
    return parse(text.encode(), content_type="text/html; charset=utf-8", url=url, project="Torch", index="cu121")


def link(attributes: str = "", *, href: str = f"/whl/cu121/{ESCAPED}#sha256={A}") -> IndexFile:
    (file,) = html(f'<!DOCTYPE html><html><body><a href="{href}" {attributes}>torch</a><br></body></html>')
    return file


def page(*files: object, **top: object) -> Any:
    return {"meta": {"api-version": "1.1"}, "name": "torch", "files": list(files)} | top


def row(**keys: object) -> dict[str, object]:
    usual: dict[str, object] = {"filename": WHEEL, "url": f"../{ESCAPED}", "hashes": {"sha256": A}}
    return usual | {key.replace("_", "-"): value for key, value in keys.items()}


def listed(document: object, url: str = URL) -> tuple[IndexFile, ...]:
    return parse(json.dumps(document).encode(), content_type=JSON, url=url, project="Torch", index="cu121")


def refused(text: str, kind: str = "text/html", url: str = URL) -> EnvlockError:
    with pytest.raises(EnvlockError) as caught:
        parse(text.encode(), content_type=kind, url=url, project="Torch", index="cu121")
    error = caught.value
    assert {problem.file for problem in error.problems} == {shown(URL)}
    assert error.message.startswith("the page of `torch` on the index `cu121` ")
    assert error.hint == "envlock detect -v"
    return error


def invalid(text: str, kind: str = "text/html") -> str:
    error = refused(text, kind)
    assert (type(error), error.code) == (WorldFailed, "index-page-invalid")
    return "\n".join(str(problem).removeprefix(f"{URL}: ") for problem in error.problems)


# ---- what is read ---------------------------------------------------------------------------------------------------


def test_a_link_of_the_pytorch_index() -> None:
    described = f'data-dist-info-metadata="sha256={B}" data-core-metadata="sha256={B}"'
    assert link(f'data-requires-python="&gt;=3.8.0" {described}') == IndexFile(
        file=WHEEL,
        url=f"https://index.example/whl/cu121/{ESCAPED}",
        sha256=A,
        requires_python=">=3.8.0",
        metadata=True,
        metadata_sha256=B,
        evidence=READ,
    )


def test_a_row_of_json() -> None:
    keys = {"size": 7, "requires_python": ">=3.8", "yanked": "breaks", "core_metadata": {"sha256": B}}
    assert listed(page(row(upload_time="2024-09-04T19:17:44.7Z", **keys))) == (
        IndexFile(
            file=WHEEL,
            url=f"https://index.example/whl/cu121/{ESCAPED}",
            sha256=A,
            size=7,
            requires_python=">=3.8",
            yanked="breaks",
            metadata=True,
            metadata_sha256=B,
            uploaded=datetime(2024, 9, 4, 19, 17, 44, 700_000, tzinfo=timezone.utc),
        ),
    )


@pytest.mark.parametrize(
    ("href", "url"),
    [
        (ESCAPED, f"{URL}{ESCAPED}"),
        (WHEEL, f"{URL}{ESCAPED}"),
        (f" ../../{ESCAPED}\n", f"https://index.example/whl/{ESCAPED}"),
        (f"https://download.pytorch.org/whl/{ESCAPED}", f"https://download.pytorch.org/whl/{ESCAPED}"),
        (f"https://download-r2.pytorch.org/whl/{ESCAPED}", f"https://download-r2.pytorch.org/whl/{ESCAPED}"),
        (f"//cdn.index.example:8443/{ESCAPED}", f"https://cdn.index.example:8443/{ESCAPED}"),
        (f"https://me:secret@index.example/{ESCAPED}", f"https://index.example/{ESCAPED}"),
        (f"a b/ü/{ESCAPED}?key=a+b&amp;x=ü", f"{URL}a%20b/%C3%BC/{ESCAPED}?key=a+b&x=%C3%BC"),
    ],
)
def test_where_a_link_leads(href: str, url: str) -> None:
    assert (link(href=href).url, link(href=href).file) == (url, WHEEL)


def test_the_first_base_address_counts() -> None:
    bases = '<base target="_blank"><base href="/files/deep/"><base href="/other/">'
    (file,) = html(f'{bases}<a href="../{ESCAPED}">x</a>')
    assert file.url == f"https://index.example/files/{ESCAPED}"


@pytest.mark.parametrize(
    ("fragment", "sha256"),
    [
        ("", None),
        ("#", None),
        (f"#sha256={A}", A),
        (f"#sha256={A.upper()}", A),
        (f"#egg=torch&amp;sha256={A}", A),
        ("#md5=d41d8cd98f00b204e9800998ecf8427e", None),
        (f"#sha512={A}{B}", None),
    ],
)
def test_only_a_sha256_is_a_hash(fragment: str, sha256: str | None) -> None:
    assert link(href=f"{ESCAPED}{fragment}").sha256 == sha256


def test_other_hashes_in_json_are_none() -> None:
    assert listed(page(row(hashes={"md5": "d41d8cd98f00b204e9800998ecf8427e"})))[0].sha256 is None
    assert listed(page(row(hashes={})))[0].sha256 is None


@pytest.mark.parametrize(
    ("attributes", "described"),
    [
        ("", (False, None)),
        ('data-core-metadata="false"', (False, None)),
        ("data-core-metadata", (True, None)),
        ('data-core-metadata="true"', (True, None)),
        (f'data-dist-info-metadata="sha256={B}"', (True, B)),
        (f'data-dist-info-metadata="sha512={A}{B}"', (True, None)),
        (f'data-dist-info-metadata="sha256={A}" data-core-metadata="sha256={B}"', (True, B)),
    ],
)
def test_metadata_beside_a_link(attributes: str, described: tuple[bool, str | None]) -> None:
    assert (link(attributes).metadata, link(attributes).metadata_sha256) == described


@pytest.mark.parametrize(
    ("keys", "described"),
    [
        ({}, (False, None)),
        ({"core_metadata": None}, (False, None)),
        ({"core_metadata": False, "dist_info_metadata": True}, (False, None)),
        ({"dist_info_metadata": True}, (True, None)),
        ({"core_metadata": {}}, (True, None)),
        ({"dist_info_metadata": {"sha256": B.upper()}}, (True, B)),
    ],
)
def test_metadata_beside_a_row(keys: dict[str, object], described: tuple[bool, str | None]) -> None:
    (file,) = listed(page(row(**keys)))
    assert (file.metadata, file.metadata_sha256) == described


@pytest.mark.parametrize(
    ("attribute", "value", "yanked"),
    [
        ("", None, None),
        ("", False, None),
        ("", "", None),
        ("data-yanked", True, ""),
        ('data-yanked=""', True, ""),
        ('data-yanked="broken on Pascal"', "broken on Pascal", "broken on Pascal"),
        ('data-yanked="\x1b[31m"', "\x1b[31m", '"\\u001b[31m"'),
    ],
)
def test_a_yanked_file_keeps_its_reason(attribute: str, value: object, yanked: str | None) -> None:
    assert link(attribute).yanked == yanked
    assert listed(page(row(yanked=value)))[0].yanked == yanked


@pytest.mark.parametrize("said", ["recorded, cross-checked", "recorded, one source"])
def test_a_replay_says_what_its_hashes_rest_on(said: str) -> None:
    assert link(f'data-evidence="{said}"').evidence == said
    assert link('data-evidence="believe me"').evidence == READ


def test_no_upload_time_and_one_without_a_fraction() -> None:
    assert link().uploaded is None
    (file,) = listed(page(row(upload_time="2024-09-04T19:17:44Z")))
    assert file.uploaded == datetime(2024, 9, 4, 19, 17, 44, tzinfo=timezone.utc)


def test_what_is_no_distribution_of_the_project_is_passed_over() -> None:
    others = ["../", "mailto:x@index.example", "http://[", "torch-2.4.1.exe", "torch-x-py3-none-any.whl", "torch.whl"]
    others += ["numpy-2.0.0-py3-none-any.whl", f"{'x' * 300}-1-py3-none-any.whl", "torch-1..%2f..%2fx.tar.gz"]
    text = "".join(f'<a href="{one}">x</a>' for one in others)
    (file,) = html(f'{text}<a name="top"><a href><a href="Torch-2.4.1.tar.gz">')
    assert file.file == "Torch-2.4.1.tar.gz"
    rows = [row(filename=name) for name in ("torch-2.4.1.exe", "", "numpy-2.0.0-py3-none-any.whl", "../torch-1.tar.gz")]
    assert [file.file for file in listed(page(*rows, row()))] == [WHEEL]


def test_the_first_of_two_links_to_one_file_counts_unless_only_the_other_has_a_hash() -> None:
    first, second = f"https://download.pytorch.org/{ESCAPED}", f"https://download-r2.pytorch.org/{WHEEL}"
    for left, right, kept in (("", "", first), (A, A, first), (A, "", first), ("", A, second)):
        one, other = (f"#sha256={sha256}" if sha256 else "" for sha256 in (left, right))
        (file,) = html(f'<a href="{first}{one}">x</a><a href="{second}{other}">x</a>')
        assert (file.url, file.sha256) == (kept.replace("+", "%2B"), A if left or right else None)


@pytest.mark.parametrize("kind", ["text/html", JSON])
def test_of_the_files_that_are_asked_for_alone_something_is_read(kind: str) -> None:
    other = "torch-2.4.0-py3-none-any.whl"
    broken = f'<a href="{other}#sha256=abc">x</a><a href="{ESCAPED}#sha256={A}">x</a>'
    text = broken if kind == "text/html" else json.dumps(page(row(filename=other, url=1, size="x"), row()))

    def names(*only: str) -> list[str]:
        read = parse(text.encode(), content_type=kind, url=URL, project="torch", index="cu121", only=only)
        return [file.file for file in read]

    assert names(WHEEL, "gone.whl") == [WHEEL]
    assert names("gone.whl") == []
    with pytest.raises(WorldFailed):
        names(WHEEL, other)


def test_a_json_page_may_list_nothing() -> None:
    assert listed(page()) == ()
    assert listed(page(row(filename="torch-2.4.1.exe"))) == ()


def test_a_name_is_compared_in_its_normal_form() -> None:
    files = listed(page(row(filename="Torch-2.4.1.tar.gz"), name="TORCH"))
    assert [file.file for file in files] == ["Torch-2.4.1.tar.gz"]


def test_the_release_of_a_file() -> None:
    found = release(WHEEL)
    assert found is not None
    assert (found[0], str(found[1]), found[1].local) == ("torch", "2.4.1+cu121", "cu121")


@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("https://me:se?c#ret@index.example/whl/?token=x#y", "https://index.example/whl/"),
        ("http://index.example/\x1b[31m", '"http://index.example/\\u001b[31m"'),
    ],
)
def test_an_address_is_shown_without_what_is_secret(url: str, printed: str) -> None:
    assert shown(url) == printed


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00\xff garbage",
        "<h1>502 Bad Gateway</h1>",
        '<form action="/login"><a href="/help">Log in to the network</a></form>',
        '{"files": []}',
    ],
)
def test_html_without_a_file_of_the_project_is_some_other_page(text: str) -> None:
    assert invalid(text) == "`files`: are missing (expected files of `torch`)"


def test_the_page_of_another_project() -> None:
    assert invalid('<a href="numpy-2.0.0.tar.gz">x</a>') == "`files`: are of `numpy` (expected files of `torch`)"
    assert invalid(json.dumps(page(name="numpy")), JSON) == '`name`: is "numpy" (expected `torch`)'
    assert invalid(json.dumps(page(row(filename="numpy-2.0.0.tar.gz"))), JSON).startswith("`files`: are of `numpy`")


@pytest.mark.parametrize(
    "text",
    [f'<a href="{"&#" + "9" * 5000 + ";"}">x</a>', '<base href="http://[">'],
    ids=["number", "base"],
)
def test_html_that_cannot_be_read(text: str) -> None:
    assert invalid(text).startswith("is unreadable HTML: ")


def test_a_later_version_of_the_api() -> None:
    meta = '<meta name="viewport" content="2"><meta name="pypi:repository-version" content="{}">'
    assert html(f'{meta.format("1.3")}<a href="{ESCAPED}">x</a>')
    for version in ("2.0", "", "10"):
        assert "`meta.api-version`: is " in invalid(f'{meta.format(version)}<a href="{ESCAPED}">x</a>')
    assert invalid(json.dumps(page(meta={"api-version": "2.0"})), JSON) == (
        '`meta.api-version`: is "2.0" (expected version 1 of the simple API)'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty (expected a JSON object)"),
        ("<html>", "is not JSON"),
        ("[]", "holds a list (expected a JSON object)"),
        ("[" * 100_000, "is nested too deeply"),
        (f'{{"a": {"9" * 5000}}}', "holds a number of too many digits"),
    ],
)
def test_a_text_that_is_no_json(text: str, said: str) -> None:
    assert said in invalid(text, JSON)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (page(meta=None), "`meta`: is missing (expected an object)"),
        (page(meta=[]), "`meta`: is a list (expected an object)"),
        (page(name=None), "`name`: is null (expected `torch`)"),
        (page(files={}), "`files`: is an object (expected a list of objects)"),
        (page(7), "`files[0]`: is 7 (expected an object)"),
        (page(row(filename=None)), "`files[0].filename`: is null (expected a text)"),
        (page(row(url=None)), f"`{WHEEL}.url`: is null (expected an http or https address)"),
        (page(row(url="")), f'`{WHEEL}.url`: is "" (expected'),
        (page(row(url=["x"])), f"`{WHEEL}.url`: is a list (expected"),
        (page(row(url="file:///etc/x.whl")), f'`{WHEEL}.url`: is "file:///etc/x.whl" (expected'),
        (page(row(url="http:///x.whl")), f'`{WHEEL}.url`: is "http:///x.whl"'),
        (page(row(url="http://h:99999/x.whl")), f'`{WHEEL}.url`: is "http://h:99999/x.whl"'),
        (page(row(url="http://[/x.whl")), f'`{WHEEL}.url`: is "http://[/x.whl"'),
        (page(row(url="\ud800")), f'`{WHEEL}.url`: is "\\ud800"'),
        (page(row(hashes=None)), f"`{WHEEL}.hashes`: is missing (expected an object)"),
        (page(row(hashes={"sha256": "a1"})), f'`{WHEEL}.hashes.sha256`: is "a1" (expected 64 hexadecimal digits)'),
        (page(row(hashes={"sha256": 1})), f"`{WHEEL}.hashes.sha256`: is 1"),
        (page(row(core_metadata={"sha256": "b"})), f'`{WHEEL}.core-metadata.sha256`: is "b"'),
        (page(row(dist_info_metadata="yes")), f'`{WHEEL}.dist-info-metadata`: is "yes"'),
        (page(row(size=-1)), f"`{WHEEL}.size`: is -1 (expected a whole number above 0)"),
        (page(row(size=True)), f"`{WHEEL}.size`: is true"),
        (page(row(requires_python=3)), f"`{WHEEL}.requires-python`: is 3"),
        (page(row(yanked=1)), f"`{WHEEL}.yanked`: is 1 (expected true or false)"),
        (page(row(upload_time="yesterday")), f'`{WHEEL}.upload-time`: is "yesterday" (expected such as'),
        (page(row(upload_time=1)), f"`{WHEEL}.upload-time`: is 1"),
    ],
)
def test_json_of_wrong_types_names_the_file_and_the_key(document: object, said: str) -> None:
    assert said in invalid(json.dumps(document), JSON)


def test_a_link_with_half_a_hash_names_the_file() -> None:
    assert invalid(f'<a href="{ESCAPED}#sha256=abc">x</a>') == (
        f'`{WHEEL}.hashes.sha256`: is "abc" (expected 64 hexadecimal digits)'
    )
    half = f'<a href="{ESCAPED}" data-core-metadata="sha256=">x</a>'
    assert invalid(half).startswith(f'`{WHEEL}.core-metadata.sha256`: is ""')
    assert invalid(f'<a href="file:///{ESCAPED}">x</a>').startswith(f"`{WHEEL}.url`: is ")


def test_a_file_with_two_hashes() -> None:
    links = "".join(f'<a href="https://{host}/{ESCAPED}#sha256={sha}">x</a>' for host, sha in (("x", A), ("y", B)))
    rows = json.dumps(page(row(), row(hashes={"sha256": B})))
    for error in (refused(links), refused(rows, JSON)):
        assert (type(error), error.code) == (Refused, "index-ambiguous")
        (problem,) = error.problems
        assert (problem.key, problem.message) == (WHEEL, f"has sha256 {A} and {B}")


@pytest.mark.parametrize("kind", ["", "application/json", "application/octet-stream", "text/\x1b"])
def test_a_type_that_no_index_answers_with(kind: str) -> None:
    assert "expected one of application/vnd.pypi.simple.v1+json" in invalid("{}", kind)


def test_a_page_full_of_mistakes_shows_a_few_and_no_login() -> None:
    rows = json.dumps(page(*(row(size="x") for _ in range(50))))
    error = refused(rows, JSON, URL.replace("//", "//me:secret@"))
    assert len(error.problems) == 12


@pytest.mark.parametrize("piece", ["<a ", "<!--x", "<a href='", "</a ", "<?x", "<!x ", "<b", "<", "&#", "<![CDATA["])
def test_what_never_ends_is_read_once(piece: str) -> None:
    before = time.process_time()
    invalid(piece * ((1 << 19) // len(piece)))
    assert time.process_time() - before < 8
    (file,) = html(f'<a href="../{ESCAPED}">torch</a>{piece}')
    assert file.file == WHEEL
