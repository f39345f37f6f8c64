"""What uv's and pip's settings say: the address of the default index with its line, and what is left aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from envlock import ambient_text
from envlock.ambient_text import Table
from envlock.config import Ambient
from envlock.errors import Problem

URL = "https://index.example/simple"
UV = "/p/uv.toml"
PIP = "/etc/pip.conf"
FOLDER = "/here"


def uv(*texts: str, environ: Mapping[str, str] | None = None, file: str = UV) -> Ambient:
    """Read these files, the strongest first; the name of each but the first has its number."""
    tables = []
    for place, text in enumerate(texts):
        table = ambient_text.uv_table(text, file if place == 0 else f"/{place}{file}")
        assert isinstance(table, Table)
        tables.append(table)
    return ambient_text.uv(tables, environ or {})


def pip(*texts: str) -> Ambient:
    """Read these files, the weakest first."""
    named = ((PIP if place == 0 else f"/{place}{PIP}", text) for place, text in enumerate(texts))
    return ambient_text.pip(named, FOLDER)


def found(ambient: Ambient) -> tuple[object, str] | None:
    assert ambient.fault is None
    return (ambient.index.value, ambient.index.origin) if ambient.index else None


def unused(ambient: Ambient) -> list[tuple[str, str]]:
    assert {one.value for one in ambient.unused} <= {"not used"}
    return [(one.name, one.origin) for one in ambient.unused]


# ---- variables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "known"),
    [
        ({}, None),
        ({"UV_DEFAULT_INDEX": URL, "UV_INDEX_URL": "https://x.example"}, (URL, "UV_DEFAULT_INDEX")),
        ({"UV_DEFAULT_INDEX": "", "UV_INDEX_URL": URL}, (URL, "UV_INDEX_URL")),
        ({"UV_DEFAULT_INDEX": f"my.company={URL}"}, (URL, "UV_DEFAULT_INDEX")),
        ({"UV_DEFAULT_INDEX": "company=/srv/simple"}, ("file:///srv/simple", "UV_DEFAULT_INDEX")),
        ({"UV_DEFAULT_INDEX": "../a b"}, ("file:///a%20b", "UV_DEFAULT_INDEX")),
        ({"UV_DEFAULT_INDEX": f"{URL}?a=/b"}, (f"{URL}?a=/b", "UV_DEFAULT_INDEX")),
    ],
)
def test_variables_of_uv(environ: Mapping[str, str], known: tuple[str, str] | None) -> None:
    assert found(ambient_text.uv_variables(environ, FOLDER)) == known


@pytest.mark.parametrize(
    ("environ", "known"),
    [
        ({}, None),
        ({"PIP_INDEX_URL": ""}, None),
        ({"PIP_INDEX_URL": URL}, (URL, "PIP_INDEX_URL")),
        ({"PIP_INDEX_URL": "./simple"}, ("file:///here/simple", "PIP_INDEX_URL")),
        ({"PIP_INDEX_URL": "simple"}, ("simple", "PIP_INDEX_URL")),
    ],
)
def test_variables_of_pip(environ: Mapping[str, str], known: tuple[str, str] | None) -> None:
    assert found(ambient_text.pip_variables(environ, FOLDER)) == known


def test_what_else_variables_say_is_not_used() -> None:
    environ = {
        "UV_INDEX": URL,
        "UV_NO_INDEX": "false",
        "PIP_FIND_LINKS": "/srv",
        "PIP_NO_INDEX": "0",
        "PIP_EXTRA_INDEX_URL": URL,
    }
    assert unused(ambient_text.uv_variables(environ, FOLDER)) == [("uv index", "UV_INDEX")]
    assert unused(ambient_text.pip_variables({**environ, "PIP_INDEX_URL": URL}, FOLDER)) == [
        ("pip extra-index-url", "PIP_EXTRA_INDEX_URL"),
        ("pip find-links", "PIP_FIND_LINKS"),
    ]


# ---- uv's files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "known"),
    [
        ([f'offline = true\nindex-url = "{URL}"\n'], (URL, f"{UV}:2")),
        ([f'\ufeffindex-url = "{URL}"\n'], (URL, f"{UV}:1")),
        ([f'[[index]]\nname = "a"\nurl = "{URL}"\ndefault = true\n'], (URL, f"{UV}:3")),
        (
            [f'index = [\n  {{url = "https://x.example/"}},\n  {{url = "{URL}", default = true}},\n]\n'],
            (URL, f"{UV}:3"),
        ),
        ([f'index-url = "https://x.example/"\n[[index]]\nurl = "{URL}"\ndefault = true\n'], (URL, f"{UV}:3")),
        (
            ['index-url = "https://x.example/"\n', f'[[index]]\nurl = "{URL}"\ndefault = true\n'],
            (URL, f"/1{UV}:2"),
        ),
        ([f'index-url = "{URL}"\n', 'index-url = "https://x.example/"\n'], (URL, f"{UV}:1")),
        (["", f'index-url = "{URL}"\n'], (URL, f"/1{UV}:1")),
        (
            [
                '[[index]]\nname = "a"\nurl = "https://x.example/"\n',
                f'[[index]]\nname = "a"\nurl = "{URL}"\ndefault = true\n',
            ],
            None,
        ),
        (['index-url = "../simple"\n'], ("file:///simple", f"{UV}:1")),
        (['[[index]]\nurl = "/srv/simple"\ndefault = true\n'], ("file:///srv/simple", f"{UV}:2")),
        ([f'[pip]\nindex-url = "{URL}"\n'], None),
        ([""], None),
    ],
)
def test_files_of_uv(texts: Sequence[str], known: tuple[str, str] | None) -> None:
    assert found(uv(*texts)) == known


def test_a_project_file_holds_them_under_tool_uv() -> None:
    text = f'[project]\nname = "x"\n\n[tool.uv]\nindex-url = "{URL}"\nfind-links = ["/srv"]\n'
    ambient = uv(text, file="/p/pyproject.toml")
    assert found(ambient) == (URL, "/p/pyproject.toml:5")
    assert unused(ambient) == [("uv find-links", "/p/pyproject.toml:6")]


@pytest.mark.parametrize("text", ["", "[tool]\nuv = 3\n", "tool = 3\n", "[tool.ruff]\n", "x = \n"])
def test_a_project_file_without_them_is_none(text: str) -> None:
    assert ambient_text.uv_table(text, "/p/pyproject.toml") is None


def test_a_file_that_is_no_toml_is_a_fault() -> None:
    fault = ambient_text.uv_table("offline = true\nx = \n", UV)
    assert isinstance(fault, Problem)
    assert str(fault).startswith(f"{UV}:2: invalid value")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("offline = true\nindex-url = 3\n", f"{UV}:2: `index-url`: is no address (expected a text)"),
        ("index = 3\n", f"{UV}: `index`: is no index (expected a table with a url)"),
        ("[[index]]\ndefault = true\n", f"{UV}:1: `index`: is no index (expected a table with a url)"),
        ('index = [\n"https://x.example"]\n', f"{UV}:2: `index`: is no index (expected a table with a url)"),
    ],
)
def test_what_uv_could_not_read_either_is_a_fault(text: str, says: str) -> None:
    ambient = uv('index-url = "https://x.example/"\n', text) if text.startswith("[[") else uv(text)
    assert str(ambient.fault).removeprefix("/1") == says
    assert ambient.index is None


def test_what_else_uv_has_set_is_not_used() -> None:
    text = f"""extra-index-url = ["https://joe:s3cret@x.example/"]
