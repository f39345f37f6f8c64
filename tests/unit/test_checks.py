from __future__ import annotations

from collections.abc import Sequence

import pytest

from envlock import checks
from envlock.errors import Misuse
from envlock.model import Check, Device, Level, Status, Verdict, Verified

KNOWN = ("drift.driver", "drift.gpus", "integrity.record", "kernels.nf4", "kernels.gemm-fp32", "train.gemma2.merge")


def check(identity: str, status: Status = "pass", message: str | None = None) -> Check:
    return Check(id=identity, status=status, message=message)


def verified(
    verdict: Verdict,
    found: Sequence[Check] = (),
    *,
    level: Level = "kernels",
    device: Device = "cpu",
    only: tuple[str, ...] = (),
    skip: tuple[str, ...] = (),
) -> Verified:
    return Verified(
        path=".envlock/gemma",
        profile="gemma",
        variant="cpu",
        level=level,
        device=None if verdict == "intact" else device,
        verdict=verdict,
        checks=tuple(found),
        only=only,
        skip=skip,
    )


def test_levels_grow_and_keep_the_order_of_the_groups() -> None:
    quick, kernels = checks.groups("quick"), checks.groups("kernels")
    assert quick == kernels[: len(quick)]
    assert list(kernels) == [group for group in checks.GROUPS if group in kernels]


def test_ordered_puts_groups_in_order_and_keeps_each_as_it_came() -> None:
    found = [check("kernels.nf4"), check("drift.gpus"), check("import.torch"), check("drift.driver")]
    assert [each.id for each in checks.ordered(found)] == ["drift.gpus", "drift.driver", "import.torch", "kernels.nf4"]


def test_root_is_the_first_failure_by_group() -> None:
    first = check("integrity.record", "fail")
    assert checks.root([check("kernels.nf4", "fail"), check("drift.driver", "warn"), first]) == first
    assert checks.root([check("drift.driver", "warn"), check("kernels.nf4", "skip")]) is None


@pytest.mark.parametrize(
    ("failed", "group", "caused"),
    [
        ("integrity.record", "import", True),
        ("integrity.strangers", "kernels", True),
        ("drift.glibc", "import", True),
        ("drift.glibc", "integrity", False),
        ("drift.platform", "integrity", True),
        ("drift.driver", "import", False),
        ("drift.driver", "kernels", True),
        ("drift.gpus", "integrity", False),
        ("kernels.nf4", "kernels", False),
    ],
)
def test_cause(failed: str, group: str, *, caused: bool) -> None:
    found = [check("drift.container"), check(failed, "fail")]
    assert checks.cause(group, found) == (failed if caused else None)
    assert checks.cause(group, [check(failed, "warn")]) is None


def test_the_first_of_two_causes_is_named() -> None:
    found = [check("integrity.record", "fail"), check("drift.glibc", "fail")]
    assert checks.cause("kernels", found) == "drift.glibc"


def test_skip_after_names_what_it_follows_from() -> None:
    (skipped,) = checks.skip_after("integrity.record", ["kernels.nf4"])
    assert (skipped.id, skipped.status, skipped.message) == ("kernels.nf4", "skip", "follows from integrity.record")


