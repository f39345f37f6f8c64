"""Every mistake of a profile is told, at its line and key, with what was expected there."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest

from envlock import profile
from envlock.errors import Misuse, Problem

FILE = "profiles/mine.toml"
GOOD = """\
schema = 1
name = "mine"
python = "3.10"
platforms = ["linux-x86_64"]
backends = ["cu121", "cpu"]
exclude-newer = 2024-12-02T00:00:00Z
requires = ["torch==2.4.1", "peft"]

[backend.cpu]
python = ["3.11", "3.12"]
pypi-python = ["3.13"]
exclude-newer = 2026-09-01T00:00:00Z
requires = ["torch==2.8.0"]

[conda]
requires = ["python 3.10.*"]

[verify]
families = ["gemma", "gemma2"]
min-memory-mib = 4000
"""


def refused(text: str) -> Misuse:
    with pytest.raises(Misuse) as caught:
        profile.parse(text, FILE)
    assert {problem.file for problem in caught.value.problems} == {FILE}
    return caught.value


def mistakes(text: str) -> tuple[Problem, ...]:
    error = refused(text)
    assert error.code == "profile-invalid"
    return error.problems


def told(was: str, now: str) -> list[str]:
    """Return the mistakes of the good profile with one piece of it replaced."""
    assert was in GOOD
    return [str(problem).removeprefix(f"{FILE}:") for problem in mistakes(GOOD.replace(was, now, 1))]


def test_a_profile_and_what_its_backends_take_from_it() -> None:
    read = profile.parse(GOOD, FILE)
    assert (read.name, read.summary, read.file, read.platforms) == ("mine", "", FILE, ("linux-x86_64",))
    assert (read.conda_requires, read.families, read.min_memory_mib) == (
        ("python 3.10.*",),
        ("gemma", "gemma2"),
        4000,
    )
    cuda, cpu = read.backends
    assert (cuda.name, cuda.python, cuda.pypi_python) == ("cu121", ("3.10",), ())
    assert (cuda.requires, cuda.exclude_newer) == (
        ("torch==2.4.1", "peft"),
        datetime(2024, 12, 2, tzinfo=timezone.utc),
    )
    assert (cpu.name, cpu.python, cpu.pypi_python) == ("cpu", ("3.11", "3.12"), ("3.13",))
    assert (cpu.requires, cpu.exclude_newer) == (("torch==2.8.0",), datetime(2026, 9, 1, tzinfo=timezone.utc))


def test_the_least_profile_needs_no_torch_and_no_snapshot() -> None:
    least = 'schema = 1\nname = "mine"\npython = "3.12"\nplatforms = ["linux-aarch64"]\nbackends = ["cpu"]\n'
    (spec,) = profile.parse(least + 'requires = ["numpy"]', FILE).backends
    assert (spec.python, spec.requires, spec.exclude_newer) == (("3.12",), ("numpy",), None)


def test_a_backend_of_pypi_alone() -> None:
    _, spec = profile.parse(GOOD.replace('python = ["3.11", "3.12"]', "python = []"), FILE).backends
    assert (spec.python, spec.pypi_python) == ((), ("3.13",))


@pytest.mark.parametrize("change", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")])
def test_what_an_editor_does_to_a_file_changes_nothing(change: object) -> None:
    assert callable(change)
    assert profile.parse(change(GOOD), FILE) == profile.parse(GOOD, FILE)


def test_every_mistake_is_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
schema = 1
naem = "mine"
python = 3.10
platforms = [
    "linux-x86_64",
    "windows",      # not here
]
backends = ["cu121", "cuda"]
exclude-newer = 2024-12-02
requires = ["torch>=2", "Peft", "peft==0.12.0"]

[backend.cpu]
pythons = ["3.11"]

[verify]
"min memory" = 0
"""
    assert [(one.line, one.key, one.expected) for one in mistakes(text)] == [
        (None, "name", "a name of a-z, 0-9, `.`, `_` and `-`, 64 characters at most"),
        (2, "naem", "`name`?"),
        (3, "python", 'a Python without its patch release, such as "3.10"'),
        (6, "platforms[1]", "one of linux-x86_64, linux-aarch64"),
        (8, "backends[1]", '"cpu" or a CUDA line such as "cu121"'),
        (9, "exclude-newer", "a date and time with an offset, such as 2024-12-02T00:00:00Z"),
        (10, "requires[0]", "one exact version, such as torch==2.4.1"),
        (10, "requires[2]", "one requirement for each package"),
        (12, "backend.cpu", "one of cu121, cuda"),
        (13, "backend.cpu.pythons", "`python`?"),
        (16, 'verify."min memory"', "`min-memory-mib`?"),
    ]


