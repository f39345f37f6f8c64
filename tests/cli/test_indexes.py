"""Where the indexes are: taken from envlock's settings, then uv's, then pip's; shown by `detect -v`, refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Shell
from tests.contract.places import SECRET, Place

URL = "https://index.example/simple"
UV = f'index-url = "{URL}"\n'
PIP = f"[global]\nindex-url = {URL}\n"


@pytest.fixture
def open_shell(shell: Shell, tmp_path: Path) -> Shell:
    """A shell in which the files of uv and pip count; those of the system are looked for in the test's folder."""
    kept = {name: value for name, value in shell.environ.items() if name not in {"UV_NO_CONFIG", "PIP_CONFIG_FILE"}}
    return Shell(cwd=shell.cwd, environ={**kept, "XDG_CONFIG_DIRS": str(tmp_path / "xdg")})


def shown(ran: Ran) -> dict[str, list[str]]:
    """The rows of the settings by their names."""
    rows = [line.split(maxsplit=1) for line in ran.stdout.partition("\nsetting ")[2].splitlines()[1:]]
    return {name: rest.rsplit(maxsplit=1) for name, rest in rows}


def lines(ran: Ran) -> list[str]:
    return [line.strip() for line in ran.stderr.splitlines()]


# ---- shown ----------------------------------------------------------------------------------------------------------


def test_every_index_is_shown_with_its_origin(shell: Shell) -> None:
    ran = shell("detect", "-v", ENVLOCK_INDEX_CU121=f"{URL}/cu121")
    assert ran.code == 0
    rows = shown(ran)
    assert rows["index.cu121"] == [f"{URL}/cu121", "ENVLOCK_INDEX_CU121"]
    assert rows["index.cu118"] == ["https://download.pytorch.org/whl/cu118/", "default"]
    url, origin = rows["index.pypi"]
    assert (url[:8], url.endswith("/simple"), origin) == ("https://", True, "default")
    quiet = shell("detect", ENVLOCK_INDEX_CU121=f"{URL}/cu121")
    assert "index." not in quiet.stdout
    assert set(json.loads(shell("detect", "-v", "--json").stdout)["result"]) >= {"schema", "driver", "sources"}


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("project/pyproject.toml", f'[tool.envlock]\n\n[tool.envlock.index]\npypi = "{URL}"\n', 4),
        ("project/uv.toml", UV, 1),
        ("home/.config/uv/uv.toml", UV, 1),
        ("home/.config/pip/pip.conf", PIP, 2),
        ("xdg/pip/pip.conf", PIP, 2),
    ],
)
def test_an_address_from_a_file_is_shown_with_its_line(open_shell: Shell, name: str, text: str, line: int) -> None:
    path = Path(open_shell.write(f"../{name}", text))
    place = os.path.normpath(open_shell.cwd / path)
    assert shown(open_shell("detect", "-v"))["index.pypi"] == [URL, f"{place}:{line}"]
    bare = shown(open_shell("detect", "-v", "--no-config"))["index.pypi"]
    assert (bare[0] != URL, bare[1]) == (True, "default")
    stronger = shown(open_shell("detect", "-v", ENVLOCK_INDEX_PYPI="https://x.example/"))
    assert stronger["index.pypi"] == ["https://x.example/", "ENVLOCK_INDEX_PYPI"]


def test_a_long_address_is_on_one_line_and_no_login_is_shown(open_shell: Shell) -> None:
    path = "/".join(["part"] * 40)
    open_shell.write(
        "../home/.config/pip/pip.conf",
        f"[global]\nindex-url = https://joe:{SECRET}@index.example/{path}/\n"
        f"extra-index-url = https://joe:{SECRET}@x.example/\n",
    )
    open_shell.write("uv.toml", "")
    environ = {
        "ENVLOCK_INDEX_CU121": f"https://joe:{SECRET}@index.example/cu121",
        "ENVLOCK_INDEX_CU118": f"https://index.example/?token={SECRET}",
    }
    ran = open_shell("detect", "-vv", **environ)
    rows = shown(ran)
    assert rows["index.pypi"][0] == f"https://****@index.example/{path}/"
    assert rows["index.cu121"][0] == "https://****@index.example/cu121"
    assert "pip extra-index-url  not used" in ran.stdout
    assert SECRET not in ran.stdout + ran.stderr


def test_the_login_that_uv_has_by_name_is_used_and_not_shown(open_shell: Shell) -> None:
    open_shell.write("uv.toml", f'[[index]]\nname = "co"\nurl = "{URL}"\ndefault = true\n')
    ran = open_shell("detect", "-vv", UV_INDEX_CO_USERNAME="joe", UV_INDEX_CO_PASSWORD=SECRET)
    assert shown(ran)["index.pypi"][0] == URL.replace("://", "://****@")
    assert SECRET not in ran.stdout + ran.stderr


# ---- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [("detect",), ("plan", "gemma-qlora"), ("lock", "gemma-qlora"), ("profiles",)])
def test_an_index_that_nobody_knows_is_refused_by_every_verb(shell: Shell, verb: tuple[str, ...]) -> None:
    ran = shell(*verb, "--json", ENVLOCK_INDEX_CU21=URL)
    error = ran.document["error"]
    assert (ran.code, error["code"]) == (2, "config-invalid")
    assert "did you mean `ENVLOCK_INDEX_CU121`?" in json.dumps(error)


