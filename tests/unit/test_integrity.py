"""Real environments, made by uv from real wheels; each test spoils a copy of its own."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uv

from envlock import frame, hashes, integrity
from envlock.integrity import Integrity
from envlock.model import Check, Status
from tests.servers.wheels import make_wheel

EXPECTED = {"alpha": "1.0", "beta": "2.0"}
BIG = bytes(range(256)) * 16384  # 4 MiB: several reads
SETTLE_SECONDS = 0.15  # a file must have been still for that long to be remembered


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment that no test changes."""
    place = tmp_path_factory.mktemp("made")
    alpha: dict[str, str | bytes] = {
        "alpha/__init__.py": "def main() -> None: ...\n",
        "alpha/big.bin": BIG,
        "alpha/größe.txt": "a name that is not ASCII\n",
        "alpha-1.0.dist-info/entry_points.txt": "[console_scripts]\nalpha = alpha:main\n",
    }
    beta = {
        "beta.py": "value = 1\n",
        "beta.pth": "import beta\n",
        "beta-2.0.data/scripts/beta-run": "#!python\nimport beta\n",
        "beta-2.0.data/data/share/beta/notes.txt": "notes\n",
    }
    wheels = [make_wheel(place, "alpha", "1.0", files=alpha), make_wheel(place, "beta", "2.0", files=beta)]
    root = place / "env"
    install(place, "venv", "--python", sys.executable, str(root))
    install(place, "pip", "install", "--python", str(root / "bin" / "python"), *map(str, wheels))
    return root


def install(place: Path, *arguments: str) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(place), "UV_CACHE_DIR": str(place / "cache")}
    argv = [uv.find_uv_bin(), "--no-config", "--quiet", "--offline", *arguments]
    subprocess.run(argv, env=environ, check=True)


@pytest.fixture
def env(made: Path, tmp_path: Path) -> Path:
    """Return a copy: its files share nothing with uv's cache."""
    root = tmp_path / "env"
    shutil.copytree(made, root, symlinks=True)
    return root


@pytest.fixture
def site(env: Path) -> Path:
    return next(env.glob("lib/python3*/site-packages"))


@pytest.fixture
def cache(env: Path, tmp_path: Path) -> Path:
    """Return the place of a cache, once the environment has been still for long enough to be remembered."""
    assert env.is_dir()
    time.sleep(SETTLE_SECONDS)
    return tmp_path / "caches" / "hashes"


def by_name(found: Integrity) -> dict[str, Check]:
    return {check.id.removeprefix("integrity."): check for check in found.checks}


def statuses(found: Integrity) -> dict[str, Status]:
    """Return what did not pass."""
    return {name: check.status for name, check in by_name(found).items() if check.status != "pass"}


