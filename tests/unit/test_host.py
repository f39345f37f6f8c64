"""A machine as a file: what is taken, what is refused and how, and what the options put in its place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from envlock import host
from envlock.errors import Misuse
from envlock.model import Driver, Gpu, HostFacts

ROOT = Path(__file__).parents[2]
FILE = "host.json"
GPU_CC = {
    "Tesla T4": "7.5",
    "Quadro RTX 6000": "7.5",
    "A10 / A40 / RTX 3090": "8.6",
    "RTX 6000 Ada": "8.9",
    "H100 / H200": "9.0",
    "GH200": "9.0",
    "Jetson Orin": "8.7",
}
GPU_ARCH = {"GH200": "aarch64", "Jetson Orin": "aarch64", "8.7": "aarch64"}

# The host file of the design, with its sources.
DOCUMENT: dict[str, Any] = {
    "schema": 1,
    "os": "linux",
    "arch": "x86_64",
    "glibc": "2.35",
    "kernel": "5.15.0-91-generic",
    "wsl": False,
    "container": None,
    "driver": {"version": "535.104.05", "library": "535.104.05", "numbering": "linux"},
    "pci_gpus": ["10de:2204"],
    "device_nodes": ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"],
    "gpus": [
        {
            "name": "NVIDIA GeForce RTX 3090",
            "compute_capability": "8.6",
            "memory_mib": 24576,
            "mig": False,
            "uuid": None,
        }
    ],
    "cuda_visible_devices": None,
    "pythons": ["3.10.13"],
    "gcc": "11.4.0",
    "nvcc": None,
    "ld_library_path": [],
    "sources": {"driver": "/proc/driver/nvidia/version", "gpus": "nvml"},
}
HOST = HostFacts(
    glibc="2.35",
    kernel="5.15.0-91-generic",
    driver=Driver(version="535.104.05", library="535.104.05"),
    pci_gpus=("10de:2204",),
    device_nodes=("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"),
    gpus=(Gpu(name="NVIDIA GeForce RTX 3090", compute_capability="8.6", memory_mib=24576),),
    pythons=("3.10.13",),
    gcc="11.4.0",
    sources={"driver": "/proc/driver/nvidia/version", "gpus": "nvml"},
)


def refused(text: str) -> Misuse:
    with pytest.raises(Misuse) as caught:
        host.parse(text, FILE)
    return caught.value


def complaints(**changed: Any) -> list[str]:
    """The problems of the design's document with some keys changed."""
    error = refused(json.dumps({**DOCUMENT, **changed}))
    assert error.code == "host-invalid"
    return [str(problem) for problem in error.problems]


def test_the_designs_document_is_read_and_written_in_its_order() -> None:
    assert host.parse(json.dumps(DOCUMENT), FILE) == HOST
    assert json.dumps(host.dump(HOST)) == json.dumps(DOCUMENT)


def test_all_that_detect_printed_is_taken_too() -> None:
    printed = {"schema": 1, "command": "detect", "exit": 0, "result": DOCUMENT, "error": None}
    assert host.parse(json.dumps(printed), FILE) == HOST


def test_what_is_missing_is_unknown() -> None:
    assert host.parse('{"schema": 1}', FILE) == HostFacts()


def test_null_is_the_same_as_missing() -> None:
    assert host.parse(json.dumps({**dict.fromkeys(DOCUMENT), "schema": 1}), FILE) == HostFacts()


def test_the_machine_of_the_documentation_is_one() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"So `(\{.*\})` is a machine\.", text)
    found = host.name_capabilities(host.parse(example, FILE), GPU_CC)
    assert found == HostFacts(
        glibc="2.35",
        driver=Driver(version="535.104.05"),
        gpus=(Gpu(name="RTX 3090", compute_capability="8.6"),),
        sources=found.sources,
    )
    section = text[text.index("`detect` gives") : text.index("So `{")]
    assert {"schema", "sources", *host.FACTS} <= set(re.findall(r"`([a-z_]+)`", section))


def test_windows_numbers_its_drivers_otherwise() -> None:
    text = '{"schema": 1, "wsl": true, "driver": {"version": "537.13"}}'
    assert host.parse(text, FILE).driver == Driver(version="537.13", numbering="windows")


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert host.parse("\ufeff" + json.dumps(DOCUMENT), FILE) == HOST


