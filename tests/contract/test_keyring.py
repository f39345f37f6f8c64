"""A password that only the `keyring` program knows: asked for once, used for everything, and never shown or written."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uv

from envlock import index as indexes
from envlock import logins
from envlock.app import export, lock
from envlock.errors import WorldFailed
from envlock.index import Index
from tests.contract.installing import Told
from tests.contract.places import PROFILE, SECRET, Place
from tests.servers import index as served
from tests.servers.wheels import make_sdist, make_wheel

# `keyring get SERVICE USER`, as the real one: the password for what it holds, and an error for all else.
SCRIPT = """#!/bin/sh
echo "$*" >> {log}
{before}
case "$2 $3" in {known}) echo {secret} ;; *) exit 1 ;; esac
"""


class Keyring:
    """A `keyring` of its own on PATH; `known` is a shell pattern of what it holds."""

    def __init__(self, folder: Path, known: str, before: str = "") -> None:
        self._log = folder / "keyring.log"
        program = folder / "keyring-bin" / "keyring"
        program.parent.mkdir(exist_ok=True)
        program.write_text(SCRIPT.format(log=self._log, before=before, known=known, secret=SECRET))
        program.chmod(0o755)
        self._folder = program.parent

    def environ(self, environ: Mapping[str, str], variable: str = "UV_KEYRING_PROVIDER") -> dict[str, str]:
        return {**environ, variable: "subprocess", "PATH": f"{self._folder}:{environ['PATH']}"}

    @property
    def asked(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


def joe(url: str) -> str:
    return url.replace("//", "//joe@")


@pytest.fixture
def private(index: served.Index, wheelhouse: Path) -> Index:
    make_wheel(wheelhouse, "torch", "2.8.0")
    index.login = f"joe:{SECRET}"
    return Index(name="cu128", url=joe(index.url))


@pytest.mark.parametrize("variable", logins.KEYRING_VARIABLES)
@pytest.mark.parametrize("known", ["'http://127.0.0.1:'*'/simple/ joe'", "'127.0.0.1:'*' joe'"])
def test_a_page_and_its_files(
    variable: str, known: str, private: Index, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    keyring = Keyring(tmp_path, known)
    environ = keyring.environ(isolated_environ, variable)
    (file,) = indexes.files("torch", private, environ=environ)
    assert indexes.metadata(file, private, environ=environ)
    indexes.download(file, private, tmp_path / "torch.whl", sha256=str(file.sha256), environ=environ)
    plain = private.url.replace("joe@", "")
    assert keyring.asked == [f"get {plain} joe", f"get {urlsplit(plain).netloc} joe"][: 1 + known.startswith("'127")]
    assert SECRET not in repr((file, private))


@pytest.mark.parametrize(
    ("known", "before"),
    [
        ("nobody", ""),
        ("*", "exit 3"),
        ("*", "kill -9 $$"),
        ("*", "exec /nowhere"),
        ("'another joe'", "echo broken >&2"),
    ],
)
def test_a_keyring_that_fails_is_a_password_that_is_not_known(
    known: str, before: str, private: Index, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    keyring = Keyring(tmp_path, known, before)
    for _ in range(2):
        with pytest.raises(WorldFailed, match=r"HTTP 401 Unauthorized$") as caught:
            indexes.files("torch", private, environ=keyring.environ(isolated_environ))
        assert caught.value.code == "network"
    assert len(keyring.asked) == 2


def test_a_keyring_is_asked_only_where_that_is_said_and_needed(
    private: Index, index: served.Index, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    keyring = Keyring(tmp_path, "*")
    asking = keyring.environ(isolated_environ)
    for environ in ({**asking, "UV_KEYRING_PROVIDER": "disabled"}, {**asking, "PATH": "/nowhere"}):
        with pytest.raises(WorldFailed, match="HTTP 401"):
            indexes.files("torch", private, environ=environ)
    for url in (index.url, joe(index.url).replace("joe@", "joe:wrong@"), joe(index.url).replace("joe@", "joe:@")):
        with pytest.raises(WorldFailed, match="HTTP 401"):
            indexes.files("torch", replace(private, url=url), environ=asking)
    (tmp_path / "home" / ".netrc").write_text(f"machine 127.0.0.1 login joe password {SECRET}\n")
    assert indexes.files("torch", private, environ=asking)
    assert keyring.asked == []


def test_netrc_of_another_user_is_not_this_users(
    private: Index, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "home" / ".netrc").write_text(f"machine 127.0.0.1 login ann password {SECRET}\n")
    keyring = Keyring(tmp_path, "*")
    assert indexes.files("torch", private, environ=keyring.environ(isolated_environ))
    assert len(keyring.asked) == 1


# ---- whole verbs ----------------------------------------------------------------------------------------------------


@pytest.fixture
def locked_up(place: Place, tmp_path: Path) -> Place:
    """A place whose two indexes ask for a login that the keyring knows by their addresses only."""
    make_sdist(place.default.directory, "gamma", "1.0", build_requires=["tool"])
    make_wheel(place.default.directory, "tool", "1.0")
    profile = PROFILE.replace('"alpha"', '"alpha", "gamma"')
    (place.project / "profiles" / "small.toml").write_text(profile, encoding="utf-8")
    for one in (place.default, place.torch):
        one.login = f"joe:{SECRET}"
    return replace(place, environ=Keyring(tmp_path, "'http://'*'/simple/ joe'").environ(place.environ))


def test_lock_and_export_ask_it(locked_up: Place) -> None:
    own = {"ENVLOCK_INDEX_PYPI": joe(locked_up.default.url), "ENVLOCK_INDEX_CU128": joe(locked_up.torch.url)}
    world = locked_up.world(**own)
    assert lock.run(world, "small").failure is None
    assert "gamma-1.0.tar.gz" in locked_up.text
    assert "torch-2.8.0+cu128" in locked_up.text
    made = export.run(world, "small", kind="pylock", variant="cu128")
    out = export.run(world, "small", kind="pylock", variant="cu128", output="pylock.toml")
    assert out.path == "pylock.toml"
    assert isinstance(world.reporter, Told)
    written = [path.read_text() for path in locked_up.project.rglob("*") if path.is_file()]
    assert SECRET not in "\n".join([str(made.text), *written, repr(world.reporter)])


def test_what_the_real_uv_asks_is_what_is_asked_here(
    private: Index, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    keyring = Keyring(tmp_path, "'127.0.0.1:'*' joe'")
    environ = keyring.environ(isolated_environ)
    assert indexes.files("torch", private, environ=environ)
    own = list(keyring.asked)
    argv = [uv.find_uv_bin(), "--no-config", "pip", "compile", "-", "--default-index", private.url]
    done = subprocess.run(argv, env=environ, input="torch", capture_output=True, text=True, check=False)
    assert (done.returncode, keyring.asked[len(own) :]) == (0, own)
