"""`envlock plan` ends in a command, which does what was planned, with the profile as it was named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Shell

MACHINE = ("--driver", "535.104.05", "--gpu", "RTX 3090")


def mine(shell: Shell, folder: str, *, locked: bool = True) -> Path:
    """Copy a bundled profile, and its lock, into the project under another folder."""
    path = shell.cwd / folder / "gemma-qlora.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "profiles" / path.name, path)
    if locked:
        shutil.copytree(ROOT / "lockfiles", shell.cwd / "lockfiles")
    return path


def planned(shell: Shell, *arguments: str) -> tuple[str | None, set[str]]:
    """Return the command of the plan, and the codes of its warnings."""
    result = shell("plan", *arguments, "--json").document["result"]
    return result["next"], {caution["code"] for caution in result["warnings"]}


def test_a_profile_that_was_edited_since_is_locked_first(shell: Shell) -> None:
    path = mine(shell, "profiles")
    assert planned(shell, "gemma-qlora", *MACHINE) == ("envlock install gemma-qlora", set())
    path.write_text(path.read_text(encoding="utf-8").replace("trl==0.9.6", "trl==0.9.5"), encoding="utf-8")
    assert planned(shell, "gemma-qlora", *MACHINE) == ("envlock lock gemma-qlora", {"lock-stale"})
    ran = shell("plan", "gemma-qlora", *MACHINE)
    assert ran.code == 0
    assert ran.stdout.endswith("to run:\n  envlock lock gemma-qlora\n")
    hints = [shell(*command, "--json").document["error"]["hint"] for command in CURRENT]
    assert hints == ["envlock lock gemma-qlora"] * 2


CURRENT = (("lock", "gemma-qlora", "--check"), ("install", "gemma-qlora", *MACHINE))


@pytest.mark.parametrize(("folder", "quoted"), [("mine", "{}"), ("my stacks", "'{}'")])
def test_a_profile_is_named_by_the_path_that_was_typed(shell: Shell, folder: str, quoted: str) -> None:
    path = mine(shell, folder)
    typed = (f"{folder}/gemma-qlora.toml", f"./{folder}/gemma-qlora.toml", str(path))
    for each in typed:
        assert planned(shell, each, *MACHINE)[0] == f"envlock install {quoted.format(each)}"
    path.write_text(path.read_text(encoding="utf-8").replace("trl==0.9.6", "trl==0.9.5"), encoding="utf-8")
    for each in typed:
        hint = f"envlock lock {quoted.format(each)}"
        assert planned(shell, each, *MACHINE)[0] == hint
        assert shell("lock", each, "--check", "--json").document["error"]["hint"] == hint
        assert shell("install", each, *MACHINE, "--json").document["error"]["hint"] == hint


def test_what_narrowed_the_choice_is_repeated(shell: Shell) -> None:
    machine = ("--driver", "535.104.05", "--gpu", "RTX 3090")
    strict, _ = planned(shell, "gemma-qlora", *machine, "--driver-policy", "strict", "--backend", "cu118")
    assert strict == "envlock install gemma-qlora --backend cu118 --driver-policy strict"
    variable = shell("plan", "gemma-qlora", *machine, "--json", ENVLOCK_DRIVER_POLICY="strict").document["result"]
    assert (variable["policy"], variable["next"]) == ("strict", "envlock install gemma-qlora")


def test_an_install_for_a_machine_that_was_described_belongs_there(shell: Shell) -> None:
    ran = shell("plan", "gemma-qlora", *MACHINE)
    assert ran.stdout.endswith("to run on that machine:\n  envlock install gemma-qlora\n")
    here = shell("plan", "gemma-qlora", "--backend", "cpu", "--json").document["result"]
    there = shell("plan", "gemma-qlora", *MACHINE, "--json").document["result"]
    assert (here["elsewhere"], there["elsewhere"]) == (False, True)


def test_where_nothing_fits_the_driver_that_would_do_is_named_and_no_idle_command(shell: Shell) -> None:
    error = shell("plan", "gemma-qlora", "--driver", "440.33.01", "--gpu", "T4", "--json").document["error"]
    assert error["message"].endswith("fits this machine: driver 450.80.02 or newer is needed, for cu118")
    assert error["hint"] is None
    other = shell("plan", "xtuner-internlm2", "--driver", "570.26", "--gpu", "RTX 5090", "--json").document["error"]
    assert other["message"] == "no backend of `xtuner-internlm2` fits this machine"
    dropped = shell("plan", "gemma-qlora", "--driver", "590.44.01", "--gpu", "GTX 1080")
    assert dropped.code == 1
    assert "driver 590.44.01 is too new: branch 580 or older for GTX 1080 is needed" in " ".join(dropped.stdout.split())


def test_no_precision_is_promised_for_a_machine_that_is_not_known(shell: Shell) -> None:
    host = shell.write("host.json", '{"schema": 1, "glibc": "2.35", "driver": null, "pythons": ["3.10.13"]}')
    assert "trains in" not in shell("plan", "gemma-qlora", "--host", host, "--backend", "cu121").stdout
    assert "trains in fp32" in " ".join(shell("plan", "gemma-qlora", "--host", host).stdout.split())