def test_a_mistake_is_counted() -> None:
    assert refused(GOOD.replace("schema = 1", "schema = 0")).message == "a mistake in the profile"
    assert refused("").message == "5 mistakes in the profile"


def test_what_is_missing_is_told_with_what_it_should_be() -> None:
    found = mistakes("# nothing yet\n")
    assert [one.key for one in found] == ["schema", "name", "python", "platforms", "backends"]
    assert {one.message for one in found} == {"is missing"}
    assert {one.line for one in found} == {None}


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        # the top
        ("schema = 1", "schema = true", "1: `schema`: is a boolean: true (expected 1)"),
        ("schema = 1", "schema = 1.0", "1: `schema`: is a number: 1.0 (expected 1)"),
        ("schema = 1", 'schema = "1"', '1: `schema`: is "1" (expected 1)'),
        ("schema = 1", "schema = 0", "1: `schema`: is a number: 0 (expected 1)"),
        ("schema = 1", "schema = 1979-05-27", "1: `schema`: is a date or a time (expected 1)"),
        ('"mine"', '"../mine"', '2: `name`: is "../mine"'),
        ('"mine"', '""', '2: `name`: is ""'),
        ('"mine"', '"mine\\n"', '2: `name`: is "mine\\n"'),
        ('"mine"', f'"{"m" * 65}"', f'2: `name`: is "{"m" * 56}...'),
        ('"mine"', '"mine"\nsummary = "a\\u001b[31m"', '3: `summary`: is "a\\u001b[31m"'),
        ('"mine"', '"mine"\nsummary = "a\\u202eb"', '3: `summary`: is "a\\u202eb"'),
        ('"3.10"', '"3.010"', '3: `python`: is "3.010"'),
        ('"3.10"', '["3.10"]', "3: `python`: is a list (expected a Python without"),
        ('["linux-x86_64"]', "[]", "4: `platforms`: is empty (expected a list, each one of linux-x86_64"),
        ('["linux-x86_64"]', '"linux-x86_64"', '4: `platforms`: is "linux-x86_64" (expected a list'),
        ('["linux-x86_64"]', "[{}]", "4: `platforms[0]`: is a table (expected one of linux-x86_64"),
        ('["linux-x86_64"]', '["linux-x86_64", "linux-x86_64"]', "4: `platforms[1]`: names linux-x86_64 twice"),
        ('"cu121", "cpu"', '"cu121", "cu12", "cpu"', '5: `backends[1]`: is "cu12"'),
        ('"cu121", "cpu"', '"cu121", "cpu", "cu121"', "5: `backends[2]`: names cu121 twice"),
        # moments
        ("2024-12-02T00:00:00Z", "2024-12-02", "6: `exclude-newer`: is a date without a time"),
        ("2024-12-02T00:00:00Z", "2024-12-02T00:00:00", "6: `exclude-newer`: has no offset"),
        ("2024-12-02T00:00:00Z", "00:00:00", "6: `exclude-newer`: is a date or a time"),
        ("2024-12-02T00:00:00Z", '"2024-12-02T00:00:00Z"', '6: `exclude-newer`: is "2024-12-02T00:00:00Z"'),
        ("2024-12-02T00:00:00Z", "0001-01-01T00:00:00+09:00", "6: `exclude-newer`: lies in the year 1 "),
        ("2024-12-02T00:00:00Z", "9999-12-31T23:00:00-09:00", "6: `exclude-newer`: lies in the year 9999 "),
        # requirements
        ('"peft"', '"peft", 3', "7: `requires[2]`: is a number: 3 (expected a requirement"),
        ('"peft"', '"peft >> 1"', '7: `requires[1]`: is "peft >> 1": expected'),
        ('"peft"', '""', '7: `requires[1]`: is "": expected'),
        ('"peft"', f'"peft==1.{"9" * 101}"', "7: `requires[1]`: holds a number of too many digits"),
        ('"peft"', '"peft @ https://index.example/p.whl"', "7: `requires[1]`: names a place: a lock holds index"),
        (
            '"peft"',
            f'"{"a" * 215}"',
            "7: `requires[1]`: names a package with 215 characters: no index has one of more than",
        ),
        (
            '"peft"',
            '"peft===weird"',
            '7: `requires[1]`: asks for a version that is none: "weird" (expected a requirement',
        ),
        (
            '"peft"',
            f'"peft=={"9" * 29}"',
            "7: `requires[1]`: asks for a version with a number of more than 64 bits (expec",
        ),
        ('"peft"', f'"peft!=1.{1 << 64}.*"', "7: `requires[1]`: asks for a version with a number of more than 64 bits"),
        ('"peft"', '"PEFT", "peft[x]"', "7: `requires[2]`: names peft twice (expected one requirement for"),
        ('"peft"', '"a-b_c", "A.b--C"', "7: `requires[2]`: names a-b-c twice (expected one requirement for"),
        ("torch==2.4.1", "torch", "7: `requires[0]`: leaves the version of torch open (expected one exact version"),
        ("torch==2.4.1", "Torch>=2", "7: `requires[0]`: leaves the version of Torch open"),
        ("torch==2.4.1", "torch==2.*", "7: `requires[0]`: leaves the version of torch open"),
        ("torch==2.4.1", "torch==2.4.1,!=2.5", "7: `requires[0]`: leaves the version of torch open"),
        ("torch==2.4.1", "torch===2.4.1", "7: `requires[0]`: leaves the version of torch open"),
        ("torch==2.4.1", "torch==2.4.1+cu121", "7: `requires[0]`: names a build of torch: that is the backend's"),
        ("torch==2.4.1", "torch==2.4.1; python_version < '3.9'", "7: `requires[0]`: requires torch in some envir"),
        ('"peft"', '"bitsandbytes>0.43"', "7: `requires[1]`: leaves the version of bitsandbytes open (expected one"),
        ('["torch==2.8.0"]', "[]", "13: `backend.cpu.requires`: is empty"),
        ('["torch==2.8.0"]', '["torch"]', "13: `backend.cpu.requires[0]`: leaves the version of torch open"),
        # backends
        ("[backend.cpu]", "[backend.cpo]", "9: `backend.cpo`: is not listed in `backends` (expected `cpu`?)"),
        ("[backend.cpu]", "[backend.rocm]", "9: `backend.rocm`: is not listed in `backends` (expected one of cu121,"),
        ("[backend.cpu]", "[[backend.cpu]]", "9: `backend.cpu`: is a list (expected a table)"),
        ("[backend.cpu]", "[backend]\ncpu = 3\n[conda.x]", "10: `backend.cpu`: is a number: 3 (expected a table)"),
        ('["3.13"]', '["3.13", "3.13"]', "11: `backend.cpu.pypi-python[1]`: names 3.13 twice"),
        ('"torch==2.4.1", "peft"', '"peft"', "5: `backends[0]`: names cu121, a build of torch, but torch is not req"),
        # the other tables
        ('["python 3.10.*"]', '["a\\nb"]', '16: `conda.requires[0]`: is "a\\nb"'),
        ('"gemma", "gemma2"', '"Gemma"', '19: `verify.families[0]`: is "Gemma"'),
        ("4000", "true", "20: `verify.min-memory-mib`: is a boolean: true (expected a whole number, 0 or more)"),
        ("4000", "-1", "20: `verify.min-memory-mib`: is a number: -1"),
        ("4000", "0.5", "20: `verify.min-memory-mib`: is a number: 0.5"),
        ("4000", f"0x{'f' * 5000}", "20: `verify.min-memory-mib`: is a number of more than 64 bits"),
        ('["python 3.10.*"]', '["a\u200b", "a\u200b"]', '16: `conda.requires[1]`: names "a\\u200b" twice'),
        ("[conda]", "[[conda]]", "15: `conda`: is a list (expected a table)"),
        ("[verify]", "[verify.families]\n[x]", "18: `verify.families`: is a table (expected a list"),
        # keys that TOML must quote, or a terminal must not see
        ("[conda]", '["con da"]\n[conda]', '15: `"con da"`: is an unknown key (expected `conda`?)'),
        ("[conda]", '["a\\u001b\\"\U0001f600\\\\"]\n[conda]', '15: `"a\\u001b\\"\\U0001f600\\\\"`: is an unknown key'),
        ("[conda]", f"[{'k' * 99}]\n[conda]", f'15: `"{"k" * 60}…"`: is an unknown key'),
    ],
)
def test_a_mistake_has_a_line_a_key_and_an_expectation(was: str, now: str, says: str) -> None:
    found = told(was, now)
    assert any(one.startswith(says) for one in found), found


