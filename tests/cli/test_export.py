"""`envlock export` as a process, and what it wrote in the hands of the tools that it is for."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.pylock import Pylock
from ruamel.yaml import YAML

from envlock import lock
from tests.cli.conftest import Ran, Shell
from tests.servers.index import UPLOADED, Fault, Index
from tests.servers.wheels import make_sdist, make_wheel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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
        made = ready("lock", "plain", "built", "torchy", "-q", "--no-conda")
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


def command_of(name: str, takes: str) -> str:
    return f"uv venv --python {HERE} .venv-{name} && uv pip sync --python .venv-{name} {takes}"


@pytest.mark.parametrize(("kind", "output"), [("pylock", "out/"), ("pylock", "pylock.toml"), ("wheelhouse", "a house")])
def test_the_command_that_is_printed_spares_the_environment_that_is_active(
    project: Shell, kind: str, output: str
) -> None:
    active = project.cwd / ".venv"
    venv.create(active, symlinks=True)
    site = active / "lib" / f"python{HERE}" / "site-packages"
    (site / "mine-1.0.dist-info").mkdir()
    (site / "mine-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    before = sorted(site.rglob("*"))
    command = project("export", "plain", "--format", kind, "-o", output, "--json").document["result"]["command"]
    environ = {
        **project.environ,
        "VIRTUAL_ENV": str(active),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{project.environ['PATH']}",
    }
    shell = {"cwd": project.cwd, "env": environ, "shell": True, "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, **shell)  # type: ignore[call-overload]  # what is pasted
    assert done.returncode == 0, done.stderr
    assert sorted(site.rglob("*")) == before
    made = project.cwd / ".venv-plain" / "lib" / f"python{HERE}" / "site-packages"
    assert {path.name for path in made.glob("*.dist-info")} == {"alpha-1.0.dist-info", "omega-1.0.dist-info"}
    again = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, **shell)  # type: ignore[call-overload]  # same
    assert again.returncode != 0


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
    assert (header.count(" cpu.txt"), header.count("requirements.txt")) == (3, 0)
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
    lines = [line.replace("https://download.pytorch.org/whl/cpu/", own) for line in handed]
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


# ---- pylock -------------------------------------------------------------------------------------------------------


def read_back(text: str) -> Pylock:
    return Pylock.from_dict(tomllib.loads(text))


def line_of(text: str, holding: str) -> str:
    """Return the command in the comment that holds those words."""
    (found,) = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#") and holding in line]
    return found


def do(shell: Shell, folder: str, line: str, **environ: str) -> str:
    """Do in a folder what the text of an export says, and return what is in its `.venv` then."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{shell.environ['PATH']}"
    given = {"cwd": shell.cwd / folder, "env": {**shell.environ, "PATH": tools, **environ}, "text": True}
    done = subprocess.run(["sh", "-ec", line], check=False, capture_output=True, **given)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    listing = ["uv", "pip", "freeze", "--python", ".venv"]
    listed = subprocess.run(listing, check=True, capture_output=True, **given).stdout  # type: ignore[call-overload]
    brought = ("pip==", "setuptools==")  # by `python -m venv`
    return "".join(line for line in str(listed).splitlines(keepends=True) if not line.startswith(brought))


def test_a_pylock_names_every_file_with_its_address_of_today(
    project: Shell, index: Index, torch_index: Index, wheelhouse: Path
) -> None:
    ran = project("export", "torchy", "--format", "pylock", ENVLOCK_INDEX_PYPI=index.url.replace("//", "//me:secret@"))
    assert (ran.code, ran.stderr) == (0, "Reading the indexes cpu, pypi\n")
    assert "secret" not in ran.stdout
    read = read_back(ran.stdout)
    assert read.environments is not None
    assert [str(marker) for marker in read.environments] == [
        'sys_platform == "linux" and platform_machine == "x86_64"',
    ]
    assert (str(read.requires_python), read.created_by) == (f"=={HERE}.*", "envlock")
    assert read.tool == {"envlock": {"profile": "torchy", "variant": "cpu"}}
    omega, torch = read.packages
    assert (torch.name, str(torch.version), torch.index) == ("torch", "2.8.0+cpu", torch_index.url)
    assert (omega.name, str(omega.version), omega.index) == ("omega", "1.0", index.url)
    assert omega.wheels is not None
    (wheel,) = omega.wheels
    raw = (wheelhouse / wheel.filename).read_bytes()
    assert (wheel.url, wheel.size) == (f"{index.root}/files/omega-1.0-py3-none-any.whl", len(raw))
    assert (wheel.hashes, wheel.upload_time) == ({"sha256": hashlib.sha256(raw).hexdigest()}, UPLOADED)


