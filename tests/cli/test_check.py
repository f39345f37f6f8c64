"""`envlock check`: a file that envlock did not write, held against its rules and against a machine."""

from __future__ import annotations

import json
import subprocess
from typing import Any

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
    assert shell("check", "requirements.txt").stdout.splitlines()[-1] == "no rule is about what is pinned"


def codes(document: dict[str, Any]) -> list[str]:
    return [row["code"] for row in document["result"]["warnings"]]


# ---- what a file need not say -------------------------------------------------------------------------------------

BEFORE = "torch==2.4.1\ntriton==3.0.0\nbitsandbytes==0.43.3\n"


@pytest.mark.parametrize("text", [BEFORE, "torch==2.1.2\ntriton==2.1.0\nbitsandbytes==0.41.0\nsetuptools==75.0.0\n"])
def test_what_a_freeze_leaves_out_is_not_taken_for_missing(shell: Shell, text: str) -> None:
    shell.write("freeze.txt", text)
    document = shell("check", "freeze.txt", *FITTING, "--json").document
    assert (document["exit"], document["result"]["violations"]) == (0, [])
    assert codes(document).count("package-unseen") == 1


def test_setuptools_that_is_pinned_is_judged(shell: Shell) -> None:
    shell.write("freeze.txt", "torch==2.1.2\nsetuptools==82.0.0\n")
    document = shell("check", "freeze.txt", *FITTING, "--json").document
    assert [row["rule"] for row in document["result"]["violations"]] == ["torch-pkg-resources"]
    assert "package-unseen" not in codes(document)


def test_what_is_named_without_a_version_is_there(shell: Shell) -> None:
    shell.write("requirements.txt", f"{BEFORE}setuptools>=60\n")
    assert codes(shell("check", "requirements.txt", *FITTING, "--json").document) == []


# ---- what other lines say -----------------------------------------------------------------------------------------

OLD = ("--python", "3.10", "--driver", "470.82.01", "--gpu", "Tesla T4", "--glibc", "2.35", "--json")


@pytest.mark.parametrize(
    ("option", "backend"),
    [
        ("--extra-index-url https://index.example/whl/cu118", "cu118"),
        ("-i https://index.example/whl/cu118/", "cu118"),
        ("--find-links https://index.example/whl/cu118?x=y", "cu118"),
        ("--extra-index-url https://index.example/whl/cu118\n-f https://index.example/whl/cpu", "cu118"),
        ("--extra-index-url https://index.example/whl/cu118\n-f https://index.example/whl/cu126", "cu126"),
        ("--extra-index-url https://index.example/whl/cu128", "cu124"),
        ("--extra-index-url https://index.example/simple", "cu124"),
    ],
)
def test_torch_is_of_the_index_that_is_named(shell: Shell, option: str, backend: str) -> None:
    shell.write("requirements.txt", f"{option}\ntorch==2.6.0\ntorchvision==0.21.0\n")
    document = shell("check", "requirements.txt", *OLD).document
    assert (document["result"]["backend"], document["result"]["violations"]) == (backend, [])
    assert document["result"]["fits"] is (backend == "cu118")
    assert ("index-without-torch" in codes(document)) is ("cu128" in option)
    assert document["result"]["unjudged"] == ([option] if "simple" in option else [])


def test_a_companion_without_a_build_is_of_the_same_index(shell: Shell) -> None:
    shell.write("requirements.txt", "torch==2.6.0+cu118\ntorchvision==0.21.0\n")
    assert shell("check", "requirements.txt", *OLD).document["error"]["code"] == "conflict"
    shell.write("requirements.txt", "-f https://index.example/cu118\ntorch==2.6.0+cu118\ntorchvision==0.21.0\n")
    assert shell("check", "requirements.txt", *OLD).code == 0


def test_files_are_found_beside_the_one_that_names_them(shell: Shell) -> None:
    shell.write("a/requirements.txt", "-r ../b/torch.txt\n-c constraints.txt\nbitsandbytes\n")
    shell.write("b/torch.txt", "torch==2.6.0\n-r ../a/requirements.txt\n")
    shell.write("a/constraints.txt", "bitsandbytes==0.43.1\nnumpy==2.2.6\n")
    document = shell("check", "a/requirements.txt", *FITTING, "--json").document
    assert document["result"]["packages"] == 2
    assert [row["rule"] for row in document["result"]["violations"]] == ["bitsandbytes-triton-ops"]
    assert "constraint-only" in codes(document)


