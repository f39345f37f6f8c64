from __future__ import annotations

import json
import sys

import jsonschema  # type: ignore[import-untyped]
import pytest

from envlock import adopting, environment_yml, facts, foreign, foreign_names, profile, profile_text, store
from envlock.adopting import Draft, Known
from envlock.app import judging
from envlock.errors import EnvlockError, Misuse
from envlock.foreign import Foreign

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXTS = store.facts_texts()
FACTS = facts.parse(TEXTS)
KNOWN = Known(facts=FACTS, rules=judging.rules(FACTS), names=foreign_names.parse(TEXTS))
SCHEMA = json.loads((store.PACKAGE.parent / "docs" / "profile.schema.json").read_text(encoding="utf-8"))
HERE = "3.12"


def source(text: str, file: str = "requirements.txt") -> Foreign:
    kind = foreign.kind(text, file)
    if kind == "environment.yml":
        return environment_yml.parse(text, file, KNOWN.names)
    if kind == "pyproject.toml":
        return foreign.pyproject(text, file)
    lines, dropped = foreign.requirements(text, file)
    return Foreign(kind=kind, lines=lines, dropped=dropped)


def derive(text: str, file: str = "requirements.txt", *, python: str | None = None) -> Draft:
    """Return what is derived; that it makes a profile holds for every text."""
    draft = adopting.derive(source(text, file), KNOWN, python=python, here=HERE)
    written = profile_text.render(draft, name="mine", summary="mine", origin=file)
    read = profile.parse(written, "mine.toml")
    jsonschema.validate(tomllib.loads(written), SCHEMA)
    assert [spec.name for spec in read.backends] == [build.name for build in draft.builds]
    assert all(spec.requires == tuple(draft.requires) for spec in read.backends)
    return draft


def reasons(draft: Draft) -> dict[str, str]:
    return {one.what: one.why for one in draft.dropped}


FREEZE = (
    "accelerate==0.33.0\r\nbitsandbytes==0.43.3\r\n# Windows\r\nnumpy==1.26.4\r\nnvidia-cublas-cu12==12.1.3.1\r\n"
    "nvidia-ml-py==12.560.30\r\npeft==0.12.0\r\ntorch==2.4.1+cu121\r\ntriton==3.0.0\r\n"
)


def test_a_freeze_keeps_its_pins_and_leaves_torch_its_own() -> None:
    draft = derive(FREEZE)
    asked = [text for text, remark in draft.requires.items() if not remark]
    assert asked == [
        "accelerate==0.33.0",
        "bitsandbytes==0.43.3",
        "numpy==1.26.4",
        "nvidia-ml-py==12.560.30",
        "peft==0.12.0",
        "torch==2.4.1",
    ]
    why = reasons(draft)
    assert why["nvidia-cublas-cu12==12.1.3.1"] == why["triton==3.0.0"] == "comes with torch"
    assert [build.name for build in draft.builds] == ["cu121", "cu124", "cu118", "cpu"]
    assert (draft.python, draft.torch) == ("3.12", "2.4.1")


def test_setuptools_is_added_where_a_rule_demands_it_and_named_as_added() -> None:
    assert (
        derive(FREEZE)
        .requires["setuptools"]
        .startswith("triton before 3.2, which is that of torch before 2.6, imports")
    )
    assert "setuptools<82" in derive("torch==2.1.2\n").requires
    assert "setuptools" not in derive("torch==2.8.0\n").requires
    assert derive(FREEZE + "setuptools==75.0.0\r\n").requires["setuptools==75.0.0"] == ""
    assert "setuptools<70" in derive(FREEZE + "setuptools<70\r\n").requires


def test_without_torch_nothing_is_taken_for_a_part_of_it() -> None:
    draft = derive("nvidia-cublas-cu12==12.1.3.1\n")
    assert list(draft.requires) == ["nvidia-cublas-cu12==12.1.3.1"]
    assert ([build.name for build in draft.builds], draft.python) == (["cpu"], HERE)


