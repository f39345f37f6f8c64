"""Whatever is handed in: one clear error with a stable code, the right exit code, one document, no traceback."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.cli.conftest import ROOT, Shell

HOST: dict[str, Any] = {
    "schema": 1,
    "os": "linux",
    "arch": "x86_64",
    "glibc": "2.35",
    "driver": {"version": "535.104.05", "library": "535.104.05", "numbering": "linux"},
    "gpus": [{"name": "NVIDIA GeForce RTX 3090", "compute_capability": "8.6", "memory_mib": 24576}],
    "pythons": ["3.10.13"],
}
PROFILE = """
schema = 1
name = "mine"
summary = "a small stack"
python = "3.10"
platforms = ["linux-x86_64"]
backends = ["cpu"]
requires = ["packaging==24.0"]
"""


def refused(shell: Shell, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run for a person and for a program; return the exit code and the error of the document."""
    plain = shell(*arguments)
    assert "Traceback" not in plain.stderr
    assert plain.stderr.count("error: ") == 1
    ran = shell(*arguments, "--json")
    assert ran.stderr == ""
    assert ran.code == plain.code
    error = ran.document["error"]
    assert error is not None
    assert error["message"]
    assert ran.code != 2 or error["hint"]
    return ran.code, error


@pytest.mark.parametrize(
    ("text", "code", "places"),
    [
        ("schema = ", "profile-invalid", [(1, None)]),
        (PROFILE + "colour = 'red'\n", "profile-invalid", [(9, "colour")]),
        (PROFILE.replace("requires", "require"), "profile-invalid", [(7, "backends[0]"), (8, "require")]),
        (PROFILE.replace('["cpu"]', '"cpu"'), "profile-invalid", [(7, "backends")]),
        (PROFILE.replace('["cpu"]', '["cu999"]'), "profile-invalid", [(7, "backends[0]")]),
        (PROFILE.replace("packaging==24.0", "packaging=24.0"), "profile-invalid", [(8, "requires[0]")]),
        (PROFILE.replace("schema = 1", "schema = 99"), "profile-newer", [(2, "schema")]),
        ("", "profile-invalid", [(None, key) for key in ("schema", "name", "python", "platforms", "backends")]),
        ("\x00\x01", "profile-invalid", [(1, None)]),
        (
            PROFILE.replace("requires", "require").replace("platforms", "platform"),
            "profile-invalid",
            [(None, "platforms"), (6, "platform"), (7, "backends[0]"), (8, "require")],
        ),
    ],
)
def test_a_broken_profile_has_every_mistake_told_with_its_place(
    shell: Shell, text: str, code: str, places: list[tuple[int | None, str | None]]
) -> None:
    name = shell.write("mine.toml", text)
    exit_code, error = refused(shell, "plan", name)
    assert (exit_code, error["code"]) == (2, code)
    assert [(problem["line"], problem["key"]) for problem in error["context"]] == places
    assert {problem["file"] for problem in error["context"]} == {name}
    example = ROOT / "profiles" / "gemma-qlora.toml"
    assert error["hint"] == ("envlock --version" if code == "profile-newer" else f"cat {example}")
    assert example.is_file()


def test_an_unknown_profile_names_the_nearest_one(shell: Shell) -> None:
    exit_code, error = refused(shell, "plan", "gema-qlora")
    assert (exit_code, error["code"], error["hint"]) == (2, "profile-unknown", "envlock profiles")
    assert [problem["expected"] for problem in error["context"]] == ["`gemma-qlora`?"]


def changed(**facts: Any) -> str:
    return json.dumps({**HOST, **facts})


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{", None),
        ("[]", None),
        ("null", None),
        (changed(glibc=2.35), "glibc"),
        (changed(glibc="N/A"), "glibc"),
        (changed(gpus={}), "gpus"),
        (changed(gpus=[{"name": 1, "compute_capability": "8.6"}]), "gpus[0].name"),
        (changed(pythons="3.10.13"), "pythons"),
        (changed(driver={"version": 535}), "driver.version"),
        (changed(driver={"version": "535"}), "driver.version"),
        (changed(driver={"version": "N/A"}), "driver.version"),
        (changed(driver={"version": ""}), "driver.version"),
        (changed(divers=None), "divers"),
        (changed(wsl="no"), "wsl"),
    ],
)
def test_a_broken_host_file(shell: Shell, text: str, key: str | None) -> None:
    name = shell.write("host.json", text)
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--host", name)
    assert (exit_code, error["code"]) == (2, "host-invalid")
    assert [(problem["file"], problem["key"]) for problem in error["context"]] == [(name, key)]


