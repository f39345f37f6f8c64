"""Whatever is handed in: one clear error with a stable code, the right exit code, one document, no traceback."""

from __future__ import annotations

import json
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
    ("text", "code"),
    [
        ("schema = ", "profile-invalid"),
        (PROFILE + "colour = 'red'\n", "profile-invalid"),
        (PROFILE.replace("requires", "require"), "profile-invalid"),
        (PROFILE.replace('["cpu"]', '"cpu"'), "profile-invalid"),
        (PROFILE.replace('["cpu"]', '["cu999"]'), "profile-invalid"),
        (PROFILE.replace("packaging==24.0", "packaging=24.0"), "profile-invalid"),
        (PROFILE.replace("schema = 1", "schema = 99"), "profile-newer"),
        ("", "profile-invalid"),
        ("\x00\x01", "profile-invalid"),
    ],
)
def test_a_broken_profile(shell: Shell, text: str, code: str) -> None:
    name = shell.write("mine.toml", text)
    exit_code, error = refused(shell, "plan", name)
    assert (exit_code, error["code"]) == (2, code)
    assert error["context"]
    assert all(problem["file"] == name for problem in error["context"])


def test_every_mistake_of_a_profile_is_told_at_once(shell: Shell) -> None:
    name = shell.write("mine.toml", PROFILE.replace("requires", "require").replace("platforms", "platform"))
    _, error = refused(shell, "plan", name)
    assert len(error["context"]) >= 2
    assert {"require", "platform"} <= {problem["key"] for problem in error["context"]}
    assert all(problem["line"] for problem in error["context"] if problem["key"] in ("require", "platform"))


def test_an_unknown_profile_names_those_there_are(shell: Shell) -> None:
    exit_code, error = refused(shell, "plan", "gema-qlora")
    assert exit_code == 2
    assert error["code"] == "profile-unknown"
    assert "gemma-qlora" in json.dumps(error)


def changed(**facts: Any) -> str:
    return json.dumps({**HOST, **facts})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        changed(glibc=2.35),
        changed(glibc="N/A"),
        changed(gpus={}),
        changed(gpus=[{"name": 1, "compute_capability": "8.6"}]),
        changed(pythons="3.10.13"),
        changed(driver={"version": 535}),
        changed(driver={"version": "535"}),
        changed(driver={"version": "N/A"}),
        changed(driver={"version": ""}),
        changed(divers=None),
        changed(wsl="no"),
    ],
)
def test_a_broken_host_file(shell: Shell, text: str) -> None:
    name = shell.write("host.json", text)
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--host", name)
    assert (exit_code, error["code"]) == (2, "host-invalid")
    assert all(problem["file"] == name for problem in error["context"])


def test_a_host_file_of_a_newer_schema(shell: Shell) -> None:
    name = shell.write("host.json", changed(schema=2))
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--host", name)
    assert (exit_code, error["code"]) == (2, "host-newer")


@pytest.mark.parametrize(
    ("place", "expected", "code"), [("missing.json", 2, "file-missing"), (".", 3, "file-unreadable")]
)
def test_a_host_file_that_cannot_be_read(shell: Shell, place: str, expected: int, code: str) -> None:
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--host", place)
    assert (exit_code, error["code"]) == (expected, code)
    assert error["context"]


@pytest.mark.parametrize("driver", ["535", "N/A", "", "535.104.05.", "[Unknown Error]"])
def test_a_driver_that_is_no_version(shell: Shell, driver: str) -> None:
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--driver", driver)
    assert (exit_code, error["code"]) == (2, "host-invalid")


@pytest.mark.parametrize(("flag", "value"), [("--gpu", "RTX 9999"), ("--gpu", "86"), ("--glibc", "musl")])
def test_a_fact_that_is_none(shell: Shell, flag: str, value: str) -> None:
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--driver", "535.104.05", flag, value)
    assert exit_code == 2
    assert error["code"] in ("host-invalid", "gpu-unknown")


def test_an_unknown_backend(shell: Shell) -> None:
    exit_code, error = refused(shell, "plan", "gemma-qlora", "--backend", "cu999")
    assert exit_code == 2
    assert error["code"] == "backend-unknown"


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
    ("config", "says"),
    [("[tool.envlock]\noffline = 'yes'\n", "offline"), ("[tool.envlock]\nofline = true\n", "ofline")],
)
def test_a_broken_config(shell: Shell, config: str, says: str) -> None:
    shell.write("pyproject.toml", config)
    exit_code, error = refused(shell, "profiles")
    assert exit_code == 2
    assert says in json.dumps(error)
    assert shell("profiles", "--no-config").code == 0


def test_a_broken_variable(shell: Shell) -> None:
    ran = shell("profiles", "--json", ENVLOCK_OFFLINE="perhaps")
    assert ran.code == 2
    assert "ENVLOCK_OFFLINE" in json.dumps(ran.document["error"])


@pytest.mark.parametrize(
    ("was", "now", "code"),
    [
        ("schema = 1", "schema = 99", "lock-newer"),
        ("sha256 = ", "sha256 = 1", "lock-invalid"),
        ("[[", "[", "lock-invalid"),
        ("schema = 1", "schema = 1\nseen = 1", "lock-invalid"),
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
    assert len(error["context"]) == 2


def test_a_target_that_is_not_ours(shell: Shell) -> None:
    shell.write("mine/thesis.tex", "years of work")
    exit_code, error = refused(shell, "install", "gemma-qlora", "--path", "mine", "--driver", "none", "--offline")
    assert exit_code in (2, 3)
    assert error["code"] == "target-foreign"
    assert (shell.cwd / "mine" / "thesis.tex").read_text(encoding="utf-8") == "years of work"


def test_an_environment_that_is_not_there(shell: Shell) -> None:
    exit_code, error = refused(shell, "verify", "nowhere")
    assert exit_code == 2
    assert error["hint"]


def test_credentials_are_never_shown(shell: Shell) -> None:
    url = "https://joe:s3cret@index.example/simple"
    for ran in (
        shell("plan", url),
        shell("plan", url, "--json"),
        shell("plan", "x", "--host", url, "-vv"),
        shell("detect", "-vv", ENVLOCK_INDEX_PYPI=url),
    ):
        assert "s3cret" not in ran.stdout + ran.stderr
