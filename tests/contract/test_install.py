"""Installing with a real uv from a real index: what stands afterwards, and what stood when something went wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envlock import generations
from envlock.errors import Refused, WorldFailed
from envlock.model import Artifact, Installed, LockedVariant
from tests.contract.installing import HERE, Install, locked, package
from tests.servers.index import Fault, Index
from tests.servers.wheels import make_sdist, make_wheel

Installer = Callable[..., Install]


@pytest.fixture
def install(tmp_path: Path, index: Index, isolated_environ: dict[str, str]) -> Installer:
    """Make an install of a variant at `tmp_path/env`."""

    def make(variant: LockedVariant, **changes: object) -> Install:
        plain = Install(path=tmp_path / "env", variant=variant, environ=isolated_environ, index=index.url)
        return replace(plain, **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture
def small(wheelhouse: Path) -> LockedVariant:
    """One module, and one package with a console script that says which version it is."""
    tool = {
        "tool/__init__.py": "",
        "tool/main.py": "import sys, alpha\ndef run():\n    print(alpha.__version__, sys.prefix)\n",
        "tool-1.0.dist-info/entry_points.txt": "[console_scripts]\ntool = tool.main:run\n",
    }
    alpha = make_wheel(wheelhouse, "alpha", "1.0")
    return locked([package(alpha), package(make_wheel(wheelhouse, "tool", "1.0", requires=["alpha"], files=tool))])


def upgraded(wheelhouse: Path, variant: LockedVariant) -> LockedVariant:
    alpha = package(make_wheel(wheelhouse, "alpha", "2.0"))
    return replace(variant, packages=(alpha, *variant.packages[1:]))


def says(*argv: str | Path, cwd: Path | None = None) -> str:
    """Run a program with an environment that knows nothing and return what it printed."""
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=60, cwd=cwd, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def version(path: Path) -> str:
    return says(path / "bin" / "python", "-c", "import alpha; print(alpha.__version__)")


def module(path: Path) -> Path:
    return path / "lib" / f"python{HERE}" / "site-packages" / "alpha.py"


def tree(path: Path) -> list[str]:
    """Everything beside the path, but the two files that every install writes."""
    return sorted(
        str(entry.relative_to(path.parent))
        for entry in path.parent.glob(f"{path.name}.envlock/*")
        if not entry.name.startswith(".")
    )


# ---- what it is for -----------------------------------------------------------------------------------------------


def test_a_fresh_install_stands_behind_a_link_and_says_what_it_is(install: Installer, small: LockedVariant) -> None:
    order = install(small)
    done = order.run()
    assert (done.installed, done.previous, done.packages, done.variant) == (True, None, 2, "cpu-pypi")
    assert order.path.readlink() == Path("env.envlock", done.generation)
    assert done.path == "env"
    assert version(order.path) == "1.0"
    root = order.path.resolve()
    said = generations.read(root)
    assert (said.profile, said.variant, said.packages) == ("small", "cpu-pypi", {"alpha": "1.0", "tool": "1.0"})
    assert said.host.glibc == "2.35"
    assert said.lock.startswith(done.generation[:12])
    assert set(done.seconds) == {"download", "install", "verify"}
    assert all(seconds >= 0 for seconds in done.seconds.values())
    assert not (root / ".build").exists()
    assert order.levels == ["kernels"]


def test_installing_again_changes_nothing_and_asks_the_index_nothing(
    install: Installer, small: LockedVariant, index: Index
) -> None:
    first = install(small).run()
    asked = len(index.hits)
    again = install(small)
    begun = time.monotonic()
    done = again.run()
    assert time.monotonic() - begun < 1
    assert (done.installed, done.generation, done.previous) == (False, first.generation, None)
    assert len(index.hits) == asked
    assert again.levels == ["quick"]
    assert tree(again.path) == [f"env.envlock/{first.generation}"]


def test_what_was_never_proven_is_proven_by_the_next_install(install: Installer, small: LockedVariant) -> None:
    assert install(small, verdict=None).run().verify is None
    again = install(small)
    assert again.run().installed is False
    assert again.levels == ["kernels"]


def test_an_upgrade_switches_and_keeps_the_old(install: Installer, small: LockedVariant, wheelhouse: Path) -> None:
    first = install(small).run()
    order = install(upgraded(wheelhouse, small))
    second = order.run()
    assert (second.installed, second.previous) == (True, first.generation)
    assert version(order.path) == "2.0"
    old = generations.folder(order.path, first.generation)
    assert version(old) == "1.0"
    back = install(small).run()
    assert (back.installed, back.generation, back.previous) == (True, first.generation, second.generation)
    assert version(order.path) == "1.0"


def test_a_failed_verification_leaves_the_old_in_place(
    install: Installer, small: LockedVariant, wheelhouse: Path
) -> None:
    first = install(small).run()
    order = install(upgraded(wheelhouse, small), verdict="failed")
    failed = order.run()
    assert failed.verify is not None
    assert (failed.installed, failed.verify.verdict, failed.previous) == (False, "failed", first.generation)
    assert [caution.code for caution in order.told.warnings] == ["not-switched"]
    assert version(order.path) == "1.0"
    rows = {row.id: row.broken for row in generations.listing(order.path)}
    assert rows == {first.generation: False, failed.generation: True}
    broken = generations.folder(order.path, failed.generation) / generations.BROKEN
    assert broken.read_text() == "kernels.nf4: off by 1\n"
    fixed = install(order.variant).run()
    assert fixed.installed
    assert fixed.generation not in rows
    assert version(order.path) == "2.0"


def test_what_could_not_be_verified_is_not_switched_to_and_not_built_twice(
    install: Installer, small: LockedVariant
) -> None:
    order = install(small, verdict="could-not-run")
    failed = order.run()
    assert not failed.installed
    assert not order.path.exists()
    done = install(small).run()
    assert (done.installed, done.generation) == (True, failed.generation)


def test_nothing_of_the_address_with_a_password_stays(install: Installer, small: LockedVariant, index: Index) -> None:
    secret = index.url.replace("http://", "http://someone:hunter2@")
    order = install(small, index=secret)
    order.run()
    root = order.path.resolve()
    kept = [file for file in root.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]
    assert kept == []
    assert not any("hunter2" in line for line in (*order.told.stages, *order.told.details))


def test_a_path_with_spaces_and_quotes_works(install: Installer, small: LockedVariant, tmp_path: Path) -> None:
    order = install(small, path=tmp_path / "it's a place" / "my env")
    order.path.parent.mkdir()
    order.run()
    assert version(order.path) == "1.0"
    assert says(order.path / "bin" / "tool") == f"1.0 {order.path.resolve()}"


# ---- what must not get in -----------------------------------------------------------------------------------------


def test_a_wheel_with_other_bytes_is_refused(install: Installer, small: LockedVariant, wheelhouse: Path) -> None:
    first = install(small).run()
    variant = upgraded(wheelhouse, small)
    make_wheel(wheelhouse, "alpha", "2.0", files={"alpha.py": "__version__ = 'evil'\n"})
    order = install(variant)
    with pytest.raises(Refused) as refusal:
        order.run()
    assert refusal.value.code == "hash-mismatch"
    assert "alpha==2.0" in refusal.value.message
    assert version(order.path) == "1.0"
    assert tree(order.path) == [f"env.envlock/{first.generation}"]


def test_an_edit_in_another_environment_does_not_come_along(
    install: Installer, small: LockedVariant, tmp_path: Path
) -> None:
    other = install(small, path=tmp_path / "other")
    other.run()
    module(other.path).write_text("__version__ = 'edited'\n")
    order = install(small)
    order.run()
    assert version(order.path) == "1.0"
    assert any("again" in stage for stage in order.told.stages)


def test_a_file_edited_in_place_is_noticed_and_replaced(install: Installer, small: LockedVariant) -> None:
    order = install(small, verdict=None)
    first = order.run()
    stat = module(order.path).stat()
    module(order.path).write_text("__version__ = '6.6'\n")
    os.utime(module(order.path), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert version(order.path) == "6.6"
    second = order.run()
    assert (second.installed, second.previous) == (True, first.generation)
    assert version(order.path) == "1.0"


def test_a_wheel_that_lies_about_its_own_files_is_refused(install: Installer, wheelhouse: Path) -> None:
    wheel = make_wheel(wheelhouse, "alpha", "1.0")
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["alpha.py"] = b"__version__ = '6.6'\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    order = install(locked([package(wheel)]))
    with pytest.raises(Refused) as refusal:
        order.run()
    assert refusal.value.code == "integrity-failed"
    assert "alpha" in refusal.value.message
    assert not order.path.exists()
    assert tree(order.path) == []


# ---- packages that come as source only ----------------------------------------------------------------------------

BACKEND = """
import base64, hashlib, pathlib, zipfile
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    import helper
    name = "beta-1.0-py3-none-any.whl"
    body = f"BUILT_WITH = {helper.__version__!r}\\n".encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()
    info = {
        "METADATA": "Metadata-Version: 2.1\\nName: beta\\nVersion: 1.0\\n",
        "WHEEL": "Wheel-Version: 1.0\\nGenerator: tests\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        "RECORD": f"beta.py,sha256={digest},{len(body)}\\nbeta-1.0.dist-info/RECORD,,\\n",
    }
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as archive:
        archive.writestr("beta.py", body)
        for file, text in info.items():
            archive.writestr(f"beta-1.0.dist-info/{file}", text)
    return name
