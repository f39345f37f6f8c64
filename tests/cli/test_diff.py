"""`envlock diff` as a process: locks, what git keeps of them, and environments."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import replace as changed
from pathlib import Path

import pytest

from envlock import env, lock, record
from envlock.model import Artifact, Floors, HostFacts, Inputs, Lock, LockedPackage, LockedVariant, Variant
from envlock.record import Record
from tests.cli.conftest import Shell

PROFILE = """
schema = 1
name = "small"
summary = "one module"
python = "3.10"
platforms = ["linux-x86_64"]
backends = ["cpu"]
requires = ["alpha"]
"""
AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@index.example", "-c", "commit.gpgsign=false")


def variant(version: str, driver: str = "525.60.13") -> LockedVariant:
    file = Artifact(index="pypi", file=f"alpha-{version}-py3-none-any.whl", sha256="1" * 64, size=10)
    package = LockedPackage(name="alpha", version=version, artifacts=(file,), why=("profile",))
    what = Variant(name="cu121", backend="cu121", source="index", python="3.10", platform="linux-x86_64")
    floors = Floors(driver=driver, driver_windows=None, glibc="2.17", sm=("8.0",))
    return LockedVariant(variant=what, floors=floors, packages=(package,))


def text(*variants: LockedVariant) -> str:
    return lock.render(
        Lock(profile="small", inputs=Inputs(profile="p", facts="f", rules="r", engine="uv-0"), variants=variants)
    )


OLD, NEW = variant("1.0"), variant("2.0", driver="570.26")


def git(shell: Shell, *arguments: str) -> None:
    subprocess.run(["git", *AUTHOR, *arguments], cwd=shell.cwd, env=shell.environ, capture_output=True, check=True)


@pytest.fixture
def project(shell: Shell) -> Shell:
    """A repository whose first commit locks alpha 1.0; since then it was locked anew."""
    shell.write("profiles/small.toml", PROFILE)
    shell.write("lockfiles/small.lock", text(OLD))
    git(shell, "init", "-q", "-b", "main")
    git(shell, "add", ".")
    git(shell, "commit", "-qm", "Lock")
    shell.write("lockfiles/small.lock", text(NEW))
    return shell


def installed(shell: Shell, place: str, name: str, version: str) -> None:
    folder = f"{place}/lib/python3.10/site-packages/{name}-{version}.dist-info"
    shell.write(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    shell.write(f"{folder}/RECORD", "")


@pytest.fixture
def environment(project: Shell) -> str:
    """An environment that was installed before it was locked anew; nothing but its record and its package's."""
    kept = Record(
        profile="small",
        variant="cu121",
        lock=env.digest(OLD),
        packages={"alpha": "1.0"},
        floors=OLD.floors,
        host=HostFacts(),
        envlock="0",
    )
    generation = f".envlock/small.envlock/{'a' * 12}-1"
    project.write(f"{generation}/{record.FILE}", record.dump(kept))
    installed(project, generation, "alpha", "1.0")
    (project.cwd / ".envlock" / "small").symlink_to(f"small.envlock/{'a' * 12}-1")
    return ".envlock/small"


CHANGES = [{"variant": "cu121", "package": "alpha", "was": "1.0", "now": "2.0"}]
MACHINES = [{"variant": "cu121", "need": "driver", "was": "525.60.13", "now": "570.26"}]