def test_a_host_file_of_a_newer_schema(shell: Shell) -> None:
    name = shell.write("host.json", changed(schema=2))
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--host", name)
    assert (exit_code, error["code"]) == (2, "host-newer")


@pytest.mark.parametrize(
    ("place", "expected", "code", "message"),
    [("missing.json", 2, "file-missing", "no such file"), (".", 3, "file-unreadable", "Is a directory")],
)
def test_a_host_file_that_cannot_be_read(shell: Shell, place: str, expected: int, code: str, message: str) -> None:
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--host", place)
    assert (exit_code, error["code"]) == (expected, code)
    assert [(problem["file"], problem["message"]) for problem in error["context"]] == [
        (str(shell.cwd / place), message)
    ]


@pytest.mark.parametrize("driver", ["535", "12.4", "N/A", "", "535.104.05.", "[Unknown Error]"])
def test_a_driver_that_is_no_version(shell: Shell, driver: str) -> None:
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--driver", driver)
    assert (exit_code, error["code"]) == (2, "host-invalid")
    assert [problem["key"] for problem in error["context"]] == ["--driver"]


@pytest.mark.parametrize(
    ("flag", "value", "code", "hint"),
    [
        ("--gpu", "RTX 9999", "gpu-unknown", "envlock plan --help"),
        ("--gpu", "RTX 6000", "gpu-ambiguous", "envlock plan --help"),
        ("--gpu", "86", "gpu-unknown", "envlock plan --help"),
        ("--gpu", "7.4", "gpu-unknown", "envlock plan --help"),
        ("--glibc", "musl", "host-invalid", "envlock plan --help"),
    ],
)
def test_a_fact_that_is_none(shell: Shell, flag: str, value: str, code: str, hint: str) -> None:
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--driver", "535.104.05", flag, value)
    assert (exit_code, error["code"], error["hint"]) == (2, code, hint)
    assert [problem["key"] for problem in error["context"]] == [flag]


@pytest.mark.parametrize("driver", [("--driver", "none"), ()])
def test_a_gpu_without_a_driver(shell: Shell, driver: tuple[str, ...]) -> None:
    host = shell.write("host.json", changed(driver=None, gpus=[]))
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--host", host, *driver, "--gpu", "T4")
    assert (exit_code, error["code"]) == (2, "host-invalid")
    assert [problem["key"] for problem in error["context"]] == ["--gpu"]


def test_an_unknown_backend(shell: Shell) -> None:
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--backend", "cu999")
    assert (exit_code, error["code"], error["hint"]) == (2, "backend-unknown", "envlock plan gemma-qlora")
    assert [problem["key"] for problem in error["context"]] == ["backends"]


def test_an_answer_that_is_no_comes_whole(shell: Shell) -> None:
    host = shell.write("host.json", changed(glibc="2.5"))
    ran = shell("plan", "gemma-qlora", "--host", host, "--json")
    assert ran.code == 1
    document = ran.document
    assert document["error"]["code"] == "no-compatible-backend"
    refused_backends = {row["backend"] for row in document["result"]["refused"]}
    assert refused_backends == {"cu121", "cu118", "cu128", "cpu"}
    assert "no backend of `gemma-qlora` fits" in shell("plan", "gemma-qlora", "--host", host).stderr


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ("[tool.envlock]\noffline = 'yes'\n", "tool.envlock.offline"),
        ("[tool.envlock]\nofline = true\n", "tool.envlock.ofline"),
    ],
)
def test_a_broken_config(shell: Shell, config: str, key: str) -> None:
    shell.write("pyproject.toml", config)
    exit_code, error = refused(shell, "profiles")
    assert (exit_code, error["code"]) == (2, "config-invalid")
    assert [(problem["line"], problem["key"]) for problem in error["context"]] == [(2, key)]
    assert shell("profiles", "--no-config").code == 0


def test_a_broken_variable(shell: Shell) -> None:
    ran = shell("profiles", "--json", ENVLOCK_OFFLINE="perhaps")
    error = ran.document["error"]
    assert (ran.code, error["code"]) == (2, "config-invalid")
    assert [problem["key"] for problem in error["context"]] == ["ENVLOCK_OFFLINE"]