def test_a_pylock_of_an_index_that_signs_its_links_holds_no_signature(project: Shell, index: Index) -> None:
    index.signed = "?X-Amz-Signature=s3cret&token=s3cret"
    ran = project("export", "plain", "--format", "pylock")
    assert (ran.code, "s3cret" in ran.stdout + ran.stderr) == (0, False)
    assert "the address of 2 files, `alpha-1.0-py3-none-any.whl` for one, is exported without its query" in ran.stderr
    (alpha, _) = read_back(ran.stdout).packages
    assert alpha.wheels is not None
    assert alpha.wheels[0].url == f"{index.root}/files/alpha-1.0-py3-none-any.whl"
    result = project("export", "plain", "--format", "pylock", "-o", "pylock.toml", "--json").document["result"]
    assert [warning["code"] for warning in result["warnings"]] == ["address-shortened"]
    assert content(project, "pylock.toml").splitlines()[2:] == ran.stdout.splitlines()[2:]
    result = project("export", "plain", "--format", "pylock", "--json").document["result"]
    assert result["text"] == ran.stdout


@pytest.mark.parametrize(("name", "installed"), [("plain", "alpha==1.0\nomega==1.0\n"), ("torchy", None)])
def test_uv_syncs_a_pylock(project: Shell, name: str, installed: str | None) -> None:
    result = project("export", name, "--format", "pylock", "-o", "out/", "--json").document["result"]
    path = {"plain": "out/pylock.plain-cpu-pypi.toml", "torchy": "out/pylock.torchy-cpu.toml"}[name]
    assert (result["path"], result["command"], result["text"]) == (path, command_of(name, path), None)
    frozen = do(project, "out", line_of(content(project, path), "uv venv"))
    assert frozen == (installed or "omega==1.0\ntorch==2.8.0+cpu\n")


def test_uv_builds_what_a_pylock_holds_as_source(project: Shell) -> None:
    ran = project("export", "built", "--format", "pylock", "-o", "out/pylock.toml")
    assert (ran.code, sorted(path.name for path in (project.cwd / "out").iterdir())) == (
        0,
        ["build-requirements.txt", "pylock.toml"],
    )
    text = content(project, "out/pylock.toml")
    gamma = next(package for package in read_back(text).packages if package.name == "gamma")
    assert (gamma.wheels, gamma.sdist and gamma.sdist.filename) == (None, "gamma-1.0.tar.gz")
    frozen = do(project, "out", line_of(text, "uv venv"), UV_DEFAULT_INDEX=index_of(project))
    assert frozen == "alpha==1.0\ngamma==1.0\nomega==1.0\n"


@pytest.mark.parametrize("output", ["lock.toml", "pylock.qwen2.5.toml", "pylock.txt"])
def test_a_name_that_nobody_takes_for_a_pylock(project: Shell, index: Index, output: str) -> None:
    index.hits.clear()
    ran = project("export", "plain", "--format", "pylock", "-o", output, "--json")
    assert error(ran) == (2, "pylock-name-invalid")
    assert (index.hits, (project.cwd / output).exists()) == ([], False)


def test_a_pylock_needs_its_indexes(project: Shell, index: Index, wheelhouse: Path) -> None:
    ran = project("export", "plain", "--format", "pylock", "--offline", "--json")
    assert error(ran) == (3, "not-cached")
    index.break_at("/simple/omega/", Fault(kind="status", value=500))
    assert error(project("export", "plain", "--format", "pylock", "--json")) == (3, "network")
    index.mend()
    make_wheel(wheelhouse, "omega", "1.0", files={"omega.py": "another = 1\n"})
    ran = project("export", "plain", "--format", "pylock", "-o", "pylock.toml", "--json")
    assert error(ran) == (1, "index-changed")
    assert ran.document["error"]["context"][0]["file"] == "omega-1.0-py3-none-any.whl"
    (wheelhouse / "omega-1.0-py3-none-any.whl").unlink()
    assert error(project("export", "plain", "--format", "pylock", "--json")) == (1, "index-lacks-package")
    assert not (project.cwd / "pylock.toml").exists()


# ---- a wheelhouse -------------------------------------------------------------------------------------------------


