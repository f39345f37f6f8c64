from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping
from datetime import date
from typing import Any, get_args, get_type_hints

import pytest

from envlock import facts, profile, request, store
from envlock.errors import EnvlockError
from envlock.facts import Facts, Row
from envlock.model import BackendSpec, Profile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXTS = store.facts_texts()
KNOWN = facts.parse(TEXTS)
ROWS = [
    pytest.param(row, id=f"{table.name}-{number}")
    for table in dataclasses.fields(Facts)
    for number, row in enumerate(getattr(KNOWN, table.name))
]
SHIPPED = sorted((store.PACKAGE.parent / "profiles").glob("*.toml"))
PROFILES = {path.stem: profile.parse(path.read_text(encoding="utf-8"), path.name) for path in SHIPPED}
SPECS = [pytest.param(spec, id=f"{one.name}-{spec.name}") for one in PROFILES.values() for spec in one.backends]


# ---- the shipped rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_row_of_a_data_file_says_whence_and_when(name: str) -> None:
    tables: Mapping[str, Any] = tomllib.loads(TEXTS[name])
    rows = [row for table in tables.values() if isinstance(table, list) for row in table]
    assert rows
    for row in rows:
        values = row.keys() - {"source", "date", "status"}
        assert values, row
        assert len(row["source"]) > 8, row
        assert date.fromisoformat(row["date"]) <= date(2030, 1, 1), row
        assert row["status"] in {"verified", "sourced", "claimed"}, row


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_numbers_that_are_numbers(row: Row) -> None:
    values = dataclasses.asdict(row)
    for key in ("linux", "windows", "glibc", "compute_capability", "split"):
        value = values.get(key) or ()
        assert all(re.fullmatch(r"\d+(\.\d+)+", each) for each in ([value] if isinstance(value, str) else value)), key
    for each in values.get("sm", ()):
        assert re.fullmatch(r"\d{1,2}\.\d", each)
    for each in values.get("python", ()):
        assert re.fullmatch(r"3\.\d{1,2}", each)
    assert values.get("sm") is None or list(values["sm"]) == sorted(values["sm"], key=facts.capability)


def test_no_fact_stands_there_twice() -> None:
    keys = {
        "families": "cuda",
        "toolkits": "cuda",
        "models": "gpu",
        "gpu_drivers": "compute_capability",
        "natives": "precision",
        "torch_pypi": "torch",
        "bitsandbytes": "bitsandbytes",
    }
    for table, key in keys.items():
        values = [getattr(row, key) for row in getattr(KNOWN, table)]
        assert len(values) == len(set(values)), table


@pytest.mark.parametrize("spec", SPECS)
def test_whatever_a_shipped_profile_pins_is_known(spec: BackendSpec) -> None:
    torch, bitsandbytes = request.pin(spec, "torch"), request.pin(spec, "bitsandbytes")
    assert torch is not None
    assert bitsandbytes is not None
    built, release = KNOWN.torch(torch), KNOWN.release(bitsandbytes)
    assert built is not None
    assert release is not None
    assert set(spec.python) | set(spec.pypi_python) <= set(built.python)
    assert spec.name == "cpu" or KNOWN.torch_sm(torch, spec.name) is not None
    if spec.name == "cpu":
        return
    loaded = KNOWN.loaded(release, spec.name)
    assert loaded is not None
    assert all(KNOWN.library(release, loaded, highest) is not None for highest in ((7, 0), (8, 6), (9, 0)))
    assert KNOWN.family(spec.name) is not None
    assert KNOWN.toolkit(spec.name) is not None
    if spec.pypi_python:
        assert built.cuda == spec.name, "PyPI's own build is another CUDA"


# ---- looking up ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.4", "2.4.0", "v2.4.0", "2.4.0+cu121", "2.4.0.0"])
def test_a_version_is_the_same_however_it_is_written(version: str) -> None:
    found = KNOWN.torch(version)
    assert found is not None
    assert found.torch == "2.4.0"
    assert KNOWN.torch_sm(version, "cu118") == KNOWN.torch_sm("2.4.0", "cu118") is not None


