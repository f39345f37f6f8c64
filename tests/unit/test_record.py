from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from envlock import record
from envlock.errors import Misuse
from envlock.model import Driver, Floors, Gpu, HostFacts

HOST = HostFacts(
    glibc="2.35",
    kernel="5.15.0-91-generic",
    driver=Driver(version="535.104.05", library="535.104.05"),
    pci_gpus=("10de:2204",),
    gpus=(Gpu(name="NVIDIA GeForce RTX 3090", compute_capability="8.6", memory_mib=24576),),
)
RECORD = record.Record(
    profile="gemma-qlora",
    variant="cu121-pypi",
    lock="ab" * 32,
    packages={"bitsandbytes": "0.43.3", "torch": "2.4.1+cu121"},
    floors=Floors(driver="525.60.13", driver_windows="527.41", glibc="2.17", sm=("sm_80", "sm_90")),
    host=HOST,
    envlock="0.2.0",
    records={"torch": "cd" * 32},
    modules={"torch": "torch"},
)
PLAIN = replace(
    RECORD, floors=Floors(driver=None, driver_windows=None, glibc=None, sm=()), host=HostFacts(), records={}, modules={}
)


@pytest.mark.parametrize("kept", [RECORD, PLAIN])
def test_what_is_written_is_read(kept: record.Record) -> None:
    text = record.dump(kept)
    assert record.parse(text, "envlock.json") == kept
    assert record.dump(record.parse(text, "envlock.json")) == text


def test_the_text_does_not_depend_on_the_order_of_the_packages() -> None:
    turned = replace(RECORD, packages=dict(sorted(RECORD.packages.items(), reverse=True)))
    assert record.dump(turned) == record.dump(RECORD)


def test_the_digests_of_the_records_may_be_absent() -> None:
    document = json.loads(record.dump(RECORD))
    del document["records"], document["modules"]
    assert record.parse(json.dumps(document), "envlock.json") == replace(RECORD, records={}, modules={})


def refused(text: str) -> Misuse:
    with pytest.raises(Misuse) as caught:
        record.parse(text, "env/envlock.json")
    assert caught.value.code == "env-record-invalid"
    assert caught.value.hint
    assert all(problem.file == "env/envlock.json" for problem in caught.value.problems)
    return caught.value


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", "[" * 100_000, '"text"'])
def test_what_is_no_record_is_refused(text: str) -> None:
    assert len(refused(text).problems) == 1


@pytest.mark.parametrize("schema", [None, 0, 2, "1", True])
def test_a_record_of_another_schema_is_refused(schema: object) -> None:
    document = json.loads(record.dump(RECORD)) | {"schema": schema}
    assert [problem.key for problem in refused(json.dumps(document)).problems] == ["schema"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("profile", ""),
        ("profile", None),
        ("profile", 7),
        ("profile", "a\x1b[2J"),
        ("variant", ["cu121"]),
        ("lock", ""),
        ("envlock", None),
        ("packages", None),
        ("packages", ["torch"]),
        ("packages", {"torch": 2}),
        ("packages", {"torch": "not a version"}),
        ("packages", {"Flash_Attn": "1.0"}),
        ("packages", {"../../etc": "1.0"}),
        ("floors", None),
        ("floors", {}),
        ("floors", {"driver": 525, "driver_windows": None, "glibc": None, "sm": []}),
        ("floors", {"driver": None, "driver_windows": None, "glibc": "new", "sm": []}),
        ("floors", {"driver": None, "driver_windows": None, "glibc": None, "sm": "sm_80"}),
        ("floors", {"driver": None, "driver_windows": None, "glibc": None, "sm": [80]}),
        ("floors", {"driver": None, "driver_windows": None, "glibc": None, "sm": [], "more": 1}),
        ("records", {"torch": "short"}),
        ("records", ["torch"]),
        ("modules", ["torch"]),
        ("modules", {"torch": "os; exit"}),
        ("modules", {"Torch": "torch"}),
        ("modules", {"torch": None}),
        ("host", None),
        ("host", "linux"),
        ("surprise", 1),
    ],
)
def test_a_wrong_value_is_named(key: str, value: Any) -> None:
    document = json.loads(record.dump(RECORD)) | {key: value}
    assert [problem.key for problem in refused(json.dumps(document)).problems] == [key]


def test_every_wrong_value_is_named_at_once() -> None:
    document = json.loads(record.dump(RECORD)) | {"profile": 1, "packages": 2, "floors": 3}
    assert [problem.key for problem in refused(json.dumps(document)).problems] == ["profile", "packages", "floors"]


def test_what_is_wrong_with_the_host_is_named() -> None:
    document = json.loads(record.dump(RECORD))
    document["host"] |= {"glibc": 2.35, "unknown": 1}
    assert len(refused(json.dumps(document)).problems) == 2
