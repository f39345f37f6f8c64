from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import pytest

from envlock import lock
from envlock.errors import Misuse, Problem, Refused
from envlock.model import (
    Artifact,
    Change,
    CondaPart,
    Floors,
    Inputs,
    Lock,
    LockedPackage,
    LockedVariant,
    Source,
    Variant,
)

INPUTS = Inputs(profile="sha256:" + "a" * 64, facts="sha256:" + "b" * 64, rules="sha256:" + "d" * 64, engine="uv-0")
FLOORS = Floors(driver="525.60.13", driver_windows="527.41", glibc="2.17", sm=("5.0", "9.0"))
NOTHING = Floors(driver=None, driver_windows=None, glibc=None, sm=())


def artifact(file: str, digit: str = "1", *, size: int | None = 10, index: str = "pypi") -> Artifact:
    return Artifact(index=index, file=file, sha256=digit * 64, size=size)


def package(name: str, version: str, *artifacts: Artifact, why: tuple[str, ...] = ("profile",)) -> LockedPackage:
    files = artifacts or (artifact(f"{name}-{version}-py3-none-any.whl"),)
    return LockedPackage(name=name, version=version, artifacts=files, why=why)


def variant(
    name: str,
    *packages: LockedPackage,
    python: str = "3.10",
    source: Source = "pypi",
    build: tuple[LockedPackage, ...] = (),
    floors: Floors = FLOORS,
) -> LockedVariant:
    backend = name.partition("-")[0]
    what = Variant(name=name, backend=backend, source=source, python=python, platform="linux-x86_64")
    return LockedVariant(variant=what, floors=floors, packages=packages, build=build)


NUMPY = package(
    "numpy",
    "1.26.4",
    artifact("numpy-1.26.4-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "2"),
    artifact("numpy-1.26.4-cp310-cp310-manylinux_2_28_x86_64.whl", "3", size=None),
    why=("peft", "profile"),
)
OLD = package("old", "1.0", artifact("old-1.0.tar.gz", "4"))
SMALL = Lock(
    profile="demo",
    inputs=INPUTS,
    variants=(
        variant("cu121-pypi", NUMPY, OLD, package("torch", "2.4.1"), build=(package("wheel", "0.43.0"),)),
        variant("cpu-pypi", replace(NUMPY, why=("profile",)), package("torch", "2.8.0"), floors=NOTHING, python="3.11"),
    ),
)
TEXT = lock.render(SMALL)
WAIVING = replace(SMALL, allowed={"bitsandbytes-triton-ops": ("cu121-pypi", "cpu-pypi"), "a-rule": ("cpu-pypi",)})


def refusal(text: str) -> Misuse:
    with pytest.raises(Misuse) as caught:
        lock.parse(text, "lockfiles/demo.lock")
    return caught.value


def problems(text: str) -> tuple[Problem, ...]:
    error = refusal(text)
    assert error.code == "lock-invalid"
    assert error.hint == "envlock lock demo"
    return error.problems


def test_waivers_are_kept_by_rule() -> None:
    text = lock.render(WAIVING)
    assert '[allowed]\na-rule = ["cpu-pypi"]\nbitsandbytes-triton-ops = ["cu121-pypi", "cpu-pypi"]\n' in text
    assert lock.parse(text, "demo.lock") == WAIVING


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a-rule = []", ["allowed.a-rule: waives no rule for a variant there is"]),
        ('a-rule = ["cu118"]', ["allowed.a-rule: waives no rule for a variant there is"]),
        ('"A rule" = ["cpu-pypi"]', ["allowed.A rule: waives no rule for a variant there is"]),
        ("a-rule = 1", ["allowed.a-rule: is 1", "allowed.a-rule: waives no rule for a variant there is"]),
    ],
)
def test_a_waiver_of_nothing_is_none(line: str, says: list[str]) -> None:
    found = problems(lock.render(WAIVING).replace('a-rule = ["cpu-pypi"]', line))
    assert [f"{problem.key}: {problem.message}" for problem in found] == says


# ---- text -----------------------------------------------------------------------------------------------------------