def edit_in_place(file: Path) -> None:
    """Change one byte and set the times back: neither size nor mtime tells."""
    before = file.stat()
    with file.open("r+b") as handle:
        first = handle.read(1)
        handle.seek(0)
        handle.write(bytes([first[0] ^ 1]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


# ---- as installed -------------------------------------------------------------------------------------------------


def test_a_fresh_environment_is_whole(env: Path) -> None:
    found = integrity.check(env, EXPECTED)
    assert [check.id for check in found.checks] == [
        "integrity.interpreter",
        "integrity.versions",
        "integrity.record",
        "integrity.strangers",
    ]
    assert statuses(found) == {}
    assert found.damaged == ()
    assert found.bytes == found.bytes_read > len(BIG)


def test_the_scripts_that_uv_rewrites_are_among_what_is_hashed(env: Path) -> None:
    for name in ("alpha", "beta-run"):
        assert b"#!" in (env / "bin" / name).read_bytes()
    assert statuses(integrity.check(env, EXPECTED)) == {}
    edit_in_place(env / "bin" / "beta-run")
    assert "bin/beta-run (beta) has other bytes" in (by_name(integrity.check(env, EXPECTED))["record"].have or "")


def test_a_link_to_the_environment_is_the_environment(env: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(env)
    assert statuses(integrity.check(link, EXPECTED)) == {}


def test_bytecode_of_an_import_is_no_stranger(env: Path) -> None:
    subprocess.run([env / "bin" / "python", "-c", "import alpha, beta"], check=True, env={})
    assert list(env.rglob("__pycache__"))
    assert statuses(integrity.check(env, EXPECTED)) == {}


# ---- the cache ----------------------------------------------------------------------------------------------------


def test_what_has_not_moved_is_not_read_again(env: Path, cache: Path) -> None:
    first = integrity.check(env, EXPECTED, cache=cache)
    again = integrity.check(env, EXPECTED, cache=cache)
    assert (first.bytes_read, again.bytes_read) == (first.bytes, 0)
    said = [by_name(found)["record"].message or "" for found in (first, again)]
    assert "MB hashed now" in said[0]
    assert "before" not in said[0]
    assert "MB hashed before and not touched since (same inode, size and times)" in said[1]
    assert "now" not in said[1]
    assert statuses(again) == {}


def test_deep_reads_every_byte(env: Path, cache: Path) -> None:
    integrity.check(env, EXPECTED, cache=cache)
    deep = integrity.check(env, EXPECTED, cache=cache, deep=True)
    assert deep.bytes_read == deep.bytes


def test_an_edit_in_place_with_its_times_set_back_is_seen(env: Path, site: Path, cache: Path) -> None:
    integrity.check(env, EXPECTED, cache=cache)
    edit_in_place(site / "alpha" / "big.bin")
    found = integrity.check(env, EXPECTED, cache=cache)
    assert statuses(found) == {"record": "fail"}
    assert by_name(found)["record"].have == "alpha/big.bin (alpha) has other bytes"
    assert found.damaged == ("alpha",)
    assert found.bytes_read == len(BIG)


def test_an_edit_is_seen_again_and_again(env: Path, site: Path, cache: Path) -> None:
    edit_in_place(site / "beta.py")
    time.sleep(SETTLE_SECONDS)
    assert [statuses(integrity.check(env, EXPECTED, cache=cache)) for _ in range(3)] == [{"record": "fail"}] * 3


def test_a_file_that_was_just_written_is_not_remembered(env: Path, site: Path, cache: Path) -> None:
    text = (site / "beta.py").read_bytes()
    (site / "beta.py").write_bytes(text)
    integrity.check(env, EXPECTED, cache=cache)
    assert integrity.check(env, EXPECTED, cache=cache).bytes_read == len(text)


def test_a_hard_link_moves_the_ctime_and_costs_one_reading(env: Path, site: Path, cache: Path, tmp_path: Path) -> None:
    integrity.check(env, EXPECTED, cache=cache)
    os.link(site / "alpha" / "big.bin", tmp_path / "another")
    time.sleep(SETTLE_SECONDS)
    assert integrity.check(env, EXPECTED, cache=cache).bytes_read == len(BIG)
    assert integrity.check(env, EXPECTED, cache=cache).bytes_read == 0


def test_a_second_environment_over_the_same_inodes_reads_nothing(env: Path, cache: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(env, twin, symlinks=True, copy_function=os.link)
    time.sleep(SETTLE_SECONDS)
    integrity.check(twin, EXPECTED, cache=cache)
    assert integrity.check(env, EXPECTED, cache=cache).bytes_read == 0


def _garbage(cache: Path) -> None:
    cache.write_bytes(b"\xff\x00garbage")


def _cut(cache: Path) -> None:
    cache.write_bytes(cache.read_bytes()[:-7])


def _other_format(cache: Path) -> None:
    cache.write_text(
        cache.read_text(encoding="ascii").replace("envlock-hashes 1", "envlock-hashes 9"), encoding="ascii"
    )


def _empty(cache: Path) -> None:
    cache.write_bytes(b"")


@pytest.mark.parametrize("spoil", [_garbage, _cut, _other_format, _empty])
def test_a_damaged_cache_is_ignored_and_written_anew(env: Path, cache: Path, spoil: Callable[[Path], None]) -> None:
    first = integrity.check(env, EXPECTED, cache=cache)
    spoil(cache)
    found = integrity.check(env, EXPECTED, cache=cache)
    assert statuses(found) == {}
    assert found.bytes_read == first.bytes
    assert integrity.check(env, EXPECTED, cache=cache).bytes_read == 0


def test_a_poisoned_cache_accuses_nobody(env: Path, cache: Path) -> None:
    integrity.check(env, EXPECTED, cache=cache)
    wrong = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(b"other").digest()).rstrip(b"=").decode()
    hashes.save(cache, dict.fromkeys(hashes.load(cache), wrong))
    found = integrity.check(env, EXPECTED, cache=cache)
    assert statuses(found) == {}
    assert found.bytes_read == found.bytes


def test_a_cache_that_cannot_be_written_is_done_without(env: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    assert statuses(integrity.check(env, EXPECTED, cache=tmp_path / "file" / "hashes")) == {}


def test_a_pipe_in_the_place_of_the_cache_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hashes")
    assert hashes.load(tmp_path / "hashes") == {}


def test_a_folder_in_the_place_of_the_cache_is_left_alone(env: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    assert statuses(integrity.check(env, EXPECTED, cache=cache)) == {}
    assert list(cache.parent.iterdir()) == [cache]


def test_a_file_that_goes_away_meanwhile_is_an_answer(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    reading = hashes.read([hashes.File(path=gone, algorithm="sha256", size=1)])[gone]
    assert (reading.digest, reading.error) == (None, "No such file or directory")


def test_the_cache_is_replaced_in_one_step(env: Path, cache: Path) -> None:
    integrity.check(env, EXPECTED, cache=cache)
    assert list(cache.parent.iterdir()) == [cache]


def test_the_cache_keeps_what_other_environments_learnt(env: Path, cache: Path) -> None:
    hashes.save(cache, {"1:2:3:4:5": "sha256=x"})
    integrity.check(env, EXPECTED, cache=cache)
    assert hashes.load(cache)["1:2:3:4:5"] == "sha256=x"


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"HOME": "/home/me"}, Path("/home/me/.cache/envlock/hashes")),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/scratch"}, Path("/scratch/envlock/hashes")),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "relative"}, Path("/home/me/.cache/envlock/hashes")),
        ({}, None),
    ],
)
def test_where_the_cache_is(environ: dict[str, str], place: Path | None) -> None:
    assert hashes.place(environ) == place


# ---- files --------------------------------------------------------------------------------------------------------


def test_a_deleted_file_is_missing(env: Path, site: Path) -> None:
    (site / "alpha" / "__init__.py").unlink()
    found = integrity.check(env, EXPECTED)
    assert statuses(found) == {"record": "fail"}
    assert by_name(found)["record"].have == "alpha/__init__.py (alpha) is missing"


def test_a_file_that_grew_is_not_read(env: Path, site: Path) -> None:
    with (site / "alpha" / "big.bin").open("ab") as file:
        file.write(b"x")
    found = integrity.check(env, EXPECTED)
    assert by_name(found)["record"].have == f"alpha/big.bin (alpha) has {len(BIG) + 1} bytes, not {len(BIG)}"
    assert found.bytes_read < len(BIG)


def test_a_folder_or_pipe_in_the_place_of_a_file_hangs_nothing(env: Path, site: Path) -> None:
    (site / "beta.py").unlink()
    os.mkfifo(site / "beta.py")
    (site / "alpha" / "big.bin").unlink()
    (site / "alpha" / "big.bin").mkdir()
    found = by_name(integrity.check(env, EXPECTED))["record"].have or ""
    assert "alpha/big.bin (alpha) is not a file" in found
    assert "beta.py (beta) is not a file" in found


@pytest.mark.parametrize("name", ["METADATA", "RECORD"])
def test_a_pipe_in_the_place_of_what_describes_a_package_is_named(env: Path, site: Path, name: str) -> None:
    (site / "beta-2.0.dist-info" / name).unlink()
    os.mkfifo(site / "beta-2.0.dist-info" / name)
    have = by_name(integrity.check(env, EXPECTED))["versions"].have
    assert have == f"beta {name}: Is no file, but a pipe or a device"


@pytest.mark.parametrize("name", ["METADATA", "RECORD"])
def test_a_file_that_opens_and_cannot_be_read_is_named(env: Path, site: Path, name: str) -> None:
    (site / "beta-2.0.dist-info" / name).unlink()
    (site / "beta-2.0.dist-info" / name).symlink_to("/proc/self/mem")
    assert by_name(integrity.check(env, EXPECTED))["versions"].have == f"beta {name}: Input/output error"


@pytest.mark.parametrize("name", ["pyvenv.cfg", "bin/python"])
def test_a_pipe_in_the_frame_of_an_environment_hangs_nothing(env: Path, name: str) -> None:
    (env / name).unlink()
    os.mkfifo(env / name)
    assert by_name(integrity.check(env, EXPECTED))["interpreter"].status == "fail"


def test_a_link_to_the_same_bytes_is_the_file(env: Path, site: Path, tmp_path: Path) -> None:
    shutil.move(site / "beta.py", tmp_path / "beta.py")
    (site / "beta.py").symlink_to(tmp_path / "beta.py")
    assert statuses(integrity.check(env, EXPECTED)) == {}


def test_only_the_first_few_are_named_and_the_rest_is_counted(env: Path, site: Path) -> None:
    shutil.rmtree(site / "alpha")
    (site / "beta.py").unlink()
    record = by_name(integrity.check(env, EXPECTED))["record"]
    assert record.message == "4 files not as recorded by the package"
    assert (record.have or "").endswith("; and 1 more")


def add_row(site: Path, row: str) -> None:
    with (site / "beta-2.0.dist-info" / "RECORD").open("a", encoding="utf-8") as file:
        file.write(f"{row}\n")


@pytest.mark.parametrize("path", ["../../../../outside", "/etc/hostname", "../../../../../../etc/hostname"])
def test_a_row_that_leads_out_of_the_environment_is_a_failure(env: Path, site: Path, path: str) -> None:
    (env.parent / "outside").write_text("x", encoding="utf-8")
    add_row(site, f"{path},,")
    found = by_name(integrity.check(env, EXPECTED))["record"]
    assert found.have == f"{os.path.normpath(path)} (beta) lies outside the environment"


def test_a_weak_hash_is_a_failure(env: Path, site: Path) -> None:
    (site / "weak.txt").write_text("x", encoding="utf-8")
    add_row(site, "weak.txt,md5=abc,1")
    found = by_name(integrity.check(env, EXPECTED))["record"]
    assert found.have == "weak.txt (beta) has a hash of `md5`"


def test_the_stronger_hashes_of_the_specification_are_read_too(env: Path, site: Path) -> None:
    (site / "strong.txt").write_text("x", encoding="utf-8")
    digest = base64.urlsafe_b64encode(hashlib.sha512(b"x").digest()).rstrip(b"=").decode()
    add_row(site, f"strong.txt,sha512={digest},1")
    assert statuses(integrity.check(env, EXPECTED)) == {}


def test_a_name_that_csv_must_quote(env: Path, site: Path) -> None:
    (site / 'a, "b"\n.txt').write_text("x", encoding="utf-8")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x").digest()).rstrip(b"=").decode()
    add_row(site, f'"a, ""b""\n.txt",sha256={digest},1')
    assert statuses(integrity.check(env, EXPECTED)) == {}


def test_a_file_of_two_packages_is_right_when_one_of_them_says_so(env: Path, site: Path) -> None:
    add_row(site, "alpha/__init__.py,sha256=other,24")
    assert statuses(integrity.check(env, EXPECTED)) == {}


def test_a_record_rewritten_with_its_file_is_seen(env: Path, site: Path) -> None:
    kept = integrity.records(env)
    assert statuses(integrity.check(env, EXPECTED, kept=kept)) == {}
    (site / "beta.py").write_text("value = 2\n", encoding="utf-8")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"value = 2\n").digest()).rstrip(b"=").decode()
    record = site / "beta-2.0.dist-info" / "RECORD"
    rows = record.read_text(encoding="utf-8").splitlines()
    rows = [f"beta.py,sha256={digest},10" if row.startswith("beta.py,") else row for row in rows]
    record.write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert statuses(integrity.check(env, EXPECTED)) == {}
    found = integrity.check(env, EXPECTED, kept=kept)
    assert by_name(found)["record"].have == "beta-2.0.dist-info/RECORD (beta) is not the one of the install"
    assert found.damaged == ("beta",)


