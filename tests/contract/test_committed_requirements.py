"""Every `requirements.txt` in `lockfiles/`, as pip reads it and as uv would install it, held against its lock.

The bytes of PyTorch's wheels are not to be had here. pip, where hashes are asked for, decides nothing without bytes, so
of pip the reader is asked. uv says in a dry run what the header's command would install, and keeps the hashes of a file
that it writes anew. The replay of PyTorch's indexes stands for them, and a default index that lists what the locks name
from there, without a hash: what uv tells can come from the file alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from envlock import lock_text
from envlock.engines import uv_binary
from envlock.model import Lock, LockedPackage, Variant
from envlock.request import DEFAULT_INDEX
from tests.contract.by_hand import command
from tests.servers.index import JSON_TYPE, Index
from tests.servers.torch_index import TorchIndex

LOCKFILES = Path(__file__).parents[2] / "lockfiles"
LOCKS = sorted(path.stem for path in LOCKFILES.glob("*.lock"))
# Prints path -> name -> version and hashes for the files named, as pip understands them.
READER = """
import json, sys
from pip._internal.network.session import PipSession
from pip._internal.req.constructors import install_req_from_parsed_requirement as made
from pip._internal.req.req_file import parse_requirements

session = PipSession()

def read(path):
    rows = [made(row) for row in parse_requirements(path, session)]
    assert all(row.is_pinned and not row.markers and set(row.hash_options) == {"sha256"} for row in rows)
    found = {row.name: [str(row.specifier)[2:], sorted(row.hash_options["sha256"])] for row in rows}
    assert len(found) == len(rows)
    return found