@pytest.mark.parametrize(
    ("sides", "files"),
    [
        (("HEAD:small", "small"), ("HEAD:./lockfiles/small.lock", "lockfiles/small.lock")),
        (("HEAD:small",), ("HEAD:./lockfiles/small.lock", "lockfiles/small.lock")),
        (("small",), ("HEAD:./lockfiles/small.lock", "lockfiles/small.lock")),
        (("profiles/small.toml",), ("HEAD:./lockfiles/small.lock", "lockfiles/small.lock")),
        (("lockfiles/small.lock",), ("HEAD:./lockfiles/small.lock", "lockfiles/small.lock")),
        (("main:profiles/small.toml", "small"), ("main:./lockfiles/small.lock", "lockfiles/small.lock")),
        (("main:lockfiles/small.lock", "small"), ("main:./lockfiles/small.lock", "lockfiles/small.lock")),
        (("saved.lock", "small"), ("saved.lock", "lockfiles/small.lock")),
        (("saved.lock",), ("saved.lock", "lockfiles/small.lock")),
        (("saved", "small"), ("saved", "lockfiles/small.lock")),
        ((".envlock/small", "small"), (".envlock/small", "lockfiles/small.lock")),
        ((".envlock/small",), (".envlock/small", "lockfiles/small.lock")),
    ],
)
@pytest.mark.usefixtures("environment")
def test_every_way_to_name_a_side(project: Shell, sides: tuple[str, ...], files: tuple[str, str]) -> None:
    project.write("saved.lock", text(OLD))
    project.write("saved", text(OLD))
    ran = project("diff", *sides, "--json")
    assert (ran.code, ran.stderr) == (0, "")
    result = ran.document["result"]
    assert (result["before"]["file"], result["after"]["file"]) == files
    assert (result["changes"], result["machines"], result["differ"]) == (CHANGES, MACHINES, True)


def test_from_a_folder_below_git_is_asked_for_the_same_lock(project: Shell) -> None:
    (project.cwd / "below").mkdir()
    below = changed(project, cwd=project.cwd / "below")
    for side in ("HEAD:small", "HEAD:../lockfiles/small.lock"):
        result = below("diff", side, "small", "--json").document["result"]
        assert (result["before"]["file"], result["changes"]) == ("HEAD:../lockfiles/small.lock", CHANGES)


def test_a_lock_that_is_only_committed_is_found(project: Shell) -> None:
    (project.cwd / "lockfiles" / "small.lock").unlink()
    (project.cwd / "profiles" / "small.toml").unlink()
    project.write("saved.lock", text(NEW))
    assert project("diff", "HEAD:small", "saved.lock", "--json").document["result"]["changes"] == CHANGES


def test_a_difference_is_a_no_only_where_it_is_asked_for(project: Shell) -> None:
    plain = project("diff", "HEAD:small", "small")
    assert (plain.code, plain.stderr) == (0, "")
    assert "needs driver 570.26 now, 525.60.13 before" in plain.stdout
    ran = project("diff", "HEAD:small", "small", "--exit-code")
    assert (ran.code, ran.stdout) == (1, plain.stdout)
    assert ran.stderr.endswith("hint: envlock diff HEAD:small small -v\n")
    assert project("diff", "small", "small", "--exit-code").code == 0


def test_the_environment_that_is_what_is_locked(project: Shell, environment: str) -> None:
    project.write("lockfiles/small.lock", text(OLD))
    ran = project("diff", environment, "--exit-code", "--json")
    assert (ran.code, ran.document["result"]["same"]) == (0, ["cu121"])


def test_what_was_installed_into_an_environment_later_is_a_difference(project: Shell, environment: str) -> None:
    project.write("lockfiles/small.lock", text(OLD))
    installed(project, environment, "zeta", "5.0")
    result = project("diff", environment, "--json").document["result"]
    assert result["changes"] == [{"variant": "cu121", "package": "zeta", "was": "5.0", "now": None}]
    assert project("diff", environment, "--exit-code").code == 1


def test_an_environment_that_envlock_did_not_make(project: Shell) -> None:
    installed(project, "venv", "alpha", "1.5")
    result = project("diff", "venv", "small", "--json").document["result"]
    assert (result["changes"], result["machines"]) == (
        [{"variant": "venv → cu121", "package": "alpha", "was": "1.5", "now": "2.0"}],
        [],
    )
    alone = project("diff", "./venv", "--json")
    assert (alone.code, alone.document["error"]["code"]) == (2, "usage")
    assert "name the profile to compare it with" in alone.stdout


def test_a_lock_of_an_earlier_layout_is_called_that(project: Shell) -> None:
    unsealed = re.sub('digest = ".*"\n', "", text(OLD)).replace('rules = "r"\n', "")
    digest = hashlib.sha256(unsealed.encode()).hexdigest()
    project.write("lockfiles/small.lock", unsealed.replace("\nprofile = ", f'\ndigest = "{digest}"\nprofile = ', 1))
    git(project, "commit", "-qam", "Lock as before")
    project.write("lockfiles/small.lock", text(NEW))
    ran = project("diff", "HEAD:small", "--json")
    error = ran.document["error"]
    assert (ran.code, error["code"], error["hint"]) == (2, "lock-older", "git show HEAD:./lockfiles/small.lock")
    assert "was written by an older envlock" in error["message"]