no-index = false
[[index]]
name = "pytorch-cu121"
url = "{URL}"
[[index]]
url = "{URL}"
"""
    ambient = uv(text, "constraint-dependencies = []\noverride-dependencies = ['x']\n")
    assert unused(ambient) == [
        ("uv extra-index-url", f"{UV}:1"),
        ("uv override-dependencies", f"/1{UV}:2"),
        ("uv index pytorch-cu121", f"{UV}:5"),
        ("uv index", f"{UV}:7"),
    ]
    assert "s3cret" not in str(ambient)
    assert found(ambient) is None


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, URL),
        ({"UV_INDEX_MY_CO_USERNAME": "joe"}, "https://joe@index.example/simple"),
        (
            {"UV_INDEX_MY_CO_USERNAME": "j@e", "UV_INDEX_MY_CO_PASSWORD": "a/b"},
            "https://j%40e:a%2Fb@index.example/simple",
        ),
        ({"UV_INDEX_MY_CO_PASSWORD": "x"}, "https://:x@index.example/simple"),
    ],
)
def test_the_login_that_uv_has_for_an_index_by_its_name(environ: Mapping[str, str], url: str) -> None:
    text = f'[[index]]\nname = "my-co"\nurl = "{URL}"\ndefault = true\n'
    assert found(uv(text, environ=environ)) == (url, f"{UV}:3")
    assert found(ambient_text.uv_variables({**environ, "UV_DEFAULT_INDEX": f"my.co={URL}"}, FOLDER)) == (
        url,
        "UV_DEFAULT_INDEX",
    )
    nameless = f'[[index]]\nurl = "{URL}"\ndefault = true\n'
    assert found(uv(nameless, environ=environ)) == (URL, f"{UV}:2")


@pytest.mark.parametrize(
    "url", ["https://ann:x@index.example/", "file:///srv", "https://[::1/", "ftp://index.example/"]
)
def test_an_address_that_takes_no_login_gets_none(url: str) -> None:
    environ = {"UV_INDEX_CO_USERNAME": "joe", "UV_INDEX_CO_PASSWORD": "s3cret"}
    assert found(uv(f'[[index]]\nname = "co"\nurl = "{url}"\ndefault = true\n', environ=environ)) == (url, f"{UV}:3")


# ---- pip's files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "known"),
    [
        ([f"[global]\nindex-url = {URL}\n"], (URL, f"{PIP}:2")),
        ([f"# index-url = x\n\n[global]\n; more\ntimeout = 3\n--Index_Url: {URL}\n"], (URL, f"{PIP}:6")),
        ([f"[global]\nindex-url =\n    {URL}\n"], (URL, f"{PIP}:2")),
        ([f"[global]\nfind-links =\n    /a\n    index-url = x\nindex-url = {URL}\n"], (URL, f"{PIP}:5")),
        ([f"[DEFAULT]\nindex-url = {URL}\n[global]\ntimeout = 3\n"], (URL, f"{PIP}:2")),
        ([f"[DEFAULT]\nindex-url = {URL}\n"], None),
        ([f"[install]\nindex-url = {URL}\n", "[global]\nindex-url = https://x.example\n"], (URL, f"{PIP}:2")),
        (["[global]\nindex-url = https://x.example\n", f"[global]\nindex-url = {URL}\n"], (URL, f"/1{PIP}:2")),
        ([f"[global]\nindex-url = {URL}\n", "[global]\nindex-url =\n"], None),
        ([f"[search]\nindex-url = {URL}\n[Global]\nindex-url = {URL}\n"], None),
        (["[global]\nindex-url = /srv/simple\n"], ("file:///srv/simple", f"{PIP}:2")),
        (["[global]\nindex-url = https://x.example/%20/${HOME}\n"], ("https://x.example/%20/${HOME}", f"{PIP}:2")),
        (["[global]\r\nindex-url = https://x.example/\r\n"], ("https://x.example/", f"{PIP}:2")),
        ([""], None),
        ([], None),
    ],
)
def test_files_of_pip(texts: Sequence[str], known: tuple[str, str] | None) -> None:
    assert found(pip(*texts)) == known


def test_what_else_pip_has_set_is_not_used() -> None:
    text = f"""[global]
