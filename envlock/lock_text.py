"""A lock as text: canonical TOML that is the same bytes for the same lock, read back strictly.

Each (package, version) stands once. What concerns only some of the variants that hold it names them; what names none
concerns them all. A digest over the rest of the file tells an edit by hand, or a careless merge.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final, TypeVar

from envlock import lines, release
from envlock.document import Object, Scope, Shape, quoted, safe
from envlock.errors import Misuse, Problem
from envlock.model import Artifact, CondaPart, Floors, Inputs, Lock, LockedPackage, LockedVariant, Variant

__all__ = ["SCHEMA", "parse", "render"]

SCHEMA: Final = 1

_DIGEST_LINE: Final = re.compile(r'^digest = "(?P<digest>[^"\n]*)"\n', re.MULTILINE)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")

_NAME: Final = Shape(pattern=r"[a-z0-9]+(?:-[a-z0-9]+)*", expected="a normalized name")
_LABEL: Final = Shape(pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*", expected="a name")
_VERSION: Final = Shape(pattern=r"[0-9A-Za-z][0-9A-Za-z.+!_-]*", expected="a version (PEP 440)")
_PYTHON: Final = Shape(pattern=r"3\.\d{1,2}", expected='a Python version such as "3.10"')
_NUMBER: Final = Shape(pattern=r"\d+(?:\.\d+)*[a-z]*", expected="a dotted number")
_SHA256: Final = Shape(pattern=r"[0-9a-f]{64}", expected="64 hexadecimal digits")
_EVIDENCE: Final = Shape(pattern=r"[a-z]+(?:[ ,-]+[a-z]+)*", expected="words")
_DIGEST: Final = Shape(pattern=r"[0-9A-Za-z:._-]+", expected="a digest")
_FILE: Final = Shape(
    pattern=r"[A-Za-z0-9][\w.+!]*-[\w.+!]+(?:-\d[\w.]*)?(?:-[\w.]+){3}\.whl|[A-Za-z0-9][\w.+!-]*\.(?:tar\.gz|tar\.bz2|tar\.xz|tgz|zip)",
    expected="the file name of a wheel or an sdist, without a folder",
)


Row = tuple[str, str]  # name and version of a package
Part = TypeVar("Part")


# ---- writing ------------------------------------------------------------------------------------------------------


def render(lock: Lock) -> str:
    """Return the text of the lock: variants in the lock's order, everything else sorted."""
    head = [
        f"# Written by `envlock lock {lock.profile}`, which is also the way to change it: an edit by hand is refused.",
        f"schema = {SCHEMA}",
        f"profile = {_quoted(lock.profile)}",
        "",
        "[inputs]",
        f"profile = {_quoted(lock.inputs.profile)}",
        f"facts = {_quoted(lock.inputs.facts)}",
        f"rules = {_quoted(lock.inputs.rules)}",
        f"engine = {_quoted(lock.inputs.engine)}",
    ]
    allowed = [f"{rule} = {_list(names)}" for rule, names in sorted(lock.allowed.items())]
    blocks = [
        "\n".join(head),
        *(["\n".join(["[allowed]", *allowed])] if allowed else []),
        *(_variant_block(locked) for locked in lock.variants),
        *_package_blocks("package", lock, lambda locked: locked.packages),
        *_package_blocks("build", lock, lambda locked: locked.build),
    ]
    return _sealed("\n\n".join(blocks) + "\n")


def _sealed(text: str) -> str:
    return text.replace("\nprofile = ", f'\ndigest = "{_seal(text)}"\nprofile = ', 1)


def _seal(unsealed: str) -> str:
    return hashlib.sha256(unsealed.encode()).hexdigest()


