"""pip-tools as a resolver: the real pip-compile against a real index, held against what uv answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envlock import proc
from envlock.config import CHOICES
from envlock.engines import pip_tools, uv
from envlock.engines.resolver import Workbench
from envlock.engines.resolvers import RESOLVERS
from envlock.errors import EnvlockError, Refused, WorldFailed
from envlock.request import Resolution
from tests.contract.installing import HERE
from tests.servers.index import Fault, Index
from tests.servers.wheels import make_sdist, make_wheel

DAY = datetime(2024, 6, 1, tzinfo=timezone.utc)
LATER = datetime(2024, 9, 1, tzinfo=timezone.utc)
SECRET = "s3cret"  # noqa: S105 - of nothing
ABI = f"cp{HERE.replace('.', '')}"


def asked(*requires: str, **more: object) -> Resolution:
    question = Resolution(
        root="demo-profile", python=HERE, platform="linux-x86_64", requires=requires, exclude_newer=DAY
    )
    return replace(question, **more)  # type: ignore[arg-type]


@pytest.fixture
def bench(index: Index, wheelhouse: Path, isolated_environ: dict[str, str], pip_tools_wheels: Path) -> Workbench:
    for wheel in pip_tools_wheels.iterdir():
        (wheelhouse / wheel.name).hardlink_to(wheel)
    quick = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "2", "PIP_RETRIES": "0", "PIP_TIMEOUT": "2"}
    return Workbench(
        run=proc.run,
        environ=isolated_environ | quick,
        python=Path(sys.executable),
        indexes={"pypi": index.url},
        offline=False,
    )


@pytest.fixture
def torch(tmp_path: Path) -> Iterator[Index]:
    """An index of PyTorch's kind: no dates, and files that are not its to serve."""
    shelf = tmp_path / "torch"
    make_wheel(shelf, "torch", "2.8.0+cu128", requires=["triton==3.4.0"])
    make_wheel(shelf, "torch", "2.9.0+cu128")
    make_wheel(shelf, "triton", "3.4.0", files={"triton.py": "EVIL = 1\n"})
    make_wheel(shelf, "alpha", "9.0", files={"alpha.py": "EVIL = 1\n"})
    with Index(shelf) as running:
        running.uploaded.update(dict.fromkeys((each.name for each in shelf.iterdir()), None))
        yield running


def failure(question: Resolution, bench: Workbench) -> EnvlockError:
    with pytest.raises(EnvlockError) as caught:
        pip_tools.resolve(question, bench)
    return caught.value


def said(error: EnvlockError) -> str:
    return "\n".join([error.message, *(str(problem) for problem in error.problems)])


def shelf(place: Path) -> None:
    """What several questions are asked of: extras, markers, wheels for others, a package of source only."""
    make_wheel(
        place,
        "App",
        "1.0",
        requires=["Lib.One[extra]>=1", 'old; python_version >= "3.8"', "nothere; sys_platform == 'win32'"],
    )
    make_wheel(place, "Lib.One", "1.5", requires=["via", 'plus; extra == "extra"'])
    for tag in (f"{ABI}-{ABI}-manylinux_2_17_x86_64", "cp38-abi3-manylinux2014_x86_64", f"{ABI}-{ABI}-win_amd64"):
        make_wheel(place, "Lib.One", "1.6", requires=["via", 'plus; extra == "extra"'], tag=tag)
    for version in ("1.0", "2.0"):
        make_wheel(place, "via", version)
    make_wheel(place, "plus", "0.1")
    make_sdist(place, "old", "2.0", build_requires=[])
    make_wheel(place, "old", "2.0", tag="cp310-cp310-win_amd64")


# ---- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [
        asked("App", "lib-one"),
        asked("App", "via<2"),
        asked("app", pins={"via": "1.0", "lib-one": "1.5", "gone": "3"}),
        asked("app", "via>1", pins={"via": "1.0"}),
        asked("lib.one[extra]", only_binary=True),
        asked("app", exclude_newer=None),
    ],
    ids=["all", "bounded", "kept", "not kept", "wheels", "undated"],
)
def test_it_answers_what_uv_answers(question: Resolution, wheelhouse: Path, index: Index, bench: Workbench) -> None:
    shelf(wheelhouse)
    index.uploaded[make_wheel(wheelhouse, "via", "3.0").name] = LATER
    answer, other = pip_tools.resolve(question, bench), uv.resolve(question, bench)
    assert list(map(str, answer.packages)) == list(map(str, other.packages))
    assert answer.urls == other.urls
    assert "lib-one" in {package.name for package in answer.packages}


def test_torch_comes_from_its_index_and_nothing_else_does(wheelhouse: Path, torch: Index, bench: Workbench) -> None:
    make_wheel(wheelhouse, "torch", "9.0")
    make_wheel(wheelhouse, "torch", "2.8.0", requires=["triton==3.4.0"])
    make_wheel(wheelhouse, "triton", "3.4.0")
    make_wheel(wheelhouse, "alpha", "1.0", requires=["torch>=2"])
    both = replace(bench, indexes={**bench.indexes, "cu128": torch.url})
    question = asked("torch==2.8.0", "alpha", indexes={"torch": "cu128"})
    answer = pip_tools.resolve(question, both)
    assert answer == uv.resolve(question, both)
    assert [(one.name, one.version, one.why) for one in answer.packages] == [
        ("alpha", "1.0", ("profile",)),
        ("torch", "2.8.0+cu128", ("alpha", "profile")),
        ("triton", "3.4.0", ("torch",)),
    ]
    assert not [path for path in torch.requested if path.endswith(".whl")]