extra-index-url =
    https://joe:s3cret@x.example/
no-index = no
timeout = 3
[install]
find-links = /srv
constraint = c.txt
[wheel]
find-links = /other
[global-not]
index-url = {URL}
"""
    ambient = pip(text)
    assert unused(ambient) == [
        ("pip extra-index-url", f"{PIP}:2"),
        ("pip find-links", f"{PIP}:7"),
        ("pip constraint", f"{PIP}:8"),
    ]
    assert "s3cret" not in str(ambient)
    assert found(ambient) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\nindex-url = https://u:s3cret@x/\n", f"{PIP}:2: stands before any section (expected [global])"),
        ("[global\n", f"{PIP}:1: stands before any section (expected [global])"),
        ("[a]\nx = 1\nx = 2\n", f"{PIP}:3: is there twice (expected each section and option once)"),
        ("[a]\n[a]\n", f"{PIP}:2: is there twice (expected each section and option once)"),
        ("[a]\n\nhttps\n", f"{PIP}:3: is no option (expected option = value)"),
    ],
)
def test_what_pip_could_not_read_either_is_a_fault(text: str, says: str) -> None:
    ambient = pip(f"[global]\nindex-url = {URL}\n", text)
    assert ambient.index is None
    assert str(ambient.fault) == f"/1{says}"


# ---- together -------------------------------------------------------------------------------------------------------


def test_the_first_that_says_something_counts() -> None:
    first = pip(f"[global]\nindex-url = {URL}\nfind-links = a\n")
    second = uv(f'index-url = "{URL}"\nfind-links = ["b"]')
    broken, nothing = pip("x"), Ambient()
    both = [*first.unused, *second.unused]
    for layers, chosen in (
        ((nothing, first, second, broken), first),
        ((nothing, second, first), second),
        ((broken, first, second), broken),
    ):
        made = ambient_text.by_strength(layers)
        assert (made.index, made.fault) == (chosen.index, chosen.fault)
        assert sorted(made.unused, key=str) == sorted(both, key=str)
    assert ambient_text.by_strength([]) == nothing
