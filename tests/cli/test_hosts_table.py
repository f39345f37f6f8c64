"""Which backend 38 machines must get: the whole command, on host files as people would hand them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell

ROOT = Path(__file__).parents[2]
ROWS: list[dict[str, Any]] = json.loads((ROOT / "tests" / "data" / "hosts.json").read_text(encoding="utf-8"))


def test_the_table_is_whole() -> None:
    assert len(ROWS) == 38
    assert len({row["id"] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_machine_gets_its_backend(shell: Shell, row: dict[str, Any]) -> None:
    machines = row["hosts"] if "hosts" in row else [row["host"]]
    files = [shell.write(f"host{number}.json", json.dumps(host)) for number, host in enumerate(machines)]
    hosts = [argument for file in files for argument in ("--host", file)]
    ran = shell("plan", row["profile"], *hosts, *row.get("args", ()), "--json")
    expected, result = row["expect"], ran.document["result"]
    assert ran.code == expected["exit"], row["why"]
    assert result["backend"] == expected["backend"], row["why"]
    if "precision" in expected:
        assert result["precision"] == expected["precision"], row["why"]
    refused = {(refusal["backend"], refusal["code"]) for refusal in result["refused"]}
    named = set(expected.get("refused_codes", {}).items())
    assert named - refused == set(), row["why"]
    assert set(expected.get("warnings", ())) - {caution["code"] for caution in result["warnings"]} == set(), row["why"]
    assert {backend for backend, _ in refused}.isdisjoint({result["backend"], *result["eligible"]})
