from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from envlock import proc
from envlock.engines import uv_index
from envlock.errors import WorldFailed
from envlock.proc import Command, Completed


def test_uv_tells_its_own_index_whatever_is_set(isolated_environ: dict[str, str]) -> None:
    environ = isolated_environ | {"UV_DEFAULT_INDEX": "http://index.example/", "UV_CONFIG_FILE": "/nowhere"}
    address = urlsplit(uv_index.default(proc.run, environ))
    assert (address.scheme, address.path) == ("https", "/simple")
    assert address.hostname not in {None, "index.example"}


@pytest.mark.parametrize(
    ("code", "stdout", "says"), [(0, "# nothing\n", "# nothing"), (2, "--index-url https://x/\n", "broken")]
)
def test_a_uv_that_does_not_say_is_told(isolated_environ: dict[str, str], code: int, stdout: str, says: str) -> None:
    def run(command: Command) -> Completed:
        return Completed(argv=command.argv, code=code, stdout=stdout, stderr="broken\n" if code else "")

    with pytest.raises(WorldFailed, match=says) as caught:
        uv_index.default(run, isolated_environ)
    assert caught.value.code == "engine-failed"