def test_a_lock_is_read_back_as_it_was() -> None:
    assert lock.parse(TEXT, "demo.lock") == SMALL
    assert lock.render(lock.parse(TEXT, "demo.lock")) == TEXT
    assert lock.parse(TEXT.replace("\n", "\r\n"), "demo.lock") == SMALL


def test_a_conda_part_is_named_by_what_it_was_made_from_and_by_its_bytes() -> None:
    part = CondaPart(inputs="5" * 64, sha256="6" * 64)
    one = replace(SMALL, variants=tuple(replace(locked, conda=part) for locked in SMALL.variants))
    text = lock.render(one)
    line = f'conda = {{ inputs = "{"5" * 64}", sha256 = "{"6" * 64}" }}'
    assert text.count(f"\n{line}\n") == len(SMALL.variants)
    assert lock.parse(text, "demo.lock") == one
    for now, key in (
        (line.replace("5" * 64, "five"), "conda.inputs"),
        (line.replace(f', sha256 = "{"6" * 64}"', ""), "conda.sha256"),
        (line.replace(" }", ", file = 1 }"), "conda.file"),
        ('conda = "x"', "conda"),
    ):
        assert f"variant.cu121-pypi.{key}" in {problem.key for problem in problems(text.replace(line, now))}


def test_the_text_is_this() -> None:
    one = Lock(profile="demo", inputs=INPUTS, variants=(variant("cpu-pypi", NUMPY, floors=NOTHING),))
    assert lock.render(one).splitlines() == [
        "# Written by `envlock lock demo`, which is also the way to change it: an edit by hand is refused.",
        "schema = 1",
        'digest = "d598339218df28ed0a69f82b8b6db13747711b6f3a1ff41c46fe9a4cd792a429"',
        'profile = "demo"',
        "",
        "[inputs]",
        f'profile = "sha256:{"a" * 64}"',
        f'facts = "sha256:{"b" * 64}"',
        f'rules = "sha256:{"d" * 64}"',
        'engine = "uv-0"',
        "",
        "[variant.cpu-pypi]",
        'backend = "cpu"',
        'source = "pypi"',
        'python = "3.10"',
        'platform = "linux-x86_64"',
        "sm = []",
        "",
        "[[package]]",
        'name = "numpy"',
        'version = "1.26.4"',
        'variants = ["cpu-pypi"]',
        'why = [{ by = ["peft", "profile"] }]',
        "files = [",
        f'    {{ index = "pypi", file = "{NUMPY.artifacts[0].file}", sha256 = "{"2" * 64}", size = 10 }},',
        f'    {{ index = "pypi", file = "{NUMPY.artifacts[1].file}", sha256 = "{"3" * 64}" }},',
        "]",
    ]


def test_a_release_stands_once_and_says_what_is_for_whom() -> None:
    assert TEXT.count('name = "numpy"') == 1
    assert '{ by = ["peft", "profile"], variants = ["cu121-pypi"] },' in TEXT
    assert '{ by = ["profile"], variants = ["cpu-pypi"] },' in TEXT
    assert TEXT.count('name = "torch"') == 2


def test_one_file_name_with_other_bytes_is_another_file() -> None:
    file = "torch-2.5.1+cu121-cp310-cp310-linux_x86_64.whl"
    here = package("torch", "2.5.1+cu121", artifact(file, "1", index="cu121"))
    there = package("torch", "2.5.1+cu121", artifact(file, "2", index="full"))
    both = Lock(
        profile="demo", inputs=INPUTS, variants=(variant("cu121", here, source="index"), variant("full", there))
    )
    assert lock.parse(lock.render(both), "demo.lock") == both


def test_a_lock_without_variants_is_a_lock() -> None:
    empty = Lock(profile="qwen2.5", inputs=INPUTS, variants=())
    assert lock.parse(lock.render(empty), "qwen2.5.lock") == empty


# ---- what is refused ------------------------------------------------------------------------------------------------


def test_an_edit_by_hand_is_told() -> None:
    error = refusal(TEXT.replace('version = "2.8.0"', 'version = "2.8.1"'))
    assert (error.code, error.exit, error.hint) == ("lock-edited", 2, "envlock lock demo")


def test_even_a_comment_is_an_edit() -> None:
    assert refusal(TEXT + "# mine\n").code == "lock-edited"