"""
PROJECT = '[build-system]\nrequires = ["backend", "helper"]\nbuild-backend = "backend"\n'


@pytest.fixture
def from_source(wheelhouse: Path) -> LockedVariant:
    """A package whose build needs two others, one of them in a version that is not the index's newest."""
    sdist = make_sdist(wheelhouse, "beta", "1.0", files={"pyproject.toml": PROJECT})
    backend = make_wheel(wheelhouse, "backend", "1.0", files={"backend.py": BACKEND})
    helper = make_wheel(wheelhouse, "helper", "1.0")
    make_wheel(wheelhouse, "helper", "9.0")
    alpha = make_wheel(wheelhouse, "alpha", "1.0")
    return locked([package(alpha), package(sdist)], build=[package(backend), package(helper)])


def built_with(path: Path) -> str:
    return says(path / "bin" / "python", "-c", "import beta; print(beta.BUILT_WITH)")


def test_source_is_built_with_what_the_lock_names_and_nothing_else(
    install: Installer, from_source: LockedVariant
) -> None:
    order = install(from_source)
    order.run()
    assert built_with(order.path) == "1.0"
    python = order.path / "bin" / "python"
    assert says(python, "-c", "import importlib.util as u; print(u.find_spec('helper'), u.find_spec('backend'))") == (
        "None None"
    )