def test_a_file_that_is_named_and_not_there(shell: Shell) -> None:
    shell.write("requirements.txt", "rich==13.7.1\n-r none.txt\n")
    document = shell("check", "requirements.txt", "--json").document
    assert (document["exit"], document["error"]["code"]) == (2, "file-missing")
    (context,) = document["error"]["context"]
    assert (context["file"], context["line"], context["key"]) == ("requirements.txt", 2, "-r none.txt")


# ---- what cannot be said ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("torch", ["9.9", "1.13.1", "2.8.0+rocm6.3"])
def test_a_machine_that_was_asked_about_and_cannot_be_judged_is_no_yes(shell: Shell, torch: str) -> None:
    shell.write("requirements.txt", f"torch=={torch}\ntransformers==4.36.2\n")
    asked = shell("check", "requirements.txt", "--driver", "570.86.15", "--gpu", "RTX 5090", "--json").document
    assert (asked["exit"], asked["error"]["code"], asked["result"]["fits"]) == (2, "machine-not-judged", None)
    assert asked["error"]["message"].startswith(f"torch {torch} is ")
    plain = shell("check", "requirements.txt")
    assert plain.code == 0
    assert "whether this machine can run it cannot be said" in " ".join(plain.stdout.split())


def test_where_no_rule_says_anything_either_it_is_no_yes(shell: Shell) -> None:
    shell.write("requirements.txt", "torch==9.9\n")
    ran = shell("check", "requirements.txt")
    assert (ran.code, "no rule is about what is pinned; torch 9.9 is not known" in ran.stdout) == (2, True)


def test_a_machine_is_not_asked_for_what_has_no_torch(shell: Shell) -> None:
    shell.write("requirements.txt", "rich==13.7.1\n")
    document = shell("check", "requirements.txt", "--driver", "570.86.15", "--gpu", "8.6", "--json").document
    assert (document["exit"], document["error"]["code"]) == (2, "machine-not-judged")
    assert shell("check", "requirements.txt", "--gpu", "no such", "--json").document["error"]["code"] != (
        "machine-not-judged"
    )


def test_a_build_that_nobody_knows_is_not_said_to_run(shell: Shell) -> None:
    shell.write("requirements.txt", "torch==9.9+cu128\n")
    ran = shell("check", "requirements.txt", "--driver", "570.86.15", "--gpu", "RTX 5090", "--glibc", "2.35")
    assert ran.stdout.splitlines()[-1].endswith("that the machine can run it is not certain")


@pytest.mark.parametrize("text", ["", "# nothing\n", "torch>=2.0\ntransformers\n"])
def test_where_nothing_is_pinned_nothing_is_judged(shell: Shell, text: str) -> None:
    shell.write("requirements.txt", text)
    document = shell("check", "requirements.txt", "--json").document
    assert (document["exit"], document["error"]["code"]) == (2, "nothing-pinned")
    assert document["error"]["hint"] == "pip freeze | envlock check -"
    assert shell("check", "requirements.txt").stdout.splitlines()[-1] == (
        "nothing could be judged: no version is pinned"
    )


def test_a_library_that_is_missing_is_said_in_the_table(shell: Shell) -> None:
    shell.write("requirements.txt", "torch==2.6.0\nbitsandbytes==0.42.0\n")
    ran = shell("check", "requirements.txt", "--python", "3.10", "--driver", "570.86.15", "--glibc", "2.35")
    assert "✗ no library" in ran.stdout


def test_a_freeze_is_read_from_stdin(shell: Shell) -> None:
    argv = [*shell.argv, "check", "-", *FITTING, "--json"]
    environ = dict(shell.environ)
    ran = subprocess.run(argv, input=CRASHING, cwd=shell.cwd, env=environ, capture_output=True, text=True, check=False)
    document = json.loads(ran.stdout)
    assert (ran.returncode, document["result"]["file"], document["result"]["packages"]) == (1, "<stdin>", 4)
    assert document["error"]["hint"] == "envlock check --help"
    ran = subprocess.run(argv, input="-r a\n", cwd=shell.cwd, env=environ, capture_output=True, text=True, check=False)
    assert json.loads(ran.stdout)["error"]["context"][0]["file"] == "<stdin>"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, "file-missing"),
        ("<html>\n", "requirements-invalid"),
        ("a==1\na==2\n", "requirements-invalid"),
        ("[project]\n", "requirements-invalid"),
    ],
)
def test_a_file_that_is_none(shell: Shell, text: str | None, code: str) -> None:
    if text is not None:
        shell.write("requirements.txt", text)
    ran = shell("check", "requirements.txt", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code)