def _variant_block(locked: LockedVariant) -> str:
    variant, floors = locked.variant, locked.floors
    rows = {
        "backend": variant.backend,
        "source": variant.source,
        "python": variant.python,
        "platform": variant.platform,
        "driver": floors.driver,
        "driver-windows": floors.driver_windows,
        "glibc": floors.glibc,
    }
    lines = [f"{key} = {_quoted(value)}" for key, value in rows.items() if value is not None]
    part = locked.conda
    conda = f"conda = {{ inputs = {_quoted(part.inputs)}, sha256 = {_quoted(part.sha256)} }}" if part else None
    key = variant.name if _BARE_KEY.fullmatch(variant.name) else _quoted(variant.name)
    return "\n".join([f"[variant.{key}]", *lines, f"sm = {_list(floors.sm)}", *([conda] if conda else [])])


def _package_blocks(
    kind: str, lock: Lock, chosen: Callable[[LockedVariant], tuple[LockedPackage, ...]]
) -> Iterable[str]:
    order = [locked.variant.name for locked in lock.variants]
    rows: dict[Row, dict[str, LockedPackage]] = {}
    for locked in lock.variants:
        for package in chosen(locked):
            rows.setdefault((package.name, package.version), {})[locked.variant.name] = package
    for (name, version), holders in sorted(rows.items()):
        files: dict[Artifact, list[str]] = {}
        reasons: dict[tuple[str, ...], list[str]] = {}
        for variant in (variant for variant in order if variant in holders):
            reasons.setdefault(tuple(sorted(holders[variant].why)), []).append(variant)
            for artifact in holders[variant].artifacts:
                files.setdefault(artifact, []).append(variant)
        some = [variant for variant in order if variant in holders]
        yield "\n".join(
            [
                f"[[{kind}]]",
                f"name = {_quoted(name)}",
                f"version = {_quoted(version)}",
                f"variants = {_list(some)}",
                *_array("why", [f"by = {_list(by)}{_only(among, some)}" for by, among in sorted(reasons.items())]),
                *_array("files", [f"{_file(file)}{_only(files[file], some)}" for file in sorted(files, key=_rank)]),
            ]
        )


def _rank(artifact: Artifact) -> tuple[str, str, str]:
    return artifact.file, artifact.index, artifact.sha256


def _file(artifact: Artifact) -> str:
    parts = f"index = {_quoted(artifact.index)}, file = {_quoted(artifact.file)}, sha256 = {_quoted(artifact.sha256)}"
    size = "" if artifact.size is None else f", size = {artifact.size}"
    return parts + size + (f", evidence = {_quoted(artifact.evidence)}" if artifact.evidence else "")


def _only(among: Sequence[str], some: Sequence[str]) -> str:
    return "" if list(among) == list(some) else f", variants = {_list(among)}"


def _array(key: str, rows: Sequence[str]) -> list[str]:
    if len(rows) == 1:
        return [f"{key} = [{{ {rows[0]} }}]"]
    return [f"{key} = [", *(f"    {{ {row} }}," for row in rows), "]"]


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(_quoted(value) for value in values)}]"


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---- reading ------------------------------------------------------------------------------------------------------


def parse(text: str, file: str, *, copied: bool = False) -> Lock:
    """Return the lock that a text holds.

    Raise `Misuse`: `lock-newer` for a later schema, `lock-older` for what an earlier envlock wrote in another layout,
    `lock-invalid` with every problem and its line, also for one that is called otherwise than its profile, unless it is
    a copy, `lock-edited` for a text that is well formed but not what envlock wrote.
    """
    text = text.replace("\r\n", "\n")
    called = PurePath(file).name.removesuffix(".lock")
    hint = f"envlock lock {called}"
    raw = lines.load(text)
    if isinstance(raw, lines.Fault):
        problem = Problem(message=raw.message, file=file, line=raw.line)
        raise Misuse(f"`{file}` is not TOML", code="lock-invalid", problems=(problem,), hint=hint)
    document = Object(list(raw.items()))
    schema = document.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise Misuse(
            f"`{file}` was written by a newer envlock: schema {quoted(schema)}, this one reads {SCHEMA}",
            code="lock-newer",
            hint=f"{hint} --upgrade",
        )
    top = Scope(values=document, path="", file=file, problems=[])
    lock = _lock(top, None if copied else called)
    sealed = document.get("digest") == _seal(_DIGEST_LINE.sub("", text, count=1))
    older = sealed and all(problem.message == "is missing" for problem in top.problems)
    if top.problems and older and not _misnamed(lock.profile, called, copied=copied):
        message = f"`{file}` was written by an older envlock, in a layout that this one does not read"
        raise Misuse(message, code="lock-older", problems=_placed(top.problems, text), hint=hint)
    _refuse(top, text, hint)
    if not sealed:
        raise Misuse(f"`{file}` was edited after envlock wrote it", code="lock-edited", hint=hint)
    _check_releases((*top.each("package"), *top.each("build")))
    _refuse(top, text, hint)
    return lock


