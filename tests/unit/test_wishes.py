from __future__ import annotations

import pytest

from envlock import foreign, wishes
from envlock.errors import Misuse
from envlock.foreign import Line
from envlock.wishes import Wishes


def read(text: str, python: str = "3.10") -> Wishes:
    return wishes.read(foreign.requirements(text, "r.txt")[0], python)


def kept(text: str, python: str = "3.10") -> list[str]:
    return [str(wish) for wish in read(text, python).packages.values()]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("torch==2.4.1", ["torch==2.4.1"]),
        ("Flash_Attn == 2.6.3  # fast", ["flash-attn==2.6.3"]),
        ("\ufefftorch==2.4.1\r\n# via x\r\npeft==0.12.0\r\n", ["torch==2.4.1", "peft==0.12.0"]),
        ("transformers<=4.34.0,>=4.32.1", ["transformers>=4.32.1,<=4.34.0"]),
        ("xtuner[deepspeed,all]==0.1.23", ["xtuner[all,deepspeed]==0.1.23"]),
        ("a===1.0", ["a==1.0"]),
        ("a===not-a-version", ["a===not-a-version"]),
        ("numpy==1.26.4; python_version < '3.12'", ['numpy==1.26.4; python_version < "3.12"']),
        (
            "numpy==1.26.4; python_version<'3.12'\nnumpy==2.1; python_version>='3.12'",
            ['numpy==1.26.4; python_version < "3.12"'],
        ),
        ("pywin32==306; sys_platform == 'win32'", []),
        ("einops\nsentencepiece\neinops==0.6.1", ["einops==0.6.1", "sentencepiece"]),
        ("a>=1\na<2\na[x]", ["a[x]>=1,<2"]),
        ("a==1.0\na==1", ["a==1.0,==1"]),
        ("torch==2.4.1+cu121", ["torch==2.4.1"]),
        ("torch @ https://index.example/torch-2.4.1%2Bcu121-cp310-cp310-linux_x86_64.whl#sha256=ab", ["torch==2.4.1"]),
        ("https://index.example/a-1.0-py3-none-any.whl", ["a==1.0"]),
    ],
)
def test_what_is_kept(text: str, wanted: list[str]) -> None:
    assert kept(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-e .", "editable"),
        ("-e git+https://git.example/x@main#egg=x", "editable"),
        ("--editable=./x", "editable"),
        ("git+https://git.example/x#egg=x", "not from an index"),
        ("x @ git+https://git.example/x", "not from an index"),
        ("packaging @ file:///croot/packaging_1/work", "not from an index"),
        ("./wheels/x-1.0-py3-none-any.whl", "a file of the machine"),
        ("x-1.0-py3-none-any.whl", "a file of the machine"),
        ("C:\\wheels\\x-1.0-py3-none-any.whl", "a file of the machine"),
        (".", "a file of the machine"),
        (".[train]", "a file of the machine"),
        ("--index-url https://index.example/simple", "names no index"),
        ("--extra-index-url=https://index.example/whl/cu121/", "the backend cu121"),
        ("-f https://index.example/whl/cu121", "the backend cu121"),
        ("--pre", "an option of pip's"),
        ("--no-binary :all:", "an option of pip's"),
        ("pywin32==306; sys_platform == 'win32'", "another Python or platform"),
    ],
)
def test_what_is_not_kept_and_why(text: str, why: str) -> None:
    found = read(text)
    assert not found.packages
    (dropped,) = found.dropped
    assert why in dropped.why
    assert (dropped.file, dropped.line) == ("r.txt", 1)


def test_the_build_that_was_installed_comes_before_the_index_that_it_may_come_from() -> None:
    found = read("--extra-index-url https://index.example/whl/cu118\ntorch==2.4.1+cu121\n")
    assert [hint.backend for hint in found.hints] == ["cu121", "cu118"]


def test_a_label_that_no_index_knows_is_told() -> None:
    found = read("flash-attn==2.5.8+cu122torch2.3")
    assert [str(wish) for wish in found.packages.values()] == ["flash-attn==2.5.8"]
    assert [one.what for one in found.dropped] == ["+cu122torch2.3 of flash-attn"]
    assert not found.hints


def test_a_constraint_asks_for_nothing_itself() -> None:
    lines = [
        Line(text="numpy==1.26.4", file="c.txt", number=1, constraint=True),
        Line(text="pandas==2.2.0", file="c.txt", number=2, constraint=True),
        Line(text="numpy", file="r.txt", number=2),
    ]
    found = wishes.read(lines, "3.10")
    assert [str(wish) for wish in found.packages.values()] == ["numpy==1.26.4"]
    assert [(one.what, one.file) for one in found.dropped] == [("pandas==2.2.0", "c.txt")]


def test_every_mistake_is_told_with_its_line() -> None:
    with pytest.raises(Misuse) as caught:
        read("torch=2.6\nok\na==1\na==2\n")
    assert caught.value.code == "requirements-invalid"
    assert [problem.line for problem in caught.value.problems] == [1, 4]
    assert '"torch=2.6"' in caught.value.problems[0].message
    assert "to 1 on line 3" in caught.value.problems[1].message


def test_a_file_of_another_kind_is_not_told_line_by_line() -> None:
    with pytest.raises(Misuse) as caught:
        read("a = b\n" * 50)
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1].message == "and 40 more"
