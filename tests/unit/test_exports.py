from __future__ import annotations

import re

import pytest

from envlock import exports, lock
from envlock.model import Artifact, BackendSpec, Floors, Format, LockedPackage, LockedVariant, Profile, Variant

CPU = {"cpu": "https://torch.example/cpu/"}


def package(name: str, file: str, *digits: str, index: str = "pypi") -> LockedPackage:
    files = tuple(Artifact(index=index, file=file, sha256=digit * 64, size=1) for digit in digits)
    return LockedPackage(name=name, version="1.0", artifacts=files, why=("profile",))


def variant(*packages: LockedPackage, build: tuple[LockedPackage, ...] = ()) -> LockedVariant:
    what = Variant(name="cpu", backend="cpu", source="index", python="3.12", platform="linux-x86_64")
    floors = Floors(driver=None, driver_windows=None, glibc=None, sm=())
    return LockedVariant(variant=what, floors=floors, packages=packages, build=build)


def profile(*conda: str) -> Profile:
    spec = BackendSpec(name="cpu", python=("3.12",), pypi_python=(), requires=("alpha",), exclude_newer=None)
    return Profile(
        name="small.1",
        summary="",
        file="small.1.toml",
        platforms=("linux-x86_64",),
        backends=(spec,),
        conda_requires=conda,
    )


ALPHA = package("alpha", "alpha-1.0-py3-none-any.whl", "2", "1")
TORCH = package("torch", "torch-1.0-py3-none-any.whl", "3", index="cpu")
GAMMA = package("gamma", "gamma-1.0.tar.gz", "4")
TOOL = package("tool", "tool-1.0-py3-none-any.whl", "5")
PLAIN, BUILT = variant(ALPHA), variant(GAMMA, TORCH, build=(TOOL,))


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("requirements", "requirements.txt"),
        ("pylock", "pylock.qwen2-5-cu124-pypi.toml"),
        ("environment.yml", "environment.yml"),
        ("wheelhouse", "qwen2.5-cu124-pypi-wheelhouse"),
    ],
)
def test_what_an_export_is_called(kind: Format, named: str) -> None:
    assert exports.name(kind, "qwen2.5", "cu124-pypi") == named


def test_every_format_has_a_name() -> None:
    assert len({exports.name(kind, "small", "cpu") for kind in exports.FORMATS}) == len(exports.FORMATS)


# ---- requirements ---------------------------------------------------------------------------------------------------


def test_requirements_are_those_beside_the_lock() -> None:
    assert exports.requirements(PLAIN, "small.1", {}) == {"requirements.txt": lock.requirements(PLAIN, "small.1", {})}
    assert exports.requirements(BUILT, "small.1", CPU) == {
        "requirements.txt": lock.requirements(BUILT, "small.1", CPU),
        "build-requirements.txt": lock.build_requirements(BUILT, "small.1"),
    }


def test_another_name_is_the_one_the_header_says() -> None:
    text = exports.renamed(lock.requirements(BUILT, "small.1", CPU), "requirements.txt", "my own.txt")
    header = "".join(line for line in text.splitlines() if line.startswith("#"))
    assert re.findall(r"\S*requirements\.txt", header) == ["build-requirements.txt"] * 4
    assert header.count(" 'my own.txt'") == 4
    assert exports.renamed("a\n# a\n", "a", "b") == "a\n# b\n"


# ---- environment.yml ------------------------------------------------------------------------------------------------


def test_an_environment_is_this() -> None:
    texts = exports.environment(variant(ALPHA, TORCH), profile("python 3.10.*", "gcc_linux-64 12.*"), CPU)
    assert texts == {
        "environment.yml": f"""\
# small.1, variant cpu (linux-x86_64). Written by `envlock export`.
# conda env create -f environment.yml; mamba and micromamba take it as well.
name: "small.1"
channels:
  - conda-forge
  - nodefaults
dependencies:
  - "python 3.12.*"
  - "gcc_linux-64 12.*"
  - "pip"
  - pip:
    - "--find-links https://torch.example/cpu/torch/"
    - "alpha==1.0 --hash=sha256:{"1" * 64} --hash=sha256:{"2" * 64}"
    - "torch==1.0 --hash=sha256:{"3" * 64}"
"""
    }


