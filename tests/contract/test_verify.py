"""Verifying environments that a real install made, spoilt in the ways that real ones are."""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envlock import checks, config, env, generations, lock, proc, record
from envlock.app import detect, verify
from envlock.app.world import World
from envlock.cli import outcome
from envlock.errors import EnvlockError, Misuse, WorldFailed
from envlock.model import Check, Driver, Floors, Gpu, HostFacts, Inputs, Lock, Status, Verified
from tests.contract.installing import HERE, Install, Told, locked, package
from tests.contract.test_probe import torch
from tests.servers.index import Index
from tests.servers.wheels import make_wheel

SETTLE_SECONDS = 0.15  # a file must have been still for that long to be remembered
MODULES = {
    "numpy": "__version__ = '1.0'\n",
    "transformers": "import numpy\n",
    "plain": "value = 1\n",
}


@dataclass(frozen=True)
class Place:
    """A project folder, and the world in which envlock is started there."""

    cwd: Path
    world: World
    told: Told

    def path(self, name: str = "small") -> Path:
        return self.cwd / ".envlock" / name

    def root(self, name: str = "small") -> Path:
        return self.path(name).resolve()

    def site(self, name: str = "small") -> Path:
        return self.root(name) / "lib" / f"python{HERE}" / "site-packages"

    def rewrite(self, name: str = "small", **changes: object) -> None:
        """Write another record into the generation."""
        file = self.root(name) / record.FILE
        kept = record.parse(file.read_text(encoding="utf-8"), str(file))
        file.write_text(record.dump(replace(kept, **changes)), encoding="utf-8")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one environment of three packages, and uv's cache beside it; no test changes it."""
    base = tmp_path_factory.mktemp("made")
    shelf = base / "wheelhouse"
    wheels = [make_wheel(shelf, name, "1.0", files={f"{name}.py": text}) for name, text in MODULES.items()]
    environ = world_environ(base)
    with Index(shelf) as index:
        variant = locked([package(wheel) for wheel in wheels])
        path = base / "project" / ".envlock" / "small"
        path.parent.mkdir(parents=True)
        Install(path=path, variant=variant, environ=environ, index=index.url, verdict=None).run()
    return base / "project"


def world_environ(base: Path) -> dict[str, str]:
    home = base / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "UV_CACHE_DIR": str(base / "uv-cache"),
        "TMPDIR": str(home),
    }


def world(cwd: Path, environ: Mapping[str, str], told: Told) -> World:
    return World(
        run=proc.run,
        environ=environ,
        cwd=cwd,
        now=lambda: datetime.now(timezone.utc),
        clock=time.monotonic,
        reporter=told,
        config=config.resolve(flags={}, environ={}, table={}, table_file=None),
    )


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Place:
    """Return a copy of the project, its launchers pointed at itself: no inode is shared with uv's cache."""
    cwd = tmp_path / "project"
    shutil.copytree(made, cwd, symlinks=True)
    for launcher in (cwd / ".envlock" / "small" / "bin").glob("python*"):
        if not launcher.is_symlink():
            text = launcher.read_text(encoding="utf-8")
            launcher.write_text(text.replace(str(made), str(cwd)), encoding="utf-8")
    told = Told()
    found = Place(cwd=cwd, world=world(cwd, world_environ(tmp_path), told), told=told)
    here = detect.hosts(found.world)[0]
    found.rewrite(host=here, modules={})
    return found


def statuses(answer: Verified) -> dict[str, Status]:
    """Return what did not pass, but for what there may be none of where tests run."""
    found = {check.id: check.status for check in answer.checks if check.status != "pass"}
    return {name: status for name, status in found.items() if (name, status) != ("drift.driver-library", "skip")}


def named(answer: Verified, identity: str) -> Check:
    return next(check for check in answer.checks if check.id == identity)


def refused(place: Place, target: str | None = None) -> EnvlockError:
    with pytest.raises(EnvlockError) as caught:
        verify.run(place.world, target, level="quick")
    return caught.value


def exit_code(answer: Verified) -> int:
    error = outcome.judge(answer)
    return error.exit if error else 0


# ---- a sound environment ------------------------------------------------------------------------------------------


def test_quick_starts_nothing_inside_and_claims_no_device(place: Place) -> None:
    answer = verify.run(place.world, level="quick")
    assert statuses(answer) == {}
    assert {check.id.partition(".")[0] for check in answer.checks} == {"drift", "integrity"}
    assert (answer.profile, answer.variant, answer.path) == ("small", "cpu-pypi", ".envlock/small")
    assert (answer.verdict, answer.device, exit_code(answer)) == ("intact", None, 0)
    assert checks.sentence(answer) == "machine and files verified; no kernels run"
    assert not list(place.root().rglob("__pycache__"))


