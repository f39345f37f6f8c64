from __future__ import annotations

import pytest

from envlock import requirements_text
from envlock.errors import Misuse, Problem
from envlock.requirements_text import Requirements, Source


def parse(text: str, python: str = "3.10", **others: str) -> Requirements:
    """Read the text, with the other files that are there by their names."""

    def beside(source: Source, name: str) -> Source:
        if name not in others:
            problem = Problem(message="no such file", file=f"/home/me/{name}")
            raise Misuse(f"{source.file} is one too few", code="file-missing", problems=(problem,), hint="ls")
        return Source(text=others[name], file=name, place=name)

    return requirements_text.parse(Source(text=text, file="requirements.txt", place="top"), python, beside)


@pytest.mark.parametrize(
    ("line", "pins"),
    [
        ("torch==2.4.1", {"torch": "2.4.1"}),
        ("\ufefftorch==2.4.1", {"torch": "2.4.1"}),
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
        ("torch==2.4.1 --config-settings=a=b --hash=sha256:ab", {"torch": "2.4.1"}),
        ("--no-index\n--pre --require-hashes\n--trusted-host index.example --only-binary :all:", {}),
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
        "transformers===4.40-mine",
        f"transformers==4.{'9' * 4400}",
        "transformers===main",
        "peft @ git+https://git.example/peft@main",
        "git+https://git.example/peft@main#egg=peft",
        "-e git+https://git.example/peft@main#egg=peft",
    ],
)
def test_what_has_no_version_is_left_open(line: str) -> None:
    found = parse(line)
    assert (found.pins, found.left_open, len(found.open_names)) == ({}, (line,), 1)


@pytest.mark.parametrize(
    "line",
    [
        "-e .",
        f"https://host.example/a-1.{'9' * 4400}-py3-none-any.whl",
        "https://host.example/archive.zip",
        "git+https://git.example/peft",
    ],
)
def test_what_has_no_name_is_left_open_too(line: str) -> None:
    assert parse(line) == Requirements(pins={}, left_open=(line,))


def test_the_names_of_what_is_left_open_are_known() -> None:
    assert parse("Scipy>=1\n-e .\ntorch\ntorch==2.4.1").open_names == {"scipy"}


# ---- other files --------------------------------------------------------------------------------------------------


def test_a_file_that_another_names_is_read_in_its_place() -> None:
    found = parse("-r a\n--requirement=b\n-rc", a="torch==2.4.1", b="-r a\nnumpy==1.26.4\npeft", c="trl==0.12.0")
    assert found.pins == {"torch": "2.4.1", "numpy": "1.26.4", "trl": "0.12.0"}
    assert found.left_open == ("peft",)


def test_a_circle_of_files_ends() -> None:
    assert parse("-r a\ntorch==2.4.1", a="-r b\nnumpy", b="-r a\nscipy").left_open == ("scipy", "numpy")


def test_a_constraint_pins_what_a_requirement_leaves_open_and_nothing_else() -> None:
    found = parse("torch\ntransformers>=4.40\n-c a", a="torch==2.4.1\nnumpy==1.26.4\npeft>=0.10")
    assert (found.pins, found.left_open, found.constrained) == ({"torch": "2.4.1"}, ("transformers>=4.40",), ("numpy",))


def test_what_a_constraint_forbids_is_a_mistake() -> None:
    with pytest.raises(Misuse) as caught:
        parse("-c a\ntorch==2.5.0", a="\ntorch==2.4.1")
    assert [str(one) for one in caught.value.problems] == [
        "requirements.txt:2: `torch` is pinned to 2.4.1 in a:2 (expected one version)"
    ]


def test_a_file_that_is_not_there_is_told_with_the_line_that_names_it() -> None:
    with pytest.raises(Misuse) as caught:
        parse("-r a", a="torch==2.4.1\n-c none")
    assert (caught.value.code, caught.value.hint) == ("file-missing", "ls")
    assert [str(one) for one in caught.value.problems] == ["a:2: `-c none`: no such file"]


