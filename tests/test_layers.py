"""The house rules, read from the syntax tree: who may import whom, who may touch the world, how long a thing may be."""

from __future__ import annotations

import ast
import io
import statistics
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "envlock"

# From the bottom up. A module may import from its own rung, if no cycle comes of it, and from those below.
LADDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("leaf", ("envlock", "envlock.errors")),
    ("types", ("envlock.model", "envlock.adopted", "envlock.config", "envlock.judgement")),
    (
        "pure",
        (
            "envlock.address",
            "envlock.ambient_text",
            "envlock.facts",
            "envlock.profile",
            "envlock.profile_keys",
            "envlock.host",
            "envlock.choose",
            "envlock.conda",
            "envlock.request",
            "envlock.lock",
            "envlock.lock_text",
            "envlock.lock_diff",
            "envlock.exports",
            "envlock.pylock",
            "envlock.sdist",
            "envlock.release",
            "envlock.rules",
            "envlock.lines",
            "envlock.drift",
            "envlock.plan",
            "envlock.checks",
            "envlock.record",
            "envlock.driver_text",
            "envlock.system_text",
            "envlock.document",
            "envlock.gpu_names",
            "envlock.index_page",
            "envlock.conflict_rules",
            "envlock.requirements_text",
            "envlock.conflicts",
            "envlock.foreign",
            "envlock.foreign_names",
            "envlock.environment_yml",
            "envlock.wishes",
            "envlock.adopting",
            "envlock.profile_text",
        ),
    ),
    (
        "edges",
        (
            "envlock.limits",
            "envlock.ambient",
            "envlock.proc",
            "envlock.logins",
            "envlock.net",
            "envlock.index",
            "envlock.sense",
            "envlock.store",
            "envlock.writing",
            "envlock.staging",
            "envlock.scratch",
            "envlock.interpreters",
            "envlock.generations",
            "envlock.integrity",
            "envlock.hashes",
            "envlock.distinfo",
            "envlock.frame",
            "envlock.files",
            "envlock.nvidia",
            "envlock.nvml",
        ),
    ),
    ("engines", ("envlock.engines", "envlock.env", "envlock.probe")),
    ("app", ("envlock.app",)),
    ("face", ("envlock.report", "envlock.wire", "envlock.cli", "envlock.__main__")),
)

# Runs inside the environment it checks, without envlock: one file by necessity, and it speaks to its parent itself.
PROBE = "envlock.probe.script"
# Started as a child as well, so that NVML can hang or crash there: its answer is its standard output.
NVML = "envlock.nvml"
# Becomes the program that `envlock.proc` starts: what it does can be done in the child only, just before exec.
LEASH = "envlock.engines.leash"

MODULE_LINES = 300
FUNCTION_LINES = 80
FUNCTION_MEDIAN = 10
HTTP = {"http", "httpx", "requests", "urllib", "urllib3", "socket"}
# Modules of `http` and `urllib` that are about text, not about a connection.
TEXT_ONLY = {"urllib.parse"}


