"""Is an environment still what was installed? Its packages, every file they name, and files that nobody names.

Nothing in it is imported or started: a damaged environment is not asked about itself.
"""

from __future__ import annotations

import os
import posixpath
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from packaging.version import Version

from envlock import distinfo, frame, hashes
from envlock.distinfo import Distribution, Entry
from envlock.model import Check

__all__ = ["Integrity", "check", "installed", "modules", "records"]

_NAMED: Final = 3  # how many of a list a message names before it counts the rest
_HOOKS: Final = frozenset({"sitecustomize", "usercustomize"})  # what every start of an interpreter imports


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """The checks and what they cost; `damaged` names the packages to install again.

    `files` counts what RECORD names, `bytes` what of that has a hash, `bytes_read` what of that had to be read.
    """

    checks: tuple[Check, ...]
    damaged: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    bytes_read: int = 0


class _Claim(NamedTuple):
    """A row of the RECORD of the distribution `owner`."""

    owner: str
    entry: Entry


class _Fault(NamedTuple):
    """A file that is not as its RECORD says."""

    owner: str
    path: str
    what: str


@dataclass(slots=True)
class _Tally:
    """What the comparison of the files adds up to."""

    faults: list[_Fault] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    bytes_read: int = 0


def records(root: Path) -> dict[str, str]:
    """Return package -> sha256 of its RECORD. Kept at install, it shows later that a RECORD is still the same one."""
    return {dist.name: dist.record for site in _sites(root) for dist in distinfo.read(site)}


def installed(root: Path) -> dict[str, str] | None:
    """Return package -> version of all that is there; None where there is no environment.

    A package that is there more than once has all its versions.
    """
    sites = _sites(root)
    found: dict[str, set[str]] = {}
    for dist in (dist for site in sites for dist in distinfo.read(site)):
        found.setdefault(dist.name, set()).add(dist.version)
    return {name: ", ".join(sorted(versions)) for name, versions in found.items()} if sites else None


def modules(root: Path, packages: Collection[str]) -> dict[str, str]:
    """Return package -> the module that is imported of it, for those of the packages that have one."""
    found = {dist.name: distinfo.module(dist) for site in _sites(root) for dist in distinfo.read(site)}
    return {name: module for name in packages if (module := found.get(name))}


def check(
    root: Path,
    expected: Mapping[str, str],
    *,
    kept: Mapping[str, str] | None = None,
    cache: Path | None = None,
    deep: bool = False,
) -> Integrity:
    """Compare the environment at `root` with `expected` (canonical name -> version) and with its own RECORDs.

    `kept` is `records(root)` as it was at install; `cache` a file of `hashes`, which `deep` does not believe.
    """
    root = root.resolve()
    interpreter = frame.check(root)
    sites = _sites(root)
    if len(sites) != 1:
        return Integrity(checks=(interpreter, _homeless(root, sites)), damaged=tuple(sorted(expected)))
    site = str(sites[0])
    watch = _Watch()
    dists = distinfo.read(sites[0])
    wrong = _differing(dists, expected)
    versions = watch.time(_versions(wrong, len(expected)))
    present = dict(_walk(site, ""))
    locked = [dist for dist in dists if dist.name in expected]
    tally = _compare(str(root), site, locked, present, cache=cache, deep=deep)
    tally.faults[:0] = _swapped(locked, kept or {})
    record = watch.time(_record(tally))
    strangers = watch.time(_strangers(dists, expected, present))
    return Integrity(
        checks=(interpreter, versions, record, strangers),
        damaged=tuple(sorted({*wrong, *(fault.owner for fault in tally.faults)})),
        files=tally.files,
        bytes=tally.bytes,
        bytes_read=tally.bytes_read,
    )