def test_without_metadata_beside_it_the_wheel_itself_is_read(wheelhouse: Path, torch: Index, bench: Workbench) -> None:
    torch.metadata = False
    make_wheel(wheelhouse, "triton", "3.4.0")
    both = replace(bench, indexes={**bench.indexes, "cu128": torch.url})
    question = asked("torch==2.8.0", indexes={"torch": "cu128"})
    assert pip_tools.resolve(question, both) == uv.resolve(question, both)


def test_ambient_settings_do_not_count(wheelhouse: Path, bench: Workbench, tmp_path: Path) -> None:
    make_wheel(wheelhouse, "app", "2.0")
    make_wheel(tmp_path / "links", "app", "9.0")
    (tmp_path / "constraint.txt").write_text("app<2\n")
    ambient = {"PIP_FIND_LINKS": str(tmp_path / "links"), "PIP_CONSTRAINT": str(tmp_path / "constraint.txt")}
    noisy = replace(bench, environ={**bench.environ, **ambient, "PYTHONPATH": str(tmp_path)})
    assert [one.version for one in pip_tools.resolve(asked("app"), noisy).packages] == ["2.0"]


def test_the_series_is_engine_and_major(bench: Workbench) -> None:
    assert pip_tools.series(bench) == "pip-tools-7"


def test_what_can_be_set_is_what_there_is() -> None:
    assert tuple(RESOLVERS) == CHOICES["resolver"]


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_a_conflict_names_both_sides(wheelhouse: Path, bench: Workbench) -> None:
    make_wheel(wheelhouse, "app", "1.0", requires=["lib>=2"])
    make_wheel(wheelhouse, "other", "1.0", requires=["lib<2"])
    for version in ("1.0", "2.0"):
        make_wheel(wheelhouse, "lib", version)
    error = failure(asked("app", "other"), bench)
    assert (type(error), error.code) == (Refused, "unsatisfiable")
    assert [str(row) for row in error.problems] == ["app 1.0 depends on lib>=2", "other 1.0 depends on lib<2"]


@pytest.mark.parametrize(("requirement", "code"), [("nothere", "unsatisfiable"), ("app>=3", "unsatisfiable")])
def test_what_no_index_has_is_unsatisfiable(requirement: str, code: str, wheelhouse: Path, bench: Workbench) -> None:
    make_wheel(wheelhouse, "app", "1.0")
    error = failure(asked(requirement), bench)
    assert (type(error), error.code) == (Refused, code)
    assert requirement in said(error)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind="status", value=503),
        Fault(kind="status", value=403),
        Fault(kind="reset"),
        Fault(kind="stall", value=30),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.value:.0f}",
)
def test_an_index_that_does_not_answer_is_no_conflict(
    fault: Fault, wheelhouse: Path, index: Index, bench: Workbench
) -> None:
    make_wheel(wheelhouse, "app", "1.0", requires=["lib"])
    make_wheel(wheelhouse, "app", "0.9")
    make_wheel(wheelhouse, "lib", "1.0")
    index.break_at("/simple/lib/", fault)
    error = failure(asked("app"), bench)
    assert (type(error), error.code) == (WorldFailed, "network")
    assert "/simple/lib/" in said(error)


def test_a_build_that_fails_is_no_conflict(wheelhouse: Path, index: Index, bench: Workbench) -> None:
    index.metadata = False
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: app\nVersion: 1.0\n",
        "backend.py": "raise RuntimeError('no compiler')\n",
    }
    make_sdist(wheelhouse, "app", "1.0", build_requires=[], files=files)
    error = failure(asked("app"), bench)
    assert (type(error), error.code) == (WorldFailed, "build-failed")


@pytest.mark.parametrize(
    ("more", "flags", "kind", "code"),
    [
        ({}, {"offline": True}, WorldFailed, "not-cached"),
        ({"python": "3.99"}, {}, WorldFailed, "python-missing"),
        ({"platform": "linux-sparc"}, {}, Refused, "platform-unsupported"),
    ],
)
def test_what_it_cannot_resolve_for_is_said(
    more: dict[str, str], flags: dict[str, bool], kind: type[EnvlockError], code: str, bench: Workbench
) -> None:
    error = failure(asked("app", **more), replace(bench, **flags))  # type: ignore[arg-type]
    assert (type(error), error.code) == (kind, code)


@pytest.mark.parametrize(("requirement", "code"), [("torch>=2", "pin-missing"), ("torch==7", "unsatisfiable")])
def test_what_a_named_index_cannot_give(requirement: str, code: str, torch: Index, bench: Workbench) -> None:
    both = replace(bench, indexes={**bench.indexes, "cu128": torch.url})
    error = failure(asked(requirement, indexes={"torch": "cu128"}), both)
    assert (type(error), error.code) == (Refused, code)


def test_a_password_reaches_neither_a_list_of_processes_nor_a_message(
    wheelhouse: Path, index: Index, bench: Workbench
) -> None:
    make_wheel(wheelhouse, "app", "1.0", requires=["lib"])
    index.break_at("/simple/lib/", Fault(kind="status", value=503))
    argv: list[str] = []

    def run(command: proc.Command) -> proc.Completed:
        argv.extend(command.argv)
        return proc.run(command)

    logged_in = {"pypi": index.url.replace("://", f"://joe:{SECRET}@")}
    error = failure(asked("app"), replace(bench, run=run, indexes=logged_in))
    assert error.code == "network"
    assert SECRET not in said(error)
    assert not [word for word in argv if SECRET in word]


def test_a_pip_compile_that_never_ends_is_no_conflict(bench: Workbench) -> None:
    def run(command: proc.Command) -> proc.Completed:
        return proc.run(replace(command, timeout=0.01) if "piptools" in command.argv else command)

    error = failure(asked("app"), replace(bench, run=run))
    assert (type(error), error.code) == (WorldFailed, "engine-failed")
