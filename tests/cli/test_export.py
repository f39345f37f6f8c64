"""`envlock export` as a process, and what it wrote in the hands of the tools that it is for."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.cli.conftest import Ran, Shell
from tests.servers.index import Index
from tests.servers.wheels import make_sdist, make_wheel

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PROFILE = """
schema = 1
name = "{name}"
summary = "a small stack"
python = "{python}"
platforms = ["linux-x86_64"]
backends = ["cpu"]
requires = [{requires}]

[backend.cpu]
{pythons}

[conda]
requires = ["python 3.9.*", "gcc_linux-64 12.*"]
"""


def profile(shell: Shell, name: str, *requires: str, index: bool = False) -> None:
    pythons = f'python = ["{HERE}"]' if index else f'python = []\npypi-python = ["{HERE}"]'
    wanted = ", ".join(f'"{one}"' for one in requires)
    shell.write(f"profiles/{name}.toml", PROFILE.format(name=name, python=HERE, requires=wanted, pythons=pythons))


@pytest.fixture
def torch_index(tmp_path: Path) -> Iterator[Index]:
    """An index beside the default one, with the backend's own torch."""
    make_wheel(tmp_path / "torch", "torch", "2.8.0+cpu", requires=["omega"])
    with Index(tmp_path / "torch") as running:
        yield running


@pytest.fixture(scope="module")
def locked() -> dict[str, str]:
    """What `envlock lock` made of the project once: the same each time, wherever its indexes are."""
    return {}


@pytest.fixture
def project(shell: Shell, index: Index, wheelhouse: Path, torch_index: Index, locked: dict[str, str]) -> Shell:
    """A shell in a project with three locked profiles: `plain`, `built` with a source package, `torchy` of an index."""
    make_wheel(wheelhouse, "alpha", "1.0", requires=["omega"])
    make_wheel(wheelhouse, "omega", "1.0")
    make_wheel(wheelhouse, "tool", "1.0")
    make_sdist(wheelhouse, "gamma", "1.0", requires=["alpha"], build_requires=["tool"])
    shell.write("pyproject.toml", "")
    profile(shell, "plain", "alpha")
    profile(shell, "built", "gamma")
    profile(shell, "torchy", "torch==2.8.0", index=True)
    # The Python that runs the tests is the one that is sure to be here.
    path = f"{sys.base_prefix}/bin{os.pathsep}{shell.environ['PATH']}"
    environ = {"ENVLOCK_INDEX_PYPI": index.url, "ENVLOCK_INDEX_CPU": torch_index.url, "PATH": path}
    ready = replace(shell, environ={**shell.environ, **environ})
    for name, text in locked.items():
        ready.write(name, text)
    if not locked:
        made = ready("lock", "plain", "built", "torchy", "-q")
        assert (made.code, made.stderr) == (0, "")
        files = (path for path in (ready.cwd / "lockfiles").rglob("*") if path.is_file())
        locked |= {str(path.relative_to(ready.cwd)): path.read_text(encoding="utf-8") for path in files}
    return ready


def content(shell: Shell, name: str) -> str:
    return (shell.cwd / name).read_text(encoding="utf-8")


def pip(shell: Shell, *arguments: str, **environ: str) -> str:
    """Run the pip of a fresh environment of the project and return what is in it then."""
    place = shell.cwd / "venv"
    if not place.exists():
        venv.create(place, with_pip=True, symlinks=True)
    command = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    given = {"cwd": shell.cwd, "env": {**shell.environ, **environ}, "capture_output": True, "text": True}
    done = subprocess.run([*command, *arguments], check=False, **given)  # type: ignore[call-overload]  # as above
    assert done.returncode == 0, done.stderr
    frozen = subprocess.run([*command, "freeze"], check=True, **given)  # type: ignore[call-overload]  # as above
    return str(frozen.stdout)


# ---- requirements -------------------------------------------------------------------------------------------------


def test_the_text_is_the_one_beside_the_lock(project: Shell) -> None:
    ran = project("export", "plain")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == content(project, "lockfiles/plain/cpu-pypi/requirements.txt")
    result = project("export", "plain", "--json").document["result"]
    assert (result["text"], result["path"], result["files"]) == (ran.stdout, None, ["requirements.txt"])
    assert (result["variant"], result["format"], result["packages"]) == ("cpu-pypi", "requirements", 2)


def test_what_is_built_needs_two_files(project: Shell) -> None:
    ran = project("export", "built")
    assert ran.stdout == content(project, "lockfiles/built/cpu-pypi/requirements.txt")
    assert "build-requirements.txt must stand beside it, and `-o FOLDER/` writes all" in ran.stderr
    warnings = project("export", "built", "--json").document["result"]["warnings"]
    assert [warning["code"] for warning in warnings] == ["files-beside"]
    result = project("export", "built", "-o", "out/", "--json").document["result"]
    assert result["files"] == ["out/requirements.txt", "out/build-requirements.txt"]
    assert (result["path"], result["text"], result["built"]) == ("out/requirements.txt", None, ["gamma"])
    for file in result["files"]:
        assert content(project, file) == content(project, f"lockfiles/built/cpu-pypi/{Path(file).name}")


