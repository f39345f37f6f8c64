from __future__ import annotations

import pytest

from envlock import requirements_text
from envlock.errors import Misuse
from envlock.requirements_text import Requirements


def parse(text: str, python: str = "3.10") -> Requirements:
    return requirements_text.parse(text, "requirements.txt", python)


@pytest.mark.parametrize(
    ("line", "pins"),
    [
        ("torch==2.4.1", {"torch": "2.4.1"}),
        ("Flash_Attn == 2.6.3  # fast", {"flash-attn": "2.6.3"}),
        ("torch===2.4.1+cu121", {"torch": "2.4.1+cu121"}),
        ("xtuner[deepspeed]==0.1.23", {"xtuner": "0.1.23"}),
        ("torch==2.4.1 --hash=sha256:ab --hash=sha256:cd", {"torch": "2.4.1"}),
        ("torch==2.4.1 \\\n    --hash=sha256:ab \\\n    --hash=sha256:cd\n    # via x", {"torch": "2.4.1"}),
        ("numpy==1.26.4; python_version < '3.12'", {"numpy": "1.26.4"}),
        ("numpy==2.1.0; python_version >= '3.12'", {}),
        ("pywin32==306; sys_platform == 'win32'", {}),
        (
            "torch @ https://torch.example/torch-2.4.1%2Bcu121-cp310-cp310-linux_x86_64.whl#sha256=ab",
            {"torch": "2.4.1+cu121"},
        ),
        ("https://torch.example/torch-2.4.1-cp310-cp310-linux_x86_64.whl", {"torch": "2.4.1"}),
        ("--extra-index-url https://torch.example/cu121", {}),
        ("-r other.txt", {}),
        ("# torch==2.4.1", {}),
        ("", {}),
    ],
)
def test_what_a_line_pins(line: str, pins: dict[str, str]) -> None:
    assert parse(line) == Requirements(pins=pins, left_open=())


@pytest.mark.parametrize(
    "line",
    [
        "transformers",
        "transformers>=4.40,<5",
        "transformers==4.40.*",
        "peft @ git+https://git.example/peft@main",
        "git+https://git.example/peft@main#egg=peft",
        "-e git+https://git.example/peft@main#egg=peft",
    ],
)
def test_what_has_no_version_is_left_open(line: str) -> None:
    assert parse(line) == Requirements(pins={}, left_open=(line,))


@pytest.mark.parametrize("line", ["-e .", "https://host.example/archive.zip", "git+https://git.example/peft"])
def test_what_has_no_name_is_no_package(line: str) -> None:
    assert parse(line) == Requirements(pins={}, left_open=())


def test_every_mistake_is_told_with_its_line() -> None:
    with pytest.raises(Misuse) as caught:
        parse("torch==2.4.1\n\nnot a requirement\ntorch==2.5.0 \\\n\n<html>\n")
    assert caught.value.code == "requirements-invalid"
    assert [(problem.line, problem.expected) for problem in caught.value.problems] == [
        (3, "a requirement (PEP 508)"),
        (4, "one version"),
        (6, "a requirement (PEP 508)"),
    ]
    assert caught.value.problems[1].message == "`torch` is pinned to 2.4.1 above"


def test_a_file_of_another_kind_is_not_told_line_by_line() -> None:
    with pytest.raises(Misuse) as caught:
        parse("<p>\n" * 500)
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1].message == "and 490 lines more"