class _Watch:
    """Gives each check the seconds since the one before it."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def time(self, check: Check) -> Check:
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return replace(check, seconds=seconds)


# ---- the folders ----------------------------------------------------------------------------------------------------


def _sites(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("lib/python3*/site-packages") if path.is_dir())


def _homeless(root: Path, sites: Sequence[Path]) -> Check:
    return Check(
        id="integrity.versions",
        status="fail",
        message="an environment has one site-packages folder",
        have=_few([str(site.relative_to(root)) for site in sites]) or "none",
        want="one",
    )


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and stat of every file below; a link to a file is that file, one to a folder stands for itself."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # its files are then missing, and named as such
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            yield prefix + entry.name, _stat(entry)
        elif entry.name != "__pycache__":
            yield from _walk(entry.path, f"{prefix}{entry.name}/")


def _stat(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat()
    except OSError:
        return entry.stat(follow_symlinks=False)  # a link to nothing


# ---- installed = locked -------------------------------------------------------------------------------------------


def _differing(dists: Iterable[Distribution], expected: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return package -> (is, should be) for each that is missing, twice there, unreadable or of another version."""
    found: dict[str, list[Distribution]] = {}
    for dist in dists:
        found.setdefault(dist.name, []).append(dist)
    wrong = {}
    for name, version in sorted(expected.items()):
        here = found.get(name, [])
        if len(here) != 1:
            wrong[name] = (", ".join(dist.version for dist in here) or "missing", version)
        elif here[0].trouble:
            wrong[name] = (here[0].trouble, version)
        elif not _same(here[0].version, version):
            wrong[name] = (here[0].version, version)
    return wrong