@pytest.mark.parametrize(
    ("text", "backends"),
    [
        ("torch==2.4.1", ["cu121", "cu124", "cu118", "cpu"]),
        ("torch==2.4.1+cu118", ["cu118", "cu121", "cu124", "cpu"]),
        ("torch==2.4.1+cpu", ["cpu", "cu121", "cu124", "cu118"]),
        ("--extra-index-url https://index.example/whl/cu124\ntorch==2.4.1", ["cu124", "cu121", "cu118", "cpu"]),
        ("torch==2.0.1", ["cu117", "cu118", "cpu"]),
        ("torch==2.8.0", ["cu128", "cu129", "cu126", "cpu"]),
    ],
)
def test_the_backends_are_those_that_torch_is_built_for_the_one_that_was_meant_first(
    text: str, backends: list[str]
) -> None:
    assert [build.name for build in derive(text).builds] == backends


def test_a_build_that_no_index_has_is_pypis_alone() -> None:
    own = derive("torch==2.0.1").builds[0]
    assert (own.name, own.index, own.pypi) == ("cu117", False, True)


def test_a_build_that_is_not_known_is_told() -> None:
    draft = derive("torch==2.4.1+cu129")
    assert draft.builds[0].name == "cu121"
    assert "no such build of torch 2.4.1 is known" in reasons(draft)["backend cu129"]


def test_a_backend_that_a_rule_refuses_is_left_out() -> None:
    draft = derive("torch==2.6.0\nbitsandbytes==0.45.4\n")
    assert "cpu" not in [build.name for build in draft.builds]
    assert "[bitsandbytes-no-cpu-library]" in reasons(draft)["backend cpu"]


def test_what_breaks_everywhere_is_a_note() -> None:
    draft = derive("torch==2.6.0\nbitsandbytes==0.43.3\n")
    assert any("[bitsandbytes-triton-ops]" in note for note in draft.notes)


def test_an_open_requirement_that_a_rule_bounds_is_a_note() -> None:
    assert any("`numpy` may need <2" in note for note in derive("torch==2.1.2\nnumpy\n").notes)
    assert not any("numpy" in note for note in derive("torch==2.1.2\nnumpy==1.26.4\n").notes)


def test_an_open_torch_is_the_newest_that_fits_and_that_is_told() -> None:
    draft = derive("--index-url https://index.example/whl/cu118\ntorch<2.7\nbitsandbytes>=0.40\n")
    assert draft.torch == "2.6.0"
    assert draft.builds[0].name == "cu118"
    assert "2.6.0 is the newest" in reasons(draft)["torch<2.7"]
    assert "a profile pins bitsandbytes" in reasons(draft)["bitsandbytes>=0.40"]


def test_an_open_bitsandbytes_is_the_newest_that_breaks_no_rule_beside_the_pins() -> None:
    assert "bitsandbytes==0.45.5" in derive("torch==2.1.2\nbitsandbytes\n").requires


def test_torch_is_pinned_everywhere_or_nowhere() -> None:
    draft = derive("torch==2.4.1; python_version < '3.13'\ntorch>=2\n", python="3.12")
    assert "torch==2.4.1" in draft.requires


XTUNER = (
    "bitsandbytes>=0.40.0\ndatasets\neinops\nfsspec<=2023.6.0\nSentencePiece\ntorch\ntransformers>=4.32.1,<=4.34.0\n"
)


def test_requirements_of_xtuner() -> None:
    draft = derive(XTUNER)
    assert "transformers>=4.32.1,<=4.34.0" in draft.requires
    assert "sentencepiece" in draft.requires
    assert any(note.startswith("no one version is asked of datasets, einops") for note in draft.notes)


LLAVA = """\
[project]
name = "llava"
requires-python = ">=3.8"
dependencies = [
    "einops", "fastapi", "gradio==3.35.2", "markdown2[all]", "numpy", "torch==2.0.1", "torchvision==0.15.2",
    "transformers==4.31.0", "bitsandbytes==0.41.0", "sentencepiece", "sentencepiece==0.1.99", "einops==0.6.1",
]
"""


def test_the_project_of_llava() -> None:
    draft = derive(LLAVA, "pyproject.toml")
    assert draft.python == "3.11"
    assert {"einops==0.6.1", "sentencepiece==0.1.99", "markdown2[all]", "torch==2.0.1"} <= set(draft.requires)
    assert {"scipy", "setuptools"} <= {text.partition("<")[0] for text, remark in draft.requires.items() if remark}