def test_a_newer_schema_is_not_guessed_at() -> None:
    error = refusal(TEXT.replace("schema = 1", "schema = 2\nnew = true"))
    assert (error.code, error.hint) == ("lock-newer", "envlock lock demo --upgrade")


@pytest.mark.parametrize(
    "text", ["", "\0", "{}", "schema = 1", "[[package]]\n" * 3, "schema = true\n", "package = 1\n"]
)
def test_garbage_is_refused(text: str) -> None:
    assert {problem.file for problem in problems(text)} == {"lockfiles/demo.lock"}


def test_broken_toml_names_its_line() -> None:
    (problem,) = problems(TEXT.replace("[inputs]", "[inputs"))
    assert (problem.file, problem.line) == ("lockfiles/demo.lock", 6)


def test_endless_nesting_is_refused() -> None:
    assert refusal("a = " + "[" * 100_000).code == "lock-invalid"
    assert refusal("a = " + "1" * 5_000).code == "lock-invalid"


@pytest.mark.parametrize(
    ("was", "now", "key"),
    [
        ("4" * 64, "4" * 63, "package[1].files[0].sha256"),
        ("4" * 64, "G" * 64, "package[1].files[0].sha256"),
        ('file = "old-1.0.tar.gz"', 'file = "../old-1.0.tar.gz"', "package[1].files[0].file"),
        ('file = "old-1.0.tar.gz"', 'file = "a/old-1.0.tar.gz"', "package[1].files[0].file"),
        ('file = "old-1.0.tar.gz"', 'file = "..\\\\old-1.0.zip"', "package[1].files[0].file"),
        ('file = "old-1.0.tar.gz"', 'file = "old-1.0.exe"', "package[1].files[0].file"),
        ('file = "old-1.0.tar.gz", ', "", "package[1].files[0].file"),
        ('name = "old"', 'name = "Old_One"', "package[1].name"),
        ('name = "old"', 'name = "old --index-url=x"', "package[1].name"),
        ('name = "old"', 'nmae = "old"', "package[1].nmae"),
        ('name = "old"\nversion = "1.0"', 'name = "old"\nversion = "1.0 # x"', "package[1].version"),
        ('variants = ["cu121-pypi"]\nwhy', 'variants = ["cu118"]\nwhy', "package[1].variants"),
        ('variants = ["cu121-pypi"]\nwhy', "variants = []\nwhy", "package[1].variants"),
        (
            'sha256 = "' + "4" * 64 + '", size = 10',
            'sha256 = "' + "4" * 64 + '", size = -1',
            "package[1].files[0].size",
        ),
        ('source = "pypi"', 'source = "conda"', "variant.cu121-pypi.source"),
        ('python = "3.10"', 'python = "3.10.4"', "variant.cu121-pypi.python"),
        ('glibc = "2.17"', 'glibc = "2.x"', "variant.cu121-pypi.glibc"),
        ('sm = ["5.0", "9.0"]', 'sm = ["5.0", 9]', "variant.cu121-pypi.sm[1]"),
        ('engine = "uv-0"', 'engine = ""', "inputs.engine"),
        ('engine = "uv-0"', 'engine = "uv-0"\nhost = "x"', "inputs.host"),
        ('profile = "demo"', 'profile = "../demo"', "profile"),
        ("schema = 1", "schema = 0", "schema"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_line(was: str, now: str, key: str) -> None:
    assert was in TEXT
    text = TEXT.replace(was, now, 1)
    rows = zip(TEXT.splitlines(), text.splitlines(), strict=False)
    changed = next(number for number, (old, new) in enumerate(rows, start=1) if old != new)
    assert (key, changed) in [(problem.key, problem.line) for problem in problems(text)]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("1979-05-27", "1979-05-27"),
        ("07:32:00", "07:32:00"),
        ("1979-05-27T07:32:00Z", "1979-05-27T07:32:00+00:00"),
        ("nan", "NaN"),
        (f"0x{'f' * 9000}", "a number of more than 64 bits"),
    ],
)
@pytest.mark.parametrize(
    ("was", "key"),
    [
        ('profile = "demo"', "profile"),
        ("size = 10", "package[0].files[0].size"),
        ('by = ["peft", "profile"]', "package[0].why[0].by"),
        ('sm = ["5.0", "9.0"]', "variant.cu121-pypi.sm"),
        ('version = "1.26.4"', "package[0].version"),
    ],
)
def test_a_value_of_any_kind_that_toml_has_is_told(was: str, key: str, value: str, shown: str) -> None:
    found = problems(TEXT.replace(was, f"{was.partition(' ')[0]} = {value}", 1))
    assert (key, f"is {shown}") in [(problem.key, problem.message) for problem in found]


def test_a_schema_of_any_length_is_newer() -> None:
    assert refusal(TEXT.replace("schema = 1", f"schema = 0x{'f' * 9000}")).code == "lock-newer"


def sealed(text: str) -> str:
    """The text with the digest that envlock would have written."""
    bare = re.sub(r"^digest = .*\n", "", text, count=1, flags=re.MULTILINE)
    digest = hashlib.sha256(bare.encode()).hexdigest()
    return bare.replace("\nprofile = ", f'\ndigest = "{digest}"\nprofile = ', 1)


@pytest.mark.parametrize("version", ["a", "1.0-x", "1..0", "x.zip"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    text = sealed(TEXT.replace('version = "1.0"', f'version = "{version}"'))
    (problem,) = problems(text)
    line = text[: text.index(f'version = "{version}"')].count("\n") + 1
    assert (problem.key, problem.line) == ("package[1].version", line)


@pytest.mark.parametrize(
    ("was", "now", "key"),
    [
        ('version = "1.0"', 'version = "1.1"', "package[1].files[0].file"),
        ("old-1.0.tar.gz", "other-1.0.tar.gz", "package[1].files[0].file"),
        ("torch-2.4.1-", "torch-2.4.1+cu121-", "package[2].files[0].file"),
        ("torch-2.4.1-py3", "torch-2.4.1-2.4.2-py3", None),
        ("old-1.0.tar.gz", "Old-1.tar.gz", None),
        ("old-1.0.tar.gz", "old-1.0-0.zip", "package[1].files[0].file"),
        ("old-1.0.tar.gz", "old-1.tgz", None),
    ],
)
def test_a_file_is_called_after_its_release(was: str, now: str, key: str | None) -> None:
    assert was in TEXT
    text = sealed(TEXT.replace(was, now, 1))
    if key is None:
        lock.parse(text, "demo.lock")
    else:
        assert [problem.key for problem in problems(text)] == [key]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (
            "[[build]]\n",
            '[[package]]\nname = "old"\nversion = "1.0.1"\nvariants = ["cu121-pypi"]\nfiles = []\n[[build]]\n',
        ),
        ('variants = ["cu121-pypi"]\nwhy', 'variants = ["cu121-pypi", "cu121-pypi"]\nwhy'),
    ],
)
def test_a_package_that_is_there_twice_is_refused(was: str, now: str) -> None:
    assert was in TEXT
    said = [problem.message for problem in problems(sealed(TEXT.replace(was, now, 1)))]
    assert "old is there twice for cu121-pypi" in said


def test_the_hyphens_of_an_sdist_are_taken_as_they_fit() -> None:
    tools = package("a-b", "1.0.post1", artifact("a-b-1.0-1.tar.gz"), artifact("A_b-1.0.post1.zip"))
    one = Lock(profile="demo", inputs=INPUTS, variants=(variant("cpu-pypi", tools, floors=NOTHING),))
    assert {file.file for file in lock.parse(lock.render(one), "demo.lock").variants[0].packages[0].artifacts} == {
        "a-b-1.0-1.tar.gz",
        "A_b-1.0.post1.zip",
    }


def test_a_name_that_a_terminal_would_obey_is_quoted() -> None:
    text = TEXT.replace("[variant.cu121-pypi]", '[variant."\\u0000"]').replace('"cu121-pypi"', '"\\u001b[2J"')
    said = "".join(map(str, problems(text)))
    assert said.isprintable()
    line = text[: text.index("[variant")].count("\n") + 1
    assert ('variant."\\u0000"', line) in [(problem.key, problem.line) for problem in problems(text)]


def test_a_lock_of_another_profile_is_not_this_one() -> None:
    with pytest.raises(Misuse) as caught:
        lock.parse(TEXT, "lockfiles/other.lock")
    (problem,) = caught.value.problems
    assert (caught.value.code, caught.value.hint) == ("lock-invalid", "envlock lock other")
    assert (problem.key, problem.line, problem.message) == ("profile", 4, "is `demo`")


def test_all_mistakes_are_named_at_once() -> None:
    text = TEXT.replace("4" * 64, "x").replace('engine = "uv-0"', "").replace('python = "3.11"', "python = 3")
    assert {problem.key for problem in problems(text)} == {
        "package[1].files[0].sha256",
        "inputs.engine",
        "variant.cpu-pypi.python",
    }


def test_a_file_for_nobody_leaves_a_variant_without_one() -> None:
    text = TEXT.replace('files = [{ index = "pypi", file = "old', 'files = []\nfile = [{ x = "old')
    assert "package[1].files" in {problem.key for problem in problems(text)}


# ---- pick -----------------------------------------------------------------------------------------------------------


MANY = package(
    "many",
    "1.0",
    artifact("many-1.0-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "1"),
    artifact("many-1.0-cp310-cp310-manylinux_2_28_x86_64.whl", "2"),
    artifact("many-1.0-cp38-abi3-manylinux1_x86_64.whl", "3"),
    artifact("many-1.0-py3-none-any.whl", "4"),
    artifact("many-1.0-cp311-cp311-manylinux_2_17_aarch64.whl", "5"),
)


@pytest.mark.parametrize(
    ("python", "platform", "glibc", "digit"),
    [
        ("3.10", "linux-x86_64", "2.35", "2"),
        ("3.10", "linux-x86_64", "2.28", "2"),
        ("3.10", "linux-x86_64", "2.27", "1"),
        ("3.10", "linux-x86_64", None, "2"),
        ("3.10", "linux-x86_64", "2.16", "3"),
        ("3.12", "linux-x86_64", "2.35", "3"),
        ("3.12", "linux-x86_64", "2.4", "4"),
        ("3.11", "linux-aarch64", "2.35", "5"),
        ("3.12", "linux-aarch64", "2.35", "4"),
    ],
)
def test_the_best_wheel_for_a_machine(python: str, platform: str, glibc: str | None, digit: str) -> None:
    assert lock.pick(MANY, python, platform, glibc).sha256 == digit * 64


def test_the_nearest_python_wins() -> None:
    files = [
        artifact(f"m-1.0-{tag}-none-any.whl", digit) for tag, digit in (("py38", "1"), ("py310", "2"), ("py39", "3"))
    ]
    assert lock.pick(package("m", "1.0", *files), "3.10", "linux-x86_64", "2.31").sha256 == "2" * 64


def test_a_wheel_goes_before_the_source_and_the_source_before_nothing() -> None:
    both = package("both", "1.0", artifact("both-1.0.tar.gz", "1"), artifact("both-1.0-py3-none-any.whl", "2"))
    assert lock.pick(both, "3.10", "linux-x86_64", "2.31").sha256 == "2" * 64
    other = package("both", "1.0", artifact("both-1.0.tar.gz", "1"), artifact("both-1.0-cp39-cp39-win_amd64.whl", "2"))
    assert lock.pick(other, "3.10", "linux-x86_64", "2.31").sha256 == "1" * 64


def test_no_wheel_that_fits_is_said_with_the_machine_and_the_files() -> None:
    new = package("new", "1.0", artifact("new-1.0-cp310-cp310-manylinux_2_28_x86_64.whl"), artifact("new-1-x.whl"))
    with pytest.raises(Refused) as caught:
        lock.pick(new, "3.10", "linux-x86_64", "2.17")
    assert caught.value.code == "no-wheel-fits"
    assert "glibc 2.17" in caught.value.message
    assert [problem.key for problem in caught.value.problems] == [file.file for file in new.artifacts]


# ---- two locks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["profile", "facts", "rules", "engine"])
def test_what_moved_is_named(name: str) -> None:
    assert lock.moved(SMALL, INPUTS) == ()
    assert lock.moved(SMALL, replace(INPUTS, **{name: "other"})) == (name,)


def test_pins_are_the_versions_of_one_variant() -> None:
    assert lock.pins(SMALL.variants[0]) == {"numpy": "1.26.4", "old": "1.0", "torch": "2.4.1", "wheel": "0.43.0"}
    assert lock.pins(None) == {}


def test_differences_are_told_by_variant() -> None:
    other = replace(NUMPY, artifacts=NUMPY.artifacts[:1])
    new = replace(
        SMALL,
        variants=(
            variant(
                "cu121-pypi", other, package("new", "3"), package("torch", "2.4.2"), build=(package("wheel", "1"),)
            ),
            SMALL.variants[1],
        ),
    )
    assert lock.diff(SMALL, SMALL) == ()
    assert lock.diff(SMALL, new) == tuple(
        Change(variant="cu121-pypi", package=name, was=was, now=now)
        for name, was, now in (
            ("new", None, "3"),
            ("numpy", "1.26.4", "1.26.4, other files"),
            ("old", "1.0", None),
            ("torch", "2.4.1", "2.4.2"),
            ("wheel (to build)", "0.43.0", "1"),
        )
    )
    assert (
        {change.was for change in lock.diff(None, SMALL)} == {change.now for change in lock.diff(SMALL, None)} == {None}
    )


# ---- what pip and uv take -------------------------------------------------------------------------------------------


def test_requirements_hold_every_hash_and_how_to_install() -> None:
    plain = variant("cpu-pypi", NUMPY, package("torch", "2.8.0"))
    assert lock.requirements(plain, "demo").splitlines() == [
        "# demo, variant cpu-pypi (linux-x86_64). Written by envlock; changed by `envlock lock` only.",
        (
            "# `envlock install demo` does all this, and verifies."
            " By hand, in the folder of this file, for glibc systems with python3.10:"
        ),
        "#   uv:  uv venv --python 3.10 && uv pip sync --python .venv --require-hashes requirements.txt",
        "#   pip: python3.10 -m venv .venv && .venv/bin/pip install --no-deps --require-hashes -r requirements.txt",
        (
            "#   pip-sync: python3.10 -m venv --upgrade-deps .venv && pip-sync --python-executable .venv/bin/python"
            " --pip-args '--no-deps --require-hashes' requirements.txt"
        ),
        "numpy==1.26.4 \\",
        f"    --hash=sha256:{'2' * 64} \\",
        f"    --hash=sha256:{'3' * 64}",
        "    # via peft, profile",
        "torch==2.8.0 \\",
        f"    --hash=sha256:{'1' * 64}",
        "    # via profile",
    ]


def test_sources_are_built_first_and_with_what_is_named() -> None:
    text = lock.requirements(SMALL.variants[0], "demo")
    assert "Built from source, with what build-requirements.txt names: old" in text
    assert text.index("build-requirements.txt") < text.index("--no-build-isolation")
    assert "--no-build-isolation" not in lock.requirements(SMALL.variants[1], "demo")
    built = lock.build_requirements(SMALL.variants[0], "demo")
    assert "to build old" in built
    assert "\nwheel==0.43.0 \\\n" in built


def test_a_lock_stands_beside_what_is_rendered_from_it() -> None:
    assert list(lock.files(SMALL, {})) == [
        "demo/cu121-pypi/requirements.txt",
        "demo/cu121-pypi/build-requirements.txt",
        "demo/cpu-pypi/requirements.txt",
        "demo.lock",
    ]
    assert lock.files(SMALL, {})["demo.lock"] == TEXT.encode()
    assert [lock.is_rendered(content) for content in lock.files(SMALL, {}).values()] == [True, True, True, False]
    assert not lock.is_rendered(b"numpy==1.26.4\n" + lock.files(SMALL, {})["demo/cpu-pypi/requirements.txt"])


def test_the_places_are_those_of_the_files() -> None:
    assert lock.places(SMALL) == list(lock.files(SMALL, {}))


def test_an_index_without_an_address_is_no_place_to_look() -> None:
    torch = package("torch", "2.4.1", artifact("torch-2.4.1-py3-none-any.whl", index="nope"))
    with pytest.raises(Refused) as caught:
        lock.requirements(variant("cpu", NUMPY, torch), "demo", {"cpu": "https://index.example/cpu/"})
    assert (caught.value.code, caught.value.hint) == ("index-unknown", "envlock lock demo")
    assert "`nope`" in caught.value.message