# ---- packages -----------------------------------------------------------------------------------------------------


def test_a_package_that_is_missing_and_one_of_another_version(env: Path) -> None:
    found = integrity.check(env, {"alpha": "1.1", "beta": "2.0", "gamma": "3.0"})
    versions = by_name(found)["versions"]
    assert (versions.status, versions.have, versions.want) == (
        "fail",
        "alpha 1.0; gamma missing",
        "alpha 1.1; gamma 3.0",
    )
    assert found.damaged == ("alpha", "gamma")


def test_equal_versions_may_be_written_differently(env: Path) -> None:
    assert statuses(integrity.check(env, {"alpha": "1.0.0", "beta": "2"})) == {}


def rewrite(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_version_changed_in_metadata(env: Path, site: Path) -> None:
    rewrite(site / "beta-2.0.dist-info" / "METADATA", "Version: 2.0", "Version: 9.9")
    found = integrity.check(env, EXPECTED)
    assert statuses(found) == {"versions": "fail", "record": "fail"}
    assert by_name(found)["versions"].have == "beta 9.9"


def test_a_name_changed_in_metadata(env: Path, site: Path) -> None:
    rewrite(site / "beta-2.0.dist-info" / "METADATA", "Name: beta", "Name: gamma")
    assert by_name(integrity.check(env, EXPECTED))["versions"].have == "beta METADATA names it `gamma`"


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("RECORD", "beta.py,sha256=x\n", "beta RECORD line 1: not `path,hash,size`"),
        ("RECORD", "beta.py,,many\n", "beta RECORD line 1: not `path,hash,size`"),
        ("RECORD", None, "beta RECORD: No such file or directory"),
        ("METADATA", "Name: beta\n\nVersion: 2.0\n", "beta METADATA has no Version"),
        ("METADATA", None, "beta METADATA: No such file or directory"),
    ],
)
def test_unreadable_metadata_is_named(env: Path, site: Path, file: str, text: str | None, says: str) -> None:
    path = site / "beta-2.0.dist-info" / file
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    found = integrity.check(env, EXPECTED)
    assert by_name(found)["versions"].have == says
    assert "beta" in found.damaged