@pytest.mark.parametrize(
    "version", ["535", "12.4", "N/A", "", "v535.104.05", "535.104.05.1", "535.104.05\n", "٥٣٥.١٠٤"]
)
def test_an_impossible_driver(version: str) -> None:
    (line,) = complaints(driver={"version": version, "library": None})
    assert line.startswith(
        f"{FILE}: `driver.version`: is {json.dumps(version)} (expected two or three numbers, e.g. 550.54 "
    )
    assert "/proc/driver/nvidia/version" in line


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"wsl": "no"}, '`wsl`: is "no" (expected true or false)'),
        ({"wsl": 0}, "`wsl`: is 0 (expected true or false)"),
        ({"glibc": 2.35}, "`glibc`: is 2.35 (expected e.g. 2.35; read it with `ldd --version`)"),
        ({"glibc": "musl"}, '`glibc`: is "musl" (expected e.g. 2.35; read it with `ldd --version`)'),
        ({"pythons": "3.10"}, '`pythons`: is "3.10" (expected a list of texts)'),
        ({"pythons": ["3.10", None]}, "`pythons[1]`: is null (expected e.g. 3.10.13)"),
        ({"gpus": {}}, "`gpus`: is an object (expected a list of objects)"),
        ({"gpus": ["RTX 3090"]}, '`gpus[0]`: is "RTX 3090" (expected an object)'),
        ({"gpus": [{}]}, "`gpus[0].name`: is missing (expected e.g. NVIDIA GeForce RTX 3090)"),
        (
            {"driver": "535.104.05"},
            '`driver`: is "535.104.05" (expected an object such as {"version": "535.104.05"}, or null)',
        ),
        (
            {"pci_gpus": ["1002:744c"]},
            '`pci_gpus[0]`: is "1002:744c" (expected e.g. 10de:2204; read it with `lspci -n`)',
        ),
        ({"gcc": "gcc-11"}, '`gcc`: is "gcc-11" (expected e.g. 11.4.0)'),
        ({"kernel": "\x1b[2J"}, '`kernel`: is "\\u001b[2J" (expected printable text)'),
        ({"driwer": None}, "`driwer`: unknown key; did you mean `driver`?"),
        ({"x": None}, "`x`: unknown key"),
        ({"sources": {"driver": 1}}, "`sources.driver`: is 1 (expected printable text)"),
        ({"sources": {"drivers": "nvml"}}, "`sources.drivers`: unknown key; did you mean `driver`?"),
        ({"schema": "1"}, '`schema`: is "1" (expected 1)'),
        ({"schema": 0}, "`schema`: is 0 (expected 1)"),
        ({"schema": True}, "`schema`: is true (expected 1)"),
        ({"kernel": 10**70}, "`kernel`: is a number of more than 64 bits (expected printable text)"),
    ],
)
def test_one_mistake(changed: dict[str, Any], line: str) -> None:
    assert complaints(**changed) == [f"{FILE}: {line}"]


@pytest.mark.parametrize(
    ("driver", "line"),
    [
        ({"version": None}, "`driver.version`: is missing, and so is `library` (expected one of them; "),
        ({"version": "535.104.05", "numbering": "mac"}, "`driver.numbering`: is `mac` (expected linux or windows)"),
        ({"version": "535.104.05", "libary": None}, "`driver.libary`: unknown key; did you mean `library`?"),
    ],
)
def test_a_mistake_in_the_driver(driver: dict[str, Any], line: str) -> None:
    (said,) = complaints(driver=driver)
    assert said.startswith(f"{FILE}: {line}")


@pytest.mark.parametrize(
    ("gpu", "line"),
    [
        ({"compute_capability": 8.6}, "`gpus[0].compute_capability`: is 8.6 (expected e.g. 8.6; read it with "),
        ({"compute_capability": "sm_86"}, '`gpus[0].compute_capability`: is "sm_86" (expected e.g. 8.6; '),
        ({"memory_mib": "24 GiB"}, '`gpus[0].memory_mib`: is "24 GiB" (expected a whole number above 0)'),
        ({"memory_mib": True}, "`gpus[0].memory_mib`: is true (expected a whole number above 0)"),
        ({"memory_mib": 0}, "`gpus[0].memory_mib`: is 0 (expected a whole number above 0)"),
        ({"memory": 24576}, "`gpus[0].memory`: unknown key; did you mean `memory_mib`?"),
    ],
)
def test_a_mistake_in_a_gpu(gpu: dict[str, Any], line: str) -> None:
    (said,) = complaints(gpus=[{"name": "RTX 3090", **gpu}])
    assert said.startswith(f"{FILE}: {line}")


def test_all_mistakes_at_once() -> None:
    keys = [
        problem.key
        for problem in refused(
            '{"driver": {"version": "N/A"}, "gpus": [{"name": "a"}, {"name": 3, "mig": 1}], "wsl": "x", "gpu": 1}'
        ).problems
    ]
    assert keys == ["schema", "gpu", "wsl", "driver.version", "gpus[1].name", "gpus[1].mig"]


