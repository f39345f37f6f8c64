"""Indexes that are out of order, on either side, met by `lock`: nothing of it is a conflict, and the old lock stays."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest

from envlock import proc
from envlock.app import install, lock
from envlock.errors import EnvlockError, Refused, WorldFailed
from tests.contract.installing import Told
from tests.contract.places import NEEDS, PROFILE, Place
from tests.servers.index import HTML_TYPE, JSON_TYPE, Fault, Index
from tests.servers.wheels import make_sdist, make_wheel

PAGE = "/simple/alpha/"
TORCH = "torch-2.8.0+cu128-py3-none-any.whl"


def afresh(place: Place) -> Place:
    """The same place with nothing in uv's cache."""
    return replace(place, environ={**place.environ, "UV_CACHE_DIR": str(place.project / "fresh-cache")})


def failure(place: Place, **how: object) -> EnvlockError:
    with pytest.raises(EnvlockError) as caught:
        lock.run(afresh(place).world(), "small", **how)  # type: ignore[arg-type]
    return caught.value


def said(error: EnvlockError) -> str:
    return "\n".join([error.message, *(str(problem) for problem in error.problems)])


def row(place: Place, file: str, **more: object) -> dict[str, object]:
    raw = (place.default.directory / file).read_bytes()
    known: dict[str, object] = {
        "filename": file,
        "url": f"{place.default.root}/files/{file}",
        "hashes": {"sha256": hashlib.sha256(raw).hexdigest()},
        "upload-time": "2024-01-01T00:00:00Z",
    }
    return known | more


def page(*rows: Mapping[str, object]) -> bytes:
    return json.dumps({"meta": {"api-version": "1.1"}, "name": "alpha", "files": rows}).encode()


# ---- what a page may hold -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        ("text/html", b"<html><body><h1>Please log in</h1></body></html>", "index-page-invalid"),
        (
            HTML_TYPE,
            b"<html><body><a href='/files/beta-1.0.tar.gz'>beta-1.0.tar.gz</a></body></html>",
            "index-page-invalid",
        ),
        (JSON_TYPE, b'{"meta": {"api-version": "1.1"}, "name": "alpha", "files": [{"filen', "index-page-invalid"),
        (JSON_TYPE, b"\0" * 1000, "index-page-invalid"),
        (JSON_TYPE, page(), "index-lacks-package"),
        ("text/plain", b"alpha", "index-page-invalid"),
    ],
    ids=["login form", "another project", "cut off", "zeros", "empty", "plain text"],
)
def test_a_page_that_is_none_is_no_conflict(place: Place, kind: str, body: bytes, code: str) -> None:
    lock.run(place.world(), "small")
    before = place.files()
    place.default.instead[PAGE] = kind, body
    error = failure(place)
    assert error.code == code
    assert "`pypi`" in said(error)
    assert PAGE in said(error)
    assert place.files() == before


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(kind="status", value=404), "index-lacks-package"),
        (Fault(kind="status", value=500), "network"),
        (Fault(kind="reset"), "network"),
        (Fault(kind="truncate", value=40), "network"),
    ],
    ids=["gone", "broken", "reset", "cut off"],
)
def test_what_was_locked_and_is_not_listed_is_no_conflict(place: Place, fault: Fault, code: str) -> None:
    lock.run(place.world(), "small")
    before = place.files()
    place.default.break_at("/simple/nvidia-cublas-cu12/", fault)
    error = failure(place)
    assert error.code == code
    assert "nvidia-cublas-cu12" in said(error)
    assert place.files() == before


def test_what_never_was_there_is_a_conflict(place: Place) -> None:
    profile = place.project / "profiles" / "small.toml"
    profile.write_text(PROFILE.replace('"alpha"', '"alpha", "nothere"'), encoding="utf-8")
    assert failure(place).code == "unsatisfiable"


