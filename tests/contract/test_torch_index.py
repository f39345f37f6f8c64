"""The replay of the PyTorch index serves what was recorded, and the real uv locks from it and from nowhere else."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import uv
from packaging.metadata import RawMetadata, parse_email
from packaging.pylock import Package, Pylock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from envlock import config, facts, index_page, profile, request, store
from envlock.index_page import IndexFile
from envlock.model import Profile
from tests.servers.index import Index
from tests.servers.torch_index import TorchIndex, Wheel, metadata, wheels
from tests.servers.wheels import make_wheel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FAMILY = ("torch", "torchvision", "torchaudio")
DAY = "2024-12-02T00:00:00Z"
LINUX = {"platform_system": "Linux", "platform_machine": "x86_64", "sys_platform": "linux"}
GEMMA = "torch-2.4.1+cu121-cp310-cp310-linux_x86_64.whl"


@pytest.fixture
def replay() -> Iterator[TorchIndex]:
    with TorchIndex() as running:
        yield running


def read(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - the loopback
        body: bytes = answer.read()
        return body


def listed(replay: TorchIndex, backend: str, project: str) -> dict[str, IndexFile]:
    url = f"{replay.url(backend)}{project}/"
    files = index_page.parse(read(url), content_type="text/html", url=url, project=project, index=backend)
    return {file.file: file for file in files}


def recorded(file: str, index: str) -> Wheel:
    (found,) = [wheel for wheel in wheels() if (wheel.file, wheel.index) == (file, index)]
    return found


def described(file: str, index: str) -> RawMetadata:
    text = metadata(recorded(file, index))
    assert text is not None
    raw, unparsed = parse_email(text)
    assert not unparsed
    return raw


def required(raw: RawMetadata, python: str = "3.10") -> set[str]:
    """Return what is required on Linux x86_64, markers resolved."""
    here = LINUX | {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    asked = map(Requirement, raw.get("requires_dist", []))
    return {f"{one.name}{one.specifier}" for one in asked if one.marker is None or one.marker.evaluate(here)}


def nvidia(file: str, index: str) -> set[str]:
    return {one for one in required(described(file, index)) if one.startswith("nvidia-")}


# ---- what is served -------------------------------------------------------------------------------------------------


def test_every_recorded_hash_is_on_the_page_of_its_index(replay: TorchIndex) -> None:
    pages = {(one.index, one.project) for one in wheels()}
    found = {(index, file) for index, name in pages for file in listed(replay, index, name).values()}
    evidence = {"cross-checked": "recorded, cross-checked", "single-source": "recorded, one source"}
    assert len(found) == 262
    assert {(index, file.file, file.sha256, file.evidence) for index, file in found} == {
        (one.index, one.file, one.sha256, evidence[one.status]) for one in wheels()
    }
    assert all(one.sources for one in wheels())


def test_one_name_with_two_contents_lies_in_two_places(replay: TorchIndex) -> None:
    name = "torch-2.5.1+cu121-cp310-cp310-linux_x86_64.whl"
    usual, full = (listed(replay, index, "torch")[name] for index in ("cu121", "cu121_full"))
    assert usual.sha256 != full.sha256
    assert usual.url == f"{replay.url('cu121')}{name.replace('+', '%2B')}"


def test_metadata_is_served_with_its_hash_and_only_where_it_is_known(replay: TorchIndex) -> None:
    files = listed(replay, "cu121", "torch")
    body = read(f"{files[GEMMA].url}.metadata")
    assert files[GEMMA].metadata_sha256 == hashlib.sha256(body).hexdigest()
    assert not files["torch-2.2.0+cu121-cp310-cp310-linux_x86_64.whl"].metadata  # nobody recorded PyPI's
    assert not listed(replay, "cu126", "torch")["torch-2.6.0+cu126-cp310-cp310-manylinux_2_28_x86_64.whl"].metadata


def test_a_wheel_itself_is_not_there_and_says_so(replay: TorchIndex) -> None:
    url = listed(replay, "cu121", "torch")[GEMMA].url
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        read(url)
    with caught.value as answer:
        assert b"not its bytes" in answer.read()
    asked = urllib.request.Request(f"{replay.url('cu121')}", method="HEAD")  # noqa: S310 - the loopback
    with urllib.request.urlopen(asked) as answer:  # noqa: S310 - the loopback
        assert (answer.status, answer.read()) == (200, b"")
    assert replay.requested[1:] == [f"/whl/cu121/{GEMMA}", "/whl/cu121/"]


def profiles() -> list[Profile]:
    paths = (store.profile_file(name, ROOT) for name in store.profile_names(ROOT))
    return [profile.parse(path.read_text(encoding="utf-8"), str(path)) for path in paths]


def test_it_has_the_torch_family_of_every_shipped_variant(replay: TorchIndex) -> None:
    asked = [
        (variant, name, pin)
        for each in profiles()
        for variant in request.variants(each)
        for name in FAMILY
        if variant.source == "index" and (pin := request.pin(request.spec_of(each, variant.backend), name))
    ]
    assert {name for _, name, _ in asked} == set(FAMILY)
    for variant, name, pin in asked:
        tag = f"cp{variant.python.replace('.', '')}"
        start = f"{name}-{pin}+{variant.backend}-{tag}-{tag}-"
        fitting = [file for file in listed(replay, variant.backend, name).values() if file.file.startswith(start)]
        assert len(fitting) == 1, start
        assert fitting[0].sha256, start
        assert fitting[0].metadata, start


def test_every_backend_has_an_index_of_its_own() -> None:
    rows = {row["name"]: row for row in tomllib.loads(store.facts_texts()["indexes.toml"])["index"]}
    assert all(row["url"] == f"https://download.pytorch.org/whl/{name}/" for name, row in rows.items())
    assert all(set(row["packages"]) == set(FAMILY) for row in rows.values())
    assert all(row["status"] in facts.STATUSES and row["source"] and row["date"] for row in rows.values())
    assert {spec.name for each in profiles() for spec in each.backends} <= rows.keys()
    assert {wheel.index for wheel in wheels()} - {"cu121_full"} <= rows.keys()


# ---- the METADATA that is made --------------------------------------------------------------------------------------


def test_metadata_names_the_local_version_and_nothing_but_requirements() -> None:
    for wheel in wheels():
        if (text := metadata(wheel)) is not None:
            raw, _ = parse_email(text)
            name, version = parse_wheel_filename(wheel.file)[:2]
            assert (canonicalize_name(raw["name"]), raw["version"]) == (name, str(version))
            keys = {line.partition(":")[0] for line in text.splitlines()}
            assert keys <= {
                "Metadata-Version",
                "Name",
                "Version",
                "Requires-Python",
                "Requires-Dist",
                "Provides-Extra",
            }


def test_a_build_requires_the_libraries_of_its_own_cuda() -> None:
    old = nvidia("torch-2.4.1+cu118-cp310-cp310-linux_x86_64.whl", "cu118")
    assert len(old) == 11
    assert {"nvidia-cublas-cu11==11.11.3.6", "nvidia-nccl-cu11==2.20.5"} <= old
    later = nvidia("torch-2.6.0+cu118-cp310-cp310-linux_x86_64.whl", "cu118")
    assert (later - old, old - later) == ({"nvidia-nccl-cu11==2.21.5"}, {"nvidia-nccl-cu11==2.20.5"})
    borrowed = nvidia("torch-2.5.1+cu121-cp310-cp310-linux_x86_64.whl", "cu121")
    assert {"nvidia-cublas-cu12==12.1.3.1", "nvidia-nccl-cu12==2.21.5"} <= borrowed
    assert not any("nvjitlink" in one for one in borrowed)
    assert "nvidia-nvjitlink-cu12==12.8.93" in nvidia(
        "torch-2.8.0+cu128-cp313-cp313-manylinux_2_28_x86_64.whl", "cu128"
    )


def test_a_build_that_bundles_cuda_requires_triton_only() -> None:
    raw = described("torch-2.1.2+cu118-cp310-cp310-linux_x86_64.whl", "cu118")
    assert required(raw) == {"filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "triton==2.1.0"}


def test_a_build_for_the_cpu_requires_neither() -> None:
    raw = described("torch-2.8.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl", "cpu")
    assert {one for one in required(raw, "3.12") if one.startswith(("nvidia", "triton"))} == set()
    assert "setuptools" in required(raw, "3.12") - required(raw, "3.11")


def test_the_companions_require_their_torch() -> None:
    assert "torch==2.1.2" in required(described("torchvision-0.16.2+cu118-cp310-cp310-linux_x86_64.whl", "cu118"))
    assert required(described("torchaudio-2.3.0+cu121-cp310-cp310-linux_x86_64.whl", "cu121")) == {"torch==2.3.0"}


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_command_prints_settings_that_envlock_reads_and_serves_them() -> None:
    argv = [sys.executable, "-m", "tests.servers.torch_index"]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(8)]
        assert all(line.startswith("export ENVLOCK_INDEX_") for line in lines)
        environ = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines)
        settings = config.resolve(flags={}, environ=environ, table={}, table_file=None)
        assert b"2.4.1+cu121" in read(f"{settings.indexes.get('cu121')}torch/")
        assert settings.indexes.get("cu121-full") is None
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0


# ---- what uv makes of it --------------------------------------------------------------------------------------------


PYPROJECT = """\
[project]
name = "demo-profile"
version = "0"
requires-python = "==3.10.*"
dependencies = [{asked}]

