from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from envlock import request
from envlock.model import BackendSpec, Profile
from envlock.request import Resolution

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DAY = datetime(2024, 12, 2, tzinfo=timezone.utc)


def spec(name: str, python: tuple[str, ...], pypi: tuple[str, ...] = ()) -> BackendSpec:
    return BackendSpec(name=name, python=python, pypi_python=pypi, requires=("torch==2.4.1",), exclude_newer=DAY)


def profile(*backends: BackendSpec, name: str = "demo") -> Profile:
    return Profile(name=name, summary="", file="demo.toml", platforms=("linux-x86_64",), backends=backends)


def asked(requires: tuple[str, ...] = (), pins: Mapping[str, str] | None = None) -> Resolution:
    return Resolution(
        root="demo-profile",
        python="3.10",
        platform="linux-x86_64",
        requires=requires,
        exclude_newer=DAY,
        pins=pins or {},
    )


def read(text: str) -> dict[str, Any]:
    document: dict[str, Any] = tomllib.loads(text)
    return document


def test_variants_are_named_after_what_tells_them_apart() -> None:
    wanted = profile(
        spec("cu121", ("3.10",), ("3.10",)),
        spec("cu128", ("3.10", "3.11"), ("3.12", "3.13")),
        spec("cpu", (), ("3.11",)),
    )
    assert [(one.name, one.source, one.python) for one in request.variants(wanted)] == [
        ("cu121", "index", "3.10"),
        ("cu121-pypi", "pypi", "3.10"),
        ("cu128-py310", "index", "3.10"),
        ("cu128-py311", "index", "3.11"),
        ("cu128-py312-pypi", "pypi", "3.12"),
        ("cu128-py313-pypi", "pypi", "3.13"),
        ("cpu-pypi", "pypi", "3.11"),
    ]


def test_a_backend_is_found_by_its_name() -> None:
    wanted = profile(spec("cu121", ("3.10",)), spec("cpu", ("3.10",)))
    assert request.spec_of(wanted, "cpu") is wanted.backends[1]
    with pytest.raises(KeyError, match="cu118"):
        request.spec_of(wanted, "cu118")


def test_the_question_carries_the_backends_requirements_and_the_pins() -> None:
    wanted = profile(spec("cu121", (), ("3.10",)), name="qwen2.5")
    question = request.resolution(wanted, request.variants(wanted)[0], {"numpy": "1.26.4"})
    assert question == Resolution(
        root="qwen2-5-profile",
        python="3.10",
        platform="linux-x86_64",
        requires=("torch==2.4.1",),
        exclude_newer=DAY,
        pins={"numpy": "1.26.4"},
    )


def test_build_requirements_are_asked_for_once_each_and_as_wheels() -> None:
    question = request.building(asked(), ["wheel", "setuptools>=40", "wheel"], {"wheel": "0.43.0"})
    assert (question.requires, question.only_binary) == (("setuptools>=40", "wheel"), True)
    assert (question.exclude_newer, question.pins, question.python) == (DAY, {"wheel": "0.43.0"}, "3.10")
    assert question.root != asked().root


def test_a_snapshot_is_the_same_moment_wherever_it_is_read() -> None:
    east = timezone(timedelta(hours=9))
    assert request.snapshot(datetime(2024, 12, 2, 9, 0, 0, 999, tzinfo=east)) == "2024-12-02T00:00:00Z"


@pytest.mark.parametrize("requirement", ['a; python_version < "3.11"', "b @ file:///x\\y", "c[é]", "d\x7f"])
def test_the_pyproject_says_exactly_what_was_asked(requirement: str) -> None:
    document = read(request.pyproject(asked((requirement, "torch==2.4.1")), {}))
    assert document["project"]["dependencies"] == [requirement, "torch==2.4.1"]
    assert document["project"]["requires-python"] == "==3.10.*"
    assert document["project"]["name"] == "demo-profile"


def test_what_comes_from_a_named_index_comes_from_no_other() -> None:
    one = replace(asked(("torch==2.4.1", "numpy")), indexes={"torchvision": "cu121", "torch": "cu121"})
    document = read(request.pyproject(one, {"cu121": "https://torch.example/cu121/", "cpu": "https://other.example/"}))
    assert document["tool"]["uv"] == {
        "index": [{"name": "cu121", "url": "https://torch.example/cu121/", "explicit": True}],
        "sources": {"torch": {"index": "cu121"}, "torchvision": {"index": "cu121"}},
    }


def test_only_a_variant_of_the_index_takes_from_it_and_only_what_its_backend_names() -> None:
    wanted = profile(spec("cu121", ("3.10",), ("3.10",)))
    index, pypi = request.variants(wanted)
    assert request.resolution(wanted, index, {}, ("torch", "torchvision")).indexes == {"torch": "cu121"}
    assert request.resolution(wanted, pypi, {}, ("torch", "torchvision")).indexes == {}


def test_without_torch_both_sources_are_one() -> None:
    plain = replace(spec("cpu", ("3.10", "3.11"), ("3.11",)), requires=("numpy",))
    assert [(one.name, one.source) for one in request.variants(profile(plain))] == [
        ("cpu-py310", "index"),
        ("cpu-pypi", "pypi"),
    ]


def test_a_question_without_requirements_is_a_question() -> None:
    assert read(request.pyproject(asked(), {}))["project"]["dependencies"] == []