@pytest.mark.parametrize("value", ["3", '"cu121"', "[1]", "2024-01-01"])
def test_backends_that_are_no_table(value: str) -> None:
    text = GOOD.replace("[backend.cpu]", "[conda.x]").replace("schema = 1", f"schema = 1\nbackend = {value}")
    assert (2, "backend") in [(one.line, one.key) for one in mistakes(text)]


def test_an_array_of_backends_is_no_table() -> None:
    text = GOOD.replace("[backend.cpu]", "[[backend]]")
    assert [(one.line, one.key, one.message) for one in mistakes(text)] == [(9, "backend", "is a list")]


@pytest.mark.parametrize(
    "spelled",
    [
        'backend.cu121.pythn = ["3.10"]',
        'backend . "cu121" . pythn = []',
        "backend = { cu121 = { pythn = 1 } }",
        "backend.cu121 = { pythn = 1 }",
    ],
)
def test_a_backend_in_another_spelling(spelled: str) -> None:
    head, _, _ = GOOD.partition("\n[backend.cpu]")
    (found,) = mistakes(f"{head}{spelled}\n")
    assert (found.line, found.key, found.expected) == (8, "backend.cu121.pythn", "`python`?")


def test_every_backend_without_a_python_is_told_beside_other_mistakes() -> None:
    text = 'schema = 1\nname = "A"\npython = "3.10"\nplatforms = ["linux-x86_64"]\nbackends = ["cu121", "cpu"]\n'
    text += 'requires = ["torch==2.4.1"]\nbackend.cu121.python = []\nbackend.cpu.python = []\n'
    assert [(one.line, one.key, one.message) for one in mistakes(text)[1:]] == [
        (7, "backend.cu121", "names no Python"),
        (8, "backend.cpu", "names no Python"),
    ]