def _refuse(top: Scope, text: str, hint: str) -> None:
    if top.problems:
        message = f"`{top.file}` is not a lock that envlock wrote"
        raise Misuse(message, code="lock-invalid", problems=_placed(top.problems, text), hint=hint)


def _misnamed(profile: str, called: str, *, copied: bool) -> bool:
    return not copied and profile not in ("", called)


def _lock(scope: Scope, called: str | None) -> Lock:
    scope.know("schema", "digest", "profile", "inputs", "allowed", "variant", "package", "build")
    if scope.values.get("schema") != SCHEMA or isinstance(scope.values["schema"], bool):
        scope.complain("schema", "is missing or not a schema of envlock", expected=str(SCHEMA))
    _need(scope, "digest", _SHA256)
    profile = _need(scope, "profile", _LABEL)
    if called is not None and _misnamed(profile, called, copied=False):
        scope.complain("profile", f"is `{profile}`", expected=f"`{called}`, as the file is called")
    inputs = scope.inner("inputs", required=True) or replace(scope, values={}, problems=[])
    inputs.know("profile", "facts", "rules", "engine")
    variants = scope.inner("variant") or replace(scope, values={})
    names = tuple(variants.values)
    packages, build = _packages(scope, "package", names), _packages(scope, "build", names)
    return Lock(
        profile=profile,
        inputs=Inputs(
            profile=_need(inputs, "profile", _DIGEST),
            facts=_need(inputs, "facts", _DIGEST),
            rules=_need(inputs, "rules", _DIGEST),
            engine=_need(inputs, "engine", _LABEL),
        ),
        variants=tuple(
            locked
            for name in names
            if (locked := _variant(variants, name, packages.get(name, ()), build.get(name, ()))) is not None
        ),
        allowed=_allowed(scope, names),
    )


