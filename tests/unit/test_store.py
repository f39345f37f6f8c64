"""Files are found where people look for them, and read as text or refused."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envlock import config, store
from envlock.errors import Misuse, WorldFailed

ROOT = Path(__file__).parents[2]
SHIPPED = ("gemma-qlora", "qwen2.5", "xtuner-internlm2")
NOBODY = 65534


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder inside a project, which has profiles and locks of its own."""
    here = tmp_path / "project" / "src"
    (here / "deeper").mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    for kind in ("profiles", "lockfiles"):
        (tmp_path / "project" / kind).mkdir()
    return here


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that every user may look into."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    for one in folder.iterdir():
        one.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Nobody in particular: root may write anywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# ---- finding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mine.toml", "sub/mine", "./mine", "/elsewhere/mine.toml", "../mine.toml"])
def test_a_path_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    put(tmp_path / "profiles" / "mine.toml")
    assert store.profile_file(name, tmp_path) == tmp_path / name


@pytest.mark.parametrize("name", SHIPPED)
def test_a_bundled_profile_and_its_lock_are_found_anywhere(tmp_path: Path, name: str) -> None:
    assert store.profile_file(name, tmp_path) == ROOT / "profiles" / f"{name}.toml"
    assert store.lock_file(name, tmp_path) == ROOT / "lockfiles" / f"{name}.lock"


def test_a_project_goes_before_the_bundle_and_this_folder_before_the_project(project: Path) -> None:
    outer = put(project.parent / "profiles" / "gemma-qlora.toml")
    assert store.profile_file("gemma-qlora", project) == outer
    inner = put(project / "profiles" / "gemma-qlora.toml")
    assert store.profile_file("gemma-qlora", project) == inner
    assert store.profile_file("gemma-qlora", project / "deeper") == outer


def test_a_lock_is_found_beside_the_profiles(project: Path) -> None:
    assert store.lock_file("mine", project) is None
    outer = put(project.parent / "lockfiles" / "mine.lock")
    assert store.lock_file("mine", project) == outer
    inner = put(project / "lockfiles" / "mine.lock")
    assert store.lock_file("mine", project) == inner


def test_a_first_lock_is_written_into_the_project_else_here(project: Path, tmp_path: Path) -> None:
    assert store.lock_target("mine", project / "deeper") == project.parent / "lockfiles" / "mine.lock"
    assert store.lock_target("mine", tmp_path) == tmp_path / "lockfiles" / "mine.lock"


@pytest.mark.parametrize("place", ["src/lockfiles", "lockfiles"])
@pytest.mark.parametrize("name", ["mine", "gemma-qlora"])
def test_a_lock_is_written_where_it_is_read(project: Path, place: str, name: str) -> None:
    found = put(project.parent / place / f"{name}.lock")
    assert store.lock_target(name, project) == store.lock_file(name, project) == found


@pytest.mark.parametrize("name", ["mine", "gemma-qlora"])
def test_a_lock_that_was_written_is_read_from_there_on(project: Path, name: str) -> None:
    for folder in (project.parent, project, project / "deeper"):
        target = put(store.lock_target(name, folder))
        assert store.lock_file(name, folder) == target == project.parent / "lockfiles" / f"{name}.lock"


def test_the_names_are_those_that_are_found(project: Path) -> None:
    put(project / "profiles" / "mine.toml")
    put(project.parent / "profiles" / "theirs.toml")
    put(project / "profiles" / "notes.txt")
    (project / "profiles" / "folder.toml").mkdir()
    names = store.profile_names(project)
    assert names == tuple(sorted([*SHIPPED, "mine", "theirs"]))
    assert all(store.profile_file(name, project).is_file() for name in names)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gema-qlora", "`gemma-qlora`?"),
        ("zzz", f"one of {', '.join(SHIPPED)}"),
        ("", f"one of {', '.join(SHIPPED)}"),
        ("x" * 5000, f"one of {', '.join(SHIPPED)}"),
    ],
)
def test_an_unknown_profile_names_those_there_are(tmp_path: Path, name: str, expected: str) -> None:
    with pytest.raises(Misuse) as caught:
        store.profile_file(name, tmp_path)
    (problem,) = caught.value.problems
    assert (caught.value.code, caught.value.hint) == ("profile-unknown", "envlock profiles")
    assert (problem.message, problem.expected) == (
        f"no profile is named `{name}`: there is no profiles/{name}.toml, and none of envlock's own",
        expected,
    )