def test_a_backend_that_is_listed_twice_has_its_own_mistake_once() -> None:
    text = GOOD.replace('backends = ["cu121", "cpu"]', 'backends = ["cu121", "cpu", "cpu"]')
    text = text.replace('["3.11", "3.12"]', "[]").replace('["3.13"]', "[]")
    assert [(one.line, one.key) for one in mistakes(text)] == [(5, "backends[2]"), (9, "backend.cpu")]


def test_every_backend_that_requires_nothing_is_told() -> None:
    text = GOOD.replace('requires = ["torch==2.4.1", "peft"]', "").replace('requires = ["torch==2.8.0"]', "extra = 1")
    assert [(one.line, one.key, one.message.partition(",")[0]) for one in mistakes(text)] == [
        (5, "backends[0]", "names cu121"),
        (5, "backends[1]", "names cpu"),
        (13, "backend.cpu.extra", "is an unknown key"),
    ]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('"torch==2.4.1", "peft"', '"torch=2.4.1"'),  # torch was meant
        ('["torch==2.4.1", "peft"]', "3"),
        ("[backend.cpu]\npython = ", '[backend.cpu]\npypi-python = "3.13"\npython = []\n[x]\ny = '),
        ('python = "3.10"\n', "python = 3.10\n"),
    ],
)
def test_what_only_follows_from_a_mistake_is_not_told(was: str, now: str) -> None:
    assert not [one for one in told(was, now) if "is not required" in one or "names no Python" in one]


def test_a_name_that_is_listed_is_shown_fit_for_a_terminal() -> None:
    (_, found) = told('["cu121", "cpu"]', '["\\u001b[31m"]')
    assert found.endswith('(expected one of "\\u001b[31m")')


def test_no_name_is_meant_where_none_is_listed() -> None:
    assert told('["cu121", "cpu"]', "[]")[-1] == "9: `backend.cpu`: is not listed in `backends`"