# ---- options ------------------------------------------------------------------------------------------------------


def test_the_addresses_of_indexes_are_kept() -> None:
    found = parse("-i https://a.example/cu118 --extra-index-url=https://b.example\n--find-links 'c d'")
    assert found.indexes == {
        "https://a.example/cu118": "-i https://a.example/cu118",
        "https://b.example": "--extra-index-url https://b.example",
        "c d": "-f c d",
    }
    assert found.unjudged == ()


def test_other_options_are_named() -> None:
    found = parse("--no-binary torch\n-r https://host.example/a.txt\n--extra-indx-url https://a.example/cu118")
    assert found.unjudged == (
        "--no-binary torch",
        "-r https://host.example/a.txt",
        "--extra-indx-url https://a.example/cu118",
    )


@pytest.mark.parametrize("line", ["-r", "--find-links 'half"])
def test_an_option_that_is_none(line: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse(line)
    assert caught.value.problems[0].message.startswith(f"`{line}` is no requirement: ")


# ---- mistakes -----------------------------------------------------------------------------------------------------


def test_every_mistake_is_told_with_its_line() -> None:
    with pytest.raises(Misuse) as caught:
        parse("torch==2.4.1\n\nnot a requirement\ntorch==2.5.0 \\\n\n<html>\n")
    assert caught.value.code == "requirements-invalid"
    assert [(problem.line, problem.expected) for problem in caught.value.problems] == [
        (3, "a requirement (PEP 508)"),
        (4, "one version"),
        (6, "a requirement (PEP 508)"),
    ]
    assert caught.value.problems[0].message.startswith("`not a requirement` is no requirement: Expected ")
    assert caught.value.problems[1].message == "`torch` is pinned to 2.4.1 above"


@pytest.mark.parametrize(
    "marker",
    ["python_version ~= '3'", "'x' in extras", f"python_version > '3.{'9' * 4400}'"],
    ids=lambda text: text[:20],
)
def test_a_marker_that_nobody_can_decide_is_told(marker: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse(f"torch==2.4.1; {marker}")
    (problem,) = caught.value.problems
    assert (problem.line, problem.expected) == (1, "a requirement (PEP 508)")
    assert problem.message.endswith("can be neither true nor false")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("torch=2.6", "torch==2.6"),
        ("xtuner[deepspeed] = 0.1.23", "xtuner[deepspeed]==0.1.23"),
        ("numpy=1.26.4=py310h4", "numpy==1.26.4"),
        ("torch 2.6.0+cu118", "torch==2.6.0+cu118"),
    ],
)
def test_what_was_meant_is_said(line: str, meant: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse(line)
    (problem,) = caught.value.problems
    assert (problem.expected, problem.message.partition(":")[0]) == (f"`{meant}`?", f"`{line}` is no requirement")


def test_a_long_line_is_cut_and_no_control_character_is_shown() -> None:
    with pytest.raises(Misuse) as caught:
        parse(f"{'<' * 100}\n<\x1b[31m")
    long, coloured = caught.value.problems
    assert long.message.startswith(f"`{'<' * 57}...` is ")
    assert "\x1b" not in coloured.message


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('schema = 1\nbackends = ["cpu"]', "TOML"),
        ('[[package]]\nname = "torch"', "TOML"),
        ('{"default": {"torch": {"version": "==2.4.1"}}}', "JSON"),
    ],
)
def test_a_file_of_another_format_is_told_in_one_line(text: str, kind: str) -> None:
    with pytest.raises(Misuse) as caught:
        parse(text)
    assert (caught.value.code, caught.value.hint) == ("requirements-invalid", "pip freeze | envlock check -")
    assert caught.value.message == f"this is {kind}, not a requirements file"
    assert [(one.file, one.message) for one in caught.value.problems] == [("requirements.txt", f"is {kind}")]


def test_a_file_of_another_kind_is_not_told_line_by_line() -> None:
    with pytest.raises(Misuse) as caught:
        parse("<p>\n" * 500)
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1].message == "and 490 lines more"
