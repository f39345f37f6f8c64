"""What breaks a rule follows from the set alone: not from its order, not from what it stands on once that is gone."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from envlock import conflicts, facts, store
from envlock.conflicts import Stack, Violation

TEXTS = store.facts_texts()
RULES = conflicts.parse(TEXTS[conflicts.FILE], facts.parse(TEXTS))

# Releases around the edges of the rules; any other version may come as well.
EDGES = {
    "accelerate": ["0.27.2", "0.31.0", "0.32.0", "1.12.0"],
    "bitsandbytes": ["0.38.0", "0.41.2.post2", "0.43.3", "0.45.0", "0.45.1", "0.45.4", "0.46.0", "0.50.2"],
    "datasets": ["2.14.4", "2.14.6", "2.14.7", "5.0.1"],
    "fsspec": ["2023.9.2", "2023.10.0", "2026.9.0"],
    "huggingface-hub": ["0.14.0", "0.36.2", "1.3.0", "2.4.0"],
    "kernels": ["0.9.0"],
    "numpy": ["1.26.4", "2.2.6"],
    "peft": ["0.13.2", "0.14.0", "0.15.0", "0.17.1", "0.18.1"],
    "pyarrow": ["17.0.0", "21.0.0"],
    "scipy": ["1.14.0"],
    "setuptools": ["75.0.0", "82.0.0"],
    "torch": ["2.1.2", "2.1.2+cu118", "2.4.1", "2.5.1+cu121", "2.6.0", "2.8.0+cpu", "2.8.0", "2.11.0", "2.14.1"],
    "torchaudio": ["2.1.2+cu118", "2.4.1", "2.11.0", "2.11.1"],
    "torchvision": ["0.16.2", "0.19.1+cu118", "0.23.0", "0.29.2"],
    "transformers": ["4.31.0", "4.36.2", "4.38.1", "4.44.2", "4.48.0", "4.52.4", "4.57.6", "5.0.0", "5.24.0"],
    "triton": ["2.1.0", "3.0.0", "3.1.0", "3.2.0", "3.8.0"],
    "trl": ["0.11.4", "0.12.0"],
    "xformers": ["0.0.28", "0.0.35"],
    "xtuner": ["0.1.9", "0.1.13", "0.1.17", "0.1.23", "0.2.0"],
}
TIMELESS = settings(deadline=None)

# Rules about the build of a release, not about which release it is.
BUILD = ("-build", "-backend")

numbers = st.integers(0, 99)
any_version = st.builds("{}.{}.{}".format, numbers, numbers, numbers)
packages = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(versions) | any_version for name, versions in EDGES.items()}
)
stacks = st.builds(
    Stack,
    packages=packages,
    python=st.sampled_from(["3.8", "3.9", "3.10", "3.10.13", "3.12", "3.13"]),
    backend=st.sampled_from([None, "cpu", "cu117", "cu118", "cu121", "cu124", "cu128", "cu130", "cu132"]),
    families=st.lists(st.sampled_from(["gemma", "gemma2", "internlm2", "llama", "qwen2"]), max_size=2).map(tuple),
)


def found(stack: Stack) -> tuple[Violation, ...]:
    return conflicts.violations(stack, RULES)


def without(stack: Stack, name: str) -> Stack:
    return replace(stack, packages={other: version for other, version in stack.packages.items() if other != name})


def including(stack: Stack, name: str, version: str) -> Stack:
    if name == "python":
        return replace(stack, python=version)
    return replace(stack, packages={**stack.packages, name: version})


def rests_on(rule: str, name: str) -> bool:
    """Whether a rule asks something only beside that package."""
    return all(name in clause.when for one in RULES.rules if one.id == rule for clause in one.clauses)


@TIMELESS
@given(stacks, st.data())
def test_the_order_of_the_packages_is_nothing(stack: Stack, data: st.DataObject) -> None:
    turned = replace(stack, packages=dict(data.draw(st.permutations(list(stack.packages.items())))))
    assert found(turned) == found(stack)
    assert conflicts.used_digest([turned], RULES) == conflicts.used_digest([stack], RULES)


@TIMELESS
@given(stacks)
def test_a_package_that_no_rule_names_changes_nothing(stack: Stack) -> None:
    assert found(including(stack, "unheard-of", "1.0")) == found(stack)


@TIMELESS
@given(stacks)
def test_without_what_it_stands_beside_a_package_breaks_nothing(stack: Stack) -> None:
    for violation in found(stack):
        for condition in violation.beside:
            rest = found(without(stack, condition.name))
            if condition.name in stack.packages:
                assert not [one for one in rest if condition in one.beside]
                if rests_on(violation.rule, condition.name):
                    assert violation.rule not in {one.rule for one in rest}


@TIMELESS
@given(stacks)
def test_a_package_that_is_gone_breaks_nothing_and_one_that_is_missing_is_cured_by_coming(stack: Stack) -> None:
    for violation in found(stack):
        if violation.have is None:
            cured = found(including(stack, violation.package, "75.0.0"))
            assert violation.rule not in {one.rule for one in cured}
        elif violation.package in stack.packages:
            rest = found(without(stack, violation.package))
            assert (violation.package, violation.have) not in {(one.package, one.have) for one in rest}


@TIMELESS
@given(stacks)
def test_every_violation_is_real_and_its_nearest_version_fits(stack: Stack) -> None:
    for violation in found(stack):
        assert violation.have == stack.version(violation.package)
        if violation.nearest is None or violation.nearest.startswith(("<", ">")):
            continue
        _, _, build = (violation.have or "").partition("+")
        whole = f"{violation.nearest}+{build}" if build and not violation.rule.endswith(BUILD) else violation.nearest
        rest = [one for one in found(including(stack, violation.package, whole)) if one.package == violation.package]
        if violation.package in RULES.releases and not violation.rule.endswith(BUILD):
            assert rest == []
        assert (violation.rule, violation.floor) not in {(one.rule, one.floor) for one in rest}
