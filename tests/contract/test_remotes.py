"""What envlock expects of remotes that CI does not reach: `pytest --network -m network` asks them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from envlock import index
from envlock.app import reading
from envlock.index import Index

RECORDED = Path(__file__).parents[1] / "data" / "torch_index" / "wheels.json"

pytestmark = pytest.mark.network


@pytest.mark.parametrize("backend", [row.name for row in reading.facts().torch_sources])
def test_the_index_of_pytorch_lists_what_was_recorded_of_it(backend: str) -> None:
    known = reading.facts().torch_source(backend)
    assert known
    place = Index(name=backend, url=known.url)
    rows = [row for row in json.loads(RECORDED.read_text(encoding="utf-8")) if row["index"] == backend]
    for package in known.packages:
        own = {row["file"]: row["sha256"] for row in rows if row["file"].startswith(f"{package}-")}
        listed = {file.file: file for file in index.files(package, place, environ=os.environ)}
        assert {file: listed[file].sha256 for file in own} == own
        described = next(file for file in listed.values() if file.metadata)
        assert b"Name: " in index.metadata(described, place, environ=os.environ)
