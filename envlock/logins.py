"""Find the login for an address: its own, that of netrc, or that of a keyring. It is sent, and never shown or kept."""

from __future__ import annotations

import contextlib
import netrc
import shutil
import threading
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from envlock import address, proc
from envlock.proc import Command

__all__ = ["KEYRING_VARIABLES", "asks_keyring", "find", "own"]

KEYRING_VARIABLES: Final = ("UV_KEYRING_PROVIDER", "PIP_KEYRING_PROVIDER")
"""What says that the `keyring` program is to be asked, where it holds `subprocess`."""

_SECONDS: Final = 60.0  # a keyring may ask its owner first
_ONE_AT_A_TIME: Final = threading.Lock()
_told: Final[dict[tuple[str, str, str], str | None]] = {}


def find(at: SplitResult, environ: Mapping[str, str], *, index: str | None = None) -> str:
    """Return `user:password` for an address, nothing where nobody knows one.

    A user in the address with a password goes first; one without a password is looked up, in the file that $NETRC
    names, else in ~/.netrc, else in the keyring, by the address of the `index` and by the host. If nobody knows the
    password there is none.
    """
    login = own(at)
    if login and "@" in at.netloc and ":" in at.netloc.rpartition("@")[0]:
        return login
    user = login.removesuffix(":")
    if known := _netrc(at.hostname or "", user, environ):
        return known
    return f"{user}:{_keyring(at, user, environ, index) or ''}" if user else ""


def own(at: SplitResult) -> str:
    """Return `user:password` as it stands in an address; nothing if it has none."""
    user, colon, password = at.netloc.rpartition("@")[0].partition(":")
    return f"{unquote(user)}:{unquote(password)}" if user or colon else ""


def asks_keyring(environ: Mapping[str, str]) -> bool:
    """Tell whether the `keyring` program is to be asked."""
    return any(environ.get(variable) == "subprocess" for variable in KEYRING_VARIABLES)


def _netrc(host: str, user: str, environ: Mapping[str, str]) -> str:
    with contextlib.suppress(OSError, ValueError, netrc.NetrcParseError):
        found = netrc.netrc(environ.get("NETRC") or f"{environ.get('HOME', '')}/.netrc").authenticators(host)
        return f"{found[0]}:{found[2]}" if found and user in {"", found[0]} else ""
    return ""


def _keyring(at: SplitResult, user: str, environ: Mapping[str, str], index: str | None) -> str | None:
    """Return the password that the keyring has for a user of a host; it is asked once."""
    program = shutil.which("keyring", path=environ.get("PATH", "")) if asks_keyring(environ) else None
    if program is None:
        return None
    host = at.netloc.rpartition("@")[2]
    with _ONE_AT_A_TIME:
        key = (program, host, user)
        if key not in _told:
            answers = (_asked(program, service, user, environ) for service in (_plain(at, index), host))
            _told[key] = next((one for one in answers if one), None)
        return _told[key]


def _plain(at: SplitResult, index: str | None) -> str:
    """Return what a keyring knows the address by: its index, if that is of the same host, without a login."""
    listing = urlsplit(index) if index else at
    meant = listing if address.origin(listing) == address.origin(at) else at
    return urlunsplit(meant._replace(netloc=meant.netloc.rpartition("@")[2]))


def _asked(program: str, service: str, user: str, environ: Mapping[str, str]) -> str | None:
    done = proc.run(Command(argv=(program, "get", service, user), env=environ, timeout=_SECONDS))
    return done.stdout.rstrip("\r\n") if done.code == 0 and not done.timed_out else None
