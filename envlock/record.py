"""`<generation>/envlock.json`: what an installed environment is, kept inside it; read and written as text.

Whoever can write into an environment can write this file, so nothing in it is believed before it is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from packaging.utils import canonicalize_name
from packaging.version import Version

from envlock import host
from envlock.errors import Misuse, Problem
from envlock.model import Floors, HostFacts

__all__ = ["FILE", "SCHEMA", "Record", "dump", "parse"]

FILE: Final = "envlock.json"
SCHEMA: Final = 1
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_HINT: Final = "envlock profiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One generation: the locked variant it holds and the machine it was made on.

    `lock` is the digest of the locked variant, `packages` maps canonical names to versions, `floors` are the
    variant's, `host` is the machine on the day of the install, `envlock` the version that made it, `records` maps
    packages to the sha256 of the RECORD they were installed with (nothing where that was not kept), `modules` those
    that the profile itself asks for to what is imported of them.
    """

    profile: str
    variant: str
    lock: str
    packages: Mapping[str, str]
    floors: Floors
    host: HostFacts
    envlock: str
    records: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)


def dump(record: Record) -> str:
    """Return the file's text; `parse` gives back an equal record."""
    document = {
        "schema": SCHEMA,
        "profile": record.profile,
        "variant": record.variant,
        "lock": record.lock,
        "packages": dict(sorted(record.packages.items())),
        "floors": asdict(record.floors),
        "host": host.dump(record.host),
        "envlock": record.envlock,
        "records": dict(sorted(record.records.items())),
        "modules": dict(sorted(record.modules.items())),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def parse(text: str, file: str) -> Record:
    """Read the text of `file`; raise `Misuse` (code `env-record-invalid`) with every problem found."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(file, [Problem(message=f"not JSON: {error}", file=file)]) from error
    if not isinstance(document, dict):
        raise _invalid(file, [Problem(message="not a record", file=file, expected="an object")])
    if type(document.get("schema")) is not int or document["schema"] != SCHEMA:
        problem = Problem(message="unknown schema", file=file, key="schema", expected=str(SCHEMA))
        raise _invalid(file, [problem])
    return _read(document, file)


def _read(document: dict[str, Any], file: str) -> Record:
    problems: list[Problem] = []

    def take(key: str, fits: Callable[[Any], bool], expected: str) -> Any:
        value = document.get(key)
        if not fits(value):
            problems.append(Problem(message=_kind(value), file=file, key=key, expected=expected))
        return value

    known = {"schema", "profile", "variant", "lock", "packages", "floors", "host", "envlock", "records", "modules"}
    problems += [Problem(message="unknown key", file=file, key=key) for key in sorted(document.keys() - known)]
    words = {key: take(key, _is_word, "a text") for key in ("profile", "variant", "lock", "envlock")}
    packages = take("packages", _is_packages, "an object of canonical package names to versions")
    floors = take(
        "floors", _is_floors, "`driver`, `driver_windows`, `glibc` (versions or null) and `sm` (a list of texts)"
    )
    kept = take("records", _is_records, "an object of package names to sha256 digests")
    modules = take("modules", _is_modules, "an object of package names to module names")
    facts = take("host", lambda value: isinstance(value, dict), "a host object")
    if problems:
        raise _invalid(file, problems)
    return Record(
        profile=words["profile"],
        variant=words["variant"],
        lock=words["lock"],
        packages=packages,
        floors=Floors(**{**floors, "sm": tuple(floors["sm"])}),
        host=_host(facts, file),
        envlock=words["envlock"],
        records=kept or {},
        modules=modules or {},
    )


def _host(facts: dict[str, Any], file: str) -> HostFacts:
    try:
        return host.parse(json.dumps(facts), file)
    except Misuse as error:
        raise _invalid(file, list(error.problems) or [Problem(message=error.message, file=file, key="host")]) from error


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_packages(value: Any) -> bool:
    return isinstance(value, dict) and all(
        canonicalize_name(name) == name and _is_word(name) and _is_version(version) for name, version in value.items()
    )


def _is_records(value: Any) -> bool:
    return value is None or (
        isinstance(value, dict)
        and all(isinstance(digest, str) and _SHA256.fullmatch(digest) for digest in value.values())
    )


def _is_modules(value: Any) -> bool:
    return value is None or (
        isinstance(value, dict)
        and all(canonicalize_name(name) == name for name in value)
        and all(isinstance(module, str) and module.isidentifier() for module in value.values())
    )


def _is_version(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        Version(value)
    except ValueError:  # also for a number of more digits than Python reads
        return False
    return True


def _is_floors(value: Any) -> bool:
    optional = ("driver", "driver_windows", "glibc")
    return (
        isinstance(value, dict)
        and value.keys() == {*optional, "sm"}
        and all(value[key] is None or _is_version(value[key]) for key in optional)
        and isinstance(value["sm"], list)
        and all(_is_word(arch) for arch in value["sm"])
    )


def _kind(value: Any) -> str:
    return "missing" if value is None else f"has a wrong value ({type(value).__name__})"


def _invalid(file: str, problems: list[Problem]) -> Misuse:
    return Misuse(
        f"the record of this environment cannot be read: {file}",
        code="env-record-invalid",
        problems=tuple(problems),
        hint=_HINT,
    )