def test_a_gpu_is_known_by_its_name() -> None:
    assert KNOWN.gpu_capabilities["A100 / A30"] == "8.0"


def test_a_gpu_that_comes_with_one_processor_only_is_known_by_name_and_by_capability() -> None:
    found = KNOWN.gpu_archs
    assert (found["GH200"], found["8.7"]) == ("aarch64", "aarch64")
    assert not {"9.0", "H200 / H100", "10.0"} & found.keys()


@pytest.mark.parametrize(("capability", "branch"), [("3.7", 470), ("6.1", 580), ("7.0", 580), ("7.5", None)])
def test_the_last_branch_of_drivers_that_knows_a_gpu(capability: str, branch: int | None) -> None:
    found = KNOWN.last_branch(capability)
    assert (found.branch if found else None) == branch


def test_what_is_not_known_is_none() -> None:
    assert KNOWN.torch("1.0") is None
    assert KNOWN.torch_sm("2.4.1", "cu100") is None
    assert KNOWN.release("0.1") is None
    assert KNOWN.family("cpu") is None
    assert KNOWN.family("cu999") is None
    assert KNOWN.toolkit("cpu") is None
    assert KNOWN.gpu_driver("1.0") is None


@pytest.mark.parametrize(
    ("backend", "windows", "floor"),
    [
        ("cpu", False, None),
        ("cu118", False, ("450.80.02", True)),
        ("cu118", True, ("452.39", True)),
        ("cu121", False, ("525.60.13", True)),
        ("cu128", True, ("527.41", True)),
        ("cu130", False, ("580.65.06", True)),
        # Of CUDA 13 no Windows driver is known: what CUDA 12 needs it needs at least. The same of a CUDA to come.
        ("cu130", True, ("527.41", False)),
        ("cu142", False, ("580.65.06", False)),
    ],
)
def test_the_floor_of_a_driver(backend: str, floor: tuple[str, bool] | None, *, windows: bool) -> None:
    found = KNOWN.driver_floor(backend, windows=windows)
    assert (found and found[1:]) == floor


def test_the_driver_of_a_gpu_is_that_of_its_own_or_the_next_lower_of_its_major() -> None:
    own = KNOWN.gpu_driver("12.0")
    assert own is not None
    assert KNOWN.gpu_driver("12.1") is not None
    assert own.linux == "570.26"
    assert KNOWN.gpu_driver("13.5") is None


def test_up_to_0_44_the_best_gpu_decides_which_library_serves_all() -> None:
    release = KNOWN.release("0.43.3")
    assert release is not None
    assert release.split == "7.5"
    plain, fast = KNOWN.library(release, "121", (7, 0)), KNOWN.library(release, "121", (7, 5))
    assert plain is not None
    assert fast is not None
    assert (plain.nocublaslt, fast.nocublaslt) == (True, False)


@pytest.mark.parametrize(
    ("version", "backend", "loaded"),
    [
        ("0.43.3", "cu121", "121"),
        ("0.43.3", "cu126", None),  # exact: none for that CUDA, none at all
        ("0.50.2", "cu128", "128"),
        ("0.50.2", "cpu", None),
    ],
)
def test_the_library_that_is_loaded(version: str, backend: str, loaded: str | None) -> None:
    release = KNOWN.release(version)
    assert release is not None
    assert KNOWN.loaded(release, backend) == loaded


def test_the_nearest_library_of_the_same_major() -> None:
    release = dataclasses.replace(KNOWN.bitsandbytes[-1], cuda=("118", "124", "128"), selects="nearest")
    assert [KNOWN.loaded(release, backend) for backend in ("cu121", "cu126", "cu130")] == ["124", "124", None]