print(json.dumps({path: read(path) for path in sys.argv[1:]}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexes:
    """The default index and those of PyTorch: the names of everything, and the bytes of nothing."""

    default: Index
    torch: TorchIndex


def held(name: str) -> Lock:
    file = LOCKFILES / f"{name}.lock"
    return lock_text.parse(file.read_text(encoding="utf-8"), file.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A file beside a lock, and what the lock says of it."""

    path: Path
    variant: Variant
    packages: tuple[LockedPackage, ...]

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def pins(self) -> dict[str, tuple[str, set[str]]]:
        """Name -> version and hashes."""
        return {one.name: (one.version, {file.sha256 for file in one.artifacts}) for one in self.packages}


def rendered(*names: str) -> list[Rendered]:
    """Return all that is rendered beside the locks, or beside those of these names."""
    found = []
    for name in names or LOCKS:
        for locked in held(name).variants:
            folder, variant = LOCKFILES / name / locked.variant.name, locked.variant
            found.append(Rendered(path=folder / "requirements.txt", variant=variant, packages=locked.packages))
            if locked.build:
                file = folder / "build-requirements.txt"
                found.append(Rendered(path=file, variant=variant, packages=locked.build))
    return found


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Indexes]:
    rows: dict[str, dict[str, dict[str, object]]] = {}
    with Index(tmp_path_factory.mktemp("nothing")) as default, TorchIndex() as torch:
        for package in (one for file in rendered() for one in file.packages):
            told = f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.version}\n".encode()
            for one in (file for file in package.artifacts if file.index == DEFAULT_INDEX):
                link = {"filename": one.file, "url": f"{default.root}/files/{one.file}", "core-metadata": True}
                rows.setdefault(package.name, {})[one.file] = link | {"hashes": {}}
                default.instead[f"/files/{one.file}.metadata"] = "text/plain", told
        for name, files in rows.items():
            page = {"meta": {"api-version": "1.1"}, "name": name, "files": list(files.values())}
            default.instead[f"/simple/{name}/"] = JSON_TYPE, json.dumps(page).encode()
        yield Indexes(default=default, torch=torch)


@pytest.fixture
def environ(indexes: Indexes, isolated_environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    path = os.pathsep.join([str(uv_binary.binary(os.environ).parent), isolated_environ["PATH"]])
    environ = {**isolated_environ, "PATH": path, "UV_DEFAULT_INDEX": indexes.default.url}
    uv(f"venv --python {sys.executable}", tmp_path, environ)
    return environ


def uv(arguments: str, where: Path, environ: Mapping[str, str]) -> str:
    """Run uv with a line of arguments; return what it told."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"uv {arguments}"],
        cwd=where,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"uv {arguments}\n{done.stderr}"
    return done.stderr


def target(variant: Variant) -> str:
    """Return the options for a Python that need not be here, on the oldest glibc that every variant runs on."""
    return f"--python-version {variant.python} --python-platform x86_64-manylinux_2_28"


def recompiled(
    file: Rendered, text: str, indexes: Indexes, environ: Mapping[str, str], where: Path
) -> dict[str, tuple[str, set[str]]]:
    """Let uv write a requirements file anew, which keeps the hashes that it reads there; return name -> both."""
    (where / "asked.in").write_text("\n".join(f"{one.name}=={one.version}" for one in file.packages), encoding="utf-8")
    kept = where / "kept.txt"
    kept.write_text(text, encoding="utf-8")
    links = " ".join(dict.fromkeys(re.findall(r"--find-links \S+", replayed(text, indexes.torch))))
    fixed = "--no-deps --generate-hashes --no-annotate --no-header --python .venv"
    uv(f"pip compile asked.in -o kept.txt {fixed} {links} {target(file.variant)}", where, environ)
    rows = re.findall(r"^(\S+)==(\S+)((?: \\\n +--hash=sha256:\w+)*)$", kept.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: (version, set(re.findall(r"sha256:(\w+)", digests))) for name, version, digests in rows}


def replayed(line: str, torch: TorchIndex) -> str:
    return re.sub(r"https://download\.pytorch\.org/whl/(\w+)/", lambda found: torch.url(found[1]), line)


def test_what_stands_beside_the_locks_is_rendered_from_them() -> None:
    assert set(LOCKFILES.rglob("*requirements.txt")) == {file.path for file in rendered()}


def test_pip_reads_every_name_version_and_hash() -> None:
    asked = [sys.executable, "-I", "-c", READER, *(str(file.path) for file in rendered())]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    for file in rendered():
        found = read.pop(str(file.path))
        assert {name: (version, set(digests)) for name, (version, digests) in found.items()} == file.pins
    assert not read


@pytest.mark.parametrize("name", LOCKS)
def test_uv_would_install_what_is_locked(name: str, indexes: Indexes, environ: dict[str, str], tmp_path: Path) -> None:
    files = {file.path: file for file in rendered(name)}
    for main in [file for file in files.values() if file.path.name == "requirements.txt"]:
        made, *syncs = replayed(command(main.text, "uv"), indexes.torch).split(" && ")
        assert made == f"uv venv --python {main.variant.python}"
        for sync in syncs:
            file = files[main.path.parent / sync.split()[-1]]
            (tmp_path / file.path.name).write_text(file.text, encoding="utf-8")
            told = uv(f"{sync.removeprefix('uv ')} --dry-run {target(file.variant)}", tmp_path, environ)
            would = re.findall(r"^ \+ (\S+)==(\S+)$", told, re.MULTILINE)
            assert sorted(would) == sorted((one.name, one.version) for one in file.packages), file.path
            del files[file.path]
    assert not files
    assert not [path for path in indexes.default.requested if path.endswith((".whl", ".gz"))]


@pytest.mark.parametrize("name", LOCKS)
def test_uv_reads_every_hash(name: str, indexes: Indexes, environ: dict[str, str], tmp_path: Path) -> None:
    for file in rendered(name):
        assert recompiled(file, file.text, indexes, environ, tmp_path) == file.pins, file.path


def test_the_hashes_that_uv_tells_are_those_of_the_file(
    indexes: Indexes, environ: dict[str, str], tmp_path: Path
) -> None:
    file = next(one for one in rendered() if one.variant.source == "index")
    version, (known,) = file.pins["torch"]
    read = recompiled(file, file.text.replace(known, known[::-1]), indexes, environ, tmp_path)
    assert read == {**file.pins, "torch": (version, {known[::-1]})}