def test_a_folder_that_hides_its_profiles_is_told(common: Path) -> None:
    put(common / "profiles" / "gemma-qlora.toml")
    (common / "profiles").chmod(0)
    with unprivileged(), pytest.raises(WorldFailed) as caught:
        store.profile_file("gemma-qlora", common)
    (problem,) = caught.value.problems
    assert (caught.value.code, problem.message) == ("file-unreadable", "Permission denied")
    assert caught.value.hint == f"ls -ld {common}/profiles/gemma-qlora.toml"


def test_a_folder_that_hides_where_the_project_begins_is_told(common: Path) -> None:
    (common / "hidden" / "here").mkdir(parents=True)
    (common / "hidden").chmod(0)
    with unprivileged(), pytest.raises(WorldFailed) as caught:
        store.lock_target("mine", common / "hidden" / "here")
    assert (caught.value.code, caught.value.problems[0].message) == ("file-unreadable", "Permission denied")


def test_a_path_with_a_nul_in_it_is_none(tmp_path: Path) -> None:
    with pytest.raises(Misuse) as caught:
        store.typed("a\0b", tmp_path)
    assert caught.value.code == "path-invalid"


@pytest.mark.parametrize(("place", "says"), [("a/b.toml", "a/b.toml"), ("../b.toml", "../b.toml"), (".", ".")])
def test_a_path_is_shown_as_people_type_it(tmp_path: Path, place: str, says: str) -> None:
    assert store.shown(tmp_path / place, tmp_path) == says
    assert store.shown(Path("/elsewhere/x"), tmp_path) == "/elsewhere/x"


def test_the_facts_are_bundled() -> None:
    texts = store.facts_texts()
    assert list(texts) == sorted(texts)
    assert {"torch.toml", "drivers.toml", "gpus.toml", "bitsandbytes.toml"} <= texts.keys()


# ---- reading ------------------------------------------------------------------------------------------------------


def test_a_text_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes("\ufeffname = 'é'\r\n".encode())
    assert store.read_text(path) == "\ufeffname = 'é'\r\n"