def test_kernels_imports_what_is_there_and_claims_no_more_than_that(place: Place) -> None:
    answer = verify.run(place.world)
    assert statuses(answer) == {}
    assert [check.id for check in answer.checks if check.id.startswith("import.")] == [
        "import.numpy",
        "import.transformers",
    ]
    assert [check.id for check in checks.ordered(answer.checks)] == [check.id for check in answer.checks]
    assert (answer.verdict, answer.device) == ("intact", None)
    assert checks.sentence(answer) == "machine, files and imports verified; no kernels run"
    assert list(Path(place.world.environ["TMPDIR"]).glob("envlock-scratch.*")) == []


@pytest.mark.parametrize("target", ["small", ".envlock/small", "./.envlock/small", None])
def test_the_same_environment_by_its_name_its_path_and_alone(place: Place, target: str | None) -> None:
    assert verify.run(place.world, target, level="quick").path == ".envlock/small"


def test_an_environment_elsewhere_by_its_path(place: Place, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.symlink_to(place.root())
    answer = verify.run(place.world, str(elsewhere), level="quick")
    assert (answer.path, answer.verdict) == (str(elsewhere), "intact")


def test_a_generation_that_no_link_names_yet(place: Place) -> None:
    answer = verify.check(place.world, place.root(), level="kernels", path=place.path())
    assert (answer.path, answer.verdict, statuses(answer)) == (".envlock/small", "intact", {})


def test_a_generation_made_for_another_machine_is_judged_by_that_machine(place: Place) -> None:
    gpu = Gpu(name="NVIDIA GeForce RTX 3090", compute_capability="8.6")
    target = HostFacts(glibc="2.35", driver=Driver(version="550.54.15", library="550.54.15"), gpus=(gpu,))
    floors = Floors(driver="525.60.13", driver_windows="527.41", glibc="2.17", sm=("sm_80",))
    place.rewrite(host=target, floors=floors)
    assert statuses(verify.check(place.world, place.root(), level="quick", host=target)) == {}
    assert named(verify.run(place.world, level="quick"), "drift.driver").status == "fail"


# ---- which environment --------------------------------------------------------------------------------------------


def test_several_environments_are_named(place: Place) -> None:
    place.path("other").symlink_to(place.root())
    error = refused(place)
    assert isinstance(error, Misuse)
    assert (error.code, error.hint) == ("env-ambiguous", "envlock verify other")
    assert [problem.file for problem in error.problems] == [".envlock/other", ".envlock/small"]


def test_none_at_all(place: Place) -> None:
    shutil.rmtree(place.cwd / ".envlock")
    error = refused(place)
    assert (error.code, error.exit, error.hint) == ("env-missing", 2, "envlock profiles")


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("smal", "envlock verify small"),
        ("gemma-qlora", "envlock install gemma-qlora"),
        ("no/where", "envlock profiles"),
        ("~/where", "envlock profiles"),
    ],
)
def test_a_target_that_is_not_there(place: Place, target: str, hint: str) -> None:
    error = refused(place, target)
    assert (error.code, error.hint) == ("env-missing", hint)


def test_a_lock_that_moved_since_the_install_is_noted_and_no_failure(place: Place) -> None:
    file = place.cwd / "lockfiles" / "small.lock"
    file.parent.mkdir()
    kept = generations.read(place.root())
    assert "drift.lock" not in {check.id for check in verify.run(place.world, level="quick").checks}
    same = locked([package(make_wheel(place.cwd / "wheels", "plain", "2.0"))])
    inputs = Inputs(profile="p", facts="f", rules="r", engine="uv-0")
    for variant, says in (
        (same, "holds another one now"),
        (replace(same, variant=replace(same.variant, name="cu121")), "holds none of that name now"),
    ):
        file.write_text(lock.render(Lock(profile="small", inputs=inputs, variants=(variant,))), encoding="utf-8")
        answer = verify.run(place.world, level="quick")
        found = named(answer, "drift.lock")
        assert (found.status, found.fix) == ("warn", "envlock install small")
        assert (found.message or "").endswith(f"lockfiles/small.lock {says}")
        assert (answer.verdict, exit_code(answer)) == ("intact", 0)
    place.rewrite(lock=env.digest(same))
    file.write_text(lock.render(Lock(profile="small", inputs=inputs, variants=(same,))), encoding="utf-8")
    assert named(verify.run(place.world, level="quick"), "drift.lock").status == "pass"
    place.rewrite(lock=kept.lock)
    file.write_text("no lock at all", encoding="utf-8")
    broken = named(verify.run(place.world, level="quick"), "drift.lock")
    assert (broken.status, broken.fix) == ("warn", "envlock lock small")
    assert "drift.lock" not in {check.id for check in verify.check(place.world, place.root(), level="quick").checks}