def _allowed(scope: Scope, names: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    inner = scope.inner("allowed") or replace(scope, values={})
    found = {rule: inner.texts(rule, _LABEL) for rule in inner.values}
    for rule, some in found.items():
        if not re.fullmatch(_NAME.pattern, rule) or not some or not set(some) <= set(names):
            inner.complain(safe(rule), "waives no rule for a variant there is", expected=f"some of {_listed(names)}")
    return found


def _variant(
    scope: Scope, name: str, packages: Sequence[LockedPackage], build: Sequence[LockedPackage]
) -> LockedVariant | None:
    if not re.fullmatch(_LABEL.pattern, name):
        scope.complain(safe(name), "is no name of a variant", expected=_LABEL.expected)
        return None
    inner = scope.inner(name)
    if inner is None:
        return None
    inner.know("backend", "source", "python", "platform", "driver", "driver-windows", "glibc", "sm", "conda")
    source = inner.word("source", "pypi", "index", "pypi")
    return LockedVariant(
        variant=Variant(
            name=name,
            backend=_need(inner, "backend", _LABEL),
            source="index" if source == "index" else "pypi",
            python=_need(inner, "python", _PYTHON),
            platform=_need(inner, "platform", _LABEL),
        ),
        floors=Floors(
            driver=inner.text("driver", _NUMBER),
            driver_windows=inner.text("driver-windows", _NUMBER),
            glibc=inner.text("glibc", _NUMBER),
            sm=inner.texts("sm", _NUMBER),
        ),
        packages=tuple(packages),
        build=tuple(build),
        conda=_conda(inner),
    )


def _conda(scope: Scope) -> CondaPart | None:
    inner = scope.inner("conda")
    if inner is None:
        return None
    inner.know("inputs", "sha256")
    return CondaPart(inputs=_need(inner, "inputs", _SHA256), sha256=_need(inner, "sha256", _SHA256))


def _packages(scope: Scope, kind: str, names: Sequence[str]) -> Mapping[str, list[LockedPackage]]:
    found: dict[str, list[LockedPackage]] = {}
    seen: set[tuple[str, str]] = set()
    for row in scope.each(kind):
        row.know("name", "version", "variants", "why", "files")
        name, version = _need(row, "name", _NAME), _need(row, "version", _VERSION)
        some = _among(row, names)
        why: dict[str, tuple[str, ...]] = {}
        for reason in row.each("why"):
            reason.know("by", "variants")
            by = reason.texts("by", _NAME)
            why |= dict.fromkeys(_among(reason, some, default=some), by)
        if version and release.version(version) is None:
            row.complain("version", f"is {quoted(version)}", expected=_VERSION.expected)
        files = [(_artifact(file), _among(file, some, default=some)) for file in row.each("files")]
        for variant in some:
            artifacts = tuple(artifact for artifact, among in files if variant in among)
            if not artifacts:
                row.complain("files", f"none is for {variant}", expected="at least one file for each variant")
            package = LockedPackage(name=name, version=version, artifacts=artifacts, why=why.get(variant, ()))
            if (name, variant) in seen:
                row.complain("name", f"{name} is there twice for {variant}", expected="one version for each variant")
            seen.add((name, variant))
            found.setdefault(variant, []).append(package)
    return found


def _check_releases(rows: Iterable[Scope]) -> None:
    """Complain of each file that is called after another release than its own."""
    for row in rows:
        name, version = row.values["name"], row.values["version"]
        for file in row.each("files"):
            if not release.is_of(file.values["file"], name, version):
                file.complain("file", f"is `{file.values['file']}`", expected=f"a file of {name} {version}")


def _artifact(scope: Scope) -> Artifact:
    scope.know("index", "file", "sha256", "size", "evidence", "variants")
    return Artifact(
        index=_need(scope, "index", _LABEL),
        file=_need(scope, "file", _FILE),
        sha256=_need(scope, "sha256", _SHA256),
        size=scope.count("size"),
        evidence=scope.text("evidence", _EVIDENCE),
    )


def _among(scope: Scope, allowed: Sequence[str], *, default: Sequence[str] | None = None) -> Sequence[str]:
    """Return the variants that a row names; `default` where it names none, else naming none is a problem."""
    if "variants" not in scope.values and default is not None:
        return default
    named = scope.texts("variants", _LABEL)
    strange = [name for name in named if name not in allowed]
    if strange or not named:
        scope.complain(
            "variants",
            f"names {', '.join(strange) or 'none'}",
            expected=f"some of {_listed(allowed) or 'no variant'}",
        )
    return [name for name in named if name in allowed]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(safe, names))


def _need(scope: Scope, key: str, shape: Shape) -> str:
    if scope.values.get(key) is None:
        scope.complain(key, "is missing", expected=shape.expected)
    return scope.text(key, shape) or ""


# ---- where a problem is -------------------------------------------------------------------------------------------


def _placed(problems: Iterable[Problem], text: str) -> tuple[Problem, ...]:
    """Add the line of each key, or of what it would stand in where it is missing."""
    places = {_spelled(path): line for path, line in lines.of(text).items()}
    return tuple(replace(problem, line=_line(problem.key or "", places)) for problem in problems)


def _spelled(path: lines.Path) -> str:
    """Return a path as `Scope` spells it."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{safe(part)}" for part in path)
    return "".join(parts).removeprefix(".")


def _line(key: str, places: Mapping[str, int]) -> int | None:
    while key and key not in places:
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return places.get(key)
