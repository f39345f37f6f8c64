"""`envlock check`: a file that envlock did not write, held against its rules and against a machine."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell

CRASHING = "torch==2.6.0\ntriton==3.2.0\nbitsandbytes==0.43.1\nsetuptools==75.0.0\ntransformers>=4.40\n"
SOUND = "torch==2.4.1+cu121\ntriton==3.0.0\nbitsandbytes==0.43.3\nsetuptools==75.0.0\nnumpy==1.26.4\n"
FITTING = ("--python", "3.10", "--driver", "535.104.05", "--gpu", "8.6", "--glibc", "2.35")


def test_what_breaks_is_named_with_what_would_fit(shell: Shell) -> None:
    shell.write("requirements.txt", CRASHING)
    document = shell("check", "requirements.txt", *FITTING, "--json").document
    assert (document["exit"], document["error"]["code"]) == (1, "conflict")
    assert document["error"]["hint"] == "envlock check requirements.txt -v"
    result = document["result"]
    assert (result["packages"], result["left_open"], result["backend"]) == (4, ["transformers>=4.40"], "cu124")
    (row,) = result["violations"]
    assert (row["rule"], row["package"], row["floor"], row["nearest"]) == (
        "bitsandbytes-triton-ops",
        "bitsandbytes",
        ">=0.45.1",
        "0.45.1",
    )
    plain = shell("check", "requirements.txt", *FITTING)
    assert plain.code == 1
    assert plain.stdout.splitlines()[-1] == "1 rule broken"
    assert "fits: bitsandbytes >=0.45.1 (0.45.1 is the nearest)" in plain.stdout
    assert "not judged, since no version is pinned: transformers>=4.40" in plain.stdout


def test_what_is_sound_and_fits_is_a_yes(shell: Shell) -> None:
    shell.write("freeze.txt", SOUND)
    plain = shell("check", "freeze.txt", *FITTING)
    assert (plain.code, plain.stderr) == (0, "")
    assert plain.stdout.splitlines()[-1] == "no rule broken, and the machine can run it"
    result = shell("check", "freeze.txt", *FITTING, "--json").document["result"]
    assert (result["fits"], result["refused"], result["violations"]) == (True, [], [])


def test_a_machine_that_cannot_run_it_is_a_no(shell: Shell) -> None:
    shell.write("freeze.txt", SOUND)
    arguments = ("--python", "3.10", "--driver", "470.82.01", "--gpu", "12.0", "--glibc", "2.35", "--json")
    document = shell("check", "freeze.txt", *arguments).document
    assert (document["exit"], document["error"]["code"], document["result"]["fits"]) == (
        1,
        "no-compatible-backend",
        False,
    )
    assert {row["code"] for row in document["result"]["refused"]} == {"driver-too-old", "gpu-arch-missing"}


def test_without_torch_no_machine_is_asked(shell: Shell) -> None:
    shell.write("requirements.txt", "rich==13.7.1\n")
    ran = shell("check", "requirements.txt", "--json")
    assert (ran.code, ran.document["result"]["fits"], ran.document["result"]["backend"]) == (0, None, None)
    assert shell("check", "requirements.txt").stdout.splitlines()[-1] == "no rule broken"


@pytest.mark.parametrize(
    ("text", "code"),
    [(None, "file-missing"), ("<html>\n", "requirements-invalid"), ("a==1\na==2\n", "requirements-invalid")],
)
def test_a_file_that_is_none(shell: Shell, text: str | None, code: str) -> None:
    if text is not None:
        shell.write("requirements.txt", text)
    ran = shell("check", "requirements.txt", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code)