def test_a_check_that_was_stopped_is_told_how_to_get_longer(place: Place) -> None:
    hanging = torch(then="nn.Embedding = lambda *_: __import__('time').sleep(600)\n")
    make_wheel(place.cwd / "wheels", "torch", "1.0", files={"torch.py": hanging})
    with zipfile.ZipFile(place.cwd / "wheels" / "torch-1.0-py3-none-any.whl") as wheel:
        wheel.extractall(place.site())
    place.rewrite(packages={"torch": "1.0"})
    answer = verify.run(place.world, only=("kernels.index-guard",), timeout=0.5)
    found = named(answer, "kernels.index-guard")
    assert (found.status, (found.message or "").startswith("no sign of life for 0.5 s: stopped")) == ("fail", True)
    longer = "envlock verify .envlock/small --only kernels.index-guard --timeout 600"
    error = outcome.judge(answer)
    assert error is not None
    assert (found.fix, error.hint) == (longer, longer)


@pytest.mark.parametrize("target", ["small", None])
def test_a_configured_path_is_where_it_looks(place: Place, target: str | None) -> None:
    (place.cwd / "here").symlink_to(place.root())
    file = str(place.cwd / "pyproject.toml")
    settings = config.resolve(flags={}, environ={}, table={"path": "here"}, table_file=file)
    below = place.cwd / "src"
    below.mkdir()
    answer = verify.run(replace(place.world, cwd=below, config=settings), target, level="quick")
    assert (answer.path, answer.verdict) == (str(place.cwd / "here"), "intact")


def test_a_place_without_a_folder_for_reports_proves_nothing(place: Place) -> None:
    world = replace(place.world, environ={**place.world.environ, "TMPDIR": "/none"})
    answer = verify.run(world)
    assert (answer.verdict, exit_code(answer)) == ("could-not-run", 3)
    assert named(answer, "import.probe").message == (
        "the probe's report has no place in `/none`: No such file or directory"
    )


def test_a_folder_that_envlock_did_not_make(place: Place) -> None:
    (place.cwd / "venv").mkdir()
    error = refused(place, "venv")
    assert error.code == "env-missing"
    assert "no environment that envlock made" in error.message


def test_a_record_that_cannot_be_believed(place: Place) -> None:
    (place.root() / record.FILE).write_text('{"schema": 1}', encoding="utf-8")
    error = refused(place)
    assert (error.code, error.exit) == ("env-record-invalid", 2)
    assert {problem.key for problem in error.problems} >= {"profile", "packages", "host"}


def test_a_record_that_is_not_text(place: Place) -> None:
    (place.root() / record.FILE).write_bytes(b"\xff\xfe")
    assert refused(place).code == "env-record-invalid"


def test_a_record_that_cannot_be_read(place: Place) -> None:
    (place.root() / record.FILE).unlink()
    with pytest.raises(WorldFailed) as caught:
        verify.check(place.world, place.root())
    assert caught.value.code == "env-unreadable"


@pytest.mark.parametrize("setting", ["elsewhere", "./elsewhere", ".envlock/../elsewhere"])
def test_the_configured_path_is_the_one_when_nothing_is_named(place: Place, setting: str) -> None:
    (place.cwd / "elsewhere").symlink_to(place.root())
    settings = config.resolve(flags={}, environ={"ENVLOCK_PATH": setting}, table={}, table_file=None)
    answer = verify.run(replace(place.world, config=settings), level="quick")
    assert Path(place.cwd, answer.path).samefile(place.cwd / "elsewhere")
    with pytest.raises(Misuse):
        verify.run(replace(place.world, config=settings), "none", level="quick")


# ---- spoilt -------------------------------------------------------------------------------------------------------