def test_a_record_that_is_not_text_is_named(env: Path, site: Path) -> None:
    (site / "beta-2.0.dist-info" / "RECORD").write_bytes(b"\xff\xfe,,\n")
    assert "codec can't decode" in (by_name(integrity.check(env, EXPECTED))["versions"].have or "")


def test_a_package_that_is_there_twice(env: Path, site: Path) -> None:
    shutil.copytree(site / "beta-2.0.dist-info", site / "beta-1.0.dist-info")
    assert by_name(integrity.check(env, EXPECTED))["versions"].have == "beta 2.0, 2.0"


# ---- strangers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["evil.pth", "sitecustomize.py", "usercustomize.py", "sitecustomize/__init__.py"])
def test_a_foreign_file_that_runs_at_every_start_is_a_failure(env: Path, site: Path, name: str) -> None:
    (site / name).parent.mkdir(exist_ok=True)
    (site / name).write_text("import os\n", encoding="utf-8")
    found = by_name(integrity.check(env, EXPECTED))["strangers"]
    assert (found.status, found.have) == ("fail", name)


def test_a_pth_file_deeper_down_runs_never(env: Path, site: Path) -> None:
    (site / "alpha" / "data.pth").write_text("weights\n", encoding="utf-8")
    assert statuses(integrity.check(env, EXPECTED)) == {"strangers": "warn"}


