"""Locking and installing from two indexes: the torch family from its backend's own, all else from the default one."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envlock import config, lock_text
from envlock import lock as locks
from envlock.app import install, lock, plan
from envlock.errors import EnvlockError, Refused, WorldFailed
from envlock.model import Artifact, Installed, Lock, LockedPackage
from tests.contract.installing import Told
from tests.contract.places import NEEDS, PROFILE, SECRET, Place
from tests.servers.index import Fault, Index
from tests.servers.wheels import make_sdist, make_wheel


def asked(index: Index) -> set[str]:
    return {path for path in index.requested if path.startswith("/simple/")}


def artifacts(package: LockedPackage) -> list[tuple[str, str, str | None]]:
    return [(file.index, file.file, file.evidence) for file in package.artifacts]


# ---- locking ------------------------------------------------------------------------------------------------------


def test_torch_comes_from_its_index_and_nothing_else_does(place: Place) -> None:
    assert lock.run(place.world(), "small").variants == ("cu128", "cu128-pypi")
    torch = place.package("cu128", "torch")
    file = "torch-2.8.0+cu128-py3-none-any.whl"
    assert (torch.version, artifacts(torch)) == ("2.8.0+cu128", [("cu128", file, "index page read")])
    own = (place.torch.directory / file).read_bytes()
    assert torch.artifacts[0].sha256 == hashlib.sha256(own).hexdigest()
    assert torch.artifacts[0].size is None  # the page of PyTorch's own index tells none
    for name, version in (("nvidia-cublas-cu12", "12.8.4.1"), ("triton", "3.4.0"), ("alpha", "1.0")):
        package = place.package("cu128", name)
        (one,) = package.artifacts
        assert (package.version, one.index, one.evidence) == (version, "pypi", None)
        assert one == place.package("cu128-pypi", name).artifacts[0]
    assert artifacts(place.package("cu128-pypi", "torch")) == [("pypi", "torch-2.8.0-py3-none-any.whl", None)]
    assert asked(place.torch) == {"/simple/torch/"}


def test_a_lock_made_behind_a_mirror_is_the_same_and_names_neither_address_nor_login(place: Place) -> None:
    lock.run(place.world(), "small")
    plain = place.files()
    with Index(place.torch.directory) as mirror, Index(place.default.directory) as other:
        mirror.uploaded.update(place.torch.uploaded)
        urls = {
            "ENVLOCK_INDEX_CU128": mirror.url.replace("://", f"://joe:{SECRET}@"),
            "ENVLOCK_INDEX_PYPI": other.url.replace("://", f"://joe:{SECRET}@"),
        }
        (place.project / "lockfiles" / "small.lock").unlink()
        fresh = replace(place, environ={**place.environ, "UV_CACHE_DIR": str(place.project / "cache")})
        lock.run(fresh.world(**urls), "small")
        assert mirror.requested
    assert place.files() == plain
    everything = b"\n".join(plain.values()).decode()
    assert SECRET not in everything
    assert "127.0.0.1" not in everything
    assert "--find-links https://download.pytorch.org/whl/cu128/torch/ " in everything


def test_locking_again_changes_nothing(place: Place) -> None:
    lock.run(place.world(), "small")
    before = place.files()
    assert not lock.run(place.world(), "small").changed
    assert not lock.run(place.world(), "small", mode="confirm").changed
    assert lock.run(place.world(), "small", mode="check").variants == ("cu128", "cu128-pypi")
    assert place.files() == before


def test_what_was_recorded_is_confirmed_and_what_changed_is_refused(place: Place) -> None:
    lock.run(place.world(), "small")
    recorded = place.text.replace("index page read", "recorded, one source")
    path = place.project / "lockfiles" / "small.lock"
    path.write_text(lock_text.render(_recorded(place.held)), encoding="utf-8")
    assert "recorded, one source" in path.read_text(encoding="utf-8")
    assert plan.run(place.world(), "small", backend="cu128").plan.evidence == {"torch": "recorded, one source"}
    assert lock.run(place.world(), "small", mode="confirm").changed
    assert "index page read" in place.text
    assert recorded != place.text
    before = place.files()
    old = place.package("cu128", "torch").artifacts[0].sha256
    make_wheel(place.torch.directory, "torch", "2.8.0+cu128", requires=NEEDS, files={"torch.py": "OTHER = 1\n"})
    with pytest.raises(Refused) as caught:
        lock.run(place.world(), "small", mode="confirm")
    (problem,) = caught.value.problems
    assert (caught.value.code, problem.file) == ("index-changed", "torch-2.8.0+cu128-py3-none-any.whl")
    assert old in f"{problem.expected}"
    assert "cu128" in caught.value.message
    assert place.files() == before


def test_what_an_index_gives_no_hash_of_is_not_called_confirmed(place: Place) -> None:
    lock.run(place.world(), "small")
    (place.project / "lockfiles" / "small.lock").write_text(lock_text.render(_recorded(place.held)), encoding="utf-8")
    place.torch.hashes = False
    place.torch.hits.clear()
    world = place.world()
    answer = lock.run(world, "small", mode="confirm")
    file = "torch-2.8.0+cu128-py3-none-any.whl"
    assert (answer.unconfirmed, place.package("cu128", "torch").artifacts[0].evidence) == (
        (file,),
        "recorded, one source",
    )
    assert world.reporter.stages == ["Reading the indexes cu128"]  # type: ignore[attr-defined]  # of `Told`
    assert place.torch.requested == ["/simple/torch/"]
    place.torch.hashes = True
    assert lock.run(place.world(), "small", mode="confirm").unconfirmed == ()


def _recorded(held: Lock) -> Lock:
    def file(one: Artifact) -> Artifact:
        return replace(one, evidence="recorded, one source") if one.evidence else one

    variants = tuple(
        replace(
            one,
            packages=tuple(
                replace(package, artifacts=tuple(file(each) for each in package.artifacts)) for package in one.packages
            ),
        )
        for one in held.variants
    )
    return replace(held, variants=variants)


@pytest.mark.parametrize(
    ("fault", "code", "kind"),
    [
        (Fault(kind="status", value=404), "index-lacks-package", Refused),
        (Fault(kind="status", value=500), "network", WorldFailed),
        (Fault(kind="reset"), "network", WorldFailed),
        (Fault(kind="truncate", value=40), "network", WorldFailed),
    ],
)
def test_an_index_that_fails_is_named_and_the_lock_stays(
    place: Place, fault: Fault, code: str, kind: type[EnvlockError]
) -> None:
    lock.run(place.world(), "small")
    before = place.files()
    place.torch.break_at("/simple/torch/", fault)
    with pytest.raises(EnvlockError) as caught:
        lock.run(place.world(), "small", upgrade=True)
    assert (type(caught.value), caught.value.code) == (kind, code)
    assert "`cu128`" in caught.value.message
    assert place.files() == before


def test_an_address_that_nobody_answers_at_is_no_conflict(place: Place) -> None:
    with pytest.raises(WorldFailed) as caught:
        lock.run(place.world(ENVLOCK_INDEX_CU128="http://127.0.0.1:9/simple/"), "small")
    assert caught.value.code == "network"
    assert any("ENVLOCK_INDEX_CU128=ADDRESS" in problem.message for problem in caught.value.problems)
    assert not (place.project / "lockfiles").exists()


def test_a_backend_whose_index_nobody_knows_is_told_how_to_name_it(place: Place) -> None:
    profile = place.project / "profiles" / "small.toml"
    profile.write_text(PROFILE.replace("cu128", "cu140").replace("2.8.0", "9.9.9"), encoding="utf-8")
    with pytest.raises(EnvlockError) as caught:
        lock.run(place.world(), "small")
    assert "cu140" in str(caught.value.message) + "".join(map(str, caught.value.problems))
    assert caught.value.exit in {1, 2}


def test_offline_the_pages_cannot_be_read(place: Place) -> None:
    world = place.world()
    settings = config.resolve(flags={"offline": True}, environ={}, table={}, table_file=None)
    with pytest.raises(WorldFailed) as caught:
        lock.run(replace(world, config=settings), "small")
    assert caught.value.code == "not-cached"


def test_what_has_no_hash_is_fetched_and_hashed_or_refused(place: Place) -> None:
    place.torch.hashes = False
    with pytest.raises(Refused) as caught:
        lock.run(place.world(), "small", download=False)
    assert (caught.value.code, caught.value.problems[0].file) == ("hash-missing", "torch-2.8.0+cu128-py3-none-any.whl")
    world = place.world()
    assert lock.run(world, "small").changed
    (file,) = place.package("cu128", "torch").artifacts
    assert file.evidence == "downloaded and hashed"
    own = (place.torch.directory / file.file).read_bytes()
    assert file.sha256 == hashlib.sha256(own).hexdigest()
    assert isinstance(world.reporter, Told)
    assert any(text.startswith("Fetching to hash it") for text in world.reporter.stages)


def test_a_conflict_in_one_variant_leaves_the_others_locked(place: Place) -> None:
    make_wheel(place.torch.directory, "torch", "2.8.0+cu128", requires=["triton==99"])
    place.torch.uploaded["torch-2.8.0+cu128-py3-none-any.whl"] = None
    done = lock.run(place.world(), "small")
    assert done.variants == ("cu128-pypi",)
    assert done.failure is not None
    assert (done.failure.code, done.failure.exit) == ("unsatisfiable", 1)
    assert {problem.key for problem in done.failure.problems} == {"cu128"}
    assert any("triton" in problem.message for problem in done.failure.problems)
    told = [problem.message for problem in done.failure.problems]
    assert any("`small` depends on torch==2.8.0" in text for text in told)
    assert not any("small-profile" in text for text in told)
    assert told[-1] == "`torch` comes from the index `cu128` alone"
    assert f"{done.failure.hint}".endswith("profiles/small.toml requires, then: envlock lock small")
    assert set(done.absent) == {"cu128"}
    assert [one.variant.name for one in place.held.variants] == ["cu128-pypi"]


# ---- installing ---------------------------------------------------------------------------------------------------

Installer = Callable[..., Installed]


def put(place: Place, **how: object) -> Installed:
    index = {name: how.pop(name) for name in list(how) if name.startswith("ENVLOCK_")}
    world = place.world(**index)  # type: ignore[arg-type]
    return install.run(world, "small", backend="cu128", level="quick", **how)  # type: ignore[arg-type]


def contents(place: Place, module: str) -> str:
    (found,) = (place.project / ".envlock" / "small").glob(f"lib/python3*/site-packages/{module}.py")
    return found.read_text(encoding="utf-8")


def test_each_file_comes_from_its_own_index(place: Place) -> None:
    lock.run(place.world(), "small")
    make_wheel(place.default.directory, "torch", "2.8.0+cu128", requires=NEEDS, files={"torch.py": "EVIL = 1\n"})
    done = put(place)
    assert (done.variant, done.installed) == ("cu128", True)
    assert "no-driver" in {caution.code for caution in done.warnings}
    for module in ("torch", "triton", "alpha", "nvidia_cublas_cu12"):
        assert "EVIL" not in contents(place, module)
    assert "2.8.0+cu128" in contents(place, "torch")
    place.torch.break_at("/simple/torch/", Fault(kind="reset"))
    again = put(place)
    assert (again.variant, again.installed) == ("cu128", False)


def test_source_is_built_beside_what_comes_from_a_named_index(place: Place) -> None:
    make_wheel(place.default.directory, "buildkit", "1.0")
    make_sdist(place.default.directory, "beta", "1.0", build_requires=["buildkit"])
    profile = place.project / "profiles" / "small.toml"
    profile.write_text(PROFILE.replace('"alpha"]', '"alpha", "beta"]'), encoding="utf-8")
    lock.run(place.world(), "small")
    assert [package.name for package in place.held.variants[0].build] == ["buildkit"]
    done = put(place)
    assert (done.variant, done.packages) == ("cu128", 5)
    assert "1.0" in contents(place, "beta")
    assert "2.8.0+cu128" in contents(place, "torch")


def test_an_index_that_does_not_answer_is_stepped_around_by_pypi_s_own_build(place: Place) -> None:
    lock.run(place.world(), "small")
    done = put(place, ENVLOCK_INDEX_CU128="http://127.0.0.1:9/simple/")
    assert (done.variant, done.installed) == ("cu128-pypi", True)
    (caution,) = [caution for caution in done.warnings if caution.code == "index-unreachable"]
    assert caution.message.startswith("PyPI's own build stands in for cu128: ")
    assert "'2.8.0'" in contents(place, "torch")
    offline = put(place, offline=True)
    assert (offline.variant, offline.installed) == ("cu128-pypi", False)


def test_a_tampered_wheel_is_refused_on_either_index(place: Place) -> None:
    lock.run(place.world(), "small")
    fresh = replace(place, environ={**place.environ, "UV_CACHE_DIR": str(place.project / "cache")})
    make_wheel(place.torch.directory, "torch", "2.8.0+cu128", requires=NEEDS, files={"torch.py": "OTHER = 1\n"})
    with pytest.raises(EnvlockError) as caught:
        put(fresh)
    assert caught.value.code == "hash-mismatch"
    assert not (place.project / ".envlock" / "small").exists()


def test_no_login_is_left_anywhere(place: Place) -> None:
    lock.run(place.world(), "small")
    logins = {
        "ENVLOCK_INDEX_CU128": place.torch.url.replace("://", f"://joe:{SECRET}@"),
        "ENVLOCK_INDEX_PYPI": place.default.url.replace("://", f"://joe:{SECRET}@"),
    }
    fresh = replace(place, environ={**place.environ, "UV_CACHE_DIR": str(place.project / "cache")})
    assert put(fresh, **logins).variant == "cu128"
    store = place.project / ".envlock" / "small.envlock"
    texts = [path for path in store.rglob("*") if path.is_file() and path.stat().st_size < 100_000]
    assert [path for path in texts if SECRET.encode() in path.read_bytes()] == []


def test_the_named_indexes_of_a_variant_are_those_its_files_name(place: Place) -> None:
    lock.run(place.world(), "small")
    assert [locks.indexed(one.packages) for one in place.held.variants] == [{"torch": "cu128"}, {}]


# ---- two engines ----------------------------------------------------------------------------------------------------


def test_two_engines_agree_and_nothing_is_written(place: Place, pip_tools_wheels: Path) -> None:
    shutil.copytree(pip_tools_wheels, place.default.directory, dirs_exist_ok=True)
    answer = lock.run(place.world(), "small", mode="cross-check")
    assert answer.failure is None
    assert (answer.engines, answer.variants) == (("uv", "pip-tools"), ("cu128", "cu128-pypi"))
    assert (answer.changed, answer.changes, answer.absent) == (False, (), {})
    assert not (place.project / "lockfiles").exists()


def test_what_two_engines_make_of_it_differently_is_told(place: Place, pip_tools_wheels: Path) -> None:
    """A specifier with a pre-release lets pip take one; uv does so only where the profile itself asks for it."""
    shutil.copytree(pip_tools_wheels, place.default.directory, dirs_exist_ok=True)
    make_wheel(place.default.directory, "alpha", "1.1", requires=["torch", "beta>=1.0rc1"])
    make_wheel(place.default.directory, "beta", "1.0")
    make_wheel(place.default.directory, "beta", "1.1rc1")
    answer = lock.run(place.world(), "small", mode="cross-check")
    assert [(one.variant, one.package, one.was, one.now) for one in answer.changes] == [
        ("cu128", "beta", "1.0", "1.1rc1"),
        ("cu128-pypi", "beta", "1.0", "1.1rc1"),
    ]
    assert isinstance(answer.failure, Refused)
    assert answer.failure.code == "resolvers-differ"
    other = lock.run(place.world(resolver="pip-tools"), "small", mode="cross-check")
    assert [(one.was, one.now) for one in other.changes] == [("1.1rc1", "1.0")] * 2


def test_what_one_engine_alone_can_satisfy_is_told(place: Place, pip_tools_wheels: Path) -> None:
    shutil.copytree(pip_tools_wheels, place.default.directory, dirs_exist_ok=True)
    make_wheel(place.default.directory, "alpha", "1.1", requires=["torch", "beta[more]"])
    # pip knows no extra but those that METADATA announces.
    metadata = "Metadata-Version: 2.2\nName: beta\nVersion: 1.0\nRequires-Dist: torch<1; extra == 'more'\n"
    make_wheel(place.default.directory, "beta", "1.0", files={"beta-1.0.dist-info/METADATA": metadata})
    profile = place.project / "profiles" / "small.toml"
    profile.write_text(PROFILE.replace('"alpha"', '"alpha>1"'), encoding="utf-8")
    answer = lock.run(place.world(), "small", mode="cross-check")
    assert answer.variants == ()
    assert answer.absent == dict.fromkeys(("cu128", "cu128-pypi"), "no versions satisfy what is asked there, says uv")
    assert isinstance(answer.failure, Refused)
    assert answer.failure.code == "resolvers-differ"
    assert any("beta" in str(row) for row in answer.failure.problems)


def test_pip_tools_locks_what_uv_does(place: Place, pip_tools_wheels: Path) -> None:
    shutil.copytree(pip_tools_wheels, place.default.directory, dirs_exist_ok=True)
    lock.run(place.world(), "small")
    by_uv = place.held
    assert lock.run(place.world(resolver="pip-tools"), "small").moved == ("engine",)
    assert place.held.variants == by_uv.variants
    assert place.held.inputs.engine == "pip-tools-7"
