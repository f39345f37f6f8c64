"""What breaks a rule of `data/conflicts.toml`: data only, as in `model`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Given", "Violation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A condition that is met: of a package, of `python`, `backend` or `family`, what there is and what meets it."""

    name: str
    have: str
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A package that breaks a rule. `have` is None where it is missing, all bounds where it must not be there.

    `beside` is why the rule applies; `because` says so to a user. `nearest` is the next release, newer or else older,
    that breaks no rule about this package while all else stays. Where its releases are not known it is the bound. It is
    None where none fits, or where any does: of a package that is missing.
    """

    rule: str
    package: str
    have: str | None
    floor: str | None
    ceiling: str | None
    holes: str | None
    nearest: str | None
    beside: tuple[Given, ...]
    because: str
    evidence: str
