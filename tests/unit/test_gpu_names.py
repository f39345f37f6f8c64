"""Which compute capability a name stands for."""

from __future__ import annotations

import pytest

from envlock import facts, gpu_names, store

TABLE = facts.parse(store.facts_texts()).gpu_capabilities


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA GeForce RTX 3090", "8.6"),
        ("rtx 3090", "8.6"),
        ("  RTX   3060 Ti ", "8.6"),
        ("NVIDIA GeForce GTX 1660 SUPER", "7.5"),
        ("NVIDIA GeForce GTX 1060 6GB", "6.1"),
        ("GTX 980 Ti", "5.2"),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", "12.0"),
        ("NVIDIA GeForce RTX 2070 with Max-Q Design", "7.5"),
        ("NVIDIA GeForce RTX 4090 D", "8.9"),
        ("Tesla V100-SXM2-32GB", "7.0"),
        ("Tesla V100S-PCIE-32GB", "7.0"),
        ("GRID V100-32Q", "7.0"),
        ("v100", "7.0"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.20gb", "8.0"),
        ("NVIDIA A800 80GB PCIe", "8.0"),
        ("NVIDIA A10", "8.6"),
        ("NVIDIA A10G", "8.6"),
        ("NVIDIA A16", "8.6"),
        ("NVIDIA RTX A5000", "8.6"),
        ("NVIDIA L40S", "8.9"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA H20", "9.0"),
        ("NVIDIA H800", "9.0"),
        ("NVIDIA GH200 480GB", "9.0"),
        ("NVIDIA GB10", "12.1"),
        ("Orin (nvgpu)", "8.7"),
        ("Quadro RTX 6000", "7.5"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("NVIDIA RTX 4000 SFF Ada Generation", "8.9"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "12.0"),
        ("NVIDIA TITAN V", "7.0"),
        ("TITAN RTX", "7.5"),
        ("TITAN Xp", "6.1"),
        ("NVIDIA TITAN X (Pascal)", "6.1"),
        ("NVIDIA GeForce GTX TITAN X", "5.2"),
        ("3090", "8.6"),
        ("6000 Ada", "8.9"),
        ("RTX 6000", None),
        ("NVIDIA RTX 4000", None),
        ("TITAN X", None),
        ("RTX 30", None),
        ("RTX A9000", None),
        ("T40", None),
        ("Tesla T4,RTX 3090", None),
        ("RTX 3090 RTX 4090", None),
        ("foo RTX 3090 bar", None),
        ("Blackwell", None),
        ("Voodoo 2", None),
        ("RTX", None),
        ("", None),
        ("NVIDIA", None),
    ],
)
def test_capability(name: str, capability: str | None) -> None:
    assert gpu_names.capability(name, TABLE) == capability


def test_a_part_of_one_name_is_enough_and_of_several_is_not() -> None:
    assert gpu_names.meant("4090", TABLE) == {"RTX 4090": "8.9"}
    assert gpu_names.meant("RTX 6000", TABLE) == {"Quadro RTX 6000": "7.5", "RTX 6000 Ada": "8.9"}
    assert gpu_names.meant("foo RTX 3090", TABLE) == {}


def test_the_table_spells_the_name() -> None:
    assert gpu_names.canonical("tesla t4", TABLE) == "Tesla T4"
    assert gpu_names.canonical(" rtx 3090 ", TABLE) == "RTX 3090"
    assert gpu_names.canonical("3090", TABLE) == "RTX 3090"
    assert gpu_names.canonical("RTX 3090 Ti", TABLE) == "RTX 3090 Ti"


def test_similar_names() -> None:
    assert "H100" in gpu_names.similar("H10", TABLE)
    assert gpu_names.similar("RTX3090", TABLE)[0] == "RTX 3090"
    assert gpu_names.similar("NVIDIA", TABLE) == ()
    assert gpu_names.similar("RX 7900", TABLE) == ()
    assert "RTX PRO 4000 Blackwell" in gpu_names.similar("blackwell", TABLE)


@pytest.mark.parametrize(
    "name", ["RX 7900", "AMD Radeon RX 7900 XTX", "MI300X", "AMD Instinct MI250", "Intel Arc A770"]
)
def test_a_gpu_of_another_maker(name: str) -> None:
    assert gpu_names.is_foreign(name)
    assert gpu_names.capability(name, TABLE) is None


def test_no_name_in_the_table_is_another_maker_s_or_stands_for_two() -> None:
    names = [name for key in TABLE for name in key.split(" / ")]
    assert len(names) == len(set(names))
    assert not any(map(gpu_names.is_foreign, names))
    assert all(gpu_names.meant(name, TABLE).keys() == {name} for name in names)
