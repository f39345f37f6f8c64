"""The catalogue of checks: which there are, in which order, what follows from what, and what they prove together."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from envlock.errors import Misuse, Problem
from envlock.model import Check, Device, Level, Verdict, Verified

__all__ = [
    "DRIFT",
    "GROUPS",
    "INTEGRITY",
    "Selection",
    "cause",
    "computed",
    "groups",
    "install",
    "ordered",
    "require_gpu",
    "root",
    "select",
    "sentence",
    "skip_after",
    "verdict",
]

# From the root to its consequences: a machine that changed breaks files, files break imports, imports break kernels.
GROUPS: Final = ("drift", "integrity", "loader", "import", "kernels", "train")
DRIFT: Final = ("platform", "container", "kernel", "driver", "driver-library", "gpus", "glibc", "gcc")
INTEGRITY: Final = ("interpreter", "versions", "record", "strangers")

_LEVELS: Final[Mapping[Level, tuple[str, ...]]] = MappingProxyType(
    {"quick": ("drift", "integrity"), "kernels": ("drift", "integrity", "import", "kernels")}
)

# What cannot be told any more once a check has failed. A driver or GPU that fell below the floors lets packages be
# imported all the same; a C library that did, a changed file or a foreign hook does not.
_FORBIDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **{f"drift.{name}": ("kernels", "train") for name in DRIFT},
        "drift.platform": ("integrity", "loader", "import", "kernels", "train"),
        "drift.glibc": ("loader", "import", "kernels", "train"),
        **{f"integrity.{name}": ("loader", "import", "kernels", "train") for name in INTEGRITY},
    }
)

_COMPUTING: Final = ("kernels.", "train.")
_HOLDS: Final = frozenset({"pass", "warn"})
_WORDS: Final = MappingProxyType({"drift": "machine", "integrity": "files", "import": "imports"})
_NEEDS_4BIT: Final = ("kernels.nf4", "kernels.fp4", "kernels.linear4bit")
_FOLLOWS: Final = "follows from "  # the probe says the same of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which checks are asked for: `only` (nothing means all) without `skip`, each a group or a check."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def wants(self, check: str) -> bool:
        """Say whether this check is asked for."""
        chosen = not self.only or any(_covers(term, check) for term in self.only)
        return chosen and not any(_covers(term, check) for term in self.skip)

    def enters(self, group: str) -> bool:
        """Say whether any check of this group may be asked for."""
        named = not self.only or any(term.partition(".")[0] == group for term in self.only)
        return named and group not in self.skip


# ---- what is asked for --------------------------------------------------------------------------------------------


def groups(level: Level) -> tuple[str, ...]:
    """Return the groups of a level, in order. The loader audit and training are not built yet and in none."""
    return _LEVELS[level]


def select(
    only: Sequence[str], skip: Sequence[str], *, known: Collection[str], open_groups: Collection[str]
) -> Selection:
    """Read `--only` and `--skip`; raise `Misuse` (code `check-unknown`) with every term that names nothing.

    `known` are the ids there are; a group in `open_groups` has one per package, so any name fits there.
    """
    names = {*known, *(check.partition(".")[0] for check in known), *open_groups}
    names |= {check.rpartition(".")[0] for check in known}
    wrong = [
        (flag, term)
        for flag, terms in (("--only", only), ("--skip", skip))
        for term in terms
        if term not in names and not (term.partition(".")[0] in open_groups and term.partition(".")[2])
    ]
    if wrong:
        said = [(flag, f"no check is called `{term}`{_near(term, names)}") for flag, term in wrong]
        several = len(said) > 1
        raise Misuse(
            f"{len(said)} of the checks asked for do not exist" if several else said[0][1],
            code="check-unknown",
            problems=tuple(Problem(message=text, key=flag) for flag, text in said) if several else (),
            hint="envlock verify --help",
        )
    return Selection(only=tuple(only), skip=tuple(skip))


def _covers(term: str, check: str) -> bool:
    return check == term or check.startswith(f"{term}.")


def _near(term: str, names: Iterable[str]) -> str:
    """Return what may be meant: a check by its own name alone, or what is spelt alike."""
    own = [name for name in sorted(names) if term and name.partition(".")[2] == term]
    alike = own or difflib.get_close_matches(term, sorted(names), n=1)
    meant = alike or [name for name in sorted(names) if term and name.partition(".")[2].startswith(term)]
    return f"; did you mean {' or '.join(f'`{name}`' for name in meant[:2])}?" if meant else ""


# ---- what follows from what ---------------------------------------------------------------------------------------


def ordered(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return the checks by group, each group in the order it came in."""
    return tuple(sorted(checks, key=lambda check: GROUPS.index(check.id.partition(".")[0])))


def root(checks: Iterable[Check]) -> Check | None:
    """Return the first failure: what is in front of it passed, what comes after it may be its consequence."""
    return next((check for check in ordered(checks) if check.status == "fail"), None)


