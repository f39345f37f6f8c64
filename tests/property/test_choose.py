"""What holds of every choice, whatever the machine: with the shipped profiles and facts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from packaging.version import Version

from envlock import choose, facts, profile, rules, store
from envlock.model import Decision, Driver, Gpu, HostFacts, Policy, Profile
from envlock.rules import Case

KNOWN = facts.parse(store.facts_texts())
SHIPPED = sorted((store.PACKAGE.parent / "profiles").glob("*.toml"))
EVERY = [profile.parse(path.read_text(encoding="utf-8"), path.name) for path in SHIPPED]
PROFILES = st.sampled_from(EVERY)
POLICIES = st.sampled_from(["minor-version", "strict"])

GPUS = st.builds(
    Gpu,
    name=st.sampled_from(["A", "B"]),
    compute_capability=st.sampled_from(["3.7", "5.2", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"]),
)
# Around the floors there are, where an off-by-one would show.
EDGES = {"300.1", "999.1"}
OURS = {row.linux for row in KNOWN.families} | {row.linux for row in KNOWN.gpu_drivers}
LINUX = sorted(EDGES | OURS | {row.linux for row in KNOWN.toolkits}, key=Version)
FOREIGN = {row.windows for row in KNOWN.families} | {row.windows for row in KNOWN.toolkits}
WINDOWS = sorted(EDGES | {each for each in FOREIGN if each}, key=Version)
DRIVERS = st.one_of(
    st.none(),
    st.builds(Driver, version=st.sampled_from(LINUX)),
    st.builds(Driver, version=st.sampled_from(WINDOWS), numbering=st.just("windows")),
)
HOSTS = st.builds(
    HostFacts,
    os=st.just("linux"),
    arch=st.sampled_from(["x86_64", "x86_64", "aarch64"]),
    glibc=st.sampled_from([None, "2.10", "2.17", "2.24", "2.28", "2.35"]),
    driver=DRIVERS,
    gpus=st.lists(GPUS, max_size=3).map(tuple),
    pythons=st.lists(st.sampled_from(["3.8.1", "3.10.13", "3.11.9", "3.12.1", "3.13.0"]), unique=True).map(tuple),
)


def decide(wanted: Profile, host: HostFacts, policy: Policy = "minor-version", *, offline: bool = False) -> Decision:
    return choose.backend(wanted, [host], KNOWN, policy=policy, offline=offline)


def fitting(made: Decision) -> set[str]:
    return {*made.eligible, *([made.backend] if made.backend else [])}


@given(PROFILES, HOSTS, POLICIES, st.booleans())
def test_every_backend_is_chosen_eligible_or_refused_with_a_row_per_failed_rule(
    wanted: Profile, host: HostFacts, policy: Policy, offline: bool
) -> None:
    made = decide(wanted, host, policy, offline=offline)
    refused = {row.backend for row in made.refused}
    assert fitting(made) | refused == {spec.name for spec in wanted.backends}
    assert fitting(made) & refused == set()
    order = [spec.name for spec in wanted.backends if spec.name in fitting(made)]
    assert [each for each in (made.backend, *made.eligible) if each] == order
    for spec in wanted.backends:
        case = Case(profile=wanted, spec=spec, host=host, facts=KNOWN, policy=policy, named=False, offline=offline)
        failed = [rule(case) for rule in rules.RULES]
        rows = [row for row in made.refused if row.backend == spec.name]
        assert all(row in rows for finding in failed for row in finding.refusals)
        assert all((finding.cell.ok is False) == bool(finding.refusals) for finding in failed)


@given(PROFILES, HOSTS, POLICIES, st.data())
def test_a_newer_driver_that_supports_the_gpus_never_loses_a_backend(
    wanted: Profile, host: HostFacts, policy: Policy, data: st.DataObject
) -> None:
    windows = data.draw(st.booleans())
    versions = WINDOWS if windows else LINUX
    older, newer = sorted((data.draw(st.sampled_from(versions)), data.draw(st.sampled_from(versions))), key=Version)
    last = [KNOWN.last_branch(str(gpu.compute_capability)) for gpu in host.gpus]
    assume(windows or all(row is None or Version(newer).major <= row.branch for row in last))
    driver = Driver(version=older, numbering="windows" if windows else "linux")
    before = decide(wanted, replace(host, driver=driver), policy)
    after = decide(wanted, replace(host, driver=replace(driver, version=newer)), policy)
    assert fitting(before) <= fitting(after)


@given(PROFILES, HOSTS, GPUS, POLICIES)
def test_one_gpu_more_never_adds_a_backend(wanted: Profile, host: HostFacts, gpu: Gpu, policy: Policy) -> None:
    more = replace(host, gpus=(*host.gpus, gpu))
    assert fitting(decide(wanted, more, policy)) <= fitting(decide(wanted, host, policy))


TWINS = HostFacts(
    driver=Driver(version="300.1"),
    gpus=(Gpu(name="A", compute_capability="8.9"), Gpu(name="A", compute_capability="9.0")),
)


@given(PROFILES, HOSTS, st.randoms(use_true_random=False))
def test_the_order_of_the_gpus_does_not_matter(wanted: Profile, host: HostFacts, random: object) -> None:
    turned = list(host.gpus)
    random.shuffle(turned)  # type: ignore[attr-defined]
    one, other = decide(wanted, host), decide(wanted, replace(host, gpus=tuple(turned)))
    assert (one.backend, one.eligible, one.precision) == (other.backend, other.eligible, other.precision)
    assert set(one.refused) == set(other.refused)
    assert set(one.warnings) == set(other.warnings)


@pytest.mark.parametrize("policy", ["minor-version", "strict"])
def test_two_gpus_of_one_name_are_two(policy: Policy) -> None:
    for wanted in EVERY:
        one, other = decide(wanted, TWINS, policy), decide(wanted, replace(TWINS, gpus=TWINS.gpus[::-1]), policy)
        assert set(one.refused) == set(other.refused)