def test_a_wheel_built_otherwise_before_is_not_taken(
    install: Installer, from_source: LockedVariant, isolated_environ: dict[str, str], index: Index, tmp_path: Path
) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv
    for arguments in (["venv", "-q", "--python", sys.executable], ["pip", "install", "-q", "beta"]):
        subprocess.run(
            [uv, *arguments], cwd=tmp_path, env={**isolated_environ, "UV_DEFAULT_INDEX": index.url}, check=True
        )
    assert built_with(tmp_path / ".venv") == "9.0"
    order = install(from_source)
    order.run()
    assert built_with(order.path) == "1.0"


def test_other_build_requirements_are_another_environment(
    install: Installer, from_source: LockedVariant, wheelhouse: Path
) -> None:
    order = install(from_source)
    first = order.run()
    newer = replace(from_source, build=(from_source.build[0], package(wheelhouse / "helper-9.0-py3-none-any.whl")))
    second = install(newer).run()
    assert first.generation[:12] != second.generation[:12]
    assert built_with(order.path) == "9.0"


def test_a_built_file_that_was_edited_elsewhere_is_built_again(
    install: Installer, from_source: LockedVariant, tmp_path: Path
) -> None:
    other = install(from_source, path=tmp_path / "other")
    other.run()
    module(other.path).with_name("beta.py").write_text("BUILT_WITH = 'edited'\n")
    order = install(from_source)
    order.run()
    assert built_with(order.path) == "1.0"


def test_a_build_requirement_that_was_edited_elsewhere_is_not_built_with(
    install: Installer, from_source: LockedVariant, tmp_path: Path
) -> None:
    tools = install(locked(from_source.build), path=tmp_path / "tools")
    tools.run()
    module(tools.path).with_name("helper.py").write_text("__version__ = 'edited'\n")
    order = install(from_source)
    order.run()
    assert built_with(order.path) == "1.0"


def test_a_build_requirement_that_is_not_locked_fails_the_build(install: Installer, from_source: LockedVariant) -> None:
    order = install(replace(from_source, build=from_source.build[:1]))
    with pytest.raises(WorldFailed) as failure:
        order.run()
    assert failure.value.code == "build-failed"
    assert "No module named 'helper'" in "\n".join(str(problem) for problem in failure.value.problems)
    assert not order.path.exists()