def test_a_file_of_another_name_says_how_it_is_installed(project: Shell) -> None:
    assert project("export", "plain", "-o", "new/cpu.txt").code == 0
    header = content(project, "new/cpu.txt").split("alpha==")[0]
    assert (header.count(" cpu.txt"), header.count("requirements.txt")) == (2, 0)
    (project.cwd / "new" / "cpu.txt").replace(project.cwd / "cpu.txt")
    given = pip(project, "install", "--no-deps", "--require-hashes", "-r", "cpu.txt", PIP_INDEX_URL=index_of(project))
    assert given == "alpha==1.0\nomega==1.0\n"


def index_of(shell: Shell) -> str:
    return shell.environ["ENVLOCK_INDEX_PYPI"]


# ---- environment.yml ----------------------------------------------------------------------------------------------


def conda_reads(text: str) -> tuple[dict[str, Any], list[str]]:
    """Read the file as conda does (conda/env/env.py): the specs, and what is handed to pip."""
    read = YAML(typ="safe", pure=True).load(text)
    assert set(read) == {"name", "channels", "dependencies"}
    (handed,) = [one["pip"] for one in read["dependencies"] if isinstance(one, dict)] or [[]]
    return read, handed


@pytest.mark.parametrize(
    ("name", "installed"),
    [("plain", "alpha==1.0\nomega==1.0\n"), ("torchy", "omega==1.0\ntorch==2.8.0+cpu\n")],
)
def test_conda_hands_pip_what_it_takes(project: Shell, name: str, installed: str) -> None:
    ran = project("export", name, "--format", "environment.yml")
    assert (ran.code, ran.stderr) == (0, "")
    read, handed = conda_reads(ran.stdout)
    assert read["name"] == name
    assert read["dependencies"][:3] == [f"python {HERE}.*", "gcc_linux-64 12.*", "pip"]
    # A lock names the indexes as everybody has them; here they are on the loopback.
    own = project.environ["ENVLOCK_INDEX_CPU"]
    lines = [f"--extra-index-url {own}" if line.startswith("--extra-index-url") else line for line in handed]
    project.write("condaenv.x.requirements.txt", "\n".join(lines))
    arguments = ("install", "-U", "-r", "condaenv.x.requirements.txt", "--exists-action=b")
    assert pip(project, *arguments, PIP_INDEX_URL=index_of(project)) == installed


def test_a_hash_that_is_another_one_is_refused_by_pip(project: Shell) -> None:
    _, handed = conda_reads(project("export", "plain", "--format", "environment.yml").stdout)
    project.write("bad.txt", "\n".join(handed).replace("--hash=sha256:", "--hash=sha256:" + "0" * 64 + "#", 1))
    with pytest.raises(AssertionError, match="THESE PACKAGES DO NOT MATCH THE HASHES"):
        pip(project, "install", "-U", "-r", "bad.txt", PIP_INDEX_URL=index_of(project))


def test_what_is_built_is_installed_as_the_file_says(project: Shell) -> None:
    ran = project("export", "built", "--format", "environment.yml", "-o", "out/")
    assert (ran.code, ran.stderr) == (0, "")
    assert "and then what its first lines say" in ran.stdout
    text = content(project, "out/environment.yml")
    assert conda_reads(text)[1] == []
    first, second = (line for line in text.splitlines() if "python -m pip" in line)
    out = replace(project, cwd=project.cwd / "out")
    pip(out, *first.partition(" -m pip ")[2].split(), PIP_INDEX_URL=index_of(project))
    frozen = pip(out, *second.partition(" -m pip ")[2].split(), PIP_INDEX_URL=index_of(project))
    assert frozen == "alpha==1.0\ngamma==1.0\nomega==1.0\ntool==1.0\n"


# ---- where it goes ------------------------------------------------------------------------------------------------


def test_an_earlier_export_is_replaced_and_nothing_else_is(project: Shell) -> None:
    for _ in range(2):
        assert project("export", "plain", "-o", "requirements.txt").code == 0
    assert project("export", "plain", "--format", "environment.yml", "-o", "requirements.txt").code == 0
    project.write("requirements.txt", "torch\n")
    ran = project("export", "plain", "-o", "requirements.txt", "--json")
    error = ran.document["error"]
    assert (ran.code, error["code"]) == (3, "target-foreign")
    assert error["hint"] == "envlock export plain --format requirements -o requirements.txt --force"
    assert content(project, "requirements.txt") == "torch\n"
    assert project("export", "plain", "-o", "requirements.txt", "--force").code == 0
    project.write("empty.txt", "")
    assert project("export", "plain", "-o", "empty.txt").code == 0
    assert sorted(path.name for path in project.cwd.iterdir()) == [
        "empty.txt",
        "lockfiles",
        "profiles",
        "pyproject.toml",
        "requirements.txt",
    ]