@pytest.mark.parametrize("name", ["host.json", "copy.lock"])
def test_locking_is_no_advice_for_what_is_no_lock(project: Shell, name: str) -> None:
    project.write(name, "{}")
    error = project("diff", name, "small", "--json").document["error"]
    assert (error["code"], error["hint"]) == ("lock-invalid", "envlock diff --help")
    project.write("lockfiles/small.lock", "{}")
    assert project("diff", "small", "--json").document["error"]["hint"] == "envlock lock small"


# ---- what cannot be compared --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sides", "code", "error", "says"),
    [
        (("smal",), 2, "profile-unknown", "`small`?"),
        (("HEAD:other", "small"), 1, "lock-missing", "`HEAD` holds no `./lockfiles/other.lock`"),
        (("HEAD:/etc/passwd", "small"), 1, "lock-missing", "outside repository"),
        (("HEAD:",), 2, "usage", "HEAD:PROFILE"),
        (("mian:small", "small"), 2, "revision-unknown", "`main`?"),
        (("--", "-x:small", "small"), 2, "revision-unknown", "no such revision"),
        ((":small", "small"), 2, "revision-unknown", "no such revision"),
        (("HEAD:profiles/none.toml",), 2, "file-missing", "profiles/none.toml"),
        (("gone.lock", "small"), 2, "file-missing", "gone.lock"),
        (("./gone", "small"), 2, "file-missing", "gone"),
        (("profiles", "small"), 2, "env-missing", "no environment that envlock made"),
        (("broken", "small"), 2, "env-record-invalid", "not JSON"),
        (("profiles/small.toml", "README"), 2, "lock-invalid", "is not TOML"),
        (("HEAD:README.lock", "small"), 2, "lock-invalid", "is not TOML"),
        (("~nobody-here/x", "small"), 2, "path-invalid", "no such user"),
        (("x" * 5000, "small"), 2, "path-invalid", "too long for a path"),
        ((), 2, "usage", "A"),
        (("a", "b", "c"), 2, "unknown-argument", "c"),
    ],
)
def test_one_error_says_what_is_wrong(project: Shell, sides: tuple[str, ...], code: int, error: str, says: str) -> None:
    project.write("broken/envlock.json", "{")
    project.write("README", "no lock at all\n")
    project.write("README.lock", "no lock at all\n")
    git(project, "add", "README.lock")
    git(project, "commit", "-qm", "More", "--", "README.lock")
    ran = project("diff", "--json", *sides)
    assert (ran.code, ran.stderr, ran.document["error"]["code"]) == (code, "", error)
    assert says in ran.stdout
    assert ran.document["result"] is None
    assert ran.document["error"]["hint"]


def test_a_profile_that_is_not_locked(project: Shell) -> None:
    (project.cwd / "lockfiles" / "small.lock").unlink()
    error = project("diff", "HEAD:small", "small", "--json").document["error"]
    assert (error["code"], error["hint"]) == ("lock-missing", "envlock lock small")


def test_a_folder_without_a_repository(shell: Shell) -> None:
    shell.write("lockfiles/small.lock", text(OLD))
    ran = shell("diff", "HEAD:small", "small", "--json", GIT_CEILING_DIRECTORIES=str(shell.cwd.parent))
    assert (ran.code, ran.document["error"]["code"]) == (2, "not-a-repository")
    assert "not a git repository" in ran.stdout


def test_a_machine_without_git(project: Shell, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    ran = project("diff", "HEAD:small", "small", "--json", PATH=str(tmp_path / "bin"))
    assert (ran.code, ran.document["error"]["code"]) == (3, "git-missing")
    assert project("diff", "small", "small", PATH=str(tmp_path / "bin")).code == 0


def test_a_record_that_cannot_be_read(project: Shell, environment: str) -> None:
    file = (project.cwd / environment).resolve() / record.FILE
    file.write_bytes(b"\xff")
    assert project("diff", environment, "--json").document["error"]["code"] == "file-not-text"
    if os.geteuid():
        file.chmod(0)
        assert project("diff", environment, "--json").document["error"]["code"] == "file-unreadable"