def test_files_of_no_package_are_named_and_counted(env: Path, site: Path) -> None:
    for number in range(5):
        (site / "alpha" / f"stray{number}.py").write_text("", encoding="utf-8")
    found = by_name(integrity.check(env, EXPECTED))["strangers"]
    assert found.status == "warn"
    assert found.message == "5 files not from the lock"
    assert found.have == "alpha/stray0.py; alpha/stray1.py; alpha/stray2.py; and 2 more"


def test_a_package_that_the_lock_does_not_name(env: Path) -> None:
    found = by_name(integrity.check(env, {"alpha": "1.0"}))
    assert found["strangers"].status == "fail"
    assert found["strangers"].have == "beta.pth"


def test_a_package_without_hooks_that_the_lock_does_not_name(env: Path) -> None:
    found = by_name(integrity.check(env, {"beta": "2.0"}))["strangers"]
    assert (found.status, found.have) == ("warn", "alpha 1.0")
    assert found.message == "1 package not from the lock"


def test_what_an_interrupted_pip_left_is_a_stranger_and_no_package(env: Path, site: Path) -> None:
    shutil.copytree(site / "beta-2.0.dist-info", site / "~eta-2.0.dist-info")
    assert statuses(integrity.check(env, EXPECTED)) == {"strangers": "warn"}


def test_a_name_that_a_terminal_would_obey_is_escaped(env: Path, site: Path) -> None:
    (site / "\x1b[2Jhidden.py").write_text("", encoding="utf-8")
    os.close(os.open(bytes(site / "a") + b"\xff.py", os.O_CREAT | os.O_WRONLY))
    have = by_name(integrity.check(env, EXPECTED))["strangers"].have
    assert have == r"\x1b[2Jhidden.py; a\udcff.py"


