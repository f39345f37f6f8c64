from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envlock import lock
from envlock.errors import EnvlockError, Misuse
from envlock.model import Artifact, CondaPart, Floors, Inputs, Lock, LockedPackage, LockedVariant, Source, Variant

names = st.from_regex(r"[a-z][a-z0-9]{0,4}(-[a-z0-9]{1,3})?", fullmatch=True)
versions = st.from_regex(r"[1-9]?[0-9](\.[0-9]{1,2}){0,2}(rc1|\+cu121)?", fullmatch=True)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
numbers = st.none() | st.from_regex(r"[0-9]{1,3}\.[0-9]{1,2}", fullmatch=True)
wheel_tags = st.sampled_from(["py3-none-any", "cp310-cp310-manylinux_2_28_x86_64", "cp39-abi3-linux_x86_64"])
suffixes = wheel_tags.map("-{}.whl".format) | st.sampled_from([".tar.gz", ".zip"])


@st.composite
def artifacts(draw: st.DrawFn, name: str, version: str) -> tuple[Artifact, ...]:
    rows = draw(st.lists(st.tuples(suffixes, hashes, st.none() | st.integers(1, 10**11)), min_size=1, max_size=3))
    files = {
        Artifact(index="pypi", file=f"{name.replace('-', '_')}-{version}{suffix}", sha256=sha256, size=size)
        for suffix, sha256, size in rows
    }
    return tuple(sorted(files, key=lambda one: (one.file, one.index, one.sha256)))


@st.composite
def packages(draw: st.DrawFn) -> tuple[LockedPackage, ...]:
    return tuple(
        LockedPackage(
            name=name,
            version=(version := draw(versions)),
            artifacts=draw(artifacts(name, version)),
            why=tuple(sorted(draw(st.sets(names, max_size=3)))),
        )
        for name in sorted(draw(st.sets(names, max_size=4)))
    )


@st.composite
def variants(draw: st.DrawFn, name: str) -> LockedVariant:
    python = draw(st.sampled_from(["3.10", "3.11", "3.13"]))
    source: Source = draw(st.sampled_from(["index", "pypi"]))
    return LockedVariant(
        variant=Variant(name=name, backend=name, source=source, python=python, platform="linux-x86_64"),
        floors=Floors(
            driver=draw(numbers),
            driver_windows=draw(numbers),
            glibc=draw(numbers),
            sm=tuple(draw(st.lists(st.sampled_from(["5.0", "8.6", "9.0a"]), unique=True))),
        ),
        packages=draw(packages()),
        build=draw(packages()),
        conda=draw(st.none() | st.builds(CondaPart, inputs=hashes, sha256=hashes)),
    )


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    chosen = draw(st.lists(names, max_size=3, unique=True))
    return Lock(
        profile=draw(names),
        inputs=Inputs(profile=draw(hashes), facts=draw(hashes), rules=draw(hashes), engine="uv-0"),
        variants=tuple(draw(variants(name)) for name in chosen),
        allowed={rule: tuple(chosen[:1]) for rule in draw(st.lists(names, max_size=2, unique=True)) if chosen},
    )


@given(locks())
def test_what_is_written_is_read_back(one: Lock) -> None:
    assert lock.parse(lock.render(one), f"{one.profile}.lock") == one


@given(locks(), st.randoms(use_true_random=False))
def test_the_text_does_not_depend_on_the_order_things_were_found_in(one: Lock, chance: random.Random) -> None:
    def shuffled(found: tuple[LockedPackage, ...]) -> tuple[LockedPackage, ...]:
        rows = [
            replace(row, artifacts=tuple(chance.sample(row.artifacts, len(row.artifacts))), why=row.why[::-1])
            for row in found
        ]
        return tuple(chance.sample(rows, len(rows)))

    other = [replace(row, packages=shuffled(row.packages), build=shuffled(row.build)) for row in one.variants]
    assert lock.render(replace(one, variants=tuple(other))) == lock.render(one)


@given(locks(), st.data())
def test_no_edit_goes_unseen(one: Lock, data: st.DataObject) -> None:
    text = lock.render(one)
    place = data.draw(st.integers(0, len(text) - 1))
    edited = (
        text[:place]
        + data.draw(st.characters(codec="utf-8").filter(lambda char: char != text[place]))
        + text[place + 1 :]
    )
    with pytest.raises(Misuse) as caught:
        lock.parse(edited, f"{one.profile}.lock")
    assert caught.value.code in {"lock-invalid", "lock-edited", "lock-newer"}


@given(st.text())
def test_no_text_makes_it_stumble(text: str) -> None:
    with pytest.raises(EnvlockError):
        lock.parse(text, "x.lock")


@given(locks(), locks())
def test_a_difference_is_symmetric_and_nothing_differs_from_itself(old: Lock, new: Lock) -> None:
    assert lock.diff(old, old) == ()
    there = {(change.variant, change.package) for change in lock.diff(old, new)}
    assert there == {(change.variant, change.package) for change in lock.diff(new, old)}


@given(packages(), st.sampled_from(["3.10", "3.12"]), st.integers(17, 40))
def test_a_newer_glibc_never_loses_a_file(found: tuple[LockedPackage, ...], python: str, minor: int) -> None:
    for one in found:
        try:
            lock.pick(one, python, "linux-x86_64", f"2.{minor}")
        except EnvlockError:
            continue
        lock.pick(one, python, "linux-x86_64", f"2.{minor + 1}")