def test_a_page_without_dates_is_no_conflict(place: Place) -> None:
    """As HTML has none, and the profile wants what was there on a day."""
    lock.run(place.world(), "small")
    before = place.files()
    place.default.json = False
    error = failure(place)
    assert (type(error), error.code) == (WorldFailed, "index-undated")
    assert "`pypi`" in error.message
    assert "2024-06-01" in error.message
    assert place.files() == before


def test_a_name_with_two_hashes_is_refused(place: Place) -> None:
    file = "alpha-1.0-py3-none-any.whl"
    place.default.instead[PAGE] = JSON_TYPE, page(row(place, file), row(place, file, hashes={"sha256": "b" * 64}))
    error = failure(place)
    assert (type(error), error.code) == (Refused, "index-ambiguous")
    (problem,) = error.problems
    assert (problem.file, "b" * 64 in str(problem)) == (file, True)
    shutil.rmtree(place.project / "fresh-cache")
    place.default.instead[PAGE] = JSON_TYPE, page(row(place, file), row(place, file))
    lock.run(afresh(place).world(), "small")
    assert len(place.package("cu128", "alpha").artifacts) == 1


def test_metadata_that_is_not_what_its_page_names(place: Place) -> None:
    file = "alpha-1.0-py3-none-any.whl"
    place.default.instead[f"/files/{file}.metadata"] = (
        "text/plain",
        b"Metadata-Version: 2.1\nName: alpha\nVersion: 1.0\n",
    )
    error = failure(place)
    assert (type(error), error.code) == (Refused, "hash-mismatch")
    assert f"{file}.metadata" in error.message
    assert "METADATA" in error.message


@pytest.mark.parametrize("version", ["7.0", "2.8.0"])
def test_metadata_of_another_release_is_refused(place: Place, version: str) -> None:
    lock.run(place.world(), "small")
    before = place.files()
    other = f"Metadata-Version: 2.2\nName: torch\nVersion: {version}\n"
    make_wheel(place.torch.directory, "torch", "2.8.0+cu128", files={"torch-2.8.0+cu128.dist-info/METADATA": other})
    error = failure(place, upgrade=True)
    assert error.code in {"metadata-mismatch", "engine-failed"}
    assert TORCH in said(error)
    assert place.files() == before


# ---- other bytes under the same name --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shelf", "name", "version", "requires"),
    [("torch", "torch", "2.8.0+cu128", NEEDS), ("default", "alpha", "1.0", ["torch"])],
)
def test_a_hash_that_changes_is_refused_until_somebody_says_so(
    place: Place, shelf: str, name: str, version: str, requires: list[str]
) -> None:
    lock.run(place.world(), "small")
    before, old = place.files(), place.package("cu128", name).artifacts[0].sha256
    index: Index = getattr(place, shelf)
    wheel = make_wheel(index.directory, name, version, requires=requires, files={f"{name}.py": "OTHER = 1\n"})
    now = hashlib.sha256(wheel.read_bytes()).hexdigest()
    error = failure(place)
    assert (type(error), error.code) == (Refused, "index-changed")
    assert {(one.file, one.expected, now in one.message) for one in error.problems} == {(wheel.name, old, True)}
    assert error.hint == f"envlock lock small -P {name}"
    assert place.files() == before
    assert lock.run(afresh(place).world(), "small", upgrade_packages=[name]).changed
    assert place.package("cu128", name).artifacts[0].sha256 == now


# ---- mirrors --------------------------------------------------------------------------------------------------------


def test_a_mirror_that_tells_less_or_more_makes_the_same_lock(place: Place) -> None:
    """PyTorch's own index is HTML without sizes; a mirror of it may be JSON with them."""
    lock.run(place.world(), "small")
    by_json = place.files()
    (place.project / "lockfiles" / "small.lock").unlink()
    place.torch.json = False
    lock.run(afresh(place).world(), "small")
    assert place.files() == by_json


