from __future__ import annotations

from dataclasses import replace

import pytest

from envlock import lock_diff
from envlock.lock_diff import Content, Environment
from envlock.model import (
    Artifact,
    Change,
    Diffed,
    Floors,
    Held,
    HostFacts,
    Inputs,
    Lock,
    LockedPackage,
    LockedVariant,
    Shift,
    Side,
    Variant,
)
from envlock.record import Record

INPUTS = Inputs(profile="p", facts="f", rules="r", engine="uv-0")
FLOORS = Floors(driver="525.60.13", driver_windows="527.41", glibc="2.24", sm=("7.0", "8.0", "8.6"))
NOTHING = Floors(driver=None, driver_windows=None, glibc=None, sm=())


def package(name: str, version: str, digit: str = "1", *, size: int | None = None) -> LockedPackage:
    file = Artifact(index="pypi", file=f"{name}-{version}-py3-none-any.whl", sha256=digit * 64, size=size)
    return LockedPackage(name=name, version=version, artifacts=(file,), why=("profile",))


def variant(
    name: str,
    *packages: LockedPackage,
    floors: Floors = FLOORS,
    python: str = "3.10",
    platform: str = "linux-x86_64",
    build: tuple[LockedPackage, ...] = (),
) -> LockedVariant:
    what = Variant(name=name, backend=name.partition("-")[0], source="pypi", python=python, platform=platform)
    return LockedVariant(variant=what, floors=floors, packages=packages, build=build)


def locked(*variants: LockedVariant, profile: str = "demo", inputs: Inputs = INPUTS) -> Lock:
    return Lock(profile=profile, inputs=inputs, variants=variants)