def edit_in_place(file: Path) -> None:
    before = file.stat()
    file.write_bytes(file.read_bytes()[:-2] + b"7\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_an_edited_file_is_the_root_and_nothing_is_imported_after_it(place: Place) -> None:
    verify.run(place.world, level="quick")
    edit_in_place(place.site() / "plain.py")
    answer = verify.run(place.world)
    assert (answer.verdict, exit_code(answer)) == ("failed", 1)
    assert statuses(answer) == {"integrity.record": "fail", "import.numpy": "skip", "import.transformers": "skip"}
    assert named(answer, "import.numpy").message == "follows from integrity.record"
    assert named(answer, "integrity.record").have == "plain.py (plain) has other bytes"
    assert named(answer, "integrity.record").fix == "envlock install small"


def test_the_command_that_repairs_names_a_path_of_its_own(place: Place) -> None:
    shutil.copytree(place.cwd / ".envlock", place.cwd / "my envs", symlinks=True)
    (place.cwd / "my envs" / "small").resolve().joinpath("lib", f"python{HERE}", "site-packages", "plain.py").unlink()
    answer = verify.run(place.world, "my envs/small", level="quick")
    assert named(answer, "integrity.record").fix == "envlock install small --path 'my envs/small'"


def test_deep_reads_what_the_cache_knows(place: Place) -> None:
    time.sleep(SETTLE_SECONDS)
    verify.run(place.world, level="quick")
    message = named(verify.run(place.world, level="quick"), "integrity.record").message or ""
    assert "hashed before and not touched since" in message
    assert "hashed now" not in message
    assert statuses(verify.run(place.world, level="quick", deep=True)) == {}


def test_a_poisoned_cache_accuses_nobody(place: Place) -> None:
    time.sleep(SETTLE_SECONDS)
    verify.run(place.world, level="quick")
    cache = Path(place.world.environ["XDG_CACHE_HOME"], "envlock", "hashes")
    cache.write_bytes(b"\x00garbage")
    assert statuses(verify.run(place.world, level="quick")) == {}


def test_a_hook_that_nobody_locked(place: Place) -> None:
    (place.site() / "evil.pth").write_text("import os; os.abort()\n", encoding="utf-8")
    answer = verify.run(place.world)
    assert statuses(answer)["integrity.strangers"] == "fail"
    assert named(answer, "import.numpy").message == "follows from integrity.strangers"


def test_a_version_that_is_not_the_locked_one(place: Place) -> None:
    place.rewrite(packages={"numpy": "2.0", "transformers": "1.0", "plain": "1.0"})
    answer = verify.run(place.world, level="quick")
    assert named(answer, "integrity.versions").have == "numpy 1.0"
    assert named(answer, "integrity.versions").want == "numpy 2.0"


def test_the_interpreter_is_gone(place: Place) -> None:
    real = place.root() / "bin" / f"python{HERE}.real"
    real.unlink()
    real.symlink_to("/nowhere/python")
    answer = verify.run(place.world)
    assert answer.verdict == "failed"
    assert checks.root(answer.checks) == named(answer, "integrity.interpreter")


def test_an_environment_that_was_copied_starts_the_first_one(place: Place) -> None:
    shutil.copytree(place.cwd / ".envlock", place.cwd / "copy", symlinks=True)
    answer = verify.run(place.world, "copy/small", level="quick")
    assert "moved or copied" in (named(answer, "integrity.interpreter").message or "")


def break_module(place: Place, name: str, text: str) -> None:
    (place.site() / f"{name}.py").write_text(text, encoding="utf-8")


def test_a_package_that_does_not_import(place: Place) -> None:
    break_module(place, "transformers", "raise RuntimeError('no such operator')\n")
    answer = verify.run(place.world, skip=("integrity",))
    assert statuses(answer) == {"import.transformers": "fail"}
    assert "no such operator" in (named(answer, "import.transformers").message or "")
    assert exit_code(answer) == 1


@pytest.mark.parametrize(
    ("variant", "status", "code"), [("cpu-pypi", "fail", 1), ("cu121-pypi", "warn", 0)], ids=["cpu", "cuda"]
)
def test_a_package_that_the_profile_adds_is_imported_too(place: Place, variant: str, status: Status, code: int) -> None:
    place.rewrite(variant=variant, modules={"plain": "plain"})
    assert named(verify.run(place.world), "import.plain").status == "pass"
    break_module(place, "plain", "raise RuntimeError('no GPU found')\n")
    answer = verify.run(place.world, skip=("integrity",))
    found = named(answer, "import.plain")
    assert (found.status, exit_code(answer)) == (status, code)
    assert (found.message or "").startswith("RuntimeError: no GPU found")
    assert ("there is no GPU here, which it may need" in (found.message or "")) == (status == "warn")


def test_a_package_that_takes_the_interpreter_down(place: Place) -> None:
    break_module(place, "transformers", "import os\nos.abort()\n")
    answer = verify.run(place.world, skip=("integrity",))
    assert statuses(answer) == {"import.transformers": "fail"}
    assert "SIGABRT" in (named(answer, "import.transformers").message or "")


def test_an_interpreter_that_does_not_start_leaves_nothing_proven(place: Place) -> None:
    (place.root() / "bin" / "python").write_text("#!/bin/sh\necho broken loader >&2\nexit 7\n", encoding="utf-8")
    answer = verify.run(place.world, skip=("integrity",))
    assert (answer.verdict, exit_code(answer)) == ("could-not-run", 3)
    assert "ended with code 7" in checks.sentence(answer)
    assert "broken loader" in (named(answer, "import.probe").message or "")


# ---- a machine that moved -----------------------------------------------------------------------------------------


def test_another_architecture_leaves_nothing_to_check(place: Place) -> None:
    here = generations.read(place.root()).host
    place.rewrite(host=replace(here, arch="s390x"))
    answer = verify.run(place.world)
    assert checks.root(answer.checks) == named(answer, "drift.platform")
    assert {check.status for check in answer.checks if not check.id.startswith("drift.")} == {"skip"}
    assert {check.id for check in answer.checks} >= {f"integrity.{name}" for name in checks.INTEGRITY}
    assert named(answer, "drift.platform").fix == "envlock install small"


def test_a_lost_gpu_forbids_kernels_and_no_imports(place: Place) -> None:
    here = generations.read(place.root()).host
    gpu = Gpu(name="NVIDIA GeForce RTX 3090", compute_capability="3.5")
    then = replace(here, driver=Driver(version="999.1.1", library="999.1.1"), gpus=(gpu,))
    place.rewrite(host=then, floors=Floors(driver="998.1", driver_windows=None, glibc=None, sm=("sm_35",)))
    answer = verify.run(place.world)
    assert checks.root(answer.checks) == named(answer, "drift.driver")
    assert named(answer, "import.numpy").status == "pass"


# ---- what is asked for --------------------------------------------------------------------------------------------


def test_only_one_check(place: Place) -> None:
    answer = verify.run(place.world, only=("integrity.record",))
    assert [check.id for check in answer.checks] == ["integrity.record"]


def test_skipping_a_group_and_a_check(place: Place) -> None:
    answer = verify.run(place.world, skip=("drift", "import.numpy", "integrity.strangers"))
    assert [check.id for check in answer.checks] == [
        "integrity.interpreter",
        "integrity.versions",
        "integrity.record",
        "import.transformers",
    ]


def test_an_import_that_was_not_asked_for_is_named_when_another_follows_from_it(place: Place) -> None:
    break_module(place, "numpy", "raise ImportError('no numpy')\n")
    answer = verify.run(place.world, only=("import.transformers",))
    assert answer.verdict == "failed"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"only": ("drfit",)}, "check-unknown"),
        ({"skip": ("kernels.nf3",)}, "check-unknown"),
        ({"only": ("loader",)}, "check-unknown"),
        ({"only": ("kernels",), "level": "quick"}, "nothing-to-check"),
        ({"only": ("kernels.nf4",)}, "nothing-to-check"),
        ({"skip": ("drift", "integrity", "import", "kernels")}, "nothing-to-check"),
        ({"level": "quick", "require_gpu": True}, "nothing-to-check"),
        ({"only": ("drift",), "require_gpu": True}, "nothing-to-check"),
    ],
)
def test_what_cannot_be_asked(place: Place, asked: dict[str, object], code: str) -> None:
    with pytest.raises(Misuse) as caught:
        verify.run(place.world, **asked)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert caught.value.hint


def test_an_environment_of_which_nothing_is_ever_imported(place: Place) -> None:
    place.rewrite(packages={"plain": "1.0"})
    answer = verify.run(place.world)
    assert answer.verdict == "intact"
    assert not [check for check in answer.checks if check.id.startswith(("import.", "kernels."))]


def test_a_gpu_that_is_required_and_not_used_is_a_failure(place: Place) -> None:
    answer = verify.run(place.world, require_gpu=True)
    assert (answer.verdict, exit_code(answer)) == ("failed", 1)
    root = checks.root(answer.checks)
    assert root is not None
    assert (root.id, root.want) == ("kernels.cuda", "cuda")


def test_a_record_is_what_the_install_wrote(place: Place) -> None:
    document = json.loads((place.root() / record.FILE).read_text(encoding="utf-8"))
    assert document["packages"] == dict.fromkeys(sorted(MODULES), "1.0")