@pytest.mark.parametrize("data", [b"a = 1\n\xff\xfe", "schema = 1".encode("utf-16")])
def test_bytes_that_are_no_text(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(data)
    with pytest.raises(Misuse) as caught:
        store.read_text(path, what="profile")
    (problem,) = caught.value.problems
    assert (caught.value.message, caught.value.code) == ("the profile is not text", "file-not-text")
    assert (problem.message, problem.file) == (f"byte {data.index(0xFF)} is not UTF-8", str(path))


@pytest.mark.parametrize("place", ["missing.toml", "file/below.toml", "nul\0.toml"])
def test_a_file_that_is_not_there(tmp_path: Path, place: str) -> None:
    put(tmp_path / "file")
    with pytest.raises(Misuse) as caught:
        store.read_text(tmp_path / place, what="profile")
    assert (caught.value.message, caught.value.code) == ("the profile is not there", "file-missing")


@pytest.mark.parametrize(
    ("place", "says"), [(".", "Is a directory"), ("loop", "Too many levels of"), ("x" * 999, "File name too long")]
)
def test_what_cannot_be_read(tmp_path: Path, place: str, says: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(WorldFailed) as caught:
        store.read_text(tmp_path / place, what="profile")
    (problem,) = caught.value.problems
    assert (caught.value.message, caught.value.code) == ("cannot read the profile", "file-unreadable")
    assert problem.message.startswith(says)


def test_a_file_of_somebody_else(common: Path) -> None:
    put(common / "mine.toml").chmod(0)
    with unprivileged(), pytest.raises(WorldFailed) as caught:
        store.read_text(common / "mine.toml")
    assert (caught.value.code, caught.value.problems[0].message) == ("file-unreadable", "Permission denied")


# ---- settings -----------------------------------------------------------------------------------------------------


def test_the_settings_of_the_nearest_project_file_that_has_some(project: Path) -> None:
    outer = put(project.parent / "pyproject.toml", "[tool.envlock]\npath = 'outer'\n")
    put(project / "pyproject.toml", "[project]\nname = 'x'\n[tool.other]\n")
    assert store.config_table(project / "deeper") == ({"path": "outer"}, str(outer))
    inner = put(project / "pyproject.toml", "[tool]\nenvlock.path = 'inner'\n")
    assert store.config_table(project / "deeper") == ({"path": "inner"}, str(inner))


@pytest.mark.parametrize("text", ["", "tool = 3\n", "[tool]\n", "[[tool]]\nenvlock.path = 'x'\n"])
def test_a_project_file_without_settings(tmp_path: Path, text: str) -> None:
    put(tmp_path / "pyproject.toml", text)
    assert store.config_table(tmp_path) == ({}, None)


def test_a_wrong_setting_has_the_line_of_the_project_file(tmp_path: Path) -> None:
    file = put(
        tmp_path / "pyproject.toml", "[tool]\n[tool.envlock]\n# on\noffline = 1\n[tool.envlock.index]\n'a b' = ''\n"
    )
    table, name = store.config_table(tmp_path)
    with pytest.raises(Misuse) as caught:
        config.resolve(flags={}, environ={}, table=table, table_file=name)
    assert [(one.file, one.line, one.key) for one in caught.value.problems] == [
        (str(file), 4, "tool.envlock.offline"),
        (str(file), 6, "tool.envlock.index.'a b'"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("[tool]\nenvlock = true\n", 2, "a table"),
        ("\n[[tool.envlock]]\n", 2, "a table"),
        ("[project]\nname =\n", 2, "TOML"),
        (f"a = {'[' * 9999}\n", None, "TOML"),
        (f"\na = {'9' * 5000}\n", 2, "TOML"),
    ],
)
def test_a_project_file_that_cannot_be_used(tmp_path: Path, text: str, line: int | None, expected: str) -> None:
    file = put(tmp_path / "pyproject.toml", text)
    with pytest.raises(Misuse) as caught:
        store.config_table(tmp_path)
    (problem,) = caught.value.problems
    assert (caught.value.code, caught.value.hint) == ("config-invalid", "envlock --no-config detect")
    assert (problem.file, problem.line, problem.expected) == (str(file), line, expected)


@pytest.mark.parametrize("name", ["profile.toml", "small.lock"])
def test_a_pipe_or_a_device_is_no_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    for path in (tmp_path / name, Path("/dev/zero")):
        with pytest.raises(WorldFailed) as caught:
            store.read_text(path, what="profile")
        (problem,) = caught.value.problems
        assert (caught.value.code, problem.message) == ("file-unreadable", "Is no file, but a pipe or a device")
        assert caught.value.hint == f"ls -ld {path}"


def test_a_pipe_is_read_where_one_may_be(tmp_path: Path) -> None:
    fifo = tmp_path / "host"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=("{}" * 40_000,))
    writer.start()
    assert store.read_text(fifo, piped=True) == "{}" * 40_000
    writer.join()


def test_a_profile_is_of_a_size_that_people_write(tmp_path: Path) -> None:
    put(tmp_path / "a.toml", "#" * (1 << 20))
    assert len(store.profile_text(tmp_path / "a.toml")) == 1 << 20
    put(tmp_path / "a.toml", "#" * ((1 << 20) + 1))
    with pytest.raises(Misuse) as caught:
        store.profile_text(tmp_path / "a.toml")
    assert (caught.value.code, caught.value.problems[0].expected) == ("file-too-large", "at most 1 MiB")


def test_a_file_that_never_ends_is_left_unread() -> None:
    with pytest.raises(Misuse) as caught:
        store.read_text(Path("/dev/zero"), what="host file", piped=True)
    assert (caught.value.code, caught.value.message) == ("file-too-large", "the host file is too large")
    assert caught.value.problems[0].expected == "at most 32 MiB"
