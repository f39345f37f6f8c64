"""What envlock expects of uv as a resolver, asked of the real one against a real index."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envlock import proc
from envlock.engines import uv
from envlock.engines.resolver import Workbench
from envlock.errors import EnvlockError, Refused, WorldFailed
from envlock.model import LockedPackage
from envlock.proc import Command
from envlock.request import Resolution
from tests.servers.index import Fault, Index
from tests.servers.wheels import make_sdist, make_wheel

DAY = datetime(2024, 6, 1, tzinfo=timezone.utc)
LATER = datetime(2024, 9, 1, tzinfo=timezone.utc)


def asked(*requires: str, python: str = "3.10", only_binary: bool = False, **pins: str) -> Resolution:
    return Resolution(
        root="demo-profile",
        python=python,
        platform="linux-x86_64",
        requires=requires,
        exclude_newer=DAY,
        pins=pins,
        only_binary=only_binary,
    )


@pytest.fixture
def bench(index: Index, isolated_environ: dict[str, str]) -> Workbench:
    quick = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "2"}
    return Workbench(
        run=proc.run,
        environ=isolated_environ | quick,
        python=Path(sys.executable),
        indexes={"pypi": index.url},
        offline=False,
    )


def versions(packages: tuple[LockedPackage, ...]) -> dict[str, str]:
    return {package.name: package.version for package in packages}


def failure(question: Resolution, bench: Workbench) -> EnvlockError:
    with pytest.raises(EnvlockError) as caught:
        uv.resolve(question, bench)
    return caught.value


def said(error: EnvlockError) -> str:
    return "\n".join(str(problem) for problem in error.problems)


# ---- answers --------------------------------------------------------------------------------------------------------


def test_an_answer_names_each_file_its_hash_and_who_asks(wheelhouse: Path, bench: Workbench) -> None:
    wheel = make_wheel(wheelhouse, "App", "1.0", requires=["Lib.One[extra]>=1"])
    make_wheel(wheelhouse, "Lib.One", "1.5", requires=["via"])
    make_wheel(wheelhouse, "via", "2.0")
    answer = uv.resolve(asked("App", "lib-one"), bench)
    assert [(one.name, one.version, one.why) for one in answer.packages] == [
        ("app", "1.0", ("profile",)),
        ("lib-one", "1.5", ("app", "profile")),
        ("via", "2.0", ("lib-one",)),
    ]
    (file,) = answer.packages[0].artifacts
    assert (file.index, file.file, file.size) == ("pypi", wheel.name, wheel.stat().st_size)
    assert answer.urls == {}


def test_only_wheels_that_fit_are_kept_and_a_source_only_without_one(wheelhouse: Path, bench: Workbench) -> None:
    fitting = [
        "cp310-cp310-manylinux_2_17_x86_64",
        "cp310-cp310-manylinux_2_28_x86_64",
        "cp38-abi3-manylinux2014_x86_64",
    ]
    strange = ["cp311-cp311-manylinux_2_17_x86_64", "cp310-cp310-manylinux_2_17_aarch64", "cp310-cp310-win_amd64"]
    for tag in (*fitting, *strange, "cp310-cp310-manylinux_2_35_x86_64"):
        make_wheel(wheelhouse, "app", "1.0", tag=tag)
    make_sdist(wheelhouse, "app", "1.0", build_requires=[])
    source = make_sdist(wheelhouse, "old", "2.0", build_requires=[])
    make_wheel(wheelhouse, "old", "2.0", tag="cp310-cp310-win_amd64")
    answer = uv.resolve(asked("app", "old"), bench)
    files = {one.name: [file.file for file in one.artifacts] for one in answer.packages}
    assert files == {"app": sorted(f"app-1.0-{tag}.whl" for tag in fitting), "old": [source.name]}
    assert list(answer.urls) == ["old"]
    assert answer.urls["old"].endswith(f"/files/{source.name}")


def test_the_interpreter_does_not_decide_what_is_locked(wheelhouse: Path, bench: Workbench) -> None:
    for minor in (10, 12, 13):
        make_wheel(wheelhouse, "app", "1.0", tag=f"cp3{minor}-cp3{minor}-manylinux_2_17_x86_64")
    make_wheel(wheelhouse, "patch", "1.0", requires=['app; python_full_version < "3.12.1"'])
    answer = uv.resolve(asked("patch", python="3.12"), bench)
    assert answer.packages[0].artifacts[0].file.startswith("app-1.0-cp312-")


def test_the_snapshot_hides_what_came_later(index: Index, wheelhouse: Path, bench: Workbench) -> None:
    make_wheel(wheelhouse, "app", "1.0")
    index.uploaded[make_wheel(wheelhouse, "app", "2.0").name] = LATER
    index.uploaded[make_wheel(wheelhouse, "app", "3.0").name] = None
    assert versions(uv.resolve(asked("app"), bench).packages) == {"app": "1.0"}
    assert versions(uv.resolve(replace(asked("app"), exclude_newer=None), bench).packages) == {"app": "3.0"}


def test_pins_stay_where_they_fit_and_only_there(wheelhouse: Path, bench: Workbench) -> None:
    for version in ("1.0", "1.5", "2.0"):
        make_wheel(wheelhouse, "app", version)
        make_wheel(wheelhouse, "lib", version)
    assert versions(uv.resolve(asked("app", "lib"), bench).packages) == {"app": "2.0", "lib": "2.0"}
    kept = uv.resolve(asked("app", "lib>1.5", app="1.5", lib="1.0", gone="7"), bench)
    assert versions(kept.packages) == {"app": "1.5", "lib": "2.0"}


def test_the_same_question_has_the_same_answer(wheelhouse: Path, bench: Workbench) -> None:
    for name in ("a", "b", "c"):
        make_wheel(wheelhouse, name, "1.0", requires=["d"])
    make_wheel(wheelhouse, "d", "1.0")
    first = uv.resolve(asked("a", "b", "c"), bench)
    assert uv.resolve(asked("c", "a", "b"), bench) == uv.resolve(asked("a", "b", "c", d="1.0"), bench) == first


def test_ambient_settings_do_not_leak(wheelhouse: Path, bench: Workbench, tmp_path: Path) -> None:
    make_wheel(wheelhouse, "app", "1.0")
    make_wheel(wheelhouse, "app", "2.0")
    (tmp_path / "constraints.txt").write_text("app<2")
    (tmp_path / "uv.toml").write_text('[pip]\nresolution = "lowest"\n')
    ambient = {
        "UV_CONSTRAINT": str(tmp_path / "constraints.txt"),
        "UV_CONFIG_FILE": str(tmp_path / "uv.toml"),
        "UV_RESOLUTION": "lowest",
        "UV_EXCLUDE_NEWER": "2000-01-01",
        "UV_INDEX_URL": "http://index.example/simple/",
        "UV_EXTRA_INDEX_URL": "http://index.example/simple/",
        "PIP_INDEX_URL": "http://index.example/simple/",
        "VIRTUAL_ENV": str(tmp_path),
    }
    answer = uv.resolve(asked("app"), replace(bench, environ={**bench.environ, **ambient}))
    assert versions(answer.packages) == {"app": "2.0"}


def test_nothing_asked_is_answered_with_nothing(bench: Workbench) -> None:
    assert uv.resolve(asked(), bench).packages == ()


def test_an_index_that_forbids_to_keep_its_pages_still_gives_reasons(
    index: Index, wheelhouse: Path, bench: Workbench
) -> None:
    index.cache_control = "no-store"
    make_wheel(wheelhouse, "app", "1.0", requires=["lib"])
    make_wheel(wheelhouse, "lib", "1.0")
    assert [one.why for one in uv.resolve(asked("app"), bench).packages] == [("profile",), ("app",)]


def test_the_login_of_an_index_goes_with_the_address_of_a_source(
    index: Index, wheelhouse: Path, bench: Workbench
) -> None:
    make_sdist(wheelhouse, "old", "1.0", build_requires=[])
    private = index.url.replace("http://", "http://me:secret@")
    answer = uv.resolve(asked("old"), replace(bench, indexes={"pypi": private}))
    assert answer.urls["old"].startswith("http://me:secret@127.0.0.1:")
    assert "secret" not in repr(answer.packages)


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_a_conflict_shows_both_sides(wheelhouse: Path, bench: Workbench) -> None:
    make_wheel(wheelhouse, "app", "1.0", requires=["lib<2"])
    make_wheel(wheelhouse, "other", "1.0", requires=["lib>=2"])
    make_wheel(wheelhouse, "lib", "1.0")
    make_wheel(wheelhouse, "lib", "2.0")
    error = failure(asked("app", "other"), bench)
    assert (type(error), error.code) == (Refused, "unsatisfiable")
    assert "app depend on lib<2" in said(error)
    assert "other depend on lib>=2" in said(error)
    assert "demo-profile depends on" in said(error)


@pytest.mark.parametrize("requirement", ["nowhere", "app==9", "app", "windows", "app===weird", f"app=={'9' * 29}"])
def test_what_cannot_be_had_is_unsatisfiable(requirement: str, wheelhouse: Path, bench: Workbench) -> None:
    make_wheel(wheelhouse, "app", "1.0", requires_python=">=3.11")
    make_wheel(wheelhouse, "windows", "1.0", tag="cp310-cp310-win_amd64")
    error = failure(asked(requirement), bench)
    assert (type(error), error.code) == (Refused, "unsatisfiable")
    assert said(error)


def test_a_source_does_not_count_as_a_build_requirement(wheelhouse: Path, bench: Workbench) -> None:
    make_sdist(wheelhouse, "tool", "1.0", build_requires=[])
    assert uv.resolve(asked("tool"), bench).packages
    assert failure(asked("tool", only_binary=True), bench).code == "unsatisfiable"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind="status", value=500),
        Fault(kind="status", value=401),
        Fault(kind="status", value=403),
        Fault(kind="truncate", value=20),
        Fault(kind="stall", value=30),
        Fault(kind="reset"),
    ],
    ids=lambda fault: f"{fault.kind}{fault.value:.0f}",
)
def test_an_index_that_fails_is_no_conflict(fault: Fault, index: Index, wheelhouse: Path, bench: Workbench) -> None:
    make_wheel(wheelhouse, "app", "1.0", requires=["lib"])
    make_wheel(wheelhouse, "lib", "1.0")
    index.break_at("/simple/lib/", fault)
    error = failure(asked("app"), bench)
    assert (type(error), error.code) == (WorldFailed, "network")
    index.mend()
    assert uv.resolve(asked("app"), bench).packages


def test_an_index_that_is_not_there_is_no_conflict(bench: Workbench) -> None:
    error = failure(asked("app"), replace(bench, indexes={"pypi": "http://127.0.0.1:9/simple/"}))
    assert (type(error), error.code) == (WorldFailed, "network")


def test_offline_answers_from_the_cache_or_says_that_it_cannot(wheelhouse: Path, bench: Workbench) -> None:
    make_wheel(wheelhouse, "app", "1.0")
    offline = replace(bench, offline=True)
    error = failure(asked("app"), offline)
    assert (type(error), error.code) == (WorldFailed, "not-cached")
    online = uv.resolve(asked("app"), bench)
    assert uv.resolve(asked("app"), offline) == online


def test_a_source_whose_metadata_cannot_be_built_is_named(wheelhouse: Path, bench: Workbench) -> None:
    make_sdist(
        wheelhouse,
        "broken",
        "1.0",
        build_requires=[],
        files={
            "PKG-INFO": "Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n",
            "backend.py": "raise RuntimeError('no way')\n",
        },
    )
    error = failure(asked("broken"), bench)
    assert (type(error), error.code) == (WorldFailed, "build-failed")
    assert "no way" in said(error)


@pytest.mark.parametrize("bucket", ["simple", "wheels", "sdists", "interpreter"])
def test_a_cache_with_a_part_that_cannot_be_used_is_told(
    bucket: str, wheelhouse: Path, bench: Workbench, tmp_path: Path
) -> None:
    make_wheel(wheelhouse, "app", "1.0")
    uv.resolve(asked("app"), bench)
    (part,) = (tmp_path / "uv-cache").glob(f"{bucket}-v*")
    shutil.rmtree(part)
    part.touch()
    error = failure(asked("app"), bench)
    assert (type(error), error.code) == (WorldFailed, "cache-unusable")
    assert error.hint == "UV_CACHE_DIR=FOLDER envlock lock PROFILE"
    assert str(part) in said(error)


def test_a_cache_on_a_disk_that_cannot_be_written_to_is_told(bench: Workbench, tmp_path: Path) -> None:
    cache = tmp_path / "read-only"
    cache.mkdir()
    mounted = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o ro x "$0" || exit 77; exec "$@"', str(cache))
    if proc.run(Command(argv=(*mounted, "true"), env=bench.environ)).code != 0:
        pytest.skip("this machine lets nobody mount a disk")
    error = failure(
        asked("app"),
        replace(
            bench,
            environ={**bench.environ, "UV_CACHE_DIR": str(cache)},
            run=lambda command: proc.run(replace(command, argv=(*mounted, *command.argv))),
        ),
    )
    assert (type(error), error.code) == (WorldFailed, "cache-unusable")
    assert "Read-only file system" in said(error)


# ---- uv itself ------------------------------------------------------------------------------------------------------


def program(tmp_path: Path, text: str) -> Callable[[Command], proc.Completed]:
    """Stand a program of the test in uv's place."""
    path = tmp_path / "uv"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return lambda command: proc.run(replace(command, argv=(str(path), *command.argv[1:])))


