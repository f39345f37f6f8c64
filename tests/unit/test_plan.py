from __future__ import annotations

from dataclasses import replace

import pytest

from envlock import choose, facts, plan, store
from envlock.errors import Misuse
from envlock.model import (
    Artifact,
    BackendSpec,
    Driver,
    Floors,
    HostFacts,
    Inputs,
    Lock,
    LockedPackage,
    LockedVariant,
    Plan,
    Profile,
    Variant,
)

KNOWN = facts.parse(store.facts_texts())
HERE = HostFacts(glibc="2.35", driver=Driver(version="535.104.05"), pythons=("3.10.13", "3.12.1"))
CU121 = BackendSpec(
    name="cu121", python=("3.10", "3.11"), pypi_python=("3.10",), requires=("torch==2.4.1",), exclude_newer=None
)
CU118 = replace(CU121, name="cu118", python=("3.10",), pypi_python=())
PROFILE = Profile(
    name="demo", summary="", file="profiles/demo.toml", platforms=("linux-x86_64",), backends=(CU121, CU118)
)


def artifact(name: str, tag: str, size: int | None) -> Artifact:
    return Artifact(index="pypi", file=f"{name}-1.0-{tag}.whl", sha256="ab" * 32, size=size)


TORCH = LockedPackage(
    name="torch",
    version="2.4.1+cu121",
    artifacts=(artifact("torch", "cp310-cp310-manylinux_2_17_x86_64", 800), artifact("torch", "cp311-cp311-any", 9)),
    why=("profile",),
)
PLAIN = LockedPackage(name="plain", version="1.0", artifacts=(artifact("plain", "py3-none-any", 20),), why=("torch",))


def locked(*names: str, packages: tuple[LockedPackage, ...] = (TORCH, PLAIN)) -> Lock:
    variants = {
        "cu121-py310": Variant(
            name="cu121-py310", backend="cu121", source="index", python="3.10", platform="linux-x86_64"
        ),
        "cu121-pypi": Variant(
            name="cu121-pypi", backend="cu121", source="pypi", python="3.10", platform="linux-x86_64"
        ),
        "cu118": Variant(name="cu118", backend="cu118", source="index", python="3.10", platform="linux-x86_64"),
    }
    floors = Floors(driver=None, driver_windows=None, glibc=None, sm=())
    return Lock(
        profile="demo",
        inputs=Inputs(profile="a", facts="b", rules="r", engine="uv-0"),
        variants=tuple(LockedVariant(variant=variants[name], floors=floors, packages=packages) for name in names),
    )


def made(lock: Lock | None, *hosts: HostFacts, profile: Profile = PROFILE, **how: object) -> Plan:
    machines = hosts or (HERE,)
    offline = how.get("offline") is True
    decision = choose.backend(profile, machines, KNOWN, policy="minor-version", offline=offline)
    return plan.variant(decision, profile, lock, machines, KNOWN, **how)  # type: ignore[arg-type]


def test_the_index_is_taken_where_it_is_locked() -> None:
    found = made(locked("cu121-pypi", "cu121-py310"))
    assert found.variant is not None
    assert (found.variant.name, found.locked, found.torch) == ("cu121-py310", True, "2.4.1+cu121")
    assert (found.packages, found.download, found.command) == (2, 820, "envlock install demo")
    assert found.warnings == ()


def test_pypi_s_own_build_is_the_fallback() -> None:
    found = made(locked("cu121-pypi"))
    assert found.variant is not None
    assert (found.variant.name, found.locked) == ("cu121-pypi", True)


@pytest.mark.parametrize("lock", [None, locked()])
def test_what_is_not_locked_is_named_and_how_to_lock_it(lock: Lock | None) -> None:
    found = made(lock)
    assert found.variant is not None
    assert (found.variant.name, found.locked, found.torch) == ("cu121-py310", False, "2.4.1")
    (caution,) = found.warnings
    assert (caution.code, caution.backend) == ("variant-not-locked", "cu121")
    assert caution.message == (
        "no lock holds cu121-py310 or cu121-pypi (torch 2.4.1 from the cu121 index of PyTorch or PyPI's own build): "
        "it cannot be installed before it is locked; locked: nothing"
    )
    assert found.command == "envlock lock demo"


def test_another_backend_that_fits_and_is_locked_is_named() -> None:
    found = made(locked("cu118"))
    assert found.variant is not None
    assert (found.variant.backend, found.locked) == ("cu121", False)
    assert found.warnings[0].message.endswith("; locked: cu118; cu118 fits too, and is locked")
    assert found.command == "envlock install demo --backend cu118"


