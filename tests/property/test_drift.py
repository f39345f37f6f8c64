"""What holds for any two days in a machine's life."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envlock import checks, drift
from envlock.model import Check, Driver, Floors, Gpu, HostFacts

NUMBERS = st.tuples(st.integers(400, 600), st.integers(0, 200), st.integers(0, 20))
DRIVERS = st.none() | st.builds(
    lambda number, library: Driver(version=number and _dotted(number), library=_dotted(library)),
    st.none() | NUMBERS,
    NUMBERS,
)
GPUS = st.builds(
    Gpu,
    name=st.sampled_from(["RTX 3090", "T4", "H200"]),
    compute_capability=st.none() | st.sampled_from(["3.7", "7.5", "8.6", "9.0", "12.0"]),
    mig=st.booleans(),
)
HOSTS = st.builds(
    HostFacts,
    arch=st.sampled_from(["x86_64", "aarch64"]),
    glibc=st.none() | st.sampled_from(["2.12", "2.17", "2.28", "2.39"]),
    kernel=st.none() | st.sampled_from(["5.15.0", "6.8.0"]),
    wsl=st.booleans(),
    container=st.none() | st.sampled_from(["docker", "podman"]),
    driver=DRIVERS,
    device_nodes=st.sampled_from([(), ("/dev/nvidia0",)]),
    gpus=st.lists(GPUS, max_size=3).map(tuple),
    gcc=st.none() | st.just("11.4.0"),
)
FLOORS = st.builds(
    Floors,
    driver=st.just("525.60.13"),
    driver_windows=st.just("527.41"),
    glibc=st.none() | st.just("2.17"),
    sm=st.lists(st.sampled_from(["sm_75", "sm_80", "sm_90", "sm_120"]), unique=True, min_size=1).map(tuple),
)


def _dotted(number: tuple[int, int, int]) -> str:
    return ".".join(map(str, number))


def _compare(was: HostFacts, now: HostFacts, floors: Floors) -> dict[str, Check]:
    found = drift.compare(was, now, floors=floors, variant="cu121", gpu_drivers={}, plan="plan", install="install")
    return {check.id.partition(".")[2]: check for check in found}


@given(HOSTS, HOSTS, FLOORS)
def test_every_part_has_one_check_in_the_order_of_the_catalogue(was: HostFacts, now: HostFacts, floors: Floors) -> None:
    assert tuple(_compare(was, now, floors)) == checks.DRIFT


@given(HOSTS, FLOORS)
def test_a_machine_that_did_not_move_fails_only_below_a_floor(host: HostFacts, floors: Floors) -> None:
    failed = {name for name, check in _compare(host, host, floors).items() if check.status == "fail"}
    assert failed <= {"driver", "gpus", "glibc"}
    assert "glibc" not in failed or host.glibc == "2.12"


@given(HOSTS, HOSTS, FLOORS)
def test_a_skip_names_an_earlier_failure(was: HostFacts, now: HostFacts, floors: Floors) -> None:
    failed: set[str] = set()
    for check in _compare(was, now, floors).values():
        if check.status == "skip" and check.message != "no two versions to compare":
            assert (check.message or "").removeprefix("follows from ") in failed
        if check.status == "fail":
            failed.add(check.id)


@given(HOSTS, HOSTS, FLOORS)
def test_the_order_of_the_gpus_does_not_matter(was: HostFacts, now: HostFacts, floors: Floors) -> None:
    turned = HostFacts(**{name: getattr(now, name) for name in HostFacts.__slots__} | {"gpus": now.gpus[::-1]})
    before, after = _compare(was, now, floors)["gpus"], _compare(was, turned, floors)["gpus"]
    assert before == after


@given(NUMBERS, NUMBERS, HOSTS, HOSTS, FLOORS)
def test_a_newer_driver_never_falls_below_a_floor(
    one: tuple[int, int, int], other: tuple[int, int, int], was: HostFacts, now: HostFacts, floors: Floors
) -> None:
    def failed(number: tuple[int, int, int]) -> bool:
        driver = Driver(version=_dotted(number), library=_dotted(number))
        moved = HostFacts(**{name: getattr(now, name) for name in HostFacts.__slots__} | {"driver": driver})
        return _compare(was, moved, floors)["driver"].status == "fail"

    older, newer = sorted((one, other))
    assert not failed(newer) or failed(older)