def names(shell: Shell, folder: str = ".") -> list[str]:
    return sorted(path.name for path in (shell.cwd / folder).iterdir())


@pytest.mark.parametrize(
    ("name", "files", "installed"),
    [
        ("plain", ["alpha-1.0-py3-none-any.whl", "omega-1.0-py3-none-any.whl"], "alpha==1.0\nomega==1.0\n"),
        (
            "built",
            ["alpha-1.0-py3-none-any.whl", "gamma-1.0-py3-none-any.whl", "omega-1.0-py3-none-any.whl"],
            "alpha==1.0\ngamma==1.0\nomega==1.0\n",
        ),
        (
            "torchy",
            ["omega-1.0-py3-none-any.whl", "torch-2.8.0+cpu-py3-none-any.whl"],
            "omega==1.0\ntorch==2.8.0+cpu\n",
        ),
    ],
)
def test_a_wheelhouse_installs_without_a_network(  # noqa: PLR0917
    project: Shell, index: Index, torch_index: Index, name: str, files: list[str], installed: str
) -> None:
    result = project("export", name, "--format", "wheelhouse", "-o", "house", "--json").document["result"]
    assert names(project, "house") == sorted(["SHA256SUMS", *files, "requirements.txt"])
    assert (result["path"], sorted(result["files"])) == ("house", [f"house/{file}" for file in names(project, "house")])
    assert result["command"] == command_of(
        name, "--no-index --find-links house --require-hashes house/requirements.txt"
    )
    index.hits.clear()
    torch_index.hits.clear()
    # Away from where it was made, by pip and by uv, each into an environment of its own.
    (project.cwd / "house").rename(project.cwd / "away")
    text = content(project, "away/requirements.txt")
    for tool in ("pip: ", "uv:  "):
        line = line_of(text, tool).removeprefix(tool)
        assert do(project, "away", line, UV_CACHE_DIR=str(project.cwd / "cache")) == installed
        subprocess.run(["rm", "-r", ".venv"], cwd=project.cwd / "away", check=True)
    subprocess.run(line_of(text, "sha256sum").partition(": ")[2].split(), cwd=project.cwd / "away", check=True)
    assert (index.hits, torch_index.hits) == ([], [])


def test_a_wheelhouse_holds_what_some_machine_above_the_floor_takes(project: Shell, wheelhouse: Path) -> None:
    tag = f"cp{HERE.replace('.', '')}"
    make_wheel(wheelhouse, "omega", "2.0", tag=f"{tag}-{tag}-manylinux_2_24_x86_64")
    for platform in ("manylinux_2_17_x86_64", "manylinux_2_28_x86_64"):
        make_wheel(wheelhouse, "alpha", "1.0", requires=["omega"], tag=f"{tag}-{tag}-{platform}")
    assert project("lock", "plain", "--upgrade", "-q", "--no-conda").code == 0
    locked = content(project, "lockfiles/plain.lock")
    assert locked.count('file = "alpha-1.0-') == 3
    assert project("export", "plain", "--format", "wheelhouse", "-o", "house").code == 0
    assert [name for name in names(project, "house") if name.startswith("alpha")] == [
        f"alpha-1.0-{tag}-{tag}-manylinux_2_17_x86_64.whl",
        f"alpha-1.0-{tag}-{tag}-manylinux_2_28_x86_64.whl",
    ]
    text = content(project, "house/requirements.txt")
    assert text.partition("alpha==1.0")[2].partition("omega==")[0].count("--hash=") == 2


@pytest.mark.parametrize("kind", ["pylock", "wheelhouse"])
def test_an_index_that_is_not_reached_has_ways_around_it(project: Shell, wheelhouse: Path, kind: str) -> None:
    make_wheel(wheelhouse, "torch", "2.8.0", requires=["omega"])
    text = content(project, "profiles/torchy.toml").replace("[backend.cpu]", f'[backend.cpu]\npypi-python = ["{HERE}"]')
    project.write("profiles/torchy.toml", text)
    assert project("lock", "torchy", "-q", "--no-conda").code == 0
    ask = ("export", "torchy", "--variant", "cpu", "--format", kind, "-o", "pylock.toml", "--json")
    ran = project(*ask, ENVLOCK_INDEX_CPU="http://127.0.0.1:9/simple/")
    assert error(ran) == (3, "network")
    assert "ENVLOCK_INDEX_CPU=ADDRESS takes this index from elsewhere" in ran.stdout
    hint = ran.document["error"]["hint"]
    assert hint == f"envlock export torchy --format {kind} --variant cpu-pypi -o pylock.toml"
    assert project(*hint.split()[1:], ENVLOCK_INDEX_CPU="http://127.0.0.1:9/simple/").code == 0


