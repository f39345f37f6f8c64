from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envlock import env
from envlock.engines import uv_binary
from envlock.model import Artifact, Floors, LockedPackage, LockedVariant, Variant

ROOT = Path(__file__).parents[2]


def locked() -> LockedVariant:
    variant = Variant(name="cpu-pypi", backend="cpu", source="pypi", python="3.10", platform="linux-x86_64")
    files = tuple(
        Artifact(index="pypi", file=f"alpha-1.0-cp3{n}-none-any.whl", sha256=str(n) * 64, size=n) for n in (1, 2)
    )
    alpha = LockedPackage(name="alpha", version="1.0", artifacts=files, why=("profile",))
    floors = Floors(driver=None, driver_windows=None, glibc="2.17", sm=())
    return LockedVariant(variant=variant, floors=floors, packages=(alpha,))


def test_the_digest_is_of_what_is_installed_not_of_why_or_in_which_order() -> None:
    plain = locked()
    (alpha,) = plain.packages
    other = replace(alpha, why=("beta",), artifacts=alpha.artifacts[::-1])
    assert env.digest(replace(plain, packages=(other,))) == env.digest(plain)
    assert len(env.digest(plain)) == 64


@pytest.mark.parametrize("what", ["version", "bytes", "floors", "python", "build"])
def test_the_digest_moves_with_everything_else(what: str) -> None:
    plain = locked()
    (alpha,) = plain.packages
    moved = {
        "version": replace(plain, packages=(replace(alpha, version="1.1"),)),
        "bytes": replace(plain, packages=(replace(alpha, artifacts=alpha.artifacts[:1]),)),
        "floors": replace(plain, floors=replace(plain.floors, glibc="2.28")),
        "python": replace(plain, variant=replace(plain.variant, python="3.11")),
        "build": replace(plain, build=(alpha,)),
    }
    assert env.digest(moved[what]) != env.digest(plain)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Prepared 104 packages in 31.20s\nInstalled 104 packages in 1.25s\n + alpha==1.0\n", 1.25),
        ("Installed 1 package in 0.28ms\n", 0.00028),
        ("Installed 104 packages in 1m 02s\n", 62.0),
        ("Audited 104 packages in 3ms\n", 0.0),
        ("", 0.0),
    ],
)
def test_the_seconds_of_linking_are_read_from_what_uv_says(said: str, seconds: float) -> None:
    assert env._linking_seconds(said) == pytest.approx(seconds)


def test_uv_gets_its_cache_and_the_network_settings_and_nothing_else_of_its_own() -> None:
    ambient = {
        "PATH": "/bin",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "UV_CACHE_DIR": "/cache",
        "UV_LINK_MODE": "copy",
        "UV_INDEX_URL": "http://other.example/",
        "UV_CONFIG_FILE": "/uv.toml",
        "UV_OFFLINE": "1",
        "PIP_FIND_LINKS": "/wheels",
        "PYTHONPATH": "/src",
        "VIRTUAL_ENV": "/venv",
        "CONDA_PREFIX": "/conda",
    }
    given = uv_binary.environment(ambient, indexes={"pypi": "http://index.example/simple/"})
    assert given == {
        "PATH": "/bin",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "UV_CACHE_DIR": "/cache",
        "UV_LINK_MODE": "copy",
        "UV_DEFAULT_INDEX": "http://index.example/simple/",
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
    }
    assert uv_binary.environment({}, offline=True)["UV_OFFLINE"] == "1"


def test_of_a_named_index_the_login_goes_by_variable() -> None:
    named = {"cu121": "http://joe:s%40cret@torch.example/cu121/", "my-own": "http://t.example/"}
    given = uv_binary.environment({}, indexes=named)
    assert given == {
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
        "UV_INDEX_CU121_USERNAME": "joe",
        "UV_INDEX_CU121_PASSWORD": "s@cret",
    }
    assert uv_binary.without_login(named["cu121"]) == ("http://torch.example/cu121/", "joe:s%40cret")
    assert uv_binary.without_login(named["my-own"]) == ("http://t.example/", "")


RACING = """
import sys, threading
sys.setswitchinterval(1e-6)
from envlock.engines import uv_binary
gate, failed = threading.Barrier(8), []
def find():
    gate.wait()
    try:
        uv_binary.binary({})
    except Exception as error:
        failed.append(repr(error))
threads = [threading.Thread(target=find) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(failed)
"""


def test_several_threads_may_ask_for_uv_at_once() -> None:
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", RACING], cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"
