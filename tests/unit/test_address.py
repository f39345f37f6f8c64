"""A login goes to the index it belongs to, the way that the index itself is reached, and nowhere else."""

from __future__ import annotations

import pytest

from envlock import address

INDEX = "https://joe:s3cret@h.example/simple/"


@pytest.mark.parametrize(
    "url",
    [
        "http://h.example/files/x.tar.gz",
        "https://h.example:8443/files/x.tar.gz",
        "https://other.example/files/x.tar.gz",
        "https://h.example.evil.example/files/x.tar.gz",
        "https://h.example:port/files/x.tar.gz",
        "https://[h.example/files/x.tar.gz",
        "file://h.example/files/x.tar.gz",
    ],
)
def test_a_login_goes_no_other_way(url: str) -> None:
    assert address.carried(url, [INDEX]) == url


@pytest.mark.parametrize("host", ["h.example", "H.example", "h.example:443"])
def test_a_login_goes_to_its_own_index(host: str) -> None:
    assert address.carried(f"https://{host}/x.tar.gz?a=b", [INDEX]) == f"https://joe:s3cret@{host}/x.tar.gz?a=b"


def test_each_index_has_its_own_login() -> None:
    indexes = ["https://h.example/open/", "https://a:b@plain.example:80/", "http://c@plain.example:80/", INDEX]
    assert address.carried("http://plain.example/x", indexes) == "http://c@plain.example/x"
    assert address.carried("https://me:own@h.example/x", indexes) == "https://joe:s3cret@h.example/x"
    assert address.carried("https://h.example/x", []) == "https://h.example/x"
