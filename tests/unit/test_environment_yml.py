from __future__ import annotations

import pytest

from envlock import environment_yml, foreign_names, store
from envlock.errors import Misuse
from envlock.foreign import Foreign

NAMES = foreign_names.parse(store.facts_texts())
LLAVA = """\
name: llava
channels:
  - pytorch
  - conda-forge
dependencies:
  - python=3.10.13=h955ad1f_0
  - pip
  - pytorch::pytorch=2.1.2=py3.10_cuda12.1_cudnn8.9.2_0
  - torchvision==0.16.2
  - pytorch-cuda=11.8
  - mkl
  - numpy=1.26
  - some-tool=1.0
  - pip:
      - transformers==4.37.2
      - -e .
prefix: /home/me/miniconda3/envs/llava
"""


def parse(text: str) -> Foreign:
    return environment_yml.parse(text, "environment.yml", NAMES)


def test_an_environment_of_a_training_repository() -> None:
    found = parse(LLAVA)
    assert [(line.text, line.number) for line in found.lines] == [
        ("torch==2.1.2", 8),
        ("torchvision==0.16.2", 9),
        ("numpy==1.26.*", 12),
        ("transformers==4.37.2", 15),
        ("-e .", 16),
    ]
    assert (found.name, found.python and found.python.text) == ("llava", "==3.10.13")
    assert [hint.backend for hint in found.hints] == ["cu121", "cu118"]
    assert [(one.what, one.line) for one in found.dropped] == [
        ("channels: pytorch, conda-forge", 2),
        ("python h955ad1f_0", 6),
        ("pip", 7),
        ("pytorch py3.10_cuda12.1_cudnn8.9.2_0", 8),
        ("pytorch-cuda=11.8", 10),
        ("mkl", 11),
        ("some-tool=1.0", 13),
    ]
    assert all(one.why for one in found.dropped)


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("numpy", "numpy"),
        ("numpy=1.26.4", "numpy==1.26.4"),
        ("numpy=1.26.4=py310_0", "numpy==1.26.4"),
        ("numpy==1.26", "numpy==1.26"),
        ("numpy=1.26.*", "numpy==1.26.*"),
        ("numpy 1.26.*", "numpy==1.26.*"),
        ("numpy 1.26.4 py310_0", "numpy==1.26.4"),
        ("numpy=1.26=*", "numpy==1.26"),
        ("'numpy >=1.20, <2'", "numpy>=1.20,<2"),
        ("'numpy!=1.24.0'", "numpy!=1.24.0"),
        ("conda-forge::numpy", "numpy"),
        ("NumPy=*", "numpy"),
        ("'numpy=1.25|1.26'", "numpy"),
        ("huggingface_hub", "huggingface-hub"),
        ("pytorch-gpu=2.1.2", "torch==2.1.2"),
    ],
)
def test_a_version_of_condas_as_pep_440_has_it(spec: str, line: str) -> None:
    found = parse(f"dependencies:\n  - {spec}\n")
    assert [one.text for one in found.lines] == [line]


def test_a_python_stays_the_text_that_it_is() -> None:
    found = parse("dependencies:\n  - python=3.10\n")
    assert found.python is not None
    assert found.python.text == "==3.10.*"


@pytest.mark.parametrize(
    ("spec", "backend"),
    [
        ("pytorch=2.1.2=py3.10_cpu_0", "cpu"),
        ("pytorch-cpu", "cpu"),
        ("pytorch=2.1.2=cuda118_py310h_300", "cu118"),
        ("cudatoolkit=11.8", "cu118"),
        ("cuda-version>=12.1", "cu121"),
    ],
)
def test_what_names_a_cuda_line_names_a_backend(spec: str, backend: str) -> None:
    assert [hint.backend for hint in parse(f"dependencies:\n  - {spec}\n").hints] == [backend]


@pytest.mark.parametrize("spec", ["pytorch-cuda", "cudatoolkit=x", "'python=3.1|3.2'"])
def test_what_cannot_be_kept_is_told(spec: str) -> None:
    (dropped,) = parse(f"dependencies:\n  - {spec}\n").dropped
    assert dropped.line == 2


def test_a_python_of_any_version_says_none() -> None:
    assert parse("dependencies:\n  - python\n").python is None


def test_what_is_no_part_of_a_profile_is_told() -> None:
    found = parse("variables:\n  A: b\ndependencies:\n  - npm:\n      - x\n")
    assert [(one.what, one.line) for one in found.dropped] == [("variables:", 1), ("npm:", 4)]


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\ndependencies: *c\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("- numpy\n", None),
        ("dependencies: numpy\n", 1),
        ("dependencies:\n  - [a, b]\n", 2),
        ("dependencies:\n  - numpy\n  - '[]'\n", 3),
        ("dependencies:\n  - pip: numpy\n", 2),
        ("dependencies:\n  - pip:\n      - a: 1\n", 3),
        ("dependencies:\n\t- numpy\n", 2),
        ("dependencies: [a\n", 2),
        ("dependencies: &x [numpy]\n", 1),
        ("dependencies: *x\n", 1),
        (BOMB, 1),
        ("dependencies:\n  - \x00\n", None),
        ("dependencies: " + "[" * 3000, None),
    ],
)
def test_what_is_no_environment_has_its_line(text: str, line: int | None) -> None:
    with pytest.raises(Misuse) as caught:
        parse(text)
    assert caught.value.code == "environment-invalid"
    assert caught.value.problems[0].file == "environment.yml"
    assert line is None or caught.value.problems[0].line == line


def test_nothing_in_it_is_run() -> None:
    with pytest.raises(Misuse):
        parse("dependencies:\n  - !!python/object/apply:os.system [echo]\n")


def test_an_environment_without_end_is_left() -> None:
    with pytest.raises(Misuse) as caught:
        parse("dependencies:\n" + "  - numpy\n" * 200_000)
    assert caught.value.code == "file-too-large"
