"""The rules: each on both sides of each of its bounds, what a violation tells, and every mistake in a file of rules."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from envlock import conflicts, facts, lock, profile, store
from envlock.conflict_rules import Bounds, Clause, Rule
from envlock.conflicts import Given, Stack, Violation
from envlock.errors import EnvlockError

ROOT = Path(__file__).parents[2]
FACTS = facts.parse(store.facts_texts())
RULES = conflicts.parse(store.facts_texts()[conflicts.FILE], FACTS)


def stack(*said: str) -> Stack:
    """A set from texts like `torch 2.4.1`, `python 3.10`, `backend cu121`, `family qwen2`."""
    pairs = [tuple(text.split()) for text in said]
    named = {name: value for name, value in pairs if name != "family"}
    python, backend = named.pop("python", "3.10"), named.pop("backend", None)
    families = tuple(value for name, value in pairs if name == "family")
    return Stack(packages=named, python=python, backend=backend, families=families)


def stack_of(said: tuple[str, ...]) -> Stack:
    return stack(*said)


def broken(*said: str, rules: conflicts.Rules = RULES) -> dict[str, Violation]:
    """What breaks a rule, by the rule."""
    found = conflicts.violations(stack(*said), rules)
    assert len({one.rule for one in found}) == len(found)
    return {one.rule: one for one in found}


def bounds(found: Violation | Bounds) -> str:
    return " ".join(dict.fromkeys(one for one in (found.floor, found.ceiling, found.holes) if one))


# ---- every rule of the file ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A line of the table: what `package` must be beside each of these sets, by `rule`."""

    rule: str
    package: str
    beside: tuple[str, ...]
    bounds: str
    fit: tuple[str, ...]
    unfit: tuple[str, ...]

    def sets(self, versions: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
        for beside, version in itertools.product(self.beside, versions):
            yield version, [*filter(None, beside.split(", ")), f"{self.package} {version}"]


def table() -> tuple[list[Row], dict[str, tuple[str, str, dict[str, str]]]]:
    """The rows of the table, and by the rule its pairs."""
    rows: list[Row] = []
    pairs: dict[str, tuple[str, str, dict[str, str]]] = {}
    text = (ROOT / "tests" / "data" / "conflicts.txt").read_text(encoding="utf-8")
    for section in text.split("\n[")[1:]:
        header, _, body = section.partition("]\n")
        rule, package, *other = header.split()
        if other:
            words = body.replace(",", " ").split()
            pairs[rule] = (package, other[0], dict(zip(words[::2], words[1::2], strict=True)))
            continue
        for line in filter(None, body.splitlines()):
            beside, bound, fit, unfit = (part.strip() for part in line.split(";"))
            sets = tuple(one.strip() for one in beside.split("|"))
            rows.append(Row(rule, package, sets, bound, tuple(fit.split()), tuple(unfit.split())))
    return rows, pairs


ROWS, PAIRS = table()
BOUNDED = [row for row in ROWS if row.bounds != "-"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.rule}: {' | '.join(row.beside)}")
def test_a_version_inside_the_bounds_breaks_no_rule(row: Row) -> None:
    for version, said in row.sets(row.fit):
        assert row.rule not in broken(*said), (version, said)
    assert row.fit


@pytest.mark.parametrize("row", BOUNDED, ids=lambda row: f"{row.rule}: {' | '.join(row.beside)}")
def test_a_version_outside_of_them_does(row: Row) -> None:
    for version, said in row.sets(row.unfit):
        found = broken(*said)[row.rule]
        assert (found.package, found.have, bounds(found)) == (row.package, version, row.bounds)
    assert row.unfit


@pytest.mark.parametrize("rule", PAIRS)
def test_each_release_of_a_pair_takes_its_own_other_only(rule: str) -> None:
    package, other, pairs = PAIRS[rule]
    backend = "backend cu128"
    for (release, wanted), strange in zip(pairs.items(), [*list(pairs.values())[1:], "1.0"], strict=True):
        assert rule not in broken(f"{package} {release}", f"{other} {wanted}", backend)
        strangers = {strange, "1.0", f"{wanted}.post1"} - {wanted}
        for version in strangers:
            found = broken(f"{package} {release}", f"{other} {version}", backend)[rule]
            assert (found.have, found.floor, found.ceiling) == (version, f"=={wanted}", f"=={wanted}")


# What must be there, or must not: beside each of these sets, without the package, or with it.
MISSING: dict[str, list[tuple[str, ...]]] = {
    "undeclared-setuptools": [
        ("triton 3.1.0",),
        ("triton 2.1.0", "backend cpu"),
        ("bitsandbytes 0.41.0", "torch 2.1.2+cu118"),
        ("bitsandbytes 0.45.0", "torch 2.5.1", "backend cu124"),
    ],
    "bitsandbytes-scipy": [("bitsandbytes 0.41.0",), ("bitsandbytes 0.41.3.post2",)],
}
TOO_MANY: dict[str, list[tuple[str, ...]]] = {
    "bitsandbytes-kernels": [("bitsandbytes 0.50.0", "kernels 0.9.0"), ("bitsandbytes 0.50.2", "kernels 0.9.0")]
}


def breaking() -> dict[str, list[tuple[str, ...]]]:
    """Every set of this file that breaks a rule, by the rule."""
    found = {rule: list(sets) for rule, sets in (MISSING | TOO_MANY).items()}
    for row in BOUNDED:
        found.setdefault(row.rule, []).extend(tuple(said) for _, said in row.sets(row.unfit))
    for rule, (package, other, pairs) in PAIRS.items():
        each = [(f"{package} {release}", f"{other} 1.0", "backend cu128") for release in pairs]
        found.setdefault(rule, []).extend(each)
    return found


def test_every_clause_of_the_file_is_tried() -> None:
    tried = breaking()
    assert tried.keys() == {rule.id for rule in RULES.rules}
    untried = [
        (rule.id, clause) for rule in RULES.rules for clause in rule.clauses if not is_missed(rule, clause, tried)
    ]
    assert untried == []


def test_a_clause_with_the_bounds_of_another_is_not_taken_for_tried() -> None:
    (rule,) = [one for one in RULES.rules if one.id == "torch-numpy"]
    (clause,) = rule.clauses
    added = replace(clause, when={"torch": "<2.3", "scipy": ">=1"})
    doubled = replace(rule, clauses=(clause, added))
    assert is_missed(doubled, added, breaking()) is False


def is_missed(rule: Rule, clause: Clause, tried: dict[str, list[tuple[str, ...]]]) -> bool:
    """Whether some set breaks no rule, or another bound of it, once that clause is gone."""
    whole = replace(RULES, rules=(rule,))
    rest = replace(RULES, rules=(replace(rule, clauses=tuple(one for one in rule.clauses if one is not clause)),))
    sets = map(stack_of, tried[rule.id])
    return any(conflicts.violations(one, whole) != conflicts.violations(one, rest) for one in sets)


@pytest.mark.parametrize("said", MISSING["undeclared-setuptools"])
def test_a_package_that_is_imported_undeclared_must_be_there(said: tuple[str, ...]) -> None:
    found = broken(*said)["undeclared-setuptools"]
    assert (found.package, found.have, bounds(found), found.nearest) == ("setuptools", None, "", None)
    assert "undeclared-setuptools" not in broken(*said, "setuptools 84.0.0")


@pytest.mark.parametrize(
    "said",
    [
        ("triton 3.2.0",),
        ("bitsandbytes 0.45.1", "torch 2.5.1+cu118"),
        ("bitsandbytes 0.40.2", "torch 2.5.1+cu118"),
        ("bitsandbytes 0.45.0", "torch 2.5.1+cpu"),
        ("bitsandbytes 0.43.1", "torch 2.6.0", "triton 3.2.0"),
    ],
)
def test_where_nothing_imports_it_it_may_be_missing(said: tuple[str, ...]) -> None:
    assert "undeclared-setuptools" not in broken(*said)


def test_bitsandbytes_needs_scipy_and_does_not_say_so() -> None:
    for version in ("0.41.0", "0.41.3.post2"):
        assert broken(f"bitsandbytes {version}")["bitsandbytes-scipy"].have is None
        assert "bitsandbytes-scipy" not in broken(f"bitsandbytes {version}", "scipy 1.14.0")
    for version in ("0.40.2", "0.42.0"):
        assert "bitsandbytes-scipy" not in broken(f"bitsandbytes {version}")


def test_kernels_must_not_be_there() -> None:
    for version in ("0.50.0", "0.50.2"):
        found = broken(f"bitsandbytes {version}", "kernels 0.9.0")["bitsandbytes-kernels"]
        assert (found.package, found.have, bounds(found), found.nearest) == ("kernels", "0.9.0", "", None)
        assert "bitsandbytes-kernels" not in broken(f"bitsandbytes {version}")
    for version in ("0.49.2", "0.51.0"):
        assert "bitsandbytes-kernels" not in broken(f"bitsandbytes {version}", "kernels 0.9.0")


# InternLM2's floor is for its code as it is on the hub today; the profile tells whom this backend is for.
WAIVED = {("xtuner-internlm2", "cu118"): {"internlm2-transformers"}}


@pytest.mark.parametrize("path", sorted((ROOT / "lockfiles").glob("*.lock")), ids=lambda path: path.stem)
def test_what_is_shipped_breaks_no_rule(path: Path) -> None:
    held = lock.parse(path.read_text(encoding="utf-8"), path.name)
    source = ROOT / "profiles" / f"{held.profile}.toml"
    families = profile.parse(source.read_text(encoding="utf-8"), source.name).families
    assert held.variants
    for locked in held.variants:
        variant, packages = locked.variant, {package.name: package.version for package in locked.packages}
        one = Stack(packages=packages, python=variant.python, backend=variant.backend, families=families)
        found = {violation.rule for violation in conflicts.violations(one, RULES)}
        assert found == WAIVED.get((held.profile, variant.name), set()), variant.name


# ---- what a violation tells ---------------------------------------------------------------------------------------


def test_a_violation_says_what_it_is_beside_and_why() -> None:
    found = broken("torch 2.6.0+cu124", "triton 3.2.0", "bitsandbytes 0.43.1")["bitsandbytes-triton-ops"]
    assert found.beside == (Given(name="triton", have="3.2.0", when=">=3.2"),)
    assert "triton.ops" in found.because
    assert "No module named 'triton.ops'" in found.evidence


def test_a_backend_and_a_family_are_told_as_well() -> None:
    found = broken("transformers 4.36.2", "bitsandbytes 0.43.0", "torch 2.5.1", "family internlm2")
    assert found["internlm2-transformers"].beside == (Given(name="family", have="internlm2", when="internlm2"),)
    assert found["bitsandbytes-cuda-library"].beside == (Given(name="backend", have="cu124", when="cuda"),)
    (build,) = conflicts.violations(stack("torch 2.5.1", "backend cu121"), RULES)
    assert build.beside == (Given(name="backend", have="cu121", when="any"),)


def test_the_same_bounds_are_told_once_and_others_apart() -> None:
    said = ("torch 2.6.0", "triton 3.2.0", "bitsandbytes 0.43.1", "setuptools 75.0.0")
    assert [one.rule for one in conflicts.violations(stack(*said), RULES)] == ["bitsandbytes-triton-ops"]
    both = conflicts.violations(stack("transformers 4.37.0", "family gemma", "family gemma2"), RULES)
    assert [(one.rule, one.floor) for one in both] == [("model-type", ">=4.38.0"), ("model-type", ">=4.42.0")]
    assert [one.nearest for one in both] == ["4.42.0", "4.42.0"]


@pytest.mark.parametrize(
    ("said", "rule", "nearest"),
    [
        # below the floor and above the ceiling: the first release inside
        ("triton 3.2.0, bitsandbytes 0.43.1", "bitsandbytes-triton-ops", "0.45.1"),
        ("backend cu128, bitsandbytes 0.45.2", "bitsandbytes-cuda-library", "0.45.3"),
        ("family internlm2, transformers 4.57.6", "internlm2-transformers", "4.48.3"),
        ("peft 0.17.1, transformers 5.24.0", "peft-transformers", "4.57.6"),
        # in a hole: the next one
        ("backend cpu, bitsandbytes 0.45.4", "bitsandbytes-no-cpu-library", "0.45.5"),
        ("xtuner 0.1.23, transformers 4.38.1", "xtuner-transformers", "4.39.0"),
        ("xtuner 0.1.13, transformers 4.35.0", "xtuner-transformers", "4.36.0"),
        ("backend cu117, bitsandbytes 0.48.0", "bitsandbytes-cuda-library", "0.50.0"),
        # no yanked release (4.46.0), and none that breaks another rule about the package
        ("xtuner 0.1.17, torch 2.2.0, transformers 4.48.0", "xtuner-torch", "2.1.2"),
        ("xtuner 0.1.23, family internlm2, transformers 4.37.0", "internlm2-transformers", "4.39.0"),
        ("peft 0.14.0, xtuner 0.1.16, transformers 4.38.0", "xtuner-transformers", "4.43.0"),
        # all rules together leave nothing
        ("xtuner 0.2.0, family internlm2, family gemma3, transformers 4.48.3", "xtuner-transformers", None),
        ("backend cu92, bitsandbytes 0.50.2", "bitsandbytes-cuda-library", None),
        # another release of the same build
        ("xtuner 0.1.17, backend cu118, torch 2.2.0+cu118", "xtuner-torch", "2.1.2"),
        ("xtuner 0.1.17, backend cu118, torch 2.2.0", "xtuner-torch", None),
        # another build of the same release
        ("backend cu118, torch 2.4.1+cu121", "torch-backend", "2.4.1+cu118"),
        ("torch 2.4.1, torchvision 0.19.1+cpu", "torchvision-build", "0.19.1"),
        # of a release without that build the next one that has it: PyPI's own in place of PyPI's
        ("backend cu128, torch 2.6.0+cu124", "torch-backend", "2.7.0+cu128"),
        ("backend cu128, torch 2.6.0", "torch-backend", "2.8.0"),
        ("backend cu118, torch 2.7.0", "torch-backend", "2.6.0+cu118"),
        ("backend cu118, torch 2.99.0+cu121", "torch-backend", "2.6.0+cu118"),
        ("backend cu92, torch 2.6.0", "torch-backend", None),
        ("backend cu128, torch 2.6.0+cu124, torchvision 0.21.0", "torch-backend", None),
        # no build that was never made
        ("torch 2.8.0+cu128, xformers 0.0.28", "xformers-torch", None),
        ("torchaudio 2.4.1, torch 2.4.0", "torchaudio-torch", "2.4.1"),
        # releases that are not known: the bound, which is a version if it lies inside
        ("torch 2.1.2, numpy 2.2.6", "torch-numpy", "<2"),
        ("peft 0.15.0, accelerate 0.27.2", "peft-accelerate", "0.32.0"),
        ("transformers 4.57.6, huggingface-hub 1.5.0", "transformers-hub", "<1.0"),
        ("transformers 4.57.6, huggingface-hub 0.26.0", "transformers-hub", "0.34.0"),
        ("xtuner 0.1.16, torchvision 0.17.0", "xtuner-torchvision", "0.16.2"),
        ("xtuner 0.1.23, python 3.12", "xtuner-python", "<3.11"),
    ],
)
def test_the_nearest_version_that_fits(said: str, rule: str, nearest: str | None) -> None:
    assert broken(*said.split(", "))[rule].nearest == nearest


@pytest.mark.parametrize(
    ("said", "rule", "told"),
    [
        ("torch 2.2.0, numpy 2.0.0", "torch-numpy", "numpy <2"),
        ("torch 2.6.0, triton 3.1.0", "torch-triton", "triton ==3.2.0"),
        ("torch 2.8.0+cu128, torchvision 0.23.0", "torchvision-build", "torchvision ===0.23.0+cu128"),
        ("backend cu128, torch 2.6.0", "torch-backend", "torch >=2.8.0, <=2.10.0 (2.8.0 is the nearest)"),
        ("peft 0.15.0, accelerate 0.27.2", "peft-accelerate", "accelerate >=0.32.0 (0.32.0 is the nearest)"),
        (
            "torch 2.6.0, bitsandbytes 0.43.0",
            "bitsandbytes-cuda-library",
            "bitsandbytes >=0.43.1 (0.45.1 is the nearest that breaks no rule)",
        ),
        ("triton 3.1.0", "undeclared-setuptools", "any setuptools"),
        ("bitsandbytes 0.50.0, kernels 0.9.0", "bitsandbytes-kernels", "no kernels"),
    ],
)
def test_what_would_fit_is_said_once(said: str, rule: str, told: str) -> None:
    assert conflicts.fitting(broken(*said.split(", "))[rule]) == told


def test_of_a_package_in_a_hole_whose_releases_are_not_known_no_version_is_made_up() -> None:
    rules = read(bounds='[{ when = { alpha = ">=1" }, floor = ">=1.0", except = "!=1.5" }]')
    assert broken("alpha 1", "beta 1.5", rules=rules)["one"].nearest is None
    assert broken("alpha 1", "beta 0.5", rules=rules)["one"].nearest == "1.0"


def test_bounds_of_a_package_that_is_missing() -> None:
    rules = read(bounds='[{ when = { alpha = ">=1" }, required = true, floor = ">=1.0", ceiling = "<2" }]')
    found = broken("alpha 1", rules=rules)["one"]
    assert (found.have, found.floor, found.ceiling, found.nearest) == (None, ">=1.0", "<2", "1.0")
    assert broken("alpha 1", "beta 2.0", rules=rules)["one"].nearest == "<2"
    assert not broken("alpha 1", "beta 1.9", rules=rules)


def test_without_a_known_release_no_library_is_asked_for() -> None:
    nothing = facts.parse({})
    rules = conflicts.parse(store.facts_texts()[conflicts.FILE], nothing)
    assert "bitsandbytes-cuda-library" not in broken("bitsandbytes 0.41.0", "backend cu128", rules=rules)


# ---- what pip takes from the index of a backend -------------------------------------------------------------------

FAMILY = {"torch": "2.6.0", "torchvision": "0.21.0", "numpy": "1.26.4"}
CU118, CU126 = "https://index.example/whl/cu118", "https://index.example/whl/cu126/#x"


@pytest.mark.parametrize(
    ("torch", "addresses", "local"),
    [
        ("2.6.0", (CU118,), "cu118"),
        ("2.6.0", (CU118, CU126), "cu126"),
        ("2.6.0+cu118", (CU126, CU118), "cu118"),
        ("2.6.0", ("https://index.example/whl/cpu?a=b",), "cpu"),
        ("2.6.0+cu124", (CU118,), None),
        ("2.7.0", (CU118,), None),
        ("9.9", (CU126,), None),
        ("2.6.0", ("https://index.example/simple", "wheels"), None),
    ],
)
def test_the_family_of_torch_is_of_the_index(torch: str, addresses: tuple[str, ...], local: str | None) -> None:
    build = f"+{local}" if local else ""
    expected = {"torch": torch.partition("+")[0] + build, "torchvision": f"0.21.0{build}", "numpy": "1.26.4"}
    found = conflicts.as_indexed({**FAMILY, "torch": torch}, addresses, FACTS)
    assert found == expected | ({} if local else {"torch": torch})


def test_without_torch_no_index_changes_anything() -> None:
    assert conflicts.as_indexed({"torchvision": "0.21.0"}, (CU118,), FACTS) == {"torchvision": "0.21.0"}
    assert conflicts.backends((CU118, CU118, CU126, "x"), FACTS) == ("cu118", "cu126")


def test_a_violation_and_the_number_of_rules_in_words() -> None:
    said = ("torch 2.2.0", "numpy 2.0.0")
    assert conflicts.told(broken(*said)["torch-numpy"]) == "numpy 2.0.0 beside torch 2.2.0"
    assert conflicts.told(broken("triton 3.1.0")["undeclared-setuptools"]) == (
        "setuptools is missing beside triton 3.1.0"
    )
    assert conflicts.judged(stack(*said), RULES) == 2
    assert conflicts.judged(stack("rich 13.7.1"), RULES) == 0


# ---- what makes a lock stale --------------------------------------------------------------------------------------

USED = [stack("torch 2.4.1", "numpy 2.0.0", "backend cu121"), stack("torch 2.2.2", "numpy 1.26.4", "backend cu121")]


def digest(text: str, *sets: Stack) -> str:
    return conflicts.used_digest(sets or USED, conflicts.parse(text, FACTS))


def test_a_rule_that_touches_the_packages_moves_the_digest() -> None:
    text = store.facts_texts()[conflicts.FILE]
    moved = text.replace('torch = "<2.3" }, ceiling = "<2"', 'torch = "<2.3" }, ceiling = "<1.27"')
    assert moved != text
    assert digest(moved) != digest(text)
    assert digest(moved, USED[0]) == digest(text, USED[0])


def test_another_rule_and_other_words_do_not() -> None:
    text = store.facts_texts()[conflicts.FILE]
    for old, new in [(">=0.12.0", ">=0.13.0"), ("torch before 2.3 is built", "torch before 2.3 was built")]:
        assert text.replace(old, new) != text
        assert digest(text.replace(old, new)) == digest(text)


def test_the_digest_is_of_sets_whatever_their_order() -> None:
    text = store.facts_texts()[conflicts.FILE]
    assert digest(text, *USED) == digest(text, *reversed(USED)) != digest(text, USED[0])


# ---- a file of rules ----------------------------------------------------------------------------------------------

RULE = {
    "id": '"one"',
    "kind": '"silent"',
    "package": '"beta"',
    "because": '"beta breaks alpha"',
    "evidence": '"seen"',
    "source": '"a run"',
    "date": '"2026-12-01"',
    "status": '"verified"',
    "bounds": '[{ when = { alpha = ">=1" }, ceiling = "<2" }]',
}
RELEASES = {
    "package": '"beta"',
    "versions": '["1.0"]',
    "source": '"a list"',
    "date": "2026-12-01",
    "status": '"verified"',
}


def written(table: str, values: dict[str, str]) -> str:
    return "\n".join([f"[[{table}]]", *(f"{key} = {value}" for key, value in values.items() if value), ""])


def read(**changed: str) -> conflicts.Rules:
    return conflicts.parse(written("rule", RULE | changed), FACTS)


def problems(text: str) -> list[str]:
    with pytest.raises(EnvlockError) as caught:
        conflicts.parse(text, FACTS)
    assert caught.value.code == "facts-invalid"
    return [str(problem) for problem in caught.value.problems]


def test_a_rule_is_read_as_it_is_written() -> None:
    (rule,) = read().rules
    assert (rule.id, rule.kind, rule.package, rule.because) == ("one", "silent", "beta", "beta breaks alpha")
    assert (rule.evidence, rule.source, rule.date, rule.status) == ("seen", "a run", "2026-12-01", "verified")
    (clause,) = rule.clauses
    assert (clause.when, clause.bounds) == ({"alpha": ">=1"}, Bounds(ceiling="<2"))


def test_releases_are_sorted_and_a_date_may_be_one() -> None:
    text = written("releases", RELEASES | {"versions": '["1.10", "1.9", "1.0rc1"]'})
    rules = conflicts.parse(text, FACTS)
    assert rules.rules == ()
    assert rules.releases["beta"] == ("1.0rc1", "1.9", "1.10")
    assert rules.releases["torch"][0] == "2.0.0"
    assert rules.releases["bitsandbytes"][-1] == "0.50.2"


NAME = "expected lower-case letters and digits, joined by `-`"
CONDITION = "is missing (expected a condition: when, backend, families)"
ASKED = (
    "is missing (expected something to ask for: floor, ceiling, exactly, except, required, forbidden, library, build)"
)
FLOOR, CEILING = "expected `>=` or `>`, and a version", "expected `<` or `<=`, and a version"


@pytest.mark.parametrize(
    ("key", "value", "line", "told"),
    [
        ("id", "", 1, f"is missing ({NAME})"),
        ("id", '"One"', 2, f'is "One" ({NAME})'),
        ("kind", '"loud"', 3, 'is "loud" (expected silent or metadata)'),
        ("kind", "", 1, "is missing (expected silent or metadata)"),
        ("package", "1", 4, f"is 1 ({NAME})"),
        ("because", '""', 5, 'is "" (expected a text)'),
        ("evidence", "[]", 6, "is a list (expected a text)"),
        ("source", "", 1, "is missing (expected a text)"),
        ("date", '"today"', 8, 'is "today" (expected a date like 2026-12-01)'),
        ("status", "true", 9, "is true (expected verified or sourced or claimed)"),
        ("bounds", "", 1, "is missing (expected at least one row)"),
        ("bounds", "[]", 10, "is missing (expected at least one row)"),
        ("bounds", '"<2"', 10, 'is "<2" (expected a list of objects)'),
        ("bond", "[1]", 11, "unknown key; did you mean `bounds`?"),
    ],
)
def test_what_is_wrong_with_a_rule_is_told_by_line_and_key(key: str, value: str, line: int, told: str) -> None:
    assert problems(written("rule", RULE | {key: value})) == [f"conflicts.toml:{line}: `rule[0].{key}`: {told}"]


def test_a_row_that_is_none() -> None:
    text = written("rule", RULE | {"bounds": "[\n1]"})
    assert problems(text) == ["conflicts.toml:11: `rule[0].bounds[0]`: is 1 (expected an object)"]


@pytest.mark.parametrize(
    ("row", "key", "told"),
    [
        ('ceiling = "<2"', "when", CONDITION),
        ('when = {}, ceiling = "<2"', "when", CONDITION),
        ('when = { alpha = ">=1" }', "floor", ASKED),
        ('when = { alpha = ">=1" }, required = false', "floor", ASKED),
        ('when = ">=1", ceiling = "<2"', "when", 'is ">=1" (expected an object)'),
        ('when = { alpha = "1.0" }, ceiling = "<2"', "when.alpha", 'is "1.0" (expected a specifier)'),
        ('when = { alpha = ">=x" }, ceiling = "<2"', "when.alpha", 'is ">=x" (expected a specifier)'),
        ('when = { Alpha = ">=1" }, ceiling = "<2"', "when.Alpha", f"is no package's name ({NAME})"),
        ('when = { "al.pha" = ">=1" }, ceiling = "<2"', "when.al.pha", f"is no package's name ({NAME})"),
        ('backend = "rocm", ceiling = "<2"', "backend", 'is "rocm" (expected cpu or cuda)'),
        ('families = ["Gemma"], ceiling = "<2"', "families[0]", 'is "Gemma" (expected a model type)'),
        ('backend = "cpu", floor = "<2"', "floor", f'is "<2" ({FLOOR})'),
        ('backend = "cpu", floor = ">=1..2"', "floor", f'is ">=1..2" ({FLOOR})'),
        ('backend = "cpu", ceiling = "<2,!=1"', "ceiling", f'is "<2,!=1" ({CEILING})'),
        ('backend = "cpu", exactly = "==2.*"', "exactly", 'is "==2.*" (expected `==` and a version)'),
        (
            'backend = "cpu", except = "==2"',
            "except",
            'is "==2" (expected `!=` and a version, or several joined by `,`)',
        ),
        (
            'backend = "cpu", floor = ">=2", ceiling = "<1"',
            "ceiling",
            "is `<1` (expected one that leaves room above `>=2`)",
        ),
        (
            'backend = "cpu", floor = ">=2", ceiling = "<2"',
            "ceiling",
            "is `<2` (expected one that leaves room above `>=2`)",
        ),
        ('backend = "cpu", floor = ">=2", exactly = "==2"', "exactly", "stands beside `floor`"),
        ('backend = "cpu", required = true, forbidden = true', "forbidden", "stands beside `required`"),
        ('backend = "cpu", forbidden = 1', "forbidden", "is 1 (expected true or false)"),
        (
            'backend = "cpu", build = "alpha"',
            "build",
            "is `alpha` (expected `backend`, or a package that `when` names)",
        ),
        ('backend = "cpu", floors = ">=1", ceiling = "<2"', "floors", "unknown key; did you mean `floor`?"),
    ],
)
def test_what_is_wrong_with_a_row_of_bounds(row: str, key: str, told: str) -> None:
    text = written("rule", RULE | {"bounds": f"[\n    {{ {row} }},\n]"})
    assert problems(text) == [f"conflicts.toml:11: `rule[0].bounds[0].{key}`: {told}"]


@pytest.mark.parametrize(("row", "owner"), [("library = true", "bitsandbytes"), ('build = "backend"', "torch")])
def test_what_only_one_package_can_be_asked_for(row: str, owner: str) -> None:
    told = f"`rule[0].package`: is `beta` (expected `{owner}`, of which builds are known)"
    text = written("rule", RULE | {"bounds": f'[{{ backend = "cuda", {row} }}]'})
    assert problems(text) == [f"conflicts.toml:4: {told}"]
    assert len(read(bounds=f'[{{ backend = "cuda", {row} }}]', package=f'"{owner}"').rules) == 1


@pytest.mark.parametrize(
    ("key", "value", "line", "told"),
    [
        ("package", "", 1, f"is missing ({NAME})"),
        ("versions", "", 1, "holds none (expected versions)"),
        ("versions", '["1.0", "x", "1..1"]', 3, 'holds "x", "1..1" (expected versions)'),
        ("versions", '"1.0"', 3, 'is "1.0" (expected a list of texts)'),
        ("source", "", 1, "is missing (expected a text)"),
        ("date", "1", 5, "is 1 (expected a date like 2026-12-01)"),
        ("status", "", 1, "is missing (expected verified or sourced or claimed)"),
        ("version", '"1"', 7, "unknown key; did you mean `versions`?"),
    ],
)
def test_what_is_wrong_with_a_list_of_releases(key: str, value: str, line: int, told: str) -> None:
    found = problems(written("releases", RELEASES | {key: value}))
    assert found == [f"conflicts.toml:{line}: `releases[0].{key}`: {told}"]


def test_every_mistake_is_told_at_once() -> None:
    first = written("rule", RULE | {"kind": "", "date": ""})
    second = written("rule", RULE | {"bounds": '[{ backend = "cpu", floor = "1" }]'})
    assert problems(first + second + written("release", RELEASES)) == [
        "conflicts.toml:19: `release`: unknown key; did you mean `releases`?",
        "conflicts.toml:1: `rule[0].kind`: is missing (expected silent or metadata)",
        "conflicts.toml:1: `rule[0].date`: is missing (expected a date like 2026-12-01)",
        'conflicts.toml:18: `rule[1].bounds[0].floor`: is "1" (expected `>=` or `>`, and a version)',
        "conflicts.toml:1: `rule`: names 2 of them `one`",
    ]


def test_what_is_no_toml() -> None:
    assert problems("[[rule]]\nid = ") == ["conflicts.toml:2: invalid value, at the end of the file"]
    assert problems("rule = 1") == ["conflicts.toml:1: `rule`: is 1 (expected a list of objects)"]