@pytest.mark.parametrize(
    ("sm", "gpu", "serves"),
    [((8, 0), (8, 6), True), ((8, 6), (8, 6), True), ((8, 6), (8, 0), False), ((7, 5), (8, 0), False)],
)
def test_machine_code_runs_on_its_own_major_from_its_minor_on(
    sm: tuple[int, int], gpu: tuple[int, int], *, serves: bool
) -> None:
    assert facts.runs(sm, gpu) is serves


# ---- the digest ---------------------------------------------------------------------------------------------------


def digest(one: Profile, known: Facts) -> str:
    return facts.used_digest(one, known)


def test_the_digest_moves_with_what_the_profile_rests_on_and_with_nothing_else() -> None:
    gemma = PROFILES["gemma-qlora"]
    before = digest(gemma, KNOWN)

    def changed(table: str, key: str, value: str, **new: object) -> Facts:
        rows = [dataclasses.replace(row, **new) if getattr(row, key) == value else row for row in getattr(KNOWN, table)]
        return dataclasses.replace(KNOWN, **{table: tuple(rows)})

    assert digest(gemma, changed("torch_pypi", "torch", "2.4.1", glibc="2.99")) != before
    assert digest(gemma, changed("bitsandbytes", "bitsandbytes", "0.43.3", split="9.9")) != before
    assert digest(gemma, changed("libraries", "bitsandbytes", "0.43.3", sm=("9.9",))) != before
    assert digest(gemma, changed("torch_pypi", "torch", "2.1.2", glibc="2.99")) == before
    assert digest(gemma, changed("models", "gpu", KNOWN.models[0].gpu, compute_capability="9.9")) == before
    assert digest(PROFILES["qwen2.5"], KNOWN) != before


def test_a_profile_that_pins_neither_rests_on_its_drivers_alone() -> None:
    spec = BackendSpec(name="cu121", python=("3.10",), pypi_python=(), requires=("numpy",), exclude_newer=None)
    one = dataclasses.replace(PROFILES["gemma-qlora"], backends=(spec,))
    bare = dataclasses.replace(KNOWN, torch_pypi=(), torch_index=(), bitsandbytes=(), libraries=())
    assert digest(one, bare) == digest(one, KNOWN)
    assert digest(one, dataclasses.replace(bare, families=())) != digest(one, bare)


# ---- broken data --------------------------------------------------------------------------------------------------

FAMILY = '[[family]]\ncuda = 12\nlinux = "525.60.13"\nsource = "a page"\ndate = "2026-01-01"\nstatus = "sourced"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[family", "drivers.toml: "),
        (FAMILY.replace("cuda = 12\n", ""), "drivers.toml: family 1: keys missing or unknown: cuda"),
        (FAMILY + "more = 1\n", "drivers.toml: family 1: keys missing or unknown: more"),
        (FAMILY.replace('"sourced"', '"sure"'), "drivers.toml: family 1: status 'sure' is none of "),
        (FAMILY.replace("12", '"12"'), "drivers.toml: family 1: cuda = '12' has the wrong type"),
        (FAMILY.replace("12", "true"), "drivers.toml: family 1: cuda = True has the wrong type"),
        (FAMILY.replace('"525.60.13"', "525"), "drivers.toml: family 1: linux = 525 has the wrong type"),
        (FAMILY.replace('"525.60.13"', '["525"]'), "drivers.toml: family 1: linux = ('525',) has the wrong type"),
    ],
)
def test_data_that_is_broken_is_named(text: str, says: str) -> None:
    with pytest.raises(EnvlockError) as caught:
        facts.parse({"drivers.toml": text})
    assert (caught.value.code, caught.value.exit) == ("facts-invalid", 70)
    assert str(caught.value.problems[0]).startswith(says)


def test_statuses_are_those_that_the_type_allows() -> None:
    assert set(facts.STATUSES) == set(get_args(get_type_hints(Row)["status"]))
