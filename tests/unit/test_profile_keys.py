"""The published JSON Schema is the one the reader's own definitions give, and refuses what the reader refuses."""

from __future__ import annotations

import copy
import json
import sys
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from envlock import profile
from envlock.errors import Misuse
from envlock.profile_keys import BACKEND, TABLES, TOP

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "profile.schema.json"
SHIPPED = sorted((ROOT / "profiles").glob("*.toml"))
REGENERATE = (
    "python -c 'import json; from envlock import profile; print(json.dumps(profile.schema(), indent=2))'"
    " > docs/profile.schema.json"
)
GOOD = """\
schema = 1
name = "mine"
python = "3.10"
platforms = ["linux-x86_64"]
backends = ["cu121", "cpu"]
exclude-newer = 2024-12-02T00:00:00Z
requires = ["torch==2.4.1"]

[backend.cpu]
python = ["3.11"]

[conda]
requires = ["python 3.10.*"]

[verify]
families = ["gemma"]
min-memory-mib = 4000
"""


def plain(value: Any) -> Any:
    """Return a TOML value as an editor hands it to a JSON Schema: dates and times are texts."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.isoformat() if isinstance(value, (date, datetime, time)) else value


def complaints(text: str) -> list[str]:
    validator = Draft202012Validator(json.loads(PUBLISHED.read_text(encoding="utf-8")))
    return [error.message for error in validator.iter_errors(plain(tomllib.loads(text)))]


def test_the_published_schema_is_generated() -> None:
    generated = json.dumps(profile.schema(), indent=2) + "\n"
    assert PUBLISHED.read_text(encoding="utf-8") == generated, f"to write it anew: {REGENERATE}"


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(profile.schema())


def test_every_key_says_what_it_means() -> None:
    for key in [*TOP.values(), *BACKEND.values(), *(key for keys in TABLES.values() for key in keys.values())]:
        assert key.about.endswith(".")
        assert "\n" not in key.about


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_shipped_profiles_fit(path: Path) -> None:
    assert complaints(path.read_text(encoding="utf-8")) == []


def test_what_the_reader_takes_the_schema_takes() -> None:
    profile.parse(GOOD, "mine.toml")
    assert complaints(GOOD) == []


@pytest.mark.parametrize("key", ["schema", "name", "python", "platforms", "backends"])
def test_a_missing_key_is_refused_by_both(key: str) -> None:
    wrong = "".join(line for line in GOOD.splitlines(keepends=True) if not line.startswith(f"{key} ="))
    assert complaints(wrong)
    with pytest.raises(Misuse):
        profile.parse(wrong, "mine.toml")


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("schema = 1", "schema = 0"),
        ("schema = 1", "schema = 2"),
        ("schema = 1", "schema = true"),
        ("schema = 1", 'schema = "1"'),
        ("schema = 1", "schema = 1\nextra = 1"),
        ('"mine"', '"Mine"'),
        ('"mine"', '"../mine"'),
        ('"mine"', f'"{"m" * 65}"'),
        ('"mine"', '"mine"\nsummary = "a\\nb"'),
        ('"mine"', '"mine"\nsummary = ""'),
        ('"3.10"', "3.10"),
        ('"3.10"', '"3.010"'),
        ('"3.10"', '"2.7"'),
        ('["linux-x86_64"]', "[]"),
        ('["linux-x86_64"]', '["windows"]'),
        ('["linux-x86_64"]', '["linux-x86_64", "linux-x86_64"]'),
        ('["cu121", "cpu"]', '"cpu"'),
        ('["cu121", "cpu"]', '["cu121", "cpu", "cu12"]'),
        ("2024-12-02T00:00:00Z", "2024-12-02"),
        ("2024-12-02T00:00:00Z", "2024-12-02T00:00:00"),
        ("2024-12-02T00:00:00Z", "00:00:00"),
        ("2024-12-02T00:00:00Z", "20241202"),
        ('["torch==2.4.1"]', "[]"),
        ('["torch==2.4.1"]', '"torch==2.4.1"'),
        ('["torch==2.4.1"]', '["torch==2.4.1", ""]'),
        ('["torch==2.4.1"]', '["torch==2.4.1", 1]'),
        ("[backend.cpu]", "[backend.rocm]"),
        ("[backend.cpu]", "[[backend.cpu]]"),
        ("[backend.cpu]", "[[backend]]"),
        ('["3.11"]', '"3.11"'),
        ('["3.11"]', '["3.11", "3.11"]'),
        ('["3.11"]', '["3.11"]\nrequires = []'),
        ('["3.11"]', '["3.11"]\nplatforms = ["linux-x86_64"]'),
        ('["python 3.10.*"]', "[1]"),
        ('["python 3.10.*"]', '[]\nextra = "a"'),
        ("[verify]", "[[verify]]"),
        ('["gemma"]', '["Gemma"]'),
        ("4000", "true"),
        ("4000", "-1"),
        ("4000", "0.5"),
        ("4000", "0x8000000000000000"),
    ],
)
def test_a_wrong_profile_is_refused_by_both(was: str, now: str) -> None:
    assert was in GOOD
    wrong = GOOD.replace(was, now, 1)
    assert complaints(wrong)
    with pytest.raises(Misuse):
        profile.parse(wrong, "mine.toml")


def test_a_schema_is_made_anew_for_each_caller() -> None:
    before = copy.deepcopy(profile.schema())
    profile.schema()["properties"].clear()
    assert profile.schema() == before


# ---- the shipped profiles -----------------------------------------------------------------------------------------

EVERY = ("3.10", "3.11", "3.12", "3.13")
# What each backend is locked for: torch, the Pythons of its index, those of PyPI's own build.
LINES: dict[str, dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "gemma-qlora": {
        "cu121": ("torch==2.4.1", ("3.10",), ("3.10",)),
        "cu118": ("torch==2.4.1", ("3.10",), ()),
        "cu128": ("torch==2.8.0", EVERY, EVERY),
        "cpu": ("torch==2.8.0", ("3.11", "3.12"), EVERY),
    },
    "qwen2.5": {
        "cu121": ("torch==2.5.1", ("3.10",), ()),
        "cu124": ("torch==2.5.1", ("3.10",), ("3.10",)),
        "cu118": ("torch==2.6.0", ("3.10",), ()),
        "cu128": ("torch==2.8.0", EVERY, EVERY),
        "cpu": ("torch==2.8.0", ("3.11", "3.12"), EVERY),
    },
    "xtuner-internlm2": {
        "cu118": ("torch==2.1.2", ("3.10",), ()),
        "cu121": ("torch==2.3.0", ("3.10",), ("3.10",)),
    },
}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_a_shipped_profile_is_locked_for(path: Path) -> None:
    read = profile.parse(path.read_text(encoding="utf-8"), path.name)
    assert read.name == path.stem
    assert {spec.name: (spec.requires[0], spec.python, spec.pypi_python) for spec in read.backends} == LINES[read.name]
    assert [spec.name for spec in read.backends] == list(LINES[read.name])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_profile_lasts(path: Path) -> None:
    for spec in profile.parse(path.read_text(encoding="utf-8"), path.name).backends:
        assert spec.exclude_newer is not None
        assert spec.exclude_newer.utcoffset() == timedelta(0)
        # triton and bitsandbytes of those days import setuptools without saying so.
        assert ("setuptools<81" in spec.requires) is (spec.requires[0] != "torch==2.8.0")
