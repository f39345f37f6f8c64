from __future__ import annotations

import pytest

from envlock import distinfo
from envlock.distinfo import Distribution, Entry


def distribution(name: str, *paths: str) -> Distribution:
    return Distribution(
        folder=f"{name}-1.0.dist-info",
        name=name,
        version="1.0",
        entries=tuple(Entry(path, "", None) for path in (*paths, f"{name}-1.0.dist-info/RECORD", "../../bin/tool")),
    )


@pytest.mark.parametrize(
    ("name", "paths", "module"),
    [
        ("torch", ("torch/__init__.py", "torchgen/__init__.py", "functorch/__init__.py"), "torch"),
        ("flash-attn", ("flash_attn/__init__.py", "flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so"), "flash_attn"),
        ("pillow", ("PIL/__init__.py", "PIL/Image.py"), "PIL"),
        ("pyyaml", ("_yaml/__init__.py", "yaml/__init__.py"), "yaml"),
        ("six", ("six.py",), "six"),
        ("pyjwt", ("tests/__init__.py", "jwt/__init__.py"), "jwt"),
        ("gitpython", ("git/__init__.py",), "git"),
        ("two", ("beta/__init__.py", "alpha.py"), "alpha"),
        ("Levenshtein".lower(), ("Levenshtein/__init__.py",), "Levenshtein"),
        # A namespace package, bare data and the likes have nothing to import at the top.
        ("protobuf", ("google/protobuf/__init__.py",), None),
        ("nvidia-cublas-cu12", ("nvidia/cublas/lib/libcublas.so.12",), None),
        ("odd", ("not-a-name.py", "class-of/__init__.py", "data.txt"), None),
        ("empty", (), None),
    ],
)
def test_the_module_that_a_user_imports(name: str, paths: tuple[str, ...], module: str | None) -> None:
    assert distinfo.module(distribution(name, *paths)) == module