def test_what_was_built_has_a_hash_of_its_own(project: Shell, wheelhouse: Path) -> None:
    ran = project("export", "built", "--format", "wheelhouse", "-o", "house")
    assert (ran.code, "built from source: gamma" in ran.stdout) == (0, True)
    text = content(project, "house/requirements.txt")
    assert line_of(text, "gamma-1.0.tar.gz") == "gamma-1.0-py3-none-any.whl from gamma-1.0.tar.gz"
    made, source = project.cwd / "house" / "gamma-1.0-py3-none-any.whl", wheelhouse / "gamma-1.0.tar.gz"
    assert f"gamma==1.0 \\\n    --hash=sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}\n" in text
    assert hashlib.sha256(source.read_bytes()).hexdigest() not in text


def test_an_earlier_wheelhouse_is_replaced_and_what_is_sound_in_it_kept(project: Shell, index: Index) -> None:
    ask = ("export", "plain", "--format", "wheelhouse", "-o", "house")
    (project.cwd / "house").mkdir()
    assert project(*ask).code == 0
    before = {name: (project.cwd / "house" / name).read_bytes() for name in names(project, "house")}
    index.hits.clear()
    (project.cwd / "house" / "alpha-1.0-py3-none-any.whl").write_bytes(b"damaged")
    assert project(*ask).code == 0
    assert {name: (project.cwd / "house" / name).read_bytes() for name in names(project, "house")} == before
    assert [path for path in index.requested if path.startswith("/files/")] == ["/files/alpha-1.0-py3-none-any.whl"]
    assert (project.cwd / "house").stat().st_mode & 0o777 == 0o755


def test_a_pipe_in_an_earlier_wheelhouse_is_not_waited_for(project: Shell) -> None:
    again = ("export", "plain", "--format", "wheelhouse", "-o", "house")
    assert project(*again).code == 0
    wheel = project.cwd / "house" / "omega-1.0-py3-none-any.whl"
    wheel.unlink()
    os.mkfifo(wheel)
    assert project(*again).code == 0
    assert wheel.is_file()


@pytest.mark.parametrize("name", ["mine.txt", "sub/folder.txt", "other-1.0-py3-none-any.whl"])
def test_a_wheelhouse_with_something_added_is_left_alone(project: Shell, index: Index, name: str) -> None:
    ask = ("export", "plain", "--format", "wheelhouse", "-o", "house", "--force", "--json")
    assert project(*ask).code == 0
    project.write(f"house/{name}", "mine\n")
    before, index.hits[:] = names(project, "house"), []
    ran = project(*ask)
    assert error(ran) == (3, "target-foreign")
    assert f"`{name.partition('/')[0]}` for one" in ran.document["error"]["message"]
    assert (names(project, "house"), index.hits) == (before, [])


def test_a_folder_of_somebody_elses_is_left_alone(project: Shell) -> None:
    project.write("theirs/requirements.txt", "torch\n")
    project.write("theirs/SHA256SUMS", f"{'0' * 64}  requirements.txt\n")
    project.write("file", "")
    (project.cwd / "link").symlink_to("theirs")
    for place in ("theirs", "file", "link"):
        ran = project("export", "plain", "--format", "wheelhouse", "-o", place, "--force", "--json")
        assert error(ran) == (3, "target-foreign")
    assert content(project, "theirs/requirements.txt") == "torch\n"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(kind="status", value=500), (3, "network")),
        (Fault(kind="status", value=404), (1, "artifact-missing")),
        (Fault(kind="truncate", value=10), (3, "network")),
        (Fault(kind="reset"), (3, "network")),
    ],
)
def test_a_wheelhouse_that_fails_leaves_nothing_but_the_old_one(
    project: Shell, index: Index, fault: Fault, code: tuple[int, str]
) -> None:
    ask = ("export", "plain", "--format", "wheelhouse", "-o", "new/house", "--json")
    index.break_at("/files/omega-1.0-py3-none-any.whl", fault)
    assert error(project(*ask)) == code
    assert names(project, "new") == []
    index.mend()
    assert project(*ask).code == 0
    (project.cwd / "new" / "house" / "omega-1.0-py3-none-any.whl").write_bytes(b"damaged")
    index.break_at("/files/omega-1.0-py3-none-any.whl", fault)
    assert error(project(*ask)) == code
    assert names(project, "new") == ["house"]
    assert (project.cwd / "new" / "house" / "omega-1.0-py3-none-any.whl").read_bytes() == b"damaged"