# ---- texts that are no profile at all -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("schema = 1\nname = \n", 2),
        ('schema = 1\nname = "mine\n', 2),
        ("schema = 1\nschema = 1\n# end\n", 2),
        ("[conda]\n[verify]\n[conda]\n", 3),
        ("backend = {}\n[backend.cpu]\n", 2),
        ("schema = 1\nname = 'a\0b'\n", 2),
        ("schema = 1\n\nrequires = [", 3),
        ("schema = 1\n\nrequires = [\n", 3),
        ("exclude-newer = 2024-13-01T00:00:00Z\n", 1),
        ("\ufeff\ufeffschema = 1\n", 1),
        ("schema = 1\rname = 'a'\r", 1),
        (f"name = 'a'\nschema = {'9' * 5000}\n", 2),
        (f"name = 'a'\nsummary = {'9' * 5000}\n", 2),
        (f"a = {'[' * 5000}{']' * 5000}", None),
        (f"a = {'{ a = ' * 5000}", None),
    ],
)
def test_a_text_that_is_no_toml_has_one_mistake_and_its_line(text: str, line: int | None) -> None:
    error = refused(text)
    (problem,) = error.problems
    assert (error.message, error.code) == ("the profile is not TOML", "profile-invalid")
    assert (problem.line, problem.key, problem.expected) == (line, None, "TOML")
    assert re.fullmatch(r"[a-z].*[^. ]", problem.message)
    assert "(at" not in problem.message


def test_a_deep_value_that_toml_takes_is_one_unknown_key_with_its_line() -> None:
    (found,) = told("[conda]", f"[x]\ny = {'[' * 200}{']' * 200}\n[conda]")
    assert found.startswith("15: `x`: is an unknown key")


@pytest.mark.parametrize(
    ("schema", "said"), [("2", "is a number: 2"), (f"0x{'f' * 5000}", "is a number of more than 64 bits")]
)
def test_a_profile_of_a_later_format_is_not_read_further(schema: str, said: str) -> None:
    error = refused(f"new-key = 1\nschema = {schema}\n")
    (problem,) = error.problems
    assert (error.code, error.hint) == ("profile-newer", "envlock --version")
    assert (problem.line, problem.key, problem.message) == (2, "schema", said)
    assert problem.expected == "1, the newest this envlock reads"


def test_a_copy_that_kept_its_name_would_write_the_lock_of_the_original() -> None:
    with pytest.raises(Misuse) as caught:
        profile.parse(GOOD, "profiles/copy.toml")
    assert [str(one) for one in caught.value.problems] == [
        "profiles/copy.toml:2: `name`: is mine, but the file is copy.toml (expected copy)"
    ]


# ---- what a lock is made from -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('python = "3.10"', 'python = "3.11"'),
        ('"linux-x86_64"', '"linux-aarch64"'),
        ('"cu121", "cpu"', '"cpu", "cu121"'),
        ("2024-12-02", "2024-12-03"),
        ("2026-09-01", "2026-09-02"),
        ("torch==2.4.1", "torch==2.4.0"),
        ('"peft"', '"peft[x]"'),
        ("torch==2.8.0", "torch==2.7.0"),
        ('["3.11", "3.12"]', '["3.12", "3.11"]'),
        ('["3.13"]', "[]"),
        ("python 3.10.*", "python 3.11.*"),
    ],
)
def test_the_digest_moves_with_whatever_a_lock_is_made_from(was: str, now: str) -> None:
    assert was in GOOD
    assert profile.parse(GOOD.replace(was, now, 1), FILE).digest != profile.parse(GOOD, FILE).digest


def test_the_digest_moves_with_the_name() -> None:
    renamed = GOOD.replace('name = "mine"', 'name = "other"')
    assert profile.parse(renamed, "other.toml").digest != profile.parse(GOOD, FILE).digest


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("schema = 1\n", "schema = 1\nsummary = 'about'\n"),
        ("2024-12-02T00:00:00Z", "2024-12-02T09:00:00+09:00"),
        ('"torch==2.4.1"', '"torch == 2.4.1"'),
        ("4000", "8000"),
        ('"gemma2"', '"gemma3"'),
        ("[verify]", "# about verification\n\n[verify]"),
        ("[backend.cpu]\npython = ", "[backend]\ncpu.python = "),
    ],
)
def test_the_digest_stays_where_a_lock_would(was: str, now: str) -> None:
    assert was in GOOD
    text = GOOD.replace(was, now, 1)
    if "cpu.python" in now:
        text = text.replace("\npypi-", "\ncpu.pypi-").replace("\nexclude-newer = 2026", "\ncpu.exclude-newer = 2026")
        text = text.replace('\nrequires = ["torch==2.8.0"]', '\ncpu.requires = ["torch==2.8.0"]')
    assert profile.parse(text, f"elsewhere/{FILE}").digest == profile.parse(GOOD, FILE).digest
