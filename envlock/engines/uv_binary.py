"""Find uv, and make the environment its children get."""

from __future__ import annotations

import shlex
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

import uv

from envlock import logins
from envlock.errors import WorldFailed
from envlock.request import DEFAULT_INDEX

__all__ = ["KEPT", "OLDEST", "UPGRADE", "binary", "command", "environment", "is_ambient", "without_login"]

OLDEST: Final = "0.13.5"
"""The first uv with the PEP 751 output and the messages that are read here."""

UPGRADE: Final = f"python3 -m pip install 'uv>={OLDEST}'"

# Of uv's own variables those that say where its caches and interpreters live and how it reaches the network; every
# other one would change what is resolved or installed. Proxies, certificates, netrc and the like are not uv's own
# and pass untouched.
KEPT: Final = frozenset(
    {
        "UV_CACHE_DIR",
        "UV_CONCURRENT_BUILDS",
        "UV_CONCURRENT_DOWNLOADS",
        "UV_CONCURRENT_INSTALLS",
        "UV_HTTP_CONNECT_TIMEOUT",
        "UV_HTTP_RETRIES",
        "UV_HTTP_TIMEOUT",
        "UV_INSECURE_HOST",
        "UV_KEYRING_PROVIDER",
        "UV_LINK_MODE",
        "UV_LOCK_TIMEOUT",
        "UV_NATIVE_TLS",
        "UV_PYPY_INSTALL_MIRROR",
        "UV_PYTHON_CACHE_DIR",
        "UV_PYTHON_DOWNLOADS",
        "UV_PYTHON_INSTALL_DIR",
        "UV_PYTHON_INSTALL_MIRROR",
        "UV_SYSTEM_CERTS",
    }
)
# It asks `sysconfig`, whose first answer two threads must not wait for at once: one of them gets half of it.
_ONE_AT_A_TIME: Final = threading.Lock()

_AMBIENT: Final = ("UV_", "PIP_", "PYTHON", "VIRTUAL_ENV", "CONDA_", "__PYVENV")


def binary(environ: Mapping[str, str]) -> Path:
    """Return uv: the one installed beside envlock, else the first on PATH; `WorldFailed` (`engine-missing`) if none."""
    try:
        with _ONE_AT_A_TIME:
            return Path(uv.find_uv_bin())
    except FileNotFoundError as error:
        found = shutil.which("uv", path=environ.get("PATH", ""))
        if found:
            return Path(found)
        raise WorldFailed(
            "uv is neither installed beside envlock nor on PATH",
            code="engine-missing",
            hint=UPGRADE,
        ) from error


def command(environ: Mapping[str, str], *arguments: str) -> str:
    """Return a command for hints: it names this very uv, which need not be on PATH."""
    return shlex.join((str(binary(environ)), *arguments))


def environment(
    environ: Mapping[str, str], *, indexes: Mapping[str, str] = MappingProxyType({}), offline: bool = False
) -> dict[str, str]:
    """Return the environment of a uv process: no ambient setting but `KEPT`.

    `indexes` maps names to addresses: the one called `pypi` is the default, of the others the logins are given, for the
    file that names them. Both go by variable, since an argument with a password would show in every list of processes.
    """
    env = {key: value for key, value in environ.items() if key in KEPT or not is_ambient(key)}
    env |= {"UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    if logins.asks_keyring(environ):
        env["UV_KEYRING_PROVIDER"] = "subprocess"
    for name, address in indexes.items():
        env |= {"UV_DEFAULT_INDEX": address} if name == DEFAULT_INDEX else _login(name, address, environ)
    if offline:
        env["UV_OFFLINE"] = "1"
    return env


def is_ambient(variable: str) -> bool:
    """Say whether a variable would have a child take another interpreter, other packages or another configuration."""
    return variable.startswith(_AMBIENT)


def without_login(address: str) -> tuple[str, str]:
    """Return an address without its login, and the login."""
    parts = urlsplit(address)
    login, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), login


def _login(name: str, address: str, environ: Mapping[str, str]) -> dict[str, str]:
    user, colon, password = without_login(address)[1].partition(":")
    if not user:
        return {}
    named = f"UV_INDEX_{name.upper().replace('-', '_')}"
    given = {f"{named}_USERNAME": unquote(user)}
    if not colon:  # a keyring knows it by the address of the index, and uv would ask by that of a page
        return given | _looked_up(f"{named}_PASSWORD", address, environ)
    return given | {f"{named}_PASSWORD": unquote(password)}


def _looked_up(variable: str, address: str, environ: Mapping[str, str]) -> dict[str, str]:
    password = logins.find(urlsplit(address), environ, index=address).partition(":")[2]
    return {variable: password} if password else {}