def test_a_network_that_fails_now_and_then_is_asked_again(project: Shell, index: Index) -> None:
    index.break_at("/files/omega-1.0-py3-none-any.whl", Fault(kind="truncate", value=10, times=2))
    assert project("export", "plain", "--format", "wheelhouse", "-o", "house").code == 0
    assert index.requested.count("/files/omega-1.0-py3-none-any.whl") == 3


def test_an_interrupt_leaves_nothing(project: Shell, index: Index) -> None:
    index.break_at("/files/omega-1.0-py3-none-any.whl", Fault(kind="stall"))
    argv = [*project.argv, "export", "plain", "--format", "wheelhouse", "-o", "new/house", "--json"]
    with subprocess.Popen(argv, cwd=project.cwd, env=project.environ, stdout=subprocess.PIPE) as running:
        until = time.monotonic() + 60
        while "/files/omega-1.0-py3-none-any.whl" not in index.requested and time.monotonic() < until:
            time.sleep(0.05)
        busy = project(*argv[len(project.argv) :])
        assert error(busy) == (3, "target-busy")
        assert busy.document["error"]["hint"] == "envlock export plain --format wheelhouse -o new/house"
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
    assert names(project, "new") == []


def test_what_a_killed_run_left_goes_with_the_next(project: Shell) -> None:
    project.write(".house.abcd1234.envlock-making/half.whl", "")
    project.write(".other.abcd1234.envlock-making/half.whl", "")
    assert project("export", "plain", "--format", "wheelhouse", "-o", "house").code == 0
    assert not (project.cwd / ".house.abcd1234.envlock-making").exists()
    assert (project.cwd / ".other.abcd1234.envlock-making").exists()


def test_a_build_that_fails_leaves_nothing(project: Shell, wheelhouse: Path) -> None:
    files = {"backend.py": "def build_wheel(*_): raise SystemExit('no compiler')\n"}
    make_sdist(wheelhouse, "gamma", "1.0", build_requires=["tool"], files=files)
    assert project("lock", "built", "--upgrade", "-q", "--no-conda").code == 0
    ran = project("export", "built", "--format", "wheelhouse", "-o", "new/house", "--json")
    assert error(ran) == (3, "build-failed")
    assert ran.document["error"]["hint"].startswith("envlock export built --format wheelhouse -o new/house")
    assert names(project, "new") == []


def test_a_build_that_makes_something_else_is_refused(project: Shell, wheelhouse: Path) -> None:
    backend = """\
import pathlib, zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(pathlib.Path(directory, "gamma-2.0-py3-none-any.whl"), "w") as archive:
        archive.writestr("gamma-2.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: gamma\\nVersion: 2.0\\n")
        archive.writestr("gamma-2.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        archive.writestr("gamma-2.0.dist-info/RECORD", "")
    return "gamma-2.0-py3-none-any.whl"
"""
    make_sdist(wheelhouse, "gamma", "1.0", build_requires=["tool"], files={"backend.py": backend})
    assert project("lock", "built", "--upgrade", "-q", "--no-conda").code == 0
    ran = project("export", "built", "--format", "wheelhouse", "-o", "new/house", "--json")
    assert error(ran) == (3, "engine-failed")
    assert "the wheel declares version 2.0" in ran.stdout
    assert names(project, "new") == []


def test_a_source_is_built_where_it_will_run(project: Shell, index: Index) -> None:
    name = "lockfiles/built.lock"
    held = lock.parse(content(project, name), name)
    (one,) = held.variants
    there = replace(one, variant=replace(one.variant, platform="linux-aarch64"))
    project.write(name, lock.render(replace(held, variants=(there,))))
    index.hits.clear()
    ask = ("export", "built", "--variant", "cpu-pypi", "--frozen", "--format", "wheelhouse", "-o", "house", "--json")
    assert error(project(*ask)) == (1, "platform-unsupported")
    assert index.hits == []


def test_a_wheelhouse_needs_a_place(project: Shell) -> None:
    ran = project("export", "plain", "--format", "wheelhouse", "--json")
    assert error(ran) == (2, "usage")
    assert ran.document["error"]["hint"] == "envlock export plain --format wheelhouse -o wheelhouse"
