"""A host file, whatever is in it, gives a machine or a `Misuse`; a machine survives being written and read."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envlock import driver_text, gpu_names, host, system_text
from envlock.errors import Misuse
from envlock.model import Driver, Gpu, HostFacts

printable = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=20)
numbers = st.integers(0, 999)
branches = st.integers(100, 999)
drivers = st.builds("{}.{:02}".format, branches, numbers) | st.builds(
    "{}.{:02}.{:02}".format, branches, numbers, numbers
)
short = st.builds("{}.{}".format, st.integers(0, 99), st.integers(0, 99))


def perhaps(what: st.SearchStrategy[str]) -> st.SearchStrategy[str | None]:
    return st.none() | what


def several(what: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(what, max_size=3).map(tuple)


gpus = st.builds(
    Gpu,
    name=printable,
    compute_capability=perhaps(st.builds("{}.{}".format, st.integers(1, 99), st.integers(0, 9))),
    memory_mib=st.none() | st.integers(1, 10**9),
    mig=st.booleans(),
    uuid=perhaps(printable),
)
a_driver = st.builds(
    Driver, version=perhaps(drivers), library=perhaps(drivers), numbering=st.sampled_from(["linux", "windows"])
).filter(lambda driver: bool(driver.version or driver.library))
hosts = st.builds(
    HostFacts,
    os=printable,
    arch=printable,
    glibc=perhaps(short),
    kernel=perhaps(printable),
    wsl=st.booleans(),
    container=perhaps(printable),
    driver=st.none() | a_driver,
    pci_gpus=several(st.builds("10de:{:04x}".format, st.integers(0, 0xFFFF))),
    device_nodes=several(printable),
    gpus=several(gpus),
    cuda_visible_devices=st.none() | st.just("") | printable,
    pythons=several(short),
    gcc=perhaps(short),
    nvcc=perhaps(short),
    ld_library_path=several(printable),
    sources=st.dictionaries(st.sampled_from(host.FACTS), printable),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | drivers,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from([*host.FACTS, "schema", "sources", "result", "command", "version", "name"]) | st.text(max_size=8)
documents = st.dictionaries(keys, values | st.dictionaries(keys, values, max_size=3), max_size=6)


@given(hosts)
def test_what_is_written_is_read_back(machine: HostFacts) -> None:
    text = json.dumps(host.dump(machine))
    assert host.parse(text, "host.json") == machine
    printed = {"schema": 1, "command": "detect", "exit": 0, "result": host.dump(machine), "error": None}
    assert host.parse(json.dumps(printed), "host.json") == machine


def read_or_refused(text: str) -> None:
    machine, refusal = None, None
    try:
        machine = host.parse(text, "host.json")
    except Misuse as error:
        refusal = error
    if refusal:
        assert refusal.problems
        assert refusal.code in {"host-invalid", "host-newer"}
    if machine:
        assert host.parse(json.dumps(host.dump(machine)), "host.json") == machine


@given(documents | documents.map(lambda document: {**document, "schema": 1}) | values)
def test_any_json_is_read_or_refused(document: object) -> None:
    read_or_refused(json.dumps(document))


@given(st.text() | hosts.map(lambda machine: json.dumps(host.dump(machine))[:-7]))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refused(text)


@given(hosts, st.sampled_from([*host.FACTS, "sources"]), values)
def test_one_wrong_value_is_read_or_refused(machine: HostFacts, key: str, value: object) -> None:
    read_or_refused(json.dumps({**host.dump(machine), key: value}))


words = st.sampled_from(
    [
        "GPU",
        "NVRM version:",
        "Kernel Module",
        "535.104.05",
        "[N/A]",
        ", ",
        ": ",
        "\n",
        "Driver Version: ",
        "(UUID: GPU-1)",
    ]
)
texts = st.text() | st.lists(words | st.text(max_size=4)).map("".join)


@given(texts)
def test_no_text_breaks_a_parser(text: str) -> None:
    versions = (
        driver_text.kernel_module(text),
        driver_text.module_version(text),
        driver_text.library(text),
        driver_text.smi_driver(text),
        driver_text.mismatched_library(text),
    )
    assert all(version is None or driver_text.is_version(version) for version in versions)
    failure = driver_text.smi_failure(text)
    assert failure is None or failure.isprintable()
    driver_text.unknown_field(text)
    driver_text.pci_gpu(vendor=text, device=text, kind=text)
    driver_text.smi_list(text)
    for row in driver_text.smi_rows(text):
        assert row.gpu.name.isprintable()
    gpu = driver_text.gpu_information(text)
    assert gpu is None or gpu.name.isprintable()
    for parse in (system_text.libc_version, system_text.gcc_version, system_text.nvcc_version):
        version = parse(text)
        assert version is None or version in text
    system_text.wsl(text)
    system_text.ld_directories(text)
    system_text.container(cgroup=text, files=(), environ={"container": text})


@given(texts, st.dictionaries(texts, short, max_size=4))
def test_any_name_is_known_or_not(name: str, table: dict[str, str]) -> None:
    assert gpu_names.capability(name, table) in {None, *table.values()}
    assert len(gpu_names.similar(name, table)) <= 3
    assert isinstance(gpu_names.canonical(name, table), str)