def _same(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except ValueError:  # also for a number of more digits than Python reads
        return one == other


def _versions(wrong: Mapping[str, tuple[str, str]], count: int) -> Check:
    if not wrong:
        return Check(id="integrity.versions", status="pass", message=f"{_count(count, 'package')} as locked")
    return Check(
        id="integrity.versions",
        status="fail",
        message=f"{len(wrong)} of {_count(count, 'package')} not as locked",
        have=_few([f"{name} {have}" for name, (have, _) in wrong.items()]),
        want=_few([f"{name} {want}" for name, (_, want) in wrong.items()]),
    )


# ---- files = RECORD -----------------------------------------------------------------------------------------------


def _swapped(dists: Iterable[Distribution], kept: Mapping[str, str]) -> list[_Fault]:
    return [
        _Fault(dist.name, f"{dist.folder}/RECORD", "is not the one of the install")
        for dist in dists
        if not dist.trouble and kept.get(dist.name, dist.record) != dist.record
    ]


def _compare(
    root: str,
    site: str,
    dists: Iterable[Distribution],
    present: Mapping[str, os.stat_result],
    *,
    cache: Path | None,
    deep: bool,
) -> _Tally:
    tally = _Tally()
    known = hashes.load(cache) if cache else {}
    used: dict[str, str] = {}
    unread: dict[str, list[_Claim]] = {}
    for path, claims in _claims(dists).items():
        place, facts = (f"{site}/{path}", present[path]) if path in present else _elsewhere(root, site, path)
        fitting = [claim for claim in claims if facts and claim.entry.size in {None, facts.st_size}]
        if facts is None or not stat.S_ISREG(facts.st_mode) or not fitting:
            tally.faults.append(_Fault(claims[0].owner, path, _unlike(root, place, facts, claims[0].entry)))
            continue
        tally.files += 1
        if not fitting[0].entry.digest:
            continue  # RECORD itself, which cannot hold its own hash
        tally.bytes += facts.st_size
        identity = hashes.identity(facts)
        digest = known.get(identity)
        if digest and not deep and any(claim.entry.digest == digest for claim in fitting):
            used[identity] = digest
        else:
            unread[place] = fitting
            tally.bytes_read += facts.st_size
    learnt = _read(unread, tally)
    if cache and learnt:
        hashes.save(cache, used | learnt)
    return tally


def _claims(dists: Iterable[Distribution]) -> dict[str, list[_Claim]]:
    """Return path -> the rows that name it: a file of two packages passes when it is as one of them says.

    Bytecode is made anew by any interpreter that runs here, so a row for it says nothing.
    """
    claims: dict[str, list[_Claim]] = {}
    for dist in dists:
        for entry in dist.entries:
            if not entry.path.endswith(".pyc") or entry.digest:
                claims.setdefault(entry.path, []).append(_Claim(dist.name, entry))
    return claims


def _elsewhere(root: str, site: str, path: str) -> tuple[str, os.stat_result | None]:
    """Return place and stat of a row that the walk did not meet; what lies outside `root` is not looked at."""
    place = posixpath.normpath(posixpath.join(site, path))
    try:
        return place, Path(place).stat() if _inside(root, place) else None
    except (OSError, ValueError):
        return place, None


def _inside(root: str, place: str) -> bool:
    return place.startswith(f"{root}/")


def _unlike(root: str, place: str, facts: os.stat_result | None, entry: Entry) -> str:
    if posixpath.isabs(entry.path) or not _inside(root, place):
        return "lies outside the environment"
    if facts is None:
        return "is missing"
    if not stat.S_ISREG(facts.st_mode):
        return "is not a file"
    return f"has {facts.st_size} bytes, not {entry.size}"


def _read(unread: Mapping[str, list[_Claim]], tally: _Tally) -> dict[str, str]:
    """Read what is not known, note what differs, and return what was learnt: identity -> digest."""
    wanted = []
    for place, claims in unread.items():
        algorithm = claims[0].entry.digest.partition("=")[0]
        if algorithm in hashes.ALGORITHMS:
            wanted.append(hashes.File(path=place, algorithm=algorithm, size=claims[0].entry.size or 0))
        else:
            tally.faults.append(_Fault(claims[0].owner, claims[0].entry.path, f"has a hash of `{algorithm}`"))
    learnt = {}
    for place, reading in hashes.read(wanted).items():
        claims = unread[place]
        if reading.digest not in {claim.entry.digest for claim in claims}:
            what = f"cannot be read: {reading.error}" if reading.error else "has other bytes"
            tally.faults.append(_Fault(claims[0].owner, claims[0].entry.path, what))
        if reading.identity and reading.digest:
            learnt[reading.identity] = reading.digest
    return learnt


def _record(tally: _Tally) -> Check:
    if not tally.faults:
        message = f"{_count(tally.files, 'file')} as recorded: {_hashed(tally)}"
        return Check(id="integrity.record", status="pass", message=message)
    return Check(
        id="integrity.record",
        status="fail",
        message=f"{_count(len(tally.faults), 'file')} not as recorded by the package",
        have=_few([f"{fault.path} ({fault.owner}) {fault.what}" for fault in sorted(tally.faults)]),
        want="the recorded size and hash",
    )


def _hashed(tally: _Tally) -> str:
    """Say what was read to tell, and what was believed of files that are the very ones that were hashed before."""
    kept = tally.bytes - tally.bytes_read
    now = [f"{_size(tally.bytes_read)} hashed now"] if tally.bytes_read or not kept else []
    before = [f"{_size(kept)} hashed before and not touched since (same inode, size and times)"] if kept else []
    return ", ".join([*now, *before])


# ---- strangers ----------------------------------------------------------------------------------------------------


def _strangers(
    dists: Iterable[Distribution], expected: Mapping[str, str], present: Mapping[str, os.stat_result]
) -> Check:
    """Name what the lock did not bring: packages, files of no package, and what runs at every start (a failure)."""
    extra = [dist for dist in dists if dist.name not in expected]
    locked = {entry.path for dist in dists if dist.name in expected for entry in dist.entries}
    hooks = sorted(path for path in present if path not in locked and _is_hook(path))
    if hooks:
        return Check(
            id="integrity.strangers",
            status="fail",
            message=f"{_count(len(hooks), 'file')} of no locked package, run whenever Python starts here",
            have=_few(hooks),
            want="none",
        )
    named = locked | {entry.path for dist in extra for entry in dist.entries}
    files = sorted(path for path in present if path not in named)
    found = [f"{dist.name} {dist.version}" for dist in extra] + files
    counted = [_count(len(some), noun) for some, noun in ((extra, "package"), (files, "file")) if some]
    if found:
        return Check(
            id="integrity.strangers",
            status="warn",
            message=f"{' and '.join(counted)} not from the lock",
            have=_few(found),
            want="none",
        )
    return Check(id="integrity.strangers", status="pass", message="no file that no package names")


def _is_hook(path: str) -> bool:
    head, slash, _ = path.partition("/")
    if not slash and head.endswith(".pth"):
        return True
    return head.partition(".")[0] in _HOOKS


# ---- the words ----------------------------------------------------------------------------------------------------


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _size(count: int) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def _few(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return "; ".join(map(_shown, names[:_NAMED])) + (f"; and {rest} more" if rest > 0 else "")


def _shown(name: str) -> str:
    """Escape what cannot be printed: a file name may hold anything but `/` and NUL."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in name)