def test_sizes_that_are_known_stay_known(place: Place) -> None:
    profile = place.project / "profiles" / "small.toml"
    profile.write_text(PROFILE.replace("exclude-newer = 2024-06-01T00:00:00Z\n", ""), encoding="utf-8")
    (place.default.directory / "torch-9.0-py3-none-any.whl").unlink()
    lock.run(place.world(), "small")
    before = place.files()
    place.default.json = False
    assert not lock.run(afresh(place).world(), "small").changed
    assert place.files() == before
    assert place.package("cu128", "alpha").artifacts[0].size


@pytest.mark.parametrize("shelf", ["default", "torch"])
def test_what_has_no_hash_is_said_or_refused(place: Place, shelf: str) -> None:
    index: Index = getattr(place, shelf)
    index.hashes = False
    error = failure(place, download=False)
    assert (type(error), error.code) == (Refused, "hash-missing")
    assert not (place.project / "lockfiles").exists()
    world = place.world()
    lock.run(world, "small")
    assert isinstance(world.reporter, Told)
    told = [*world.reporter.stages, *(caution.message for caution in world.reporter.warnings)]
    assert any("hash" in text and ("Fetching" in text or "fetched" in text) for text in told)


def test_a_file_that_no_variant_takes_needs_no_hash(place: Place) -> None:
    make_wheel(place.torch.directory, "torch", "2.8.0+cu128", requires=NEEDS, tag="cp311-cp311-win_amd64")
    sha256 = hashlib.sha256((place.torch.directory / TORCH).read_bytes()).hexdigest()
    windows = "torch-2.8.0%2Bcu128-cp311-cp311-win_amd64.whl"
    links = f'<a href="/files/{TORCH}#sha256={sha256}">{TORCH}</a><a href="/files/{windows}">{windows}</a>'
    place.torch.instead["/simple/torch/"] = "text/html", f"<html><body>{links}</body></html>".encode()
    assert lock.run(place.world(), "small", download=False).changed
    assert place.package("cu128", "torch").artifacts[0].sha256 == sha256


# ---- building -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["torch", "kit"])
def test_an_extension_is_built_against_the_locked_torch(place: Place, through: str) -> None:
    make_wheel(place.default.directory, "kit", "1.0", requires=["torch"])
    make_wheel(place.default.directory, "torch", "2.9.0", requires=NEEDS, files={"torch.py": "EVIL = 1\n"})
    make_sdist(place.default.directory, "ext", "1.0", build_requires=[through])
    profile = place.project / "profiles" / "small.toml"
    profile.write_text(PROFILE.replace('"alpha"', '"ext"'), encoding="utf-8")
    lock.run(place.world(), "small")
    built = next(one for one in place.held.variants if one.variant.name == "cu128").build
    torch = next(one for one in built if one.name == "torch")
    assert (torch.version, [(file.index, file.file) for file in torch.artifacts]) == ("2.8.0+cu128", [("cu128", TORCH)])
    header = (place.project / "lockfiles" / "small" / "cu128" / "requirements.txt").read_text(encoding="utf-8")
    assert "--find-links https://download.pytorch.org/whl/cu128/torch/ -r build-requirements.txt" in header
    before = place.files()
    assert not lock.run(place.world(), "small").changed
    assert place.files() == before
    done = install.run(place.world(), "small", backend="cu128", level="quick")
    assert done.variant == "cu128"


# ---- several variants -----------------------------------------------------------------------------------------------


def test_a_failure_in_a_later_variant_leaves_the_old_lock(place: Place) -> None:
    """The second wave meets a network that has gone since the first one."""
    profile = place.project / "profiles" / "small.toml"
    lock.run(place.world(), "small")
    before = place.files()
    profile.write_text(PROFILE.replace(', "alpha"', ""), encoding="utf-8")
    seen = threading.Event()
    world = afresh(place).world()
    run = world.run

    def failing(command: proc.Command) -> proc.Completed:
        if "compile" in command.argv and seen.is_set():
            place.default.break_at("/simple/torch/", Fault(kind="reset"))
        if "compile" in command.argv:
            seen.set()
        return run(command)

    with pytest.raises(WorldFailed):
        lock.run(replace(world, run=failing), "small", upgrade=True)
    assert place.files() == before
