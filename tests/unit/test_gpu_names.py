"""Which compute capability a name stands for."""

from __future__ import annotations

import pytest

from envlock import gpu_names

TABLE = {
    "Tesla P100": "6.0",
    "GTX 1080 / Tesla P4 / P40": "6.1",
    "Tesla V100": "7.0",
    "Tesla T4": "7.5",
    "GTX 16 / RTX 20": "7.5",
    "A100": "8.0",
    "A30": "8.0",
    "A10 / A40 / RTX A6000 / RTX 30": "8.6",
    "L4 / L40 / L40S / RTX 40 / RTX 6000 Ada": "8.9",
    "H100 / H200 / GH200": "9.0",
    "RTX 50 / RTX PRO 6000 Blackwell": "12.0",
    "DGX Spark GB10": "12.1",
}


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA GeForce RTX 3090", "8.6"),
        ("rtx 3090", "8.6"),
        ("  RTX   3060 Ti ", "8.6"),
        ("RTX 30", "8.6"),
        ("NVIDIA GeForce GTX 1660 SUPER", "7.5"),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", "12.0"),
        ("Tesla V100-SXM2-32GB", "7.0"),
        ("v100", "7.0"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.20gb", "8.0"),
        ("NVIDIA A10", "8.6"),
        ("NVIDIA L40S", "8.9"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA GB10", "12.1"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("Quadro RTX 3000", None),
        ("RTX 4000", None),
        ("RTX A3000", None),
        ("NVIDIA A10G", None),
        ("Voodoo 2", None),
        ("RTX", None),
        ("", None),
        ("NVIDIA", None),
    ],
)
def test_capability(name: str, capability: str | None) -> None:
    assert gpu_names.capability(name, TABLE) == capability


def test_a_part_of_one_name_is_enough_and_of_several_is_not() -> None:
    table = {
        "NVIDIA GeForce RTX 3090": "8.6",
        "NVIDIA GeForce RTX 3090 Ti": "8.6",
        "RTX 4000": "7.5",
        "RTX 4000 Ada": "8.9",
    }
    assert gpu_names.capability("3090", table) == "8.6"
    assert gpu_names.capability("4000", table) is None


def test_the_table_spells_the_name() -> None:
    assert gpu_names.canonical("tesla t4", TABLE) == "Tesla T4"
    assert gpu_names.canonical(" RTX 3090 ", TABLE) == "RTX 3090"


def test_similar_names() -> None:
    assert "H100" in gpu_names.similar("H10", TABLE)
    assert gpu_names.similar("NVIDIA", TABLE) == ()
    assert gpu_names.similar("blackwell", TABLE) == ("RTX PRO 6000 Blackwell",)