def test_the_series_is_engine_and_major(bench: Workbench) -> None:
    assert uv.series(bench) == "uv-0"


@pytest.mark.parametrize("text", ["echo uv 0.4.30", "echo uv 0.13.4 '(x)'", "echo hello", "exit 3", "exec /nowhere"])
def test_a_uv_that_cannot_be_used_is_refused(text: str, bench: Workbench, tmp_path: Path) -> None:
    with pytest.raises(WorldFailed) as caught:
        uv.series(replace(bench, run=program(tmp_path, text)))
    assert caught.value.code == "engine-missing"
    assert caught.value.hint == "python3 -m pip install 'uv>=0.13.5'"


@pytest.mark.parametrize("text", ["exit 0", "echo '[[packages]]' > \"$3/../x\"; exit 7", "kill -9 $$"])
def test_a_uv_that_misbehaves_is_an_engine_failure(text: str, bench: Workbench, tmp_path: Path) -> None:
    error = failure(asked("app"), replace(bench, run=program(tmp_path, text)))
    assert (type(error), error.code) == (WorldFailed, "engine-failed")


def test_a_uv_that_never_ends_is_ended_and_is_no_conflict(bench: Workbench, tmp_path: Path) -> None:
    run = program(tmp_path, "sleep 60")
    error = failure(asked("app"), replace(bench, run=lambda command: run(replace(command, timeout=0.3))))
    assert (type(error), error.code, error.message) == (WorldFailed, "engine-failed", "uv did not end within 900 s")


def test_a_cancelled_uv_is_ended(bench: Workbench, tmp_path: Path) -> None:
    run, cancel = program(tmp_path, "exec sleep 600"), threading.Event()
    threading.Timer(0.2, cancel.set).start()
    error = failure(asked("app"), replace(bench, run=lambda command: run(replace(command, cancel=cancel))))
    assert (error.code, error.message) == ("engine-failed", "uv failed (exit -15): resolving")