# ---- selection ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "skip", "wanted"),
    [
        ((), (), KNOWN),
        (("drift",), (), ("drift.driver", "drift.gpus")),
        (("drift.gpus", "kernels.nf4"), (), ("drift.gpus", "kernels.nf4")),
        ((), ("drift", "kernels.nf4"), ("integrity.record", "kernels.gemm-fp32", "train.gemma2.merge")),
        (("drift",), ("drift.gpus",), ("drift.driver",)),
        (("train.gemma2",), (), ("train.gemma2.merge",)),
    ],
)
def test_selection(only: tuple[str, ...], skip: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    selection = checks.select(only, skip, known=KNOWN, open_groups=("import",))
    assert tuple(name for name in KNOWN if selection.wants(name)) == wanted
    entered = {name.partition(".")[0] for name in wanted}
    assert entered <= {group for group in checks.GROUPS if selection.enters(group)}


def test_a_prefix_of_a_name_is_not_the_name() -> None:
    selection = checks.select(("kernels.nf4",), (), known=(*KNOWN, "kernels.nf44"), open_groups=())
    assert not selection.wants("kernels.nf44")


def test_a_group_that_is_skipped_or_not_named_is_not_entered() -> None:
    assert not checks.select((), ("drift",), known=KNOWN, open_groups=()).enters("drift")
    assert not checks.select(("kernels",), (), known=KNOWN, open_groups=()).enters("drift")


def test_an_open_group_takes_any_package() -> None:
    assert checks.select(("import.whatever",), (), known=KNOWN, open_groups=("import",)).wants("import.whatever")


@pytest.mark.parametrize(
    ("only", "skip", "says"),
    [
        (("kernel",), (), "no check is called `kernel`; did you mean `kernels`?"),
        ((), ("kernels.nf5",), "no check is called `kernels.nf5`; did you mean `kernels.nf4`?"),
        (("import.",), (), "no check is called `import.`; did you mean `import`?"),
        (("nf4",), (), "no check is called `nf4`; did you mean `kernels.nf4`?"),
        (("gemm",), (), "no check is called `gemm`; did you mean `kernels.gemm-fp32` or `train.gemma2`?"),
        (("",), (), "no check is called ``"),
        (("zzz",), (), "no check is called `zzz`"),
    ],
)
def test_what_names_nothing_is_refused(only: tuple[str, ...], skip: tuple[str, ...], says: str) -> None:
    with pytest.raises(Misuse) as refused:
        checks.select(only, skip, known=KNOWN, open_groups=("import",))
    assert refused.value.code == "check-unknown"
    assert (refused.value.message, refused.value.hint) == (says, "envlock verify --help")


def test_all_that_names_nothing_is_reported_at_once() -> None:
    with pytest.raises(Misuse) as refused:
        checks.select(("drit", "drift"), ("kernelz",), known=KNOWN, open_groups=())
    assert [problem.key for problem in refused.value.problems] == ["--only", "--skip"]


# ---- the verdict --------------------------------------------------------------------------------------------------


SKIPPED = check("kernels.nf4", "skip", "bitsandbytes has no CPU kernels")


@pytest.mark.parametrize(
    ("found", "device", "verdict"),
    [
        ([check("import.torch"), check("kernels.nf4")], "cpu", "verified-on-cpu"),
        ([check("import.torch"), check("kernels.nf4")], "cuda", "verified-on-gpu"),
        ([check("drift.driver", "warn"), check("kernels.gemm-fp32"), SKIPPED], "cpu", "verified-on-cpu"),
        ([check("drift.driver", "fail"), check("kernels.nf4")], "cuda", "failed"),
        # Nothing was asked to compute: no device is claimed.
        ([check("drift.driver")], None, "intact"),
        ([check("drift.driver", "warn"), check("integrity.record")], None, "intact"),
        ([check("import.torch"), check("import.numpy", "skip")], None, "intact"),
        # It was, and nothing passed.
        ([SKIPPED], None, "could-not-run"),
        ([check("drift.gpus", "skip")], None, "could-not-run"),
        ([check("import.torch"), SKIPPED], None, "could-not-run"),
        ([check("integrity.record"), check("import.torch", "skip", "hung")], None, "could-not-run"),
        ([check("train.gemma2.merge", "skip")], None, "could-not-run"),
    ],
)
def test_verdict(found: list[Check], device: Device | None, verdict: Verdict) -> None:
    assert checks.verdict(found, device) == verdict


@pytest.mark.parametrize(("status", "verdict"), [("pass", "could-not-run"), ("fail", "failed")])
def test_what_could_not_be_started_is_no_proof(status: Status, verdict: Verdict) -> None:
    assert checks.verdict([check("drift.driver", status)], None, ran=False) == verdict


@pytest.mark.parametrize(
    ("found", "computed"),
    [
        ([check("kernels.nf4")], True),
        ([check("train.gemma2.merge", "fail")], True),
        ([SKIPPED, check("import.torch")], False),
        ([], False),
    ],
)
def test_a_device_is_named_where_something_was_computed(found: list[Check], *, computed: bool) -> None:
    assert checks.computed(found) == computed


@pytest.mark.parametrize("device", ["cuda", "cpu", None])
def test_requiring_a_gpu_turns_each_bare_skip_into_a_failure(device: Device | None) -> None:
    found = [
        check("import.torch"),
        check("kernels.triton", "skip", "no compiler"),
        check("kernels.nf4", "skip", "follows from import.bitsandbytes"),
    ]
    strict = checks.require_gpu(found, device)
    assert [each.status for each in strict] == ["pass", "fail", "skip"]
    assert strict[1].message == "no compiler"
    assert strict[1].fix == "envlock detect"


def test_requiring_a_gpu_asks_no_more_of_what_ran_on_one() -> None:
    found = (check("import.torch"), check("kernels.cuda"))
    assert checks.require_gpu(found, "cuda") == found


def test_requiring_a_gpu_asks_for_nothing_of_the_machine_that_there_is_none_of() -> None:
    found = (check("drift.driver-library", "skip", "no two versions to compare"), check("kernels.cuda"))
    assert checks.require_gpu(found, "cuda") == found
    assert checks.sentence(verified("verified-on-gpu", list(found), device="cuda")) == "verified on GPU"


def test_requiring_a_gpu_where_nothing_was_even_skipped_is_a_failure_too() -> None:
    strict = checks.require_gpu([check("import.numpy")], "cpu")
    assert checks.verdict(strict, "cpu") == "failed"
    assert [each.id for each in strict] == ["import.numpy", "kernels.cuda"]


# ---- the sentence -------------------------------------------------------------------------------------------------

NF4 = check("kernels.nf4", "skip", "bitsandbytes has no CPU kernels")
GEMM = check("kernels.gemm-fp32")
TF32 = check("kernels.gemm-tf32", "skip", "from compute capability 8.0 on")
MACHINE = (check("drift.driver"), check("integrity.record"))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (verified("verified-on-gpu", [GEMM, check("kernels.nf4")], device="cuda"), "verified on GPU"),
        (verified("verified-on-gpu", [GEMM, NF4], device="cuda"), "verified on GPU; 4-bit not checked"),
        (
            verified("verified-on-gpu", [GEMM, NF4, TF32], device="cuda"),
            "verified on GPU; 4-bit not checked; skipped: kernels.gemm-tf32",
        ),
        (
            verified("verified-on-gpu", [GEMM, check("kernels.nf4"), check("kernels.fp4", "skip")], device="cuda"),
            "verified on GPU; skipped: kernels.fp4",
        ),
        (verified("verified-on-cpu", [GEMM, check("kernels.nf4")]), "verified on CPU; GPU checks not run"),
        (verified("verified-on-cpu", [GEMM, TF32]), "verified on CPU; GPU checks not run"),
        (
            verified("verified-on-cpu", [GEMM, NF4, check("kernels.linear4bit-forward", "skip")]),
            "verified on CPU; GPU checks not run; 4-bit not checked",
        ),
        (
            verified("intact", [check("import.numpy")], only=("import",)),
            "imports verified; no kernels run; only import asked for",
        ),
        (verified("intact", MACHINE, level="quick"), "machine and files verified; no kernels run"),
        (verified("intact", [*MACHINE, check("import.torch")]), "machine, files and imports verified; no kernels run"),
        (
            verified("verified-on-cpu", [GEMM], only=("kernels.gemm-fp32", "drift"), skip=("drift.gcc",)),
            "verified on CPU; GPU checks not run; only kernels.gemm-fp32 and drift asked for; drift.gcc left out",
        ),
        (
            verified("failed", [check("kernels.nf4", "fail"), check("integrity.record", "fail", "2 files differ")]),
            "failed: integrity.record: 2 files differ",
        ),
        (verified("failed", [check("kernels.nf4", "fail")]), "failed: kernels.nf4"),
        (verified("could-not-run", [check("import.probe", "skip", "it hung")]), "could not be verified: it hung"),
        (verified("could-not-run"), "could not be verified: nothing could be started in this environment"),
    ],
)
def test_sentence(answer: Verified, says: str) -> None:
    assert checks.sentence(answer) == says
    assert "pass" not in checks.sentence(answer)