@dataclass(frozen=True)
class Module:
    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def imports(self) -> frozenset[str]:
        """Every module named by an import statement or by `import_module("…")`, at whatever depth."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno}: a relative import"
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in MODULES_BY_NAME:
                found.add(node.value)
        return frozenset(found)

    @cached_property
    def siblings(self) -> frozenset[str]:
        """The modules of this package it depends on; `from envlock.model import Gpu` is `envlock.model`."""
        known = {_nearest(name) for name in self.imports if name.partition(".")[0] == "envlock"}
        return frozenset(known - {self.name})

    @cached_property
    def functions(self) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
        return tuple(n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))

    @cached_property
    def names(self) -> frozenset[str]:
        """Every dotted name that is read: `os.environ`, `sys.exit`, `print`."""
        return frozenset(
            ast.unparse(node) for node in ast.walk(self.tree) if isinstance(node, ast.Attribute | ast.Name)
        )

    @cached_property
    def calls(self) -> frozenset[str]:
        return frozenset(ast.unparse(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    @cached_property
    def code_lines(self) -> int:
        """Lines that hold code: no blank line, comment or docstring."""
        ignored = {
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        }
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in ignored:
                lines |= set(range(token.start[0], token.end[0] + 1))
        return len(lines - self._docstrings)

    @property
    def _docstrings(self) -> set[int]:
        lines: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                first = node.body[0]
                lines |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        return lines


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _nearest(name: str) -> str:
    while name not in MODULES_BY_NAME:
        name = name.rpartition(".")[0]
    return name


def _rung(name: str) -> int:
    """The rung of a module, by its own name or that of the package it is in."""
    while name:
        for place, (_, members) in enumerate(LADDER):
            if name in members and (name != "envlock" or place == 0):
                return place
        name = name.rpartition(".")[0]
        if name == "envlock":
            break
    return -1


MODULES = tuple(Module(_name(path), path) for path in sorted(PACKAGE.rglob("*.py")))
MODULES_BY_NAME = {module.name: module for module in MODULES}
each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)


@each_module
def test_every_module_stands_on_a_rung(module: Module) -> None:
    assert _rung(module.name) >= 0, f"{module.name} is on no rung of LADDER"


def test_every_rung_names_modules_that_are_there() -> None:
    named = {name for _, members in LADDER for name in members}
    assert named - set(MODULES_BY_NAME) == set()


@each_module
def test_imports_go_down_the_ladder(module: Module) -> None:
    upward = {name for name in module.siblings if _rung(name) > _rung(module.name)}
    assert not upward, f"{module.name} imports from above itself: {sorted(upward)}"


def test_there_is_no_import_cycle() -> None:
    graph = {module.name: set(module.siblings) for module in MODULES}
    while free := {name for name, needs in graph.items() if not needs}:
        graph = {name: needs - free for name, needs in graph.items() if name not in free}
    assert not graph, f"in a cycle, or above one: {sorted(graph)}"


def _importers(tops: set[str]) -> set[str]:
    return {m.name for m in MODULES if any(i.partition(".")[0] in tops and not _text_only(i) for i in m.imports)}


def _text_only(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in TEXT_ONLY)


def test_only_one_module_starts_programs() -> None:
    assert _importers({"subprocess", "multiprocessing", "pty"}) <= {"envlock.proc", PROBE}
    starters = {"os.system", "os.popen", "os.fork", "os.posix_spawn", "os.execv", "os.execve", "os.spawnv"}
    assert {m.name for m in MODULES if m.names & starters} <= {PROBE, LEASH}


def test_only_one_module_speaks_http() -> None:
    assert _importers(HTTP) <= {"envlock.net"}


def test_only_the_entry_reads_the_environment_and_exits() -> None:
    environment = {"os.environ", "os.getenv", "os.environb", "os.putenv"}
    assert {m.name for m in MODULES if m.names & environment} <= {"envlock.cli.main", PROBE}
    leaving = {"sys.exit", "os._exit", "exit", "quit", "SystemExit"}
    assert {m.name for m in MODULES if m.calls & leaving} <= {"envlock.cli.main", PROBE}


def test_the_entry_exits_once() -> None:
    assert MODULES_BY_NAME["envlock.cli.main"].text.count("sys.exit(") == 1


def test_only_the_face_writes() -> None:
    streams = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
    assert {m.name for m in MODULES if m.names & streams} <= {"envlock.cli.main", PROBE, NVML}
    assert {m.name for m in MODULES if "print" in m.names} <= {PROBE}
    assert all(name.startswith("envlock.report") for name in _importers({"rich"}))


def test_the_pure_rung_touches_nothing() -> None:
    world = {"os", "shutil", "tempfile", "time", "random", "threading", "signal", "pynvml", "filelock"}
    effects = {"open", "Path.cwd", "Path.home", "datetime.now", "datetime.today", "datetime.utcnow"}
    pure = [module for module in MODULES if 0 <= _rung(module.name) <= 2]
    for module in pure:
        assert not {name for name in module.imports if name.partition(".")[0] in world}, module.name
        assert not module.names & effects, module.name


@each_module
def test_a_module_is_short(module: Module) -> None:
    if module.name != PROBE:
        assert module.code_lines <= MODULE_LINES


@each_module
def test_a_function_is_short(module: Module) -> None:
    for function in module.functions:
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        assert length <= FUNCTION_LINES, f"{module.path}:{function.lineno}: {function.name} has {length} lines"


def test_a_typical_function_fits_in_a_glance() -> None:
    lengths = [(f.end_lineno or f.lineno) - f.lineno + 1 for module in MODULES for f in module.functions]
    assert statistics.median(lengths) <= FUNCTION_MEDIAN


def _python_files() -> Iterator[Path]:
    for folder in ("envlock", "tests", "benchmarks"):
        yield from sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in _python_files()])
def test_nothing_is_faked_or_left_for_later(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in imported if "mock" in name.split(".")}
    raised = [ast.unparse(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
    assert not [what for what in raised if what.startswith("NotImplementedError")]
    comments = [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]
    later = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "pragma: " + "no cover")
    assert not [comment for comment in comments if any(word in comment for word in later)]