def test_where_nothing_fits_there_is_no_variant() -> None:
    found = made(locked("cu118"), replace(HERE, driver=Driver(version="300.1")))
    assert (found.variant, found.locked, found.command) == (None, False, None)


def test_a_profile_is_named_as_it_was_asked_for() -> None:
    elsewhere = replace(PROFILE, asked="'my stacks/demo.toml'")
    assert made(None, profile=elsewhere).command == "envlock lock 'my stacks/demo.toml'"
    assert made(locked("cu121-pypi"), profile=elsewhere).command == "envlock install 'my stacks/demo.toml'"
    instead = made(locked("cu118"), profile=elsewhere)
    assert instead.command == "envlock install 'my stacks/demo.toml' --backend cu118"


def test_without_torch_no_index_is_named() -> None:
    plain = replace(PROFILE, backends=(replace(CU121, name="cpu", requires=("numpy",), pypi_python=()),))
    found = made(None, replace(HERE, driver=None), profile=plain)
    assert found.warnings[0].message.startswith("no lock holds cpu-py310: it cannot be installed")


# ---- is the lock of this profile? ---------------------------------------------------------------------------------


def fresh(lock: Lock, profile: Profile = PROFILE) -> Lock:
    now = replace(lock.inputs, profile=profile.digest, facts=facts.used_digest(profile, KNOWN))
    return replace(lock, inputs=now)


@pytest.mark.parametrize("names", [("cu121-pypi",), ("cu118",)])
def test_a_lock_of_another_profile_is_made_anew_first(names: tuple[str, ...]) -> None:
    lock = fresh(locked(*names))
    found = made(lock)
    assert plan.current(found, PROFILE, lock, KNOWN) is found
    edited = replace(PROFILE, digest="another", asked="./demo.toml")
    stale = plan.current(made(lock, profile=edited), edited, lock, KNOWN)
    assert stale.command == "envlock lock ./demo.toml"
    assert stale.warnings[-1].code == "lock-stale"
    assert "(profile moved)" in stale.warnings[-1].message


def test_what_is_to_be_locked_anyway_is_not_called_stale() -> None:
    found = made(locked())
    assert plan.current(found, PROFILE, locked(), KNOWN) is found
    assert plan.current(made(None), PROFILE, None, KNOWN).warnings[0].code == "variant-not-locked"


# ---- which Python -------------------------------------------------------------------------------------------------


def python(found: Plan) -> str | None:
    return found.variant.python if found.variant else None


def test_the_first_python_that_every_machine_has_goes_before_one_to_fetch() -> None:
    wanted = replace(PROFILE, backends=(replace(CU121, python=("3.10", "3.11")),))
    only = replace(HERE, pythons=("3.11.9",))
    assert python(made(None, only, profile=wanted)) == "3.11"
    assert python(made(None, only, HERE, profile=wanted)) == "3.10"
    assert python(made(None, replace(HERE, pythons=()), profile=wanted)) == "3.10"
    assert python(made(None, only, profile=wanted, offline=True)) == "3.11"


def test_a_python_that_torch_has_no_wheel_for_is_passed_over() -> None:
    wanted = replace(PROFILE, backends=(replace(CU121, python=("3.13", "3.11"), pypi_python=()),))
    assert python(made(None, replace(HERE, pythons=("3.13.1",)), profile=wanted)) == "3.11"


def test_a_python_that_is_asked_for_decides_or_is_refused() -> None:
    assert python(made(None, python="3.11")) == "3.11"
    with pytest.raises(Misuse) as caught:
        made(None, python="3.12")
    (problem,) = caught.value.problems
    assert caught.value.code == "python-not-in-profile"
    assert (problem.file, problem.key) == ("profiles/demo.toml", "backend.cu121.python")
    assert (problem.message, problem.expected) == ("cu121 is not locked for Python 3.12", "one of 3.10, 3.11")


# ---- how much -----------------------------------------------------------------------------------------------------


def test_the_download_is_what_the_oldest_machine_takes_where_every_size_is_known() -> None:
    assert made(locked("cu121-pypi"), replace(HERE, glibc=None)).download == 820
    unsized = replace(PLAIN, artifacts=(artifact("plain", "py3-none-any", None),))
    assert made(locked("cu121-pypi", packages=(TORCH, unsized))).download is None
    elsewhere = replace(PLAIN, artifacts=(artifact("plain", "cp39-cp39-any", 1),))
    assert made(locked("cu121-pypi", packages=(TORCH, elsewhere))).download is None


def test_a_lock_may_hold_no_torch() -> None:
    assert made(locked("cu121-pypi", packages=(PLAIN,))).torch is None