@pytest.mark.parametrize(
    ("was", "now", "code"),
    [
        ("schema = 1", "schema = 99", "lock-newer"),
        ("sha256 = ", "sha256 = 1", "lock-invalid"),
        ("[[", "[", "lock-invalid"),
        ("schema = 1", "schema = 1\nseen = 1", "lock-invalid"),
        ('python = "3.10"', 'python = "3.11"', "lock-edited"),
    ],
)
def test_a_lock_that_was_edited(shell: Shell, was: str, now: str, code: str) -> None:
    text = (ROOT / "lockfiles" / "gemma-qlora.lock").read_text(encoding="utf-8")
    assert was in text
    shell.write("lockfiles/gemma-qlora.lock", text.replace(was, now, 1))
    for command in ("plan", "install"):
        exit_code, error = refused(shell, command, "gemma-qlora", "--offline")
        assert (exit_code, error["code"]) == (2, code)


def test_every_lock_that_is_not_current_is_named(shell: Shell) -> None:
    mine, other = shell.write("mine.toml", PROFILE), shell.write("other.toml", PROFILE.replace("mine", "other"))
    exit_code, error = refused(shell, "lock", mine, other, "--check")
    assert (exit_code, error["code"], error["hint"]) == (1, "lock-missing", "envlock lock mine.toml other.toml")
    assert [(problem["file"], problem["message"]) for problem in error["context"]] == [
        ("mine.toml", "`mine` is not locked"),
        ("other.toml", "`other` is not locked"),
    ]


def test_a_target_that_is_not_ours(shell: Shell) -> None:
    shell.write("mine/thesis.tex", "years of work")
    exit_code, error = refused(shell, "install", "gemma-qlora", "--path", "mine", "--driver", "none", "--offline")
    assert (exit_code, error["code"]) == (3, "target-foreign")
    assert error["hint"] == f"envlock install gemma-qlora --path {shell.cwd / 'mine'}-2"
    assert [path.name for path in shell.cwd.iterdir()] == ["mine"]
    assert (shell.cwd / "mine" / "thesis.tex").read_text(encoding="utf-8") == "years of work"


def test_an_environment_that_is_not_there(shell: Shell) -> None:
    exit_code, error = refused(shell, "verify", "nowhere")
    assert (exit_code, error["code"], error["hint"]) == (2, "env-missing", "envlock profiles")
    assert error["message"] == f"there is no environment `{shell.cwd / 'nowhere'}`"


@pytest.mark.parametrize("verb", ["plan", "install", "verify", "lock", "check", "diff", "export"])
def test_a_terminal_obeys_nothing_that_was_handed_in(shell: Shell, verb: str) -> None:
    for odd in ("\x1b[31mx", "\x1b[31mx.toml", "--\x1b[31mx"):
        ran = shell(verb, odd)
        assert ran.code == 2
        said = ran.stdout + ran.stderr
        assert r"\x1b[31mx" in said
        assert "\x1b" not in said


def test_a_key_of_a_lock_is_no_command_to_a_terminal(shell: Shell) -> None:
    shell.write("lockfiles/gemma-qlora.lock", '[variant."\\u0000\\u001b[2J"]\n[[package]]\nvariants = ["x"]\n')
    said = shell("plan", "gemma-qlora").stderr
    assert "lockfiles/gemma-qlora.lock:1:" in said
    assert all(char.isprintable() or char == "\n" for char in said)


def test_the_world_has_too_little_memory(shell: Shell) -> None:
    codes = {}
    for kib in range(20_000, 200_000, 5_000):
        limited = ["bash", "-c", f'ulimit -v {kib}; exec "$@"', "-", *shell.argv, "plan", "gemma-qlora", "--json"]
        ran = subprocess.run(limited, cwd=shell.cwd, env=dict(shell.environ), capture_output=True, check=False)
        if ran.returncode in {0, 1, 3} and ran.stdout:
            codes[ran.returncode] = json.loads(ran.stdout)
        if ran.returncode == 0:
            break
    assert codes[3]["error"]["code"] == "memory"
    assert codes[3]["error"]["hint"] == "ulimit -a"


@pytest.mark.parametrize("command", ["verify", "check", "diff"])
def test_a_name_that_no_file_can_have(shell: Shell, command: str) -> None:
    exit_code, error = refused(shell, command, "x" * 100_000)
    assert (exit_code, error["code"]) == (2, "path-invalid")
    assert len(error["context"][0]["file"]) < 200


def test_credentials_are_never_shown(shell: Shell) -> None:
    url = "https://joe:s3cret@index.example/simple"
    for ran in (
        shell("plan", url),
        shell("plan", url, "--json"),
        shell("plan", "gemma-qlora", "--host", url, "-vv"),
        shell("detect", "-vv", ENVLOCK_INDEX_PYPI=url),
    ):
        said = ran.stdout + ran.stderr
        assert "s3cret" not in said
        assert "****@index.example" in said
