"""What every test may ask for: an index, a folder of distributions, and an environment that is nobody's."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envlock import index as indexes
from envlock import proc
from envlock.engines import uv_index
from tests.servers.index import Index

# A shell that runs the tests in the background has SIGINT ignored, and all that they start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SNAPSHOTS = Path(__file__).parent / "golden" / "snapshots"
PIP_TOOLS = Path(__file__).parents[1] / "envlock" / "data" / "pip-tools.txt"
KEPT = ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--network", action="store_true", help="run the tests of remotes too, which need a network")
    parser.addoption("--regen", action="store_true", help="write the golden files anew instead of comparing with them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, and count as left out, what needs a remote that nobody has said is reached."""
    remote = [item for item in items if item.get_closest_marker("network")]
    if remote and not config.getoption("--network"):
        config.hook.pytest_deselected(items=remote)
        items[:] = [item for item in items if item not in remote]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/snapshots/NAME`; with `--regen`, write it there."""

    def compare(name: str, text: str) -> None:
        path = SNAPSHOTS / name
        if request.config.getoption("--regen"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is not there: look at what --regen writes, then commit it"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Path:
    """A folder for distributions; `index` serves it."""
    place = tmp_path / "wheelhouse"
    place.mkdir()
    return place


@pytest.fixture
def index(wheelhouse: Path) -> Iterator[Index]:
    """A running package index over `wheelhouse`."""
    with Index(wheelhouse) as running:
        yield running


@pytest.fixture
def isolated_environ(tmp_path: Path) -> dict[str, str]:
    """An environment whose home, caches and settings lie in the test's folder; the caller's UV_* and PIP_* are gone."""
    home = tmp_path / "home"
    home.mkdir()
    environ = {name: os.environ[name] for name in KEPT if name in os.environ}
    return environ | {
        "HOME": str(home),
        "UV_CACHE_DIR": str(tmp_path / "uv-cache"),
        "UV_NO_CONFIG": "1",
        "UV_PYTHON_DOWNLOADS": "never",
        "PIP_CONFIG_FILE": os.devnull,
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
    }


@pytest.fixture(scope="session")
def pip_tools_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels that `--resolver pip-tools` is made of, fetched once, from the index that uv asks."""
    place = tmp_path_factory.mktemp("pip-tools")
    default = indexes.Index(name="pypi", url=uv_index.default(proc.run, os.environ))
    pinned, known = {}, set()
    for line in PIP_TOOLS.read_text(encoding="utf-8").splitlines():
        if pin := re.match(r"([a-z0-9-]+)==([^ ]+)", line):
            pinned[pin[1]] = pin[2]
        known |= set(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
    for name, version in pinned.items():
        for file in indexes.files(name, default, environ=os.environ):
            if file.sha256 and file.sha256 in known and file.file.endswith("-none-any.whl"):
                assert f"-{version}-" in file.file
                indexes.download(file, default, place / file.file, sha256=file.sha256, environ=os.environ)
    assert len(list(place.iterdir())) == len(pinned)
    return place