def test_an_environment_with_something_to_build_leaves_pip_to_its_maker() -> None:
    texts = exports.environment(BUILT, profile(), CPU)
    pip = "conda run -n small.1 python -m pip install --no-deps --require-hashes"
    assert list(texts) == ["environment.yml", "requirements.txt", "build-requirements.txt"]
    assert texts["environment.yml"].splitlines()[2:] == [
        "# Then, since conda cannot say --no-build-isolation, with the two files that stand beside this one:",
        f"#   {pip} --only-binary :all: -r build-requirements.txt",
        f"#   {pip} --no-build-isolation --find-links https://torch.example/cpu/torch/ -r requirements.txt",
        "# Built from source: gamma",
        'name: "small.1"',
        "channels:",
        "  - conda-forge",
        "  - nodefaults",
        "dependencies:",
        '  - "python 3.12.*"',
        '  - "pip"',
    ]


@pytest.mark.parametrize("spec", ["python", "python=3.10", "python >=3.10", "conda-forge::python", "Python[build=x]"])
def test_the_variant_says_which_python(spec: str) -> None:
    text = exports.environment(PLAIN, profile(spec, "pip>=24", "=3"), {})["environment.yml"]
    specs = re.findall(r'^  - "(.*)"$', text, re.MULTILINE)
    assert specs == ["python 3.12.*", "pip>=24", "=3"]


# ---- pylock and wheelhouse ------------------------------------------------------------------------------------------


def test_a_pylock_says_how_it_is_synced() -> None:
    assert exports.pylock_comments(PLAIN, "small.1", "pylock.a.toml") == [
        "small.1, variant cpu (linux-x86_64). Written by `envlock export`.",
        "uv venv --python 3.12 && uv pip sync --python .venv pylock.a.toml",
    ]
    first, second = "--require-hashes --only-binary :all: build-requirements.txt", "--no-build-isolation pylock.a.toml"
    assert exports.pylock_comments(BUILT, "small.1", "pylock.a.toml")[1:] == [
        f"uv venv --python 3.12 && uv pip sync --python .venv {first} && uv pip sync --python .venv {second}",
        "Built from source, with what build-requirements.txt names: gamma",
    ]


def test_a_wheelhouse_says_how_it_is_installed() -> None:
    text = exports.wheelhouse(variant(ALPHA, TORCH), "small.1", {})
    options = "--no-index --find-links . --require-hashes"
    assert (
        text
        == f"""\
# small.1, variant cpu (linux-x86_64). Written by `envlock export`.
# In this folder, without a network, for glibc systems with python3.12:
#   pip: python3.12 -m venv .venv && .venv/bin/pip install {options} -r requirements.txt
#   uv:  uv venv --python 3.12 && uv pip sync --python .venv {options} requirements.txt
# Whether all of it arrived: sha256sum --check --quiet SHA256SUMS
alpha==1.0 \\
    --hash=sha256:{"1" * 64} \\
    --hash=sha256:{"2" * 64}
torch==1.0 \\
    --hash=sha256:{"3" * 64}
"""
    )
    built = exports.wheelhouse(PLAIN, "small.1", {"gamma-1.0-py3-none-any.whl": "gamma-1.0.tar.gz"})
    assert built.splitlines()[5:7] == [
        "# Built for this folder, so that their hashes are not those of the lock:",
        "#   gamma-1.0-py3-none-any.whl from gamma-1.0.tar.gz",
    ]


def test_what_is_summed_is_listed() -> None:
    text = exports.sums({"b.whl": "2" * 64, "a b.whl": "1" * 64})
    assert text == f"{'1' * 64}  a b.whl\n{'2' * 64}  b.whl\n"
    assert exports.summed(text.splitlines()) == {"a b.whl", "b.whl"}
    assert exports.summed([]) == set()


# ---- whose is it ----------------------------------------------------------------------------------------------------


def test_an_export_is_known_by_its_first_line() -> None:
    written = [
        *exports.environment(BUILT, profile(), CPU).values(),
        *exports.requirements(PLAIN, "small.1", {}).values(),
    ]
    assert all(exports.is_export(text.encode()) for text in written)
    assert not exports.is_export(b"")
    assert not exports.is_export(b"torch==2.8.0\n# Written by `envlock export`.\n")