def record(locked: LockedVariant, **changes: object) -> Record:
    made = Record(
        profile="demo",
        variant=locked.variant.name,
        lock=digest(locked),
        packages={package.name: package.version for package in locked.packages},
        floors=locked.floors,
        host=HostFacts(),
        envlock="0",
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # the tests name the fields


def digest(locked: LockedVariant) -> str:
    files = (file.sha256 for package in (*locked.packages, *locked.build) for file in package.artifacts)
    return f"{locked.variant.name} {sorted(files)} {locked.floors}"


def compare(before: Lock | Record, after: Lock | Record, *, gpus: tuple[str, ...] = ()) -> Diffed:
    return contrast(seen(before), seen(after), gpus=gpus)


def seen(read: Lock | Record) -> Lock | Environment:
    """An environment that holds what it says of itself."""
    return Environment(packages=read.packages, record=read) if isinstance(read, Record) else read


def contrast(before: Lock | Environment, after: Lock | Environment, *, gpus: tuple[str, ...] = ()) -> Diffed:
    sides = [Side(asked=name, file=name, profile="demo") for name in ("a", "b")]
    first, second = (Content(side=side, read=read) for side, read in zip(sides, (before, after), strict=True))
    return lock_diff.compare(first, second, digest=digest, gpus=gpus)


BASE = variant("cu121-pypi", package("torch", "2.4.1"), package("peft", "0.12.0"))


def test_of_an_environment_what_is_in_it_counts_and_not_what_was_installed() -> None:
    there = Environment(packages={"torch": "2.4.1", "zeta": "1.0"}, record=record(BASE))
    assert contrast(there, locked(BASE)).changes == (
        Change(variant="cu121-pypi", package="peft", was=None, now="0.12.0"),
        Change(variant="cu121-pypi", package="zeta", was="1.0", now=None),
    )


def test_an_environment_of_somebody_elses_is_held_against_the_variant_that_is_nearest() -> None:
    other = variant("cpu", package("torch", "2.4.1+cpu"), package("peft", "0.12.0"))
    there = Environment(packages={"torch": "2.4.1+cpu", "peft": "0.13.0"}, record=None)
    found = contrast(there, locked(BASE, other))
    assert found.changes == (Change(variant="a → cpu", package="peft", was="0.13.0", now="0.12.0"),)
    assert (found.came, found.went, found.shifts, found.files) == ((), (), (), ())
    same = Environment(packages={"torch": "2.4.1+cpu", "peft": "0.12.0"}, record=None)
    assert not contrast(locked(BASE, other), same).differ
    assert contrast(same, Environment(packages={"torch": "2.4.1"}, record=record(BASE))).changes


# ---- two locks ----------------------------------------------------------------------------------------------------


def test_the_same_lock_does_not_differ() -> None:
    found = compare(locked(BASE), locked(BASE))
    assert not found.differ
    assert found.same == ("cu121-pypi",)
    assert found == Diffed(before=found.before, after=found.after, same=("cu121-pypi",))


def test_packages_that_came_went_and_changed() -> None:
    now = variant("cu121-pypi", package("torch", "2.4.1", "2"), package("einops", "0.8.0"))
    found = compare(locked(BASE), locked(now))
    assert found.differ
    assert found.changes == (
        Change(variant="cu121-pypi", package="einops", was=None, now="0.8.0"),
        Change(variant="cu121-pypi", package="peft", was="0.12.0", now=None),
        Change(variant="cu121-pypi", package="torch", was="2.4.1", now="2.4.1, other files"),
    )
    assert (found.same, found.shifts, found.files) == ((), (), ())


def test_what_is_built_with_counts_too() -> None:
    old = variant("cu121-pypi", build=(package("wheel", "0.43.0"),))
    new = variant("cu121-pypi", build=(package("wheel", "0.44.0"),))
    change = Change(variant="cu121-pypi", package="wheel (to build)", was="0.43.0", now="0.44.0")
    assert compare(locked(old), locked(new)).changes == (change,)


def test_what_is_known_of_a_file_and_why_it_is_there_is_no_difference() -> None:
    other = replace(package("torch", "2.4.1", size=7), why=("peft",))
    assert not compare(locked(variant("cpu", package("torch", "2.4.1"))), locked(variant("cpu", other))).differ


def test_variants_that_came_or_went_are_not_told_package_by_package() -> None:
    other = variant("cpu-pypi", package("torch", "2.8.0"), floors=NOTHING, python="3.11")
    held = Held(variant="cpu-pypi", python="3.11", platform="linux-x86_64", floors=NOTHING, packages={"torch": "2.8.0"})
    came, went = compare(locked(BASE), locked(BASE, other)), compare(locked(other, BASE), locked(BASE))
    assert (came.came, came.went, came.changes) == ((held,), (), ())
    assert (went.came, went.went, went.changes) == ((), (held,), ())
    assert came.differ
    assert went.differ


def test_inputs_that_moved_are_told_of_one_profile_and_are_no_difference_by_themselves() -> None:
    moved = replace(INPUTS, facts="other", engine="uv-1")
    found = compare(locked(BASE), locked(BASE, inputs=moved))
    assert (found.moved, found.differ) == (("facts", "engine"), False)
    assert compare(locked(BASE), locked(BASE, profile="else", inputs=moved)).moved == ()


# ---- machines -----------------------------------------------------------------------------------------------------


def shifts(old: Floors, new: Floors, *, gpus: tuple[str, ...] = ()) -> list[tuple[str, str | None, str | None]]:
    found = compare(locked(variant("cu121", floors=old)), locked(variant("cu121", floors=new)), gpus=gpus)
    return [(shift.need, shift.was, shift.now) for shift in found.shifts]


def test_floors_that_moved() -> None:
    new = replace(FLOORS, driver="570.26", driver_windows="570.65", glibc="2.28")
    assert shifts(FLOORS, new) == [
        ("driver", "525.60.13", "570.26"),
        ("driver-windows", "527.41", "570.65"),
        ("glibc", "2.24", "2.28"),
    ]
    assert shifts(FLOORS, replace(FLOORS, driver=None)) == [("driver", "525.60.13", None)]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (("5.0", "6.0", "8.0"), ("8.0",), [("gpu-lost", "5.0 6.0", None)]),
        (("8.0",), ("8.0", "10.0", "9.0"), [("gpu-gained", None, "9.0 10.0")]),
        (("8.0", "8.6"), ("8.0",), []),  # an 8.6 runs what is built for an 8.0
        (("8.6",), ("8.0", "8.6"), [("gpu-gained", None, "8.0")]),
        (("8.0",), ("8.9",), [("gpu-lost", "8.0 8.6 8.7", None)]),  # also those that neither names
        ((), ("8.0",), []),  # what ran before is not known
        (("8.0",), (), []),
        (("sm_80",), ("8.0",), []),
    ],
)
def test_gpus_are_told_by_what_runs_on_them(
    old: tuple[str, ...], new: tuple[str, ...], told: list[tuple[str, str | None, str | None]]
) -> None:
    gpus = ("8.6", "8.7", "8.9", "8.9")
    assert shifts(replace(FLOORS, sm=old), replace(FLOORS, sm=new), gpus=gpus) == told