def test_a_key_written_twice() -> None:
    error = refused(
        '{"schema": 1, "gcc": "11.4.0", "gcc": "12.2.0", "driver": {"version": "570.26", "version": "590.1"}}'
    )
    assert [str(problem) for problem in error.problems] == [
        f"{FILE}: `gcc`: is written twice",
        f"{FILE}: `driver.version`: is written twice",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", f"{FILE}:1: is empty (expected a JSON object)"),
        ("\n\n", f"{FILE}:3: is empty (expected a JSON object)"),
        ('{\n "schema": 1,\n}', f"{FILE}:"),
        ("[]", f"{FILE}: holds a list (expected a JSON object)"),
        ('"535.104.05"', f'{FILE}: holds "535.104.05" (expected a JSON object)'),
        ("null", f"{FILE}: holds null (expected a JSON object)"),
        ("[" * 100_000, f"{FILE}: is nested too deeply (expected a JSON object)"),
        ('{"schema": ' + "1" * 5000 + "}", f"{FILE}: "),
    ],
    ids=["empty", "blank", "comma", "list", "text", "null", "deep", "digits"],
)
def test_a_text_that_is_no_host_file(text: str, line: str) -> None:
    error = refused(text)
    assert error.code in {"host-invalid", "host-newer"}
    assert str(error.problems[0]).startswith(line)
    assert error.exit == 2
    assert error.hint


def test_a_syntax_error_names_its_line() -> None:
    (problem,) = refused('{\n "schema": 1\n "os": "linux"\n}').problems
    assert problem.line == 3
    assert problem.message.startswith("is not JSON: ")


@pytest.mark.parametrize("wrap", [False, True])
def test_a_newer_schema_is_told_apart(wrap: bool) -> None:
    newer = {**DOCUMENT, "schema": 2, "npus": []}
    printed = {"schema": 2, "command": "detect", "exit": 0, "result": newer, "error": None}
    error = refused(json.dumps(printed if wrap else newer))
    assert error.code == "host-newer"
    assert str(error.problems[0]) == f"{FILE}: `schema`: is 2 (expected 1 at the most here)"


def test_a_newer_host_inside_a_document_is_told_apart() -> None:
    printed = {"schema": 1, "command": "detect", "exit": 0, "result": {**DOCUMENT, "schema": 2}, "error": None}
    assert refused(json.dumps(printed)).code == "host-newer"


@pytest.mark.parametrize(
    ("printed", "key"),
    [
        ({"schema": 1, "command": "plan", "exit": 0, "result": {}, "error": None}, "command"),
        ({"schema": 1, "command": "detect", "exit": 70, "result": None, "error": {"code": "x"}}, "result"),
        ({"schema": 1, "command": "detect", "exit": 0, "result": [], "error": None}, "result"),
        ({"schema": 1, "command": "detect", "result": {"gpu": []}}, "result.gpu"),
    ],
)
def test_another_document(printed: dict[str, Any], key: str) -> None:
    assert key in [problem.key for problem in refused(json.dumps(printed)).problems]


def overridden(machine: HostFacts = HOST, **given: Any) -> HostFacts:
    options: dict[str, Any] = {"driver": None, "gpus": (), "glibc": None, "gpu_cc": GPU_CC, "gpu_arch": GPU_ARCH}
    return host.override(machine, **{**options, **given})


def test_nothing_given_changes_nothing() -> None:
    assert overridden() == HOST


def test_another_driver_is_another_machine() -> None:
    machine = overridden(driver="470.82.01")
    assert machine.driver == Driver(version="470.82.01", library="470.82.01")
    assert (machine.gpus, machine.pci_gpus, machine.device_nodes) == ((), (), ())
    assert machine.sources == {"driver": "--driver"}
    assert machine.glibc == HOST.glibc


def test_no_driver() -> None:
    assert overridden(driver="none").driver is None


def test_a_driver_under_wsl_is_windows() -> None:
    wsl = HostFacts(wsl=True, driver=Driver(version="537.13", numbering="windows"))
    assert overridden(wsl, driver="516.94").driver == Driver(version="516.94", numbering="windows")
    assert overridden(HostFacts(wsl=True), driver="516.94").driver == Driver(version="516.94", numbering="windows")


def test_gpus_by_name_and_by_capability() -> None:
    machine = overridden(driver="550.54.14", gpus=("rtx 3090", "9.0", "tesla t4"))
    assert machine.gpus == (
        Gpu(name="RTX 3090", compute_capability="8.6"),
        Gpu(name="compute capability 9.0", compute_capability="9.0"),
        Gpu(name="Tesla T4", compute_capability="7.5"),
    )
    assert machine.sources == {"driver": "--driver", "gpus": "--gpu"}


def test_a_gpu_alone_keeps_the_driver() -> None:
    machine = overridden(gpus=("H100",))
    assert machine.driver == HOST.driver
    assert machine.pci_gpus == ()