[[tool.uv.index]]
name = "cu121"
url = "{url}"
explicit = true

[tool.uv.sources]
torch = {{ index = "cu121" }}
"""


def compile_with_uv(
    folder: Path, environ: dict[str, str], default: str, torch: str, *options: str, asked: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Resolve with everything but torch from the default index, as the engine asks uv to."""
    quoted = ", ".join(f'"{one}"' for one in asked)
    (folder / "pyproject.toml").write_text(PYPROJECT.format(asked=quoted, url=torch), encoding="utf-8")
    argv = [uv.find_uv_bin(), "--no-config", "--quiet", "--directory", str(folder), "pip", "compile", "pyproject.toml"]
    argv += ["--format", "pylock.toml", "--output-file", "pylock.toml", "--python", sys.executable]
    argv += ["--python-version", "3.10", "--python-platform", "x86_64-manylinux_2_28", "--exclude-newer", DAY]
    env = environ | {"UV_DEFAULT_INDEX": default, "UV_HTTP_RETRIES": "0"}
    return subprocess.run([*argv, *options], env=env, capture_output=True, text=True, check=False)


def answer(folder: Path) -> dict[str, Package]:
    pylock = Pylock.from_dict(tomllib.loads((folder / "pylock.toml").read_text(encoding="utf-8")))
    return {str(package.name): package for package in pylock.packages}