def cause(group: str, checks: Iterable[Check]) -> str | None:
    """Return the id of the first failure after which `group` can prove nothing, None if it can be run."""
    failed = (check.id for check in ordered(checks) if check.status == "fail")
    return next((check for check in failed if group in _FORBIDS.get(check, ())), None)


def skip_after(failed: str, skipped: Iterable[str]) -> tuple[Check, ...]:
    """Return a `skip` for each id, that names what it follows from."""
    return tuple(Check(id=check, status="skip", message=f"{_FOLLOWS}{failed}") for check in skipped)


def require_gpu(checks: Iterable[Check], device: Device | None) -> tuple[Check, ...]:
    """Return the checks under `--require gpu`: each skip is a failure, but for what follows from one.

    Of the machine nothing is left out that could be looked at: a skip there says that there is no such thing.
    """
    fix = "envlock detect"
    strict = tuple(
        replace(check, status="fail", fix=check.fix or fix) if _is_bare_skip(check) else check for check in checks
    )
    if device == "cuda" or root(strict):
        return strict
    unmet = Check(id="kernels.cuda", status="fail", have="cpu", want="cuda", message="nothing ran on a GPU", fix=fix)
    return (*strict, unmet)


def _is_bare_skip(check: Check) -> bool:
    follows = (check.message or "").startswith(_FOLLOWS)
    return check.status == "skip" and not follows and not _has_no_object(check)


def _has_no_object(check: Check) -> bool:
    return check.status == "skip" and check.id.startswith("drift.")


# ---- what it proves -----------------------------------------------------------------------------------------------


def computed(checks: Iterable[Check]) -> bool:
    """Say whether any check did compute, whatever came of it: only then a device can be named."""
    return any(_computes(check) and check.status in {"pass", "fail"} for check in checks)


def verdict(checks: Iterable[Check], device: Device | None, *, ran: bool = True) -> Verdict:
    """Judge: `ran` is False where a group that was asked for could not be started, and no check says why.

    Where kernels are among the checks one of them must pass, where imports are one of those: skips prove nothing.
    Without either, no more than the machine and the files were looked at (`intact`).
    """
    found = tuple(checks)
    if root(found):
        return "failed"
    kernels = [check for check in found if _computes(check)]
    deepest = kernels or [check for check in found if check.id.startswith("import.")] or found
    if not ran or not any(check.status in _HOLDS for check in deepest):
        return "could-not-run"
    if not kernels:
        return "intact"
    return "verified-on-gpu" if device == "cuda" else "verified-on-cpu"


def install(profile: str, path: str) -> str:
    """Return the command that builds anew what stands at `path`, as people type it."""
    usual = path == f".envlock/{profile}"
    return f"envlock install {shlex.quote(profile)}" + ("" if usual else f" --path {shlex.quote(path)}")


def sentence(answer: Verified) -> str:
    """Say for a person what was proven, and beside it what was not; never more than ran."""
    first = root(answer.checks)
    if first is not None:
        return f"failed: {first.id}" + (f": {first.message}" if first.message else "")
    if answer.verdict == "could-not-run":
        return "could not be verified: " + _reason(answer.checks)
    return "; ".join([*_proven(answer), *_unchecked(answer), *_narrowed(answer)])


def _proven(answer: Verified) -> list[str]:
    if answer.verdict == "verified-on-gpu":
        return ["verified on GPU"]
    if answer.verdict == "verified-on-cpu":
        return ["verified on CPU", "GPU checks not run"]
    groups = {check.id.partition(".")[0] for check in answer.checks if check.status in _HOLDS}
    return [_list([word for group, word in _WORDS.items() if group in groups]) + " verified", "no kernels run"]


def _unchecked(answer: Verified) -> list[str]:
    """Name what was skipped, 4-bit by name: who fine-tunes in 4 bits must not take a CPU's word for it."""
    skipped = [check for check in answer.checks if check.status == "skip"]
    fourbit = [check for check in answer.checks if check.id.startswith(_NEEDS_4BIT)]
    said = ["4-bit not checked"] if fourbit and all(check in skipped for check in fourbit) else []
    others = [check for check in skipped if not (said and check in fourbit) and not _has_no_object(check)]
    if others and answer.verdict != "verified-on-cpu":  # there, "GPU checks not run" speaks of them
        said.append(f"skipped: {', '.join(check.id for check in others)}")
    return said


def _narrowed(answer: Verified) -> list[str]:
    only = [f"only {_list(answer.only)} asked for"] if answer.only else []
    return only + ([f"{_list(answer.skip)} left out"] if answer.skip else [])


def _computes(check: Check) -> bool:
    return check.id.startswith(_COMPUTING)


def _list(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _reason(checks: Iterable[Check]) -> str:
    told = (check for check in ordered(checks) if check.status in {"skip", "warn"} and not _has_no_object(check))
    messages = (check.message for check in told if check.message)
    return next(messages, "nothing could be started in this environment")