def test_a_gpu_that_comes_with_another_processor_is_another_machine() -> None:
    for gpu in ("GH200 480GB", "Jetson Orin", "8.7"):
        machine = overridden(gpus=(gpu,))
        assert (machine.arch, machine.sources["arch"]) == ("aarch64", "--gpu")
    assert overridden(gpus=("H200", "9.0")).arch == "x86_64"


@pytest.mark.parametrize("driver", [None, "none"])
def test_a_gpu_needs_a_driver(driver: str | None) -> None:
    with pytest.raises(Misuse) as caught:
        overridden(HostFacts(), driver=driver, gpus=("T4",))
    (problem,) = caught.value.problems
    assert (caught.value.code, problem.key) == ("host-invalid", "--gpu")
    assert problem.expected == "`--driver VERSION` beside it"


def test_another_c_library() -> None:
    machine = overridden(glibc="2.17")
    assert machine.glibc == "2.17"
    assert machine.sources == {**HOST.sources, "glibc": "--glibc"}


@pytest.mark.parametrize(
    ("given", "key"),
    [({"driver": "535"}, "--driver"), ({"glibc": "new"}, "--glibc"), ({"gpus": ("0.6",)}, "--gpu")],
)
def test_an_impossible_option(given: dict[str, Any], key: str) -> None:
    with pytest.raises(Misuse) as caught:
        overridden(**given)
    assert caught.value.code == "host-invalid"
    assert [problem.key for problem in caught.value.problems] == [key]
    assert caught.value.problems[0].expected


def test_a_version_of_cuda_is_no_driver() -> None:
    with pytest.raises(Misuse) as caught:
        overridden(driver="12.4")
    assert caught.value.message == "`12.4` is no version of NVIDIA's driver"
    assert caught.value.problems[0].message == 'is "12.4", which looks like a version of CUDA'
    assert "nvidia-smi --query-gpu=driver_version" in (caught.value.problems[0].expected or "")


def test_a_name_of_several_gpus_is_refused_with_them() -> None:
    with pytest.raises(Misuse) as caught:
        overridden(gpus=("RTX 6000",))
    assert caught.value.code == "gpu-ambiguous"
    assert caught.value.problems[0].expected == "`Quadro RTX 6000` (7.5) or `RTX 6000 Ada` (8.9)"


def test_two_gpus_in_one_option_are_refused() -> None:
    with pytest.raises(Misuse) as caught:
        overridden(gpus=("Tesla T4,RTX 3090",))
    assert caught.value.code == "gpu-unknown"
    assert (caught.value.problems[0].expected or "").startswith("one GPU, and `--gpu` again for the next")


def test_a_capability_that_no_gpu_has_is_refused_unless_it_is_newer_than_all() -> None:
    with pytest.raises(Misuse) as caught:
        overridden(gpus=("8.8",))
    assert (caught.value.code, caught.value.message) == ("gpu-unknown", "no GPU has compute capability 8.8")
    assert caught.value.problems[0].expected == "one of 7.5, 8.6, 8.7, 8.9, 9.0"
    assert overridden(gpus=("13.0",)).gpus[0].compute_capability == "13.0"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RX 7900", "`RX 7900` is no GPU of NVIDIA's, and envlock knows no others"),
        ("H10", "`H10` is no GPU that envlock knows; did you mean `H100`"),
        ("Voodoo 2", "`Voodoo 2` is no GPU that envlock knows"),
        ("H100\x1b[2J", '`"H100\\u001b[2J"` is no GPU that envlock knows'),
        ("", "`` is no GPU that envlock knows"),
    ],
)
def test_an_unknown_gpu(name: str, message: str) -> None:
    with pytest.raises(Misuse) as caught:
        overridden(gpus=(name,))
    assert caught.value.code == "gpu-unknown"
    assert caught.value.message.startswith(message)


def test_a_name_gives_the_capability_away() -> None:
    machine = HostFacts(
        gpus=(Gpu(name="NVIDIA GeForce RTX 3090", compute_capability=None), Gpu(name="X", compute_capability=None)),
        sources={"gpus": "/proc/driver/nvidia/gpus"},
    )
    named = host.name_capabilities(machine, GPU_CC)
    assert [gpu.compute_capability for gpu in named.gpus] == ["8.6", None]
    assert named.sources["gpus"] == "/proc/driver/nvidia/gpus; compute capability from the GPU's name"


def test_a_capability_the_driver_told_stands() -> None:
    assert host.name_capabilities(HOST, {"RTX 3090": "9.9"}) is HOST
    unknown = HostFacts(gpus=(Gpu(name="X", compute_capability=None),))
    assert host.name_capabilities(unknown, GPU_CC) is unknown