def test_uv_takes_torch_from_its_index_and_its_libraries_from_the_default_one(
    replay: TorchIndex, index: Index, wheelhouse: Path, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    wanted = required(described(GEMMA, "cu121"))
    for one in map(Requirement, wanted):
        exact = [each.version for each in one.specifier if each.operator == "=="]
        make_wheel(wheelhouse, one.name, exact[0] if exact else "9.0")
    make_wheel(wheelhouse, "torch", "9.0")
    make_wheel(wheelhouse, "torch", "2.4.1")
    done = compile_with_uv(
        tmp_path,
        isolated_environ,
        index.url,
        replay.url("cu121"),
        *("--exclude-newer-package", "torch=false"),
        asked=["torch==2.4.1"],
    )
    assert done.returncode == 0, done.stderr
    packages = answer(tmp_path)
    (wheel,) = packages["torch"].wheels or ()
    assert str(packages["torch"].version) == "2.4.1+cu121"
    assert wheel.url == f"{replay.url('cu121')}{GEMMA.replace('+', '%2B')}"
    assert (wheel.filename, dict(wheel.hashes)) == (GEMMA, {"sha256": recorded(GEMMA, "cu121").sha256})
    # uv says of which index a package is by the address alone, and knows neither size nor time.
    assert (packages["torch"].index, wheel.size, wheel.upload_time) == (None, None, None)
    assert packages.keys() == {"torch"} | {canonicalize_name(Requirement(one).name) for one in wanted}
    others = [wheel for name, one in packages.items() if name != "torch" for wheel in one.wheels or ()]
    assert all(wheel.url and wheel.url.startswith(f"{index.root}/files/") for wheel in others)
    # Nothing but torch's page and METADATA is asked of its index, and nothing about torch of the default one.
    assert replay.requested == ["/whl/cu121/torch/", f"/whl/cu121/{GEMMA}.metadata"]
    assert not [path for path in index.requested if "torch" in path]


def test_uv_counts_a_file_without_a_time_as_too_new_unless_it_is_exempt(
    replay: TorchIndex, index: Index, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    done = compile_with_uv(tmp_path, isolated_environ, index.url, replay.url("cu121"), asked=["torch==2.4.1"])
    assert done.returncode == 1
    assert "there is no version of torch==2.4.1" in done.stderr


def test_uv_lets_no_index_shadow_another(
    index: Index, wheelhouse: Path, isolated_environ: dict[str, str], tmp_path: Path
) -> None:
    make_wheel(wheelhouse, "torch", "9.0")
    library = make_wheel(wheelhouse, "nvidia-cublas-cu12", "12.1.3.1")
    with Index(tmp_path / "torch") as other:
        own = make_wheel(other.directory, "torch", "2.4.1+cu121", requires=["nvidia-cublas-cu12>=12"])
        make_wheel(other.directory, "nvidia-cublas-cu12", "99.0")
        done = compile_with_uv(tmp_path, isolated_environ, index.url, other.url, asked=["torch>=2"])
    assert done.returncode == 0, done.stderr
    chosen = {name: [wheel.filename for wheel in one.wheels or ()] for name, one in answer(tmp_path).items()}
    assert chosen == {"torch": [own.name], "nvidia-cublas-cu12": [library.name]}