def test_a_foreign_file_beside_it_stops_it_too(project: Shell) -> None:
    project.write("out/build-requirements.txt", "mine\n")
    ran = project("export", "built", "-o", "out/", "--json")
    assert ran.document["error"]["code"] == "target-foreign"
    assert [path.name for path in (project.cwd / "out").iterdir()] == ["build-requirements.txt"]
    ran = project("export", "built", "-o", "out/build-requirements.txt", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "usage")


def test_what_is_no_file_is_left_alone(project: Shell) -> None:
    project.write("real.txt", "")
    (project.cwd / "link.txt").symlink_to("real.txt")
    (project.cwd / "out" / "requirements.txt").mkdir(parents=True)
    for output in ("link.txt", "out/", os.devnull):
        ran = project("export", "plain", "-o", output, "--force", "--json")
        assert (ran.code, ran.document["error"]["code"]) == (3, "target-foreign")
    assert content(project, "real.txt") == ""
    ran = project("export", "plain", "-o", "real.txt/sub/x.txt", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (3, "not-writable")


# ---- which variant ------------------------------------------------------------------------------------------------


def error(ran: Ran) -> tuple[int, str]:
    assert ran.stderr == ""
    assert ran.document["result"] is None
    return ran.code, ran.document["error"]["code"]


def test_a_variant_is_taken_by_its_name(project: Shell) -> None:
    ran = project("export", "plain", "--variant", "cpu-pypi", "--json")
    assert (ran.code, ran.document["result"]["variant"]) == (0, "cpu-pypi")
    ran = project("export", "plain", "--variant", "cpu-pipy", "--json")
    assert error(ran) == (2, "variant-unknown")
    assert ran.document["error"]["context"][0]["expected"] == "`cpu-pypi`?"
    ran = project("export", "plain", "--variant", "x", "--json")
    assert ran.document["error"]["context"][0]["expected"] == "one of cpu-pypi"


@pytest.mark.parametrize("flags", [("--backend", "cpu"), ("--python", HERE), ("--gpu", "8.6"), ("--glibc", "2.35")])
def test_a_variant_leaves_nothing_to_choose(project: Shell, flags: tuple[str, str]) -> None:
    ran = project("export", "plain", "--variant", "cpu-pypi", *flags, "--json")
    assert error(ran) == (2, "usage")
    assert f"`{flags[0]}`" in ran.document["error"]["message"]


def test_the_profile_went_on(project: Shell) -> None:
    profile(project, "plain", "alpha", "omega")
    ran = project("export", "plain", "--json")
    assert error(ran) == (1, "lock-stale")
    assert ran.document["error"]["hint"] == "envlock lock plain"
    ran = project("export", "plain", "--frozen", "--json")
    assert [warning["code"] for warning in ran.document["result"]["warnings"]] == ["lock-stale"]


def test_a_variant_that_is_not_locked(project: Shell) -> None:
    text = (
        content(project, "profiles/plain.toml")
        .replace('["cpu"]', '["cpu", "cu128"]')
        .replace('"alpha"', '"torch==2.8.0"')
    )
    project.write("profiles/plain.toml", f'{text}\n[backend.cu128]\npython = ["{HERE}"]\n')
    ran = project("export", "plain", "--variant", "cu128", "--json")
    assert error(ran) == (1, "variant-not-locked")
    assert ran.document["error"]["context"][0]["message"] == "locked: cpu-pypi"
    assert error(project("export", "plain", "--backend", "cu128", "--json")) == (1, "variant-not-locked")


def test_no_backend_fits(project: Shell) -> None:
    ran = project("export", "torchy", "--glibc", "2.5", "--json")
    assert error(ran) == (1, "no-compatible-backend")
    assert ran.document["error"]["hint"] == "envlock plan torchy"
    assert project("export", "torchy", "--variant", "cpu", "--json").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), "usage", "PROFILE"),
        (("plian",), "profile-unknown", "`plain`?"),
        (("plain", "--format", "conda"), "usage", "`conda` is not one of"),
        (("plain", "--backend", "cu999"), "backend-unknown", "cu999"),
        (("plain", "-o", "~nobody-here/x"), "path-invalid", "no such user"),
    ],
)
def test_asked_wrongly(project: Shell, arguments: tuple[str, ...], code: str, says: str) -> None:
    ran = project("export", *arguments, "--json")
    assert error(ran) == (2, code)
    assert says in ran.stdout


def test_a_profile_that_is_not_locked(project: Shell) -> None:
    profile(project, "fresh", "alpha")
    ran = project("export", "fresh", "--json")
    assert error(ran) == (1, "lock-missing")
    assert ran.document["error"]["hint"] == "envlock lock fresh"