def test_a_python_and_a_platform_that_moved() -> None:
    old, new = variant("cu121"), variant("cu121", python="3.11", platform="linux-aarch64")
    assert compare(locked(old), locked(new)).shifts == (
        Shift(variant="cu121", need="python", was="3.10", now="3.11"),
        Shift(variant="cu121", need="platform", was="linux-x86_64", now="linux-aarch64"),
    )


# ---- environments -------------------------------------------------------------------------------------------------


def test_an_environment_that_is_what_is_locked() -> None:
    built = replace(BASE, build=(package("wheel", "0.44.0"),))
    other = variant("cpu-pypi", floors=NOTHING)
    for found in (compare(record(built), locked(other, built)), compare(locked(other, built), record(built))):
        assert not found.differ
        assert found.same == ("cu121-pypi",)


def test_an_environment_and_a_lock_that_went_on() -> None:
    new = replace(BASE, floors=replace(FLOORS, driver="570.26"), packages=(package("torch", "2.5.0"),))
    found = compare(record(BASE), locked(new))
    assert found.changes == (
        Change(variant="cu121-pypi", package="peft", was="0.12.0", now=None),
        Change(variant="cu121-pypi", package="torch", was="2.4.1", now="2.5.0"),
    )
    assert found.shifts == (Shift(variant="cu121-pypi", need="driver", was="525.60.13", now="570.26"),)
    assert found.files == ()


def test_other_files_of_the_same_versions_are_seen_by_their_digest() -> None:
    new = variant("cu121-pypi", package("torch", "2.4.1", "2"), package("peft", "0.12.0"))
    found = compare(record(BASE), locked(new))
    assert (found.differ, found.files, found.same, found.changes) == (True, ("cu121-pypi",), (), ())


def test_an_environment_of_a_variant_that_is_locked_no_more() -> None:
    found = compare(record(BASE), locked(variant("cpu-pypi", floors=NOTHING)))
    packages = {"peft": "0.12.0", "torch": "2.4.1"}
    held = Held(variant="cu121-pypi", python=None, platform=None, floors=FLOORS, packages=packages)
    assert (found.went, found.came, found.same) == ((held,), (), ())


def test_two_environments_are_compared_whatever_they_hold() -> None:
    other = variant("cu128-pypi", package("torch", "2.8.0"), floors=replace(FLOORS, sm=("8.0", "12.0")))
    found = compare(record(BASE), record(other))
    label = "cu121-pypi → cu128-pypi"
    assert found.changes == (
        Change(variant=label, package="peft", was="0.12.0", now=None),
        Change(variant=label, package="torch", was="2.4.1", now="2.8.0"),
    )
    assert [(shift.variant, shift.need) for shift in found.shifts] == [(label, "gpu-lost"), (label, "gpu-gained")]
    assert not compare(record(BASE), record(BASE)).differ
    assert (found.came, found.went) == ((), ())