# ---- the frame ----------------------------------------------------------------------------------------------------


def test_an_interpreter_that_is_gone(env: Path) -> None:
    (env / "bin" / "python").unlink()
    (env / "bin" / "python").symlink_to("/nowhere/python3")
    found = by_name(integrity.check(env, EXPECTED))["interpreter"]
    assert (found.status, found.have) == ("fail", "nothing that starts at /nowhere/python3")


def test_an_interpreter_that_was_deleted(env: Path) -> None:
    (env / "bin" / "python").unlink()
    assert statuses(integrity.check(env, EXPECTED)) == {"interpreter": "fail"}


def launch(env: Path, interpreter: Path) -> None:
    """Put envlock's launchers in the place of the interpreter."""
    for launcher in frame.launchers(env / "bin" / interpreter.name):
        launcher.unlink(missing_ok=True)
        launcher.write_text(frame.launcher(interpreter), encoding="utf-8")
        launcher.chmod(0o755)


def test_an_interpreter_behind_a_launcher(env: Path) -> None:
    real = env / "bin" / "python3.11.real"
    launch(env, real)
    assert by_name(integrity.check(env, EXPECTED))["interpreter"].have == f"nothing that starts at {real}"
    real.symlink_to(sys.executable)
    assert statuses(integrity.check(env, EXPECTED)) == {}


def test_a_launcher_in_a_folder_with_an_odd_name(env: Path) -> None:
    odd = env.with_name("it's odd; very")
    env.rename(odd)
    real = odd / "bin" / "python3.11.real"
    launch(odd, real)
    real.symlink_to(sys.executable)
    assert statuses(integrity.check(odd, EXPECTED)) == {}


@pytest.mark.parametrize("name", ["python", "python3", "python3.11"])
def test_a_launcher_that_was_changed(env: Path, name: str) -> None:
    real = env / "bin" / "python3.11.real"
    launch(env, real)
    real.symlink_to(sys.executable)
    launcher = env / "bin" / name
    launcher.write_text(launcher.read_text(encoding="utf-8").replace("exec", "umask 0\nexec"), encoding="utf-8")
    found = by_name(integrity.check(env, EXPECTED))["interpreter"]
    assert (found.status, found.message) == ("fail", "what starts the interpreter was changed")
    assert (found.have, found.want) == (f"bin/{name}", "as envlock wrote it")


@pytest.mark.parametrize("linked", [False, True])
def test_a_launcher_that_is_none_any_more(env: Path, *, linked: bool) -> None:
    real = env / "bin" / "python3.11.real"
    launch(env, real)
    real.symlink_to(sys.executable)
    (env / "bin" / "python3").unlink()
    if linked:
        (env / "bin" / "python3").symlink_to(real)
    assert by_name(integrity.check(env, EXPECTED))["interpreter"].have == "bin/python3"


def test_an_environment_that_was_moved_starts_another_one(env: Path, made: Path) -> None:
    launch(env, made / "bin" / "python")
    found = by_name(integrity.check(env, EXPECTED))["interpreter"]
    assert (found.status, found.have) == ("fail", str(made / "bin" / "python"))
    assert found.message == "this environment was moved or copied: it starts another one"


def test_packages_of_the_system_let_in(env: Path) -> None:
    rewrite(env / "pyvenv.cfg", "include-system-site-packages = false", "include-system-site-packages = true")
    assert statuses(integrity.check(env, EXPECTED)) == {"interpreter": "fail"}


def test_without_its_marker_it_is_no_environment(env: Path) -> None:
    (env / "pyvenv.cfg").unlink()
    assert statuses(integrity.check(env, EXPECTED)) == {"interpreter": "fail"}


def test_nothing_where_the_packages_should_be(tmp_path: Path) -> None:
    found = integrity.check(tmp_path, EXPECTED)
    assert statuses(found) == {"interpreter": "fail", "versions": "fail"}
    assert found.damaged == ("alpha", "beta")


def test_two_folders_of_packages(env: Path) -> None:
    (env / "lib" / "python3.1" / "site-packages").mkdir(parents=True)
    assert statuses(integrity.check(env, EXPECTED)) == {"versions": "fail"}