def test_source_with_other_bytes_is_refused_before_it_is_run(
    install: Installer, from_source: LockedVariant, wheelhouse: Path, tmp_path: Path
) -> None:
    proof = tmp_path / "it-ran"
    evil = f"open({str(proof)!r}, 'w')\n{BACKEND}"
    files = {"pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n'}
    make_sdist(wheelhouse, "beta", "1.0", files={**files, "evil.py": evil})
    with pytest.raises(Refused) as refusal:
        install(from_source).run()
    assert refusal.value.code == "hash-mismatch"
    assert not proof.exists()


# ---- a world that fails -------------------------------------------------------------------------------------------


def test_offline_takes_everything_from_the_cache(
    install: Installer, from_source: LockedVariant, index: Index, tmp_path: Path
) -> None:
    install(from_source).run()
    asked = len(index.hits)
    order = install(from_source, path=tmp_path / "second", offline=True)
    order.run()
    assert built_with(order.path) == "1.0"
    assert len(index.hits) == asked


def test_offline_a_damaged_cache_is_refused_and_left_for_others(
    install: Installer, small: LockedVariant, tmp_path: Path
) -> None:
    other = install(small, path=tmp_path / "other")
    other.run()
    module(other.path).write_text("__version__ = 'edited'\n")
    with pytest.raises(Refused) as refusal:
        install(small, offline=True).run()
    assert refusal.value.code == "integrity-failed"
    install(small).run()


def test_offline_says_what_is_not_cached(install: Installer, small: LockedVariant) -> None:
    with pytest.raises(WorldFailed) as failure:
        install(small, offline=True).run()
    assert failure.value.code == "not-cached"


@pytest.mark.parametrize(
    "fault",
    [Fault(kind="status", value=503), Fault(kind="reset"), Fault(kind="truncate", value=40)],
    ids=lambda fault: fault.kind,
)
def test_a_network_that_fails_leaves_the_old_environment(
    install: Installer, small: LockedVariant, wheelhouse: Path, index: Index, fault: Fault
) -> None:
    first = install(small).run()
    variant = upgraded(wheelhouse, small)
    index.break_at("/files/alpha-2.0-py3-none-any.whl", fault)
    order = install(variant)
    order.environ = {**order.environ, "UV_HTTP_RETRIES": "0"}
    with pytest.raises(WorldFailed) as failure:
        order.run()
    assert failure.value.code == "network"
    assert version(order.path) == "1.0"
    assert tree(order.path) == [f"env.envlock/{first.generation}"]
    index.mend()
    assert install(variant).run().installed
    assert version(order.path) == "2.0"


def test_an_index_without_the_file_is_named(install: Installer, small: LockedVariant, wheelhouse: Path) -> None:
    (wheelhouse / "alpha-1.0-py3-none-any.whl").unlink()
    with pytest.raises(WorldFailed) as failure:
        install(small).run()
    assert failure.value.code == "artifact-missing"


def test_a_disk_that_is_too_small_is_known_before_anything_is_downloaded(
    install: Installer, small: LockedVariant, index: Index
) -> None:
    vast = Artifact(index="pypi", file="alpha-1.0-py3-none-any.whl", sha256="0" * 64, size=10**18)
    order = install(replace(small, packages=(replace(small.packages[0], artifacts=(vast,)),)))
    with pytest.raises(WorldFailed) as failure:
        order.run()
    assert failure.value.code == "disk-full"
    assert "1,000,000,000,000,000,000 bytes" in failure.value.message
    assert index.hits == []
    assert tree(order.path) == []


def test_what_is_cached_already_needs_no_room(install: Installer, small: LockedVariant, tmp_path: Path) -> None:
    install(small).run()
    (alpha,) = small.packages[0].artifacts
    vast = replace(small.packages[0], artifacts=(replace(alpha, size=10**18),))
    assert install(replace(small, packages=(vast, *small.packages[1:])), path=tmp_path / "other").run().installed


def test_a_disk_that_fills_up_on_the_way_is_said_so(
    install: Installer, wheelhouse: Path, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    mounted = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount a small disk")
    big = package(make_wheel(wheelhouse, "big", "1.0", files={"big.py": f"X = {'x' * 8_000_000!r}\n"}))
    unsized = replace(big, artifacts=tuple(replace(file, size=None) for file in big.artifacts))
    disk = tmp_path / "disk"
    disk.mkdir()
    environ = {**isolated_environ, "UV_CACHE_DIR": str(disk / "cache")}
    order = install(locked([unsized]), path=disk / "env", environ=environ)
    mount = 'mount -t tmpfs -o size=4m x "$0" && "$@"; code=$?; ls -A "$0/env.envlock"; exit $code'
    out, err = order.start("unshare", "-rm", "sh", "-c", mount, disk).communicate(timeout=60)
    said, *left = out.splitlines()
    assert said.startswith("disk-full: "), err
    assert left == [".lock", ".state.json"]


def stalled(order: Install, index: Index) -> subprocess.Popen[str]:
    """Start the install in another process and return once it waits for a download that does not come."""
    file = "/files/alpha-2.0-py3-none-any.whl"
    index.break_at(file, Fault(kind="stall"))
    child = order.start()
    deadline = time.monotonic() + 60
    while file not in index.requested:
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return child


def test_a_killed_install_leaves_the_old_environment_and_the_next_one_goes_on(
    install: Installer, small: LockedVariant, wheelhouse: Path, index: Index
) -> None:
    first = install(small).run()
    order = install(upgraded(wheelhouse, small))
    child = stalled(order, index)
    child.kill()
    child.communicate()
    assert version(order.path) == "1.0"
    assert [row.complete for row in generations.listing(order.path)] == [True, False]
    index.mend()
    begun = time.monotonic()
    second = order.run()
    # Its uv is gone too: neither is its lock on the cache waited for, nor does it write any more.
    assert time.monotonic() - begun < 10
    assert version(order.path) == "2.0"
    assert tree(order.path) == [f"env.envlock/{name}" for name in sorted([first.generation, second.generation])]


def test_an_interrupt_takes_the_half_built_away_and_says_what_stands(
    install: Installer, small: LockedVariant, wheelhouse: Path, index: Index
) -> None:
    first = install(small).run()
    order = install(upgraded(wheelhouse, small))
    child = stalled(order, index)
    child.terminate()
    out, err = child.communicate(timeout=30)
    assert out.startswith("interrupted: "), err
    assert first.generation in out
    assert tree(order.path) == [f"env.envlock/{first.generation}"]
    assert version(order.path) == "1.0"


def test_a_second_install_of_the_same_path_is_told_who_is_at_it(
    install: Installer, small: LockedVariant, wheelhouse: Path, index: Index
) -> None:
    order = install(upgraded(wheelhouse, small))
    child = stalled(order, index)
    try:
        with pytest.raises(WorldFailed, match=str(child.pid)) as failure:
            install(small).run()
        assert failure.value.code == "target-busy"
    finally:
        child.terminate()
        child.communicate(timeout=30)
    assert install(small).run().installed


def test_a_foreign_target_is_refused_before_anything_is_downloaded(
    install: Installer, small: LockedVariant, index: Index
) -> None:
    order = install(small)
    order.path.mkdir()
    (order.path / "data").write_text("precious")
    with pytest.raises(WorldFailed) as failure:
        order.run()
    assert failure.value.code == "target-foreign"
    assert index.hits == []
    assert (order.path / "data").read_text() == "precious"


def test_an_interpreter_that_went_away_is_replaced(install: Installer, small: LockedVariant) -> None:
    order = install(small, verdict=None)
    first = order.run()
    (order.path / "bin" / f"python{HERE}.real").unlink()
    second = order.run()
    assert (second.installed, second.previous) == (True, first.generation)
    assert version(order.path) == "1.0"


def test_a_record_edited_by_hand_is_not_believed(install: Installer, small: LockedVariant) -> None:
    order = install(small, verdict=None)
    order.run()
    file = order.path / "envlock.json"
    file.write_text(file.read_text().replace('"schema": 1', '"schema": 99'))
    assert order.run().installed is True
    assert version(order.path) == "1.0"


def test_ambient_settings_of_uv_do_not_reach_it(install: Installer, small: LockedVariant, tmp_path: Path) -> None:
    order = install(small)
    (tmp_path / "uv.toml").write_text("no-index = true\n")
    hostile = {"UV_NO_INDEX": "1", "UV_INDEX_URL": "http://127.0.0.1:9/", "UV_CONFIG_FILE": str(tmp_path / "uv.toml")}
    order.environ = {**order.environ, **hostile, "UV_REQUIRE_HASHES": "0", "PYTHONPATH": "/nowhere", "PYTHONHOME": "/"}
    done: Installed = order.run()
    assert done.installed