def test_an_unknown_key_of_the_table_is_refused_with_its_line(shell: Shell) -> None:
    shell.write("pyproject.toml", f'[tool.envlock.index]\ncu121 = "{URL}"\ncu12x = "{URL}"\n')
    ran = shell("detect")
    assert ran.code == 2
    assert lines(ran)[2].startswith(f"{shell.cwd}/pyproject.toml:3: `tool.envlock.index.cu12x`: no such index; did you")
    assert shell("detect", "--no-config").code == 0


def test_a_folder_is_refused_for_an_index_of_pytorch(shell: Shell) -> None:
    ran = shell("install", "gemma-qlora", ENVLOCK_INDEX_CU121="file:///srv/whl")
    assert ran.code == 2
    assert lines(ran)[2] == (
        "`ENVLOCK_INDEX_CU121`: 'file:///srv/whl' does not fit "
        "(expected an http or https URL: no index but `pypi` can be a folder)"
    )


def test_a_broken_file_of_another_tool_stops_what_needs_an_address_and_nothing_else(open_shell: Shell) -> None:
    open_shell.write("../home/.config/pip/pip.conf", "[global]\nindex-url\n")
    place = os.path.normpath(open_shell.cwd / "../home/.config/pip/pip.conf")
    for arguments in (("--help",), ("detect",), ("profiles",), ("plan", "gemma-qlora", "--backend", "cpu")):
        assert open_shell(*arguments).code == 0
    ran = open_shell("detect", "-v")
    said = f"{place}:2: is no option (expected option = value)"
    rows = [line.split(maxsplit=4) for line in ran.stdout.splitlines()]
    assert ["index.pypi", "cannot", "be", "told", said] in rows
    stopped = open_shell("lock", "gemma-qlora")
    assert stopped.code == 2
    assert lines(stopped)[-4:] == [
        said,
        "ENVLOCK_INDEX_PYPI=ADDRESS goes before it; --no-config reads no such file",
        "",
        "hint: envlock detect -v",
    ]


# ---- used -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(place: Place, open_shell: Shell) -> Shell:
    """A shell in the project of `place`, which is told where the index of PyTorch is, and no other."""
    environ = {**open_shell.environ, "PATH": place.environ["PATH"], "ENVLOCK_INDEX_CU128": place.torch.url}
    return Shell(cwd=place.project, environ=environ)


def lock_text(project: Shell) -> str:
    return (project.cwd / "lockfiles" / "small.lock").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("project/uv.toml", '[[index]]\nurl = "{}"\ndefault = true\n'),
        ("project/pyproject.toml", '[tool.uv]\nindex-url = "{}"\n'),
        ("home/.config/pip/pip.conf", "[global]\nindex-url = {}\nextra-index-url = http://127.0.0.1:9/\n"),
    ],
)
def test_a_mirror_that_a_file_names_is_locked_from_and_leaves_no_trace(
    place: Place, project: Shell, tmp_path: Path, name: str, text: str
) -> None:
    by_variable = project("lock", "small", "--no-config", ENVLOCK_INDEX_PYPI=place.default.url)
    assert by_variable.code == 0, by_variable.stderr
    plain = place.files()
    (project.cwd / "lockfiles" / "small.lock").unlink()
    place.default.hits.clear()
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(place.default.url.replace("://", f"://joe:{SECRET}@")), encoding="utf-8")
    by_file = project("lock", "small", "-v", UV_CACHE_DIR=str(tmp_path / "fresh"))
    assert by_file.code == 0, by_file.stderr
    assert place.default.requested
    assert place.files() == plain
    assert SECRET not in lock_text(project) + by_file.stdout + by_file.stderr
    if name.endswith("pip.conf"):
        assert f"pip extra-index-url, set by {path}:3: not used" in by_file.stderr
    installed = project("install", "small", "--backend", "cu128", "--level", "quick", UV_CACHE_DIR=str(tmp_path / "3"))
    assert installed.code == 0, installed.stderr


def test_a_folder_as_the_default_index_is_installed_from_and_not_locked_from(
    place: Place, project: Shell, tmp_path: Path
) -> None:
    assert project("lock", "small", ENVLOCK_INDEX_PYPI=place.default.url).code == 0
    for file in place.default.directory.glob("*.whl"):
        folder = tmp_path / "simple" / file.name.split("-")[0].replace("_", "-")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.name).hardlink_to(file)
        with (folder / "index.html").open("a", encoding="utf-8") as page:
            page.write(f'<a href="{file.name}">{file.name}</a>\n')
    (project.cwd / "uv.toml").write_text('index-url = "../simple"\n', encoding="utf-8")
    address = (tmp_path / "simple").as_uri()
    refused = project("lock", "small", "--upgrade")
    assert refused.code == 2
    assert lines(refused)[-3] == (
        f"{project.cwd}/uv.toml:1: `index.pypi`: is {address} (expected an http or https URL)"
    )
    place.default.hits.clear()
    fresh = str(tmp_path / "fresh")
    installed = project("install", "small", "--backend", "cu128", "--level", "quick", UV_CACHE_DIR=fresh)
    assert installed.code == 0, installed.stderr
    assert place.default.requested == []
