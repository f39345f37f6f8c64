"""`conda-lock.yml` as envlock writes it, and what the real conda-lock makes of it."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envlock import conda
from envlock.conda import Question, Record
from envlock.engines import conda_lock, rattler
from envlock.errors import Misuse, Refused
from tests.contract.test_rattler import FORGE, machine, question
from tests.servers.channel import Channel

COMMAND = Path(sys.executable).with_name("conda-lock")
# What conda-lock asks of the conda that it is given before it looks at the hash; whatever else it asks fails.
CONDA = '#!/bin/sh\ntest "$1" = --version && echo "conda 25.1.0"\n'


@pytest.fixture(scope="module")
def channel() -> Iterator[Channel]:
    with Channel() as running:
        yield running


@pytest.fixture(scope="module")
def records(channel: Channel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Record, ...]:
    bench = rattler.Bench(
        cache=tmp_path_factory.mktemp("repodata"), addresses={"conda-forge": channel.url}, offline=False
    )
    (answer,) = rattler.solve([(question(), ())], bench)
    assert not isinstance(answer, Refused)
    return answer


def written(asked: Question, records: tuple[Record, ...]) -> bytes:
    return conda_lock.content(
        asked,
        records,
        head=["small, variant cu121. Written by hand"],
        source="small.toml",
        custom={"profile": "small", "backend": "cu121", "driver": "525.60.13"},
    )


def run(*arguments: str, cwd: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [str(COMMAND), *arguments]
    done = subprocess.run(argv, cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_it_is_the_same_bytes_again_and_reads_back_as_it_was(records: tuple[Record, ...]) -> None:
    made = written(question(), records)
    assert made == written(question(), tuple(reversed(records)))
    assert made.startswith(b"# small, variant cu121. Written by hand\nversion: 1\n")
    assert b"127.0.0.1" not in made
    assert not re.search(rb"created_at|time_metadata|/tmp", made)
    back = conda_lock.read(made, "conda-lock.yml", (FORGE,))
    assert len(back) == 39
    for was, now in zip(records, back, strict=True):
        names = {one.partition(" ")[0] for one in was.depends}
        assert {one.partition(" ")[0] for one in now.depends} == names
        assert dataclasses.replace(now, size=was.size, depends=was.depends) == was


def test_the_real_command_renders_it(
    records: tuple[Record, ...], tmp_path: Path, isolated_environ: dict[str, str]
) -> None:
    (tmp_path / "conda-lock.yml").write_bytes(written(question(), records))
    run("render", "-k", "explicit", "conda-lock.yml", cwd=tmp_path, environ=isolated_environ)
    lines = (tmp_path / "conda-linux-64.lock").read_text(encoding="utf-8").splitlines()
    assert "@EXPLICIT" in lines
    assert sorted(line for line in lines if line.startswith("http")) == sorted(
        f"{one.url}#{one.md5}" for one in records
    )
    run("render", "-k", "env", "conda-lock.yml", cwd=tmp_path, environ=isolated_environ)
    text = (tmp_path / "conda-linux-64.lock.yml").read_text(encoding="utf-8")
    assert "https://conda.anaconda.org/conda-forge" in text
    for one in records:
        assert f"- {one.name}={one.version}={one.build}" in text


@pytest.mark.parametrize(
    ("asked", "solved"),
    [
        (question(), False),
        (question("python 3.10.*", "pip", "gcc_linux-64 12.*"), True),
        (question(virtual=machine(cuda=None)), True),
        (question(virtual=machine(glibc="2.28")), True),
    ],
    ids=["the same", "other specs", "no CUDA", "another glibc"],
)
def test_the_real_command_accepts_the_content_hash_and_solves_again_for_any_other_question(
    records: tuple[Record, ...], asked: Question, *, solved: bool, tmp_path: Path, isolated_environ: dict[str, str]
) -> None:
    (tmp_path / "environment.yml").write_text(conda.environment(asked), encoding="utf-8")
    (tmp_path / "virtual-packages.yml").write_text(conda.virtual_packages(asked), encoding="utf-8")
    (tmp_path / "conda").write_text(CONDA, encoding="utf-8")
    (tmp_path / "conda").chmod(0o755)
    (tmp_path / "conda-lock.yml").write_bytes(written(question(), records))
    argv = [str(COMMAND), "lock", "--conda", str(tmp_path / "conda"), "-f", "environment.yml", "--check-input-hash"]
    argv += ["--virtual-package-spec", "virtual-packages.yml", "--lockfile", "conda-lock.yml", "--kind", "lock"]
    done = subprocess.run(
        argv, cwd=tmp_path, env=isolated_environ, capture_output=True, text=True, check=False, timeout=120
    )
    skipped = "Spec hash already locked for ['linux-64']. Skipping solve." in done.stderr
    assert (skipped, done.returncode == 0) == (not solved, not solved), done.stderr


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[",
        b"version: 1\n",
        b"version: 7\nmetadata: {}\npackage: []\n",
        b"package: []\n",
        b"- version\n",
        b"version: 1\nmetadata: {content_hash: {}, channels: [], platforms: [], sources: []}\npackage: [{name: x}]\n",
    ],
)
def test_what_is_no_conda_lock_is_refused(data: bytes) -> None:
    with pytest.raises(Misuse) as error:
        conda_lock.read(data, "some/conda-lock.yml", (FORGE,))
    assert (error.value.code, error.value.problems[0].file) == ("conda-lock-invalid", "some/conda-lock.yml")
    assert error.value.problems[0].message


def test_a_package_of_another_channel_is_refused(records: tuple[Record, ...]) -> None:
    other = dataclasses.replace(FORGE, url="https://conda.anaconda.org/other")
    with pytest.raises(Misuse) as error:
        conda_lock.read(written(question(), records), "conda-lock.yml", (other,))
    assert "is of another channel" in error.value.problems[0].message


def test_nothing_of_the_home_is_asked(records: tuple[Record, ...], tmp_path: Path) -> None:
    code = (
        "import sys; from tests.contract.test_conda_lock import written, question;"
        "from tests.contract.test_rattler import FORGE; from envlock.engines import conda_lock, rattler;"
        "from tests.servers.channel import Channel; from pathlib import Path\n"
        "with Channel() as channel:\n"
        "    bench = rattler.Bench(cache=Path('repodata'), addresses={'conda-forge': channel.url}, offline=False)\n"
        "    (records,) = rattler.solve([(question(), ())], bench)\n"
        "sys.stdout.buffer.write(written(question(), records))"
    )
    home = tmp_path / "home"
    home.mkdir()
    (home / ".condarc").write_text("channel_alias: https://evil.example\nchannel_priority: disabled\n")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "CONDA_OVERRIDE_CUDA": "9.0",
        "CONDA_OVERRIDE_GLIBC": "2.5",
        "CONDA_CHANNEL_ALIAS": "https://evil.example",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == written(question(), records)
    assert [path.name for path in home.iterdir()] == [".condarc"]
