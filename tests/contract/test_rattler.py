"""The conda solver against the recorded part of conda-forge, served on the loopback."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlock import conda
from envlock.conda import Channel as Named
from envlock.conda import Question, Record, Virtual
from envlock.engines import rattler
from envlock.errors import Refused, WorldFailed
from tests.servers.channel import RECORDED, Channel
from tests.servers.index import Fault

FORGE = Named(name="conda-forge", url="https://conda.anaconda.org/conda-forge")
SPECS = ("python 3.10.*", "pip", "gcc_linux-64 12.*", "gxx_linux-64 12.*")
SHARDS = "linux-64/repodata_shards.msgpack.zst"
JSON = "linux-64/repodata.json"


def machine(cuda: str | None = "12.0", glibc: str = "2.24") -> tuple[Virtual, ...]:
    given = {"__unix": "0", "__linux": "3.10", "__glibc": glibc, "__cuda": cuda}
    plain = tuple(Virtual(name=name, version=version) for name, version in given.items() if version)
    return (*plain, Virtual(name="__archspec", version="1", build="x86_64"))


def question(*specs: str, virtual: tuple[Virtual, ...] | None = None) -> Question:
    return Question(
        subdir="linux-64", channels=(FORGE,), specs=specs or SPECS, virtual=machine() if virtual is None else virtual
    )


@pytest.fixture
def channel() -> Iterator[Channel]:
    with Channel() as running:
        yield running


@pytest.fixture
def bench(channel: Channel, tmp_path: Path) -> rattler.Bench:
    return rattler.Bench(
        cache=tmp_path / "repodata", addresses={"conda-forge": channel.url}, offline=False, request_seconds=5, retries=0
    )


def solved(asked: Question, bench: rattler.Bench, kept: tuple[Record, ...] = ()) -> dict[str, Record]:
    (answer,) = rattler.solve([(asked, kept)], bench)
    assert not isinstance(answer, Refused), answer.problems
    return {record.name: record for record in answer}


def refused(asked: Question, bench: rattler.Bench) -> Refused:
    (answer,) = rattler.solve([(asked, ())], bench)
    assert isinstance(answer, Refused)
    return answer


def failed(asked: Question, bench: rattler.Bench) -> WorldFailed:
    with pytest.raises(WorldFailed) as error:
        rattler.solve([(asked, ())], bench)
    return error.value


# ---- answers --------------------------------------------------------------------------------------------------------


def test_an_answer_holds_the_recorded_rows_under_everybodys_address(bench: rattler.Bench) -> None:
    found = solved(question(), bench)
    assert (found["python"].version, found["gcc_linux-64"].version) == ("3.10.20", "12.4.0")
    assert list(found) == sorted(found)
    assert len(found) == 39
    for record in found.values():
        listed = json.loads((RECORDED / record.subdir / "repodata.json").read_text(encoding="utf-8"))
        row = {**listed["packages"], **listed["packages.conda"]}[record.file]
        assert (record.md5, record.sha256, record.size) == (row["md5"], row["sha256"], row["size"])
        assert list(record.depends) == row["depends"]
        assert record.url == f"https://conda.anaconda.org/conda-forge/{record.subdir}/{record.file}"


def test_the_machine_of_the_question_decides_and_not_this_one(bench: rattler.Bench) -> None:
    for glibc, sysroot in (("2.24", "2.17"), ("2.28", "2.28")):
        found = solved(question(virtual=machine(glibc=glibc)), bench)
        assert found["sysroot_linux-64"].version == sysroot
    assert "cuda-nvcc" in solved(question("cuda-nvcc"), bench)
    error = refused(question("cuda-nvcc", virtual=machine(cuda="11.0")), bench)
    assert any("__cuda >=12" in problem.message for problem in error.problems)


def test_several_questions_are_answered_in_their_order_and_one_conflict_keeps_no_other_from_its_answer(
    bench: rattler.Bench, channel: Channel
) -> None:
    asked = [question("python 3.12.*"), question("python 3.13.*"), question("python 3.11.*")]
    first, second, third = rattler.solve([(one, ()) for one in asked], bench)
    assert not isinstance(first, Refused)
    assert not isinstance(third, Refused)
    assert isinstance(second, Refused)
    versions = [next(one.version for one in some if one.name == "python") for some in (first, third)]
    assert versions == ["3.12.13", "3.11.15"]
    assert channel.requested.count(JSON) == 1


def test_what_is_kept_stays_where_it_fits_and_is_still_listed(bench: rattler.Bench, channel: Channel) -> None:
    old = solved(question("python 3.10.*", "pip 24.0"), bench)["pip"]
    assert solved(question("python 3.10.*", "pip"), bench)["pip"].version == "26.1.2"
    assert solved(question("python 3.10.*", "pip"), bench, (old,))["pip"] == old
    assert solved(question("python 3.10.*", "pip >=25"), bench, (old,))["pip"].version == "26.1.2"

    listed = json.loads((RECORDED / "noarch" / "repodata.json").read_text(encoding="utf-8"))
    del listed["packages.conda"][old.file]
    channel.instead["noarch/repodata.json"] = json.dumps(listed).encode()
    assert solved(question("python 3.10.*", "pip"), bench, (old,))["pip"].version == "26.1.2"


def test_the_first_channel_that_has_a_package_is_the_only_one_for_it(
    bench: rattler.Bench, channel: Channel, tmp_path: Path
) -> None:
    row = json.loads((RECORDED / "noarch" / "repodata.json").read_text(encoding="utf-8"))["packages.conda"]
    name = "pip-24.0-pyhd8ed1ab_0.conda"
    for subdir, some in (("noarch", {name: row[name]}), ("linux-64", {})):
        (tmp_path / "own" / subdir).mkdir(parents=True)
        listed = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": some, "repodata_version": 1}
        (tmp_path / "own" / subdir / "repodata.json").write_text(json.dumps(listed), encoding="utf-8")
    first = Named(name="own", url="https://channel.example/own")
    with Channel(tmp_path / "own") as own:
        both = dataclasses.replace(bench, addresses={"own": own.url, "conda-forge": channel.url})
        found = solved(dataclasses.replace(question("python 3.10.*", "pip"), channels=(first, FORGE)), both)
    assert (found["pip"].version, found["pip"].channel) == ("24.0", first)
    assert found["python"].channel == FORGE


# ---- no answer ------------------------------------------------------------------------------------------------------


def test_a_conflict_has_both_sides(bench: rattler.Bench) -> None:
    error = refused(question("python 3.10.*", "python 3.12.*"), bench)
    assert error.code == "unsatisfiable"
    told = "\n".join(problem.message for problem in error.problems)
    assert "python 3.10.*" in told
    assert "python 3.12.*" in told
    assert "`python 3.12.*`" in error.message


def test_a_package_that_nobody_has_is_a_conflict(bench: rattler.Bench) -> None:
    error = refused(question("python 3.13.*", "pip"), bench)
    assert [problem.message for problem in error.problems] == ["No candidates were found for python 3.13.*."]


def test_of_a_machine_that_does_not_do_what_was_given_is_said(bench: rattler.Bench) -> None:
    error = refused(question("python 3.10.*", virtual=machine(cuda="11.0", glibc="2.5")), bench)
    told = [problem.message for problem in error.problems]
    assert any("__glibc >=2.17" in line for line in told)
    assert told[-1] == (
        "given, as the floors of the variant have it: __unix 0, __linux 3.10, __glibc 2.5, __cuda 11.0,"
        " __archspec 1 x86_64"
    )


@pytest.mark.parametrize(
    ("path", "fault", "code"),
    [
        (SHARDS, Fault(kind="status", value=500), "network"),
        (SHARDS, Fault(kind="stall"), "network"),
        (JSON, Fault(kind="truncate", value=1000), "network"),
        (JSON, Fault(kind="status", value=404), "channel-missing"),
        ("noarch/repodata.json", Fault(kind="status", value=404), "channel-missing"),
        (JSON, Fault(kind="status", value=403), "network"),
    ],
    ids=["500", "stall", "cut", "404", "404-noarch", "403"],
)
def test_a_channel_that_fails_is_no_conflict(
    bench: rattler.Bench, channel: Channel, path: str, fault: Fault, code: str
) -> None:
    channel.faults[path] = fault
    error = failed(question(), dataclasses.replace(bench, request_seconds=1))
    assert (error.code, error.hint) == (code, "envlock lock PROFILE --no-conda")
    assert any(path.rpartition("/")[0] in str(problem) for problem in error.problems)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"info": {"subdir": "linux-64"}, "packages": {"x": '])
def test_repodata_that_is_none_is_no_conflict(bench: rattler.Bench, channel: Channel, body: bytes) -> None:
    channel.instead[JSON] = body
    assert failed(question(), bench).code == "channel-invalid"
    del channel.instead[JSON]
    assert len(solved(question(), bench)) == 39, "what was broken is not kept"


def test_of_several_questions_the_one_that_knows_says_why(bench: rattler.Bench, channel: Channel) -> None:
    channel.instead[JSON] = b"{"
    asked = [(question(f"python 3.{minor}.*"), ()) for minor in (10, 11, 12)] * 3
    for number in range(10):
        with pytest.raises(WorldFailed) as error:
            rattler.solve(asked, dataclasses.replace(bench, cache=bench.cache / str(number)))
        assert error.value.code == "channel-invalid"


def test_a_broken_record_is_no_conflict(bench: rattler.Bench, channel: Channel) -> None:
    listed = json.loads((RECORDED / JSON).read_text(encoding="utf-8"))
    listed["packages.conda"]["gcc_linux-64-12.4.0-h6b7512a_10.conda"]["version"] = ["12"]
    channel.instead[JSON] = json.dumps(listed).encode()
    assert failed(question(), bench).code == "channel-invalid"


@pytest.mark.parametrize("key", ["md5", "sha256"])
def test_a_record_without_a_hash_is_not_locked(bench: rattler.Bench, channel: Channel, key: str) -> None:
    listed = json.loads((RECORDED / JSON).read_text(encoding="utf-8"))
    del listed["packages.conda"]["gcc_linux-64-12.4.0-h6b7512a_10.conda"][key]
    channel.instead[JSON] = json.dumps(listed).encode()
    with pytest.raises(Refused) as error:
        solved(question(), bench)
    assert error.value.code == "hash-missing"
    assert [str(problem) for problem in error.value.problems] == [f"gcc_linux-64-12.4.0-h6b7512a_10.conda: no {key}"]


def test_nobody_listens(bench: rattler.Bench, channel: Channel) -> None:
    nobody = dataclasses.replace(bench, addresses={"conda-forge": "http://127.0.0.1:9/conda-forge"})
    assert failed(question(), nobody).code == "network"
    assert channel.requested == []


def test_running_out_of_time_is_no_conflict(bench: rattler.Bench) -> None:
    (answer,) = rattler.solve([(question(), ())], bench)
    assert not isinstance(answer, Refused)
    assert failed(question(), dataclasses.replace(bench, solve_seconds=1e-6)).code == "engine-failed"


def test_offline_what_was_read_before_is_enough(bench: rattler.Bench, channel: Channel) -> None:
    offline = dataclasses.replace(bench, offline=True)
    assert failed(question(), offline).code == "not-cached"
    found = solved(question(), bench)
    channel.requested.clear()
    assert solved(question(), offline) == found
    assert channel.requested == []


def test_a_cache_whose_place_is_taken_is_named(bench: rattler.Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    error = failed(question(), dataclasses.replace(bench, cache=tmp_path / "file"))
    assert error.code == "cache-unusable"
    assert error.hint == "RATTLER_CACHE_DIR=FOLDER envlock lock PROFILE"


# ---- specs ----------------------------------------------------------------------------------------------------------


def test_a_spec_that_conda_cannot_read_is_named_with_the_reason() -> None:
    asked = ("python 3.10.*", "gcc_linux-64 >=11,<13", "pip >=24,<", "python[version=", "", "numpy =>2")
    found = rattler.mistakes(asked)
    assert list(found) == ["pip >=24,<", "python[version=", "", "numpy =>2"]
    assert found["pip >=24,<"] == "unable to parse version spec: >=24,<"


def test_what_the_engine_is_called_in_a_digest_is_what_is_installed() -> None:
    assert rattler.require().__version__.partition(".")[0] == conda.ENGINE.partition("-")[2]
