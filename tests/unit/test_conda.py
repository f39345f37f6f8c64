from __future__ import annotations

import dataclasses
from datetime import datetime, timezone

import pytest

from envlock import choose, conda, facts, request, store
from envlock.errors import EnvlockError
from envlock.model import BackendSpec, Floors, Profile, Variant

TEXTS = store.facts_texts()
FACTS = facts.parse(TEXTS)
KNOWN = conda.parse(TEXTS)
WANTED = Profile(
    name="small",
    summary="",
    file="small.toml",
    platforms=("linux-x86_64",),
    backends=(
        BackendSpec(
            name="cu121",
            python=("3.10", "3.12"),
            pypi_python=(),
            requires=("torch==2.4.1",),
            exclude_newer=datetime(2024, 12, 2, tzinfo=timezone.utc),
        ),
    ),
    conda_requires=("python 3.10.*", "gcc_linux-64 12.*"),
)


def variant(python: str = "3.10", platform: str = "linux-x86_64") -> Variant:
    return Variant(name="cu121", backend="cu121", source="index", python=python, platform=platform)


def floors(driver: str | None, glibc: str | None = "2.28") -> Floors:
    return Floors(driver=driver, driver_windows=None, glibc=glibc, sm=())


def virtual(driver: str | None, glibc: str | None = "2.28", platform: str = "linux-x86_64") -> dict[str, str]:
    asked = conda.question(WANTED, variant(platform=platform), floors(driver, glibc), FACTS, KNOWN)
    return {one.name: str(one).partition(" ")[2] for one in asked.virtual}


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("450.80.02", "11.0"),
        ("525.60.13", "12.0"),
        ("530.30.02", "12.1"),
        ("570.26", "12.8"),
        ("580.65.06", "13.0"),
        ("450.1", None),
        (None, None),
    ],
)
def test_cuda_is_the_newest_that_the_oldest_driver_carries(driver: str | None, cuda: str | None) -> None:
    assert virtual(driver).get("__cuda") == cuda


@pytest.mark.parametrize(("glibc", "linux"), [("2.24", "3.10"), ("2.28", "4.18"), ("2.35", "4.18"), (None, "4.18")])
def test_the_kernel_is_the_oldest_that_goes_with_the_glibc(glibc: str | None, linux: str) -> None:
    given = virtual(None, glibc)
    assert (given["__linux"], given["__glibc"]) == (linux, glibc or "2.28")
    assert (given["__unix"], given["__archspec"]) == ("0", "1 x86_64")


def test_a_machine_has_at_least_the_glibc_that_packages_are_built_for() -> None:
    given = virtual(None, "2.12")
    assert (given["__glibc"], given["__linux"]) == ("2.17", "3.10")


def test_a_platform_has_its_own_names() -> None:
    assert virtual(None, platform="linux-aarch64")["__archspec"] == "1 aarch64"
    asked = conda.question(WANTED, variant(platform="linux-aarch64"), floors(None), FACTS, KNOWN)
    assert asked.subdir == "linux-aarch64"


@pytest.mark.parametrize(
    ("requires", "python", "specs"),
    [
        (("python 3.10.*", "gcc 12.*"), "3.10", ("python 3.10.*", "gcc 12.*", "pip")),
        (("python 3.10.*", "gcc 12.*"), "3.12", ("python 3.12.*", "gcc 12.*", "pip")),
        (("python=3.10.14", "pip 24.*"), "3.10", ("python=3.10.14", "pip 24.*")),
        (("python=3.10.14",), "3.1", ("python 3.1.*", "pip")),
        (("conda-forge::python ==3.11.2", "Pip"), "3.11", ("conda-forge::python ==3.11.2", "Pip")),
        ((), "3.11", ("python 3.11.*", "pip")),
        (("python", "[x"), "3.11", ("python 3.11.*", "[x", "pip")),
    ],
)
def test_each_variant_asks_for_its_own_python_and_for_pip(
    requires: tuple[str, ...], python: str, specs: tuple[str, ...]
) -> None:
    assert conda.specs(dataclasses.replace(WANTED, conda_requires=requires), python) == specs


def test_variants_that_ask_the_same_share_a_digest_and_others_do_not() -> None:
    asked = conda.question(WANTED, variant(), floors("525.60.13"), FACTS, KNOWN)
    same = conda.question(WANTED, variant(), floors("527.1"), FACTS, KNOWN)
    others = (
        conda.question(WANTED, variant("3.12"), floors("525.60.13"), FACTS, KNOWN),
        conda.question(WANTED, variant(), floors("450.80.02"), FACTS, KNOWN),
        conda.question(WANTED, variant(), floors("525.60.13", "2.24"), FACTS, KNOWN),
        conda.question(dataclasses.replace(WANTED, conda_requires=()), variant(), floors("525.60.13"), FACTS, KNOWN),
    )
    assert conda.digest(asked) == conda.digest(same)
    assert len({conda.digest(one) for one in (asked, *others)}) == 1 + len(others)


def test_the_floors_of_a_shipped_backend_make_a_machine() -> None:
    spec = request.spec_of(WANTED, "cu121")
    given = choose.floors(spec, FACTS)
    asked = conda.question(WANTED, variant(), given, FACTS, KNOWN)
    assert [str(one) for one in asked.virtual] == [
        "__unix 0",
        "__linux 3.10",
        "__glibc 2.17",
        "__cuda 12.0",
        "__archspec 1 x86_64",
    ]


def test_a_record_is_where_everybody_finds_it() -> None:
    record = conda.Record(
        name="pip",
        version="26.1.2",
        build="pyh8b19718_0",
        channel=conda.Channel(name="conda-forge", url="https://channel.example/conda-forge"),
        subdir="noarch",
        file="pip-26.1.2-pyh8b19718_0.conda",
        md5="0" * 32,
        sha256="0" * 64,
        size=1,
        depends=(),
    )
    assert record.url == "https://channel.example/conda-forge/noarch/pip-26.1.2-pyh8b19718_0.conda"


def test_a_question_is_written_as_conda_lock_takes_it() -> None:
    asked = conda.question(WANTED, variant(), floors(None), FACTS, KNOWN)
    assert conda.environment(asked) == (
        'channels:\n  - "https://conda.anaconda.org/conda-forge"\n'
        'dependencies:\n  - "python 3.10.*"\n  - "gcc_linux-64 12.*"\n  - "pip"\n'
        "platforms:\n  - linux-64\n"
    )
    assert conda.virtual_packages(asked) == (
        'subdirs:\n  linux-64:\n    packages:\n      __unix: "0"\n      __linux: "4.18"\n      __glibc: "2.28"\n'
        '      __archspec: "1 x86_64"\n'
    )


def test_a_row_with_other_keys_is_named() -> None:
    broken = TEXTS["conda.toml"].replace("archspec =", "arch =", 1)
    with pytest.raises(EnvlockError) as error:
        conda.parse({"conda.toml": broken})
    assert (error.value.code, error.value.problems[0].file) == ("facts-invalid", "conda.toml: platform 1")