FASTCHAT = """\
name: fastchat
channels: [pytorch, nvidia]
dependencies:
  - python=3.10.13=h955ad1f_0
  - pytorch=2.1.2=py3.10_cuda12.1_cudnn8.9.2_0
  - pytorch-cuda=12.1
  - pip:
      - transformers==4.37.2
      - -e .
"""


def test_the_environment_of_fastchat() -> None:
    draft = derive(FASTCHAT, "environment.yml")
    assert (draft.python, draft.reason) == ("3.10", "3.10.13 in environment.yml")
    assert draft.builds[0].name == "cu121"
    assert "newest patch" in reasons(draft)["Python 3.10.13"]


@pytest.mark.parametrize(
    ("text", "python", "chosen"),
    [
        ("torch==2.1.2", None, "3.11"),
        ("torch==2.15.0", None, "3.13"),
        ("torch==2.4.1", "3.9", "3.9"),
        ("rich==13.7.1", None, HERE),
        ("rich==13.7.1", "3.8", "3.8"),
        ("torch==2.15.0; python_version >= '3.15'", "3.15", "3.15"),
    ],
)
def test_the_python_is_the_one_said_else_the_newest_common_one(text: str, python: str | None, chosen: str) -> None:
    assert derive(text, python=python).python == chosen


@pytest.mark.parametrize(
    ("asked", "python", "chosen"),
    [
        ("==3.9.*", None, "3.9"),
        (">=3.9,<3.11", None, "3.10"),
        (">=3.9.2,<3.11", "3.9", "3.9"),
        (">=3.9,<3.11", "3.12", "3.12"),
        (">=3.14", None, "3.14"),  # none of those is in common use
    ],
)
def test_a_file_that_says_its_python_gets_one_of_those(asked: str, python: str | None, chosen: str) -> None:
    for torch in ("torch==2.9.1", "rich==13.7.1"):
        if (chosen, torch) in {("3.9", "torch==2.9.1"), ("3.14", "rich==13.7.1")}:
            continue
        text = f'[project]\nname = "x"\nrequires-python = "{asked}"\ndependencies = ["{torch}"]\n'
        draft = derive(text, "pyproject.toml", python=python)
        assert draft.python == chosen
        assert (asked.lstrip("=") in {one.what.removeprefix("Python ") for one in draft.dropped}) == (chosen == "3.12")


@pytest.mark.parametrize(
    ("text", "python", "code"),
    [
        ("torch==1.13.1", None, "version-unknown"),
        ("torch===nonsense", None, "version-unknown"),
        ("torch>=9", None, "version-unknown"),
        ("torch==2.4.1", "3.13", "python-without-build"),
        ("bitsandbytes>=9", None, "version-unknown"),
        ("-e .", None, "nothing-kept"),
        ("", None, "nothing-kept"),
    ],
)
def test_what_no_profile_can_be_made_of(text: str, python: str | None, code: str) -> None:
    with pytest.raises(Misuse) as caught:
        derive(text, python=python)
    assert caught.value.code == code
    assert caught.value.problems[0].expected


@pytest.mark.parametrize(("asked", "code"), [(">=4", "python-without-build"), ("new", "requirements-invalid")])
def test_a_python_that_there_is_not(asked: str, code: str) -> None:
    with pytest.raises(Misuse) as caught:
        derive(f'[project]\nname = "x"\nrequires-python = "{asked}"\ndependencies = ["a"]\n', "pyproject.toml")
    assert (caught.value.code, caught.value.problems[0].line) == (code, 3)


@pytest.mark.parametrize("row", ['[[part]]\nnames = "x"\n', '[[part]]\nname = ["x"]\n', '[[parts]]\nnames = ["x"]\n'])
def test_names_that_are_broken_name_their_row(row: str) -> None:
    evidence = 'source = "x"\ndate = "2026-12-03"\nstatus = "sourced"\n'
    with pytest.raises(EnvlockError) as caught:
        foreign_names.parse({**TEXTS, "torch_parts.toml": row + evidence})
    assert caught.value.code == "facts-invalid"
