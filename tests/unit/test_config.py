"""Settings: flag over variable over table over other tools over default, each with its origin; wrong ones are named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date
from typing import Any

import pytest

from envlock import config
from envlock.config import Ambient, Config, Given, Section
from envlock.errors import Misuse, Problem
from envlock.model import Setting

FILE = "/home/me/pyproject.toml"
URL = "https://index.example/simple"
KNOWN = ("cpu", "cu118", "cu121", "cu124", "pypi")


def set_by_uv(url: str, **more: Any) -> Ambient:
    return Ambient(index=Given(name="index.pypi", value=url, origin="uv.toml:2", key="index-url", **more))


def resolve(
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    table: Mapping[str, Any] | None = None,
    file: str | None = FILE,
    ambient: Ambient | None = None,
    names: Collection[str] | None = None,
) -> Config:
    return config.resolve(
        flags=flags or {},
        environ=environ or {},
        table=table or {},
        table_file=file,
        ambient=ambient or Ambient(),
        names=names,
    )


def mistakes(**layers: Any) -> list[str]:
    with pytest.raises(Misuse) as caught:
        resolve(**layers)
    assert (caught.value.code, caught.value.exit) == ("config-invalid", 2)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    "url",
    [
        "https://[::1/",
        "http://[x]/",
        "http://index.example/\0",
        "http://index.example/\x1b[2J",
        "http://index.example:x/",
    ],
)
def test_an_address_that_is_none_is_refused_wherever_it_is_set(url: str) -> None:
    expected = "(expected an index name of a-z, 0-9 and - with an http, https or file URL)"
    (said,) = mistakes(environ={"ENVLOCK_INDEX_CPU": url})
    assert said.endswith(expected)
    (said,) = mistakes(table=Section({"index": {"pypi": url}}, {("index", "pypi"): 3}))
    assert said.startswith(f"{FILE}:3: `tool.envlock.index.pypi`")
    assert said.endswith(expected)


def test_a_path_that_no_path_can_be_is_refused() -> None:
    (said,) = mistakes(table=Section({"path": "a\0b"}, {("path",): 2}))
    assert said.startswith(f"{FILE}:2: `tool.envlock.path`")
    assert said.isprintable()


def test_the_defaults() -> None:
    settings = config.default()
    assert (settings.offline, settings.driver_policy, settings.resolver) == (False, "minor-version", "uv")
    assert (settings.path, settings.indexes.get("pypi")) == (None, None)
    assert {one.origin for one in settings.settings()} == {"default"}
    assert [(one.name, one.value) for one in settings.settings()] == [
        ("color", "auto"),
        ("driver-policy", "minor-version"),
        ("offline", "false"),
        ("path", None),
        ("resolver", "uv"),
    ]


@pytest.mark.parametrize(
    ("name", "flag", "variable", "setting"),
    [
        ("offline", True, ("ENVLOCK_OFFLINE", "1", True), False),
        ("driver-policy", "strict", ("ENVLOCK_DRIVER_POLICY", "minor-version", "minor-version"), "strict"),
        ("path", "a", ("ENVLOCK_PATH", "b", "b"), "/c"),
        ("color", "never", ("ENVLOCK_COLOR", "always", "always"), "never"),
        ("resolver", "uv", ("ENVLOCK_RESOLVER", "uv", "uv"), "uv"),
    ],
)
def test_a_flag_goes_before_a_variable_before_the_table(
    name: str, flag: object, variable: tuple[str, str, object], setting: object
) -> None:
    key, text, value = variable
    flags, environ, table = {name.replace("-", "_"): flag}, {key: text}, {name: setting}
    assert resolve(flags=flags, environ=environ, table=table).entries[name] == (flag, "flag")
    assert resolve(environ=environ, table=table).entries[name] == (value, key)
    assert resolve(table=table).entries[name] == (setting, FILE)
    assert resolve(table=table, file=None).entries[name] == (setting, "table")
    assert resolve().entries[name][1] == "default"


def test_each_setting_is_read_from_its_own_layer() -> None:
    settings = resolve(flags={"offline": True}, environ={"ENVLOCK_DRIVER_POLICY": "strict"}, table={"path": "~/envs"})
    assert (settings.offline, settings.driver_policy, settings.path) == (True, "strict", "~/envs")
    assert {one.name: one.origin for one in settings.settings()} == {
        "offline": "flag",
        "driver-policy": "ENVLOCK_DRIVER_POLICY",
        "path": FILE,
        "resolver": "default",
        "color": "default",
    }


@pytest.mark.parametrize(
    ("path", "meant"),
    [("envs", "/home/me/envs"), ("../envs", "/home/me/../envs"), ("/envs", "/envs"), ("~/envs", "~/envs")],
)
def test_a_path_in_a_file_begins_at_that_file(path: str, meant: str) -> None:
    assert resolve(table={"path": path}, file="/home/me/pyproject.toml").path == meant
    assert resolve(environ={"ENVLOCK_PATH": path}).path == path


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("TRUE", True), (" yes ", True), ("on", True), ("0", False), ("no", False), ("Off", False)],
)
def test_a_boolean_variable(text: str, value: object) -> None:
    assert resolve(environ={"ENVLOCK_OFFLINE": text}, table={"offline": not value}).offline is value


def test_an_empty_boolean_variable_is_false() -> None:
    assert resolve(environ={"ENVLOCK_OFFLINE": ""}).offline is False


def test_other_variables_and_other_flags_are_not_ours() -> None:
    settings = resolve(flags={"verb": "plan"}, environ={"HOME": "/", "envlock_offline": "1", "XENVLOCK_PATH": "x"})
    assert settings == config.default()


@pytest.mark.parametrize(
    ("environ", "table", "url", "origin"),
    [
        ({}, {"pypi": URL}, URL, FILE),
        ({"ENVLOCK_INDEX_PYPI": f"{URL}/env"}, {"pypi": URL}, f"{URL}/env", "ENVLOCK_INDEX_PYPI"),
        ({"ENVLOCK_INDEX_PYPI": "file:///srv/simple"}, {}, "file:///srv/simple", "ENVLOCK_INDEX_PYPI"),
        ({}, {}, f"{URL}/uv", "uv.toml:2"),
    ],
)
def test_where_an_index_comes_from(environ: Mapping[str, str], table: Mapping[str, str], url: str, origin: str) -> None:
    settings = resolve(environ=environ, table={"index": table}, ambient=set_by_uv(f"{URL}/uv"))
    assert settings.indexes.get("pypi") == url
    assert settings.entries["index.pypi"] == (url, origin)


def test_a_key_of_a_file_is_shown_with_its_line() -> None:
    table = Section({"offline": True, "index": {"pypi": URL}}, {("offline",): 4, ("index",): 5, ("index", "pypi"): 6})
    entries = resolve(table=table).entries
    assert (entries["offline"][1], entries["index.pypi"][1]) == (f"{FILE}:4", f"{FILE}:6")


# ---- other tools' settings ------------------------------------------------------------------------------------------


def test_a_fault_of_another_tool_is_said_when_an_address_is_needed_and_not_before() -> None:
    fault = Problem(message="is no option", file="/etc/pip.conf", line=3)
    settings = resolve(ambient=Ambient(fault=fault))
    assert settings.offline is False
    (shown,) = [one for one in settings.settings() if one.name == "index.pypi"]
    assert (shown.value, shown.origin) == ("cannot be told", "/etc/pip.conf:3: is no option")
    with pytest.raises(Misuse) as caught:
        assert settings.indexes
    assert (caught.value.code, caught.value.hint) == ("config-invalid", "envlock detect -v")
    assert [str(one) for one in caught.value.problems] == [
        "/etc/pip.conf:3: is no option",
        "ENVLOCK_INDEX_PYPI=ADDRESS goes before it; --no-config reads no such file",
    ]


@pytest.mark.parametrize("layer", [{"environ": {"ENVLOCK_INDEX_PYPI": URL}}, {"table": {"index": {"pypi": URL}}}])
def test_a_fault_of_another_tool_behind_a_better_layer_is_nothing(layer: Mapping[str, Any]) -> None:
    settings = resolve(ambient=Ambient(fault=Problem(message="is no option")), **layer)
    assert settings.indexes == {"pypi": URL}
    assert [one.value for one in settings.settings() if one.name == "index.pypi"] == [URL]


@pytest.mark.parametrize("url", ["simple", "ftp://index.example/", "https://index.example/ # not"])
def test_an_address_of_another_tool_that_is_none_is_a_fault(url: str) -> None:
    settings = resolve(ambient=set_by_uv(url, file="uv.toml", line=2))
    assert "index.pypi" not in settings.entries
    with pytest.raises(Misuse) as caught:
        assert settings.indexes
    assert str(caught.value.problems[0]).startswith(f"uv.toml:2: `index-url`: {url!r} does not fit (expected an index")


def test_what_is_not_used_of_other_tools_is_listed() -> None:
    unused = Setting(name="pip find-links", value="not used", origin="/etc/pip.conf:2")
    settings = resolve(ambient=Ambient(unused=(unused,)))
    assert unused in settings.settings()
    assert settings.indexes == {}


# ---- the names of indexes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (
            {"environ": {"ENVLOCK_INDEX_CU21": URL}},
            "`ENVLOCK_INDEX_CU21`: no such index; did you mean `ENVLOCK_INDEX_CU121`?",
        ),
        (
            {"environ": {"ENVLOCK_INDEX_CU12": URL}},
            "`ENVLOCK_INDEX_CU12`: no such index; did you mean `ENVLOCK_INDEX_CU121`, `ENVLOCK_INDEX_CU124`?",
        ),
        (
            {"environ": {"ENVLOCK_INDEX_ROCM_6": "x"}},
            "`ENVLOCK_INDEX_ROCM_6`: no such index (expected one of "
            + ", ".join(f"ENVLOCK_INDEX_{name.upper()}" for name in KNOWN)
            + ")",
        ),
        (
            {"table": Section({"index": {"pipy": URL}}, {("index",): 3, ("index", "pipy"): 4})},
            f"{FILE}:4: `tool.envlock.index.pipy`: no such index; did you mean `pypi`?",
        ),
        (
            {"table": {"index": {"torch": 3}}},
            f"{FILE}: `tool.envlock.index.torch`: no such index (expected one of cpu, cu118, cu121, cu124, pypi)",
        ),
    ],
)
def test_an_index_that_nobody_knows_is_refused(layer: Mapping[str, Any], said: str) -> None:
    assert mistakes(names=KNOWN, **layer) == [said]


def test_the_names_of_indexes_that_are_known_are_taken() -> None:
    settings = resolve(environ={"ENVLOCK_INDEX_CU121": URL}, table={"index": {"pypi": URL}}, names=KNOWN)
    assert settings.indexes == {"cu121": URL, "pypi": URL}


@pytest.mark.parametrize(
    ("environ", "table", "does"),
    [
        ({}, {}, False),
        ({"ENVLOCK_OFFLINE": "1"}, {"offline": True}, False),
        ({"ENVLOCK_INDEX_X": ""}, {}, True),
        ({}, {"index": {}}, True),
    ],
)
def test_whether_an_index_is_named(environ: Mapping[str, str], table: Mapping[str, Any], does: object) -> None:
    assert config.names_index(environ, table) is does


@pytest.mark.parametrize("name", ["cpu", "cu121"])
def test_a_folder_is_no_index_of_pytorch(name: str) -> None:
    (said,) = mistakes(environ={f"ENVLOCK_INDEX_{name.upper()}": "file:///srv/whl"}, names=KNOWN)
    assert said.endswith("(expected an http or https URL: no index but `pypi` can be a folder)")


def test_an_index_of_a_name_with_a_dash() -> None:
    settings = resolve(environ={"ENVLOCK_INDEX_PYTORCH_CU121": URL})
    assert (settings.indexes.get("pytorch-cu121"), settings.indexes.get("pypi")) == (URL, None)


def test_where_a_channel_comes_from() -> None:
    table = {"channels": {"conda-forge": URL, "bioconda/label/main": f"{URL}/b"}}
    settings = resolve(environ={"ENVLOCK_CHANNEL_CONDA_FORGE": f"{URL}/env"}, table=table)
    assert settings.channels == {"conda-forge": f"{URL}/env", "bioconda/label/main": f"{URL}/b"}
    assert settings.entries["channels.conda-forge"] == (f"{URL}/env", "ENVLOCK_CHANNEL_CONDA_FORGE")
    assert settings.indexes == config.default().indexes


def test_credentials_are_used_but_not_shown() -> None:
    settings = resolve(table={"index": {"pypi": "https://joe:s3cret@index.example/simple"}})
    assert settings.indexes.get("pypi") == "https://joe:s3cret@index.example/simple"
    assert [one.value for one in settings.settings() if one.name == "index.pypi"] == [
        "https://****@index.example/simple"
    ]


def test_every_mistake_is_named_by_file_line_and_key_or_by_variable() -> None:
    table = Section(
        {"offline": "yes", "drivr-policy": "strict", "index": {"pypi": 3, "Bad name": URL}},
        {("offline",): 4, ("drivr-policy",): 5, ("index",): 7, ("index", "pypi"): 8, ("index", "Bad name"): 9},
    )
    wanted = "(expected an index name of a-z, 0-9 and - with an http, https or file URL)"
    assert mistakes(
        flags={"driver_policy": "lax"}, environ={"ENVLOCK_OFLINE": "1", "ENVLOCK_COLOR": "red"}, table=table
    ) == [
        f"{FILE}:5: `tool.envlock.drivr-policy`: unknown key (expected `driver-policy`?)",
        "`ENVLOCK_OFLINE`: unknown variable (expected `ENVLOCK_OFFLINE`?)",
        f"{FILE}:4: `tool.envlock.offline`: 'yes' does not fit (expected true or false)",
        f"{FILE}:8: `tool.envlock.index.pypi`: a number does not fit {wanted}",
        f"{FILE}:9: `tool.envlock.index.'Bad name'`: 'https://index.example/simple' does not fit {wanted}",
        "`ENVLOCK_COLOR`: 'red' does not fit (expected one of auto, always, never)",
        "`--driver-policy`: 'lax' does not fit (expected one of minor-version, strict)",
    ]


def test_a_mistake_behind_a_better_layer_is_named_all_the_same() -> None:
    assert mistakes(flags={"offline": True}, table={"offline": 1}) == [
        f"{FILE}: `tool.envlock.offline`: a number does not fit (expected true or false)"
    ]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"path": ""}, "'' does not fit (expected a text that is not empty)"),
        ({"path": True}, "true does not fit (expected a text that is not empty)"),
        ({"resolver": "pip"}, "'pip' does not fit (expected one of uv, pip-tools)"),
        ({"driver-policy": ["strict"]}, "a list does not fit"),
        ({"driver-policy": {"a": 1}}, "a table does not fit"),
        ({"color": 1.5}, "a number does not fit"),
        ({"path": date(2024, 1, 1)}, "a date or a time does not fit"),
        ({"offline": 16**5000}, "a number does not fit"),
        ({"index": URL}, "`tool.envlock.index`: wrong type (expected a table of name = URL)"),
        ({"channels": URL}, "`tool.envlock.channels`: wrong type (expected a table of name = URL)"),
        ({"channel": {}}, "`tool.envlock.channel`: unknown key (expected `channels`?)"),
        ({"channels": {"../x": URL}}, "does not fit (expected the name of a channel"),
        ({"index": {"pypi": "index.example/simple"}}, "'index.example/simple' does not fit"),
        ({"index": {"pypi": "https://"}}, "'https://' does not fit"),
        ({"index": {"pypi": f"{URL} "}}, f"'{URL} ' does not fit"),
        ({"a\x1b[31m": 1}, "`tool.envlock.'a\\x1b[31m'`: unknown key (expected one of offline, driver-policy,"),
    ],
)
def test_a_wrong_setting_in_the_table(table: Mapping[str, Any], says: str) -> None:
    (found,) = mistakes(table=table)
    assert says in found
    assert found.isprintable()


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"ENVLOCK_OFFLINE": "perhaps"}, "`ENVLOCK_OFFLINE`: 'perhaps' does not fit (expected true or false)"),
        ({"ENVLOCK_PATH": ""}, "`ENVLOCK_PATH`: '' does not fit"),
        ({"ENVLOCK_INDEX_": URL}, "`ENVLOCK_INDEX_`: "),
        ({"ENVLOCK_INDEX_PYPI": "ftp://index.example"}, "`ENVLOCK_INDEX_PYPI`: 'ftp://index.example' does not fit"),
        ({"ENVLOCK_ZZZ": ""}, "`ENVLOCK_ZZZ`: unknown variable (expected one of ENVLOCK_OFFLINE, ENVLOCK_DRIVER_POLI"),
        ({"ENVLOCK_\x1b[31m": ""}, "`'ENVLOCK_\\x1b[31m'`: unknown variable (expected one of ENVLOCK_OFFLINE"),
        ({"ENVLOCK_CHANNEL_": URL}, "`ENVLOCK_CHANNEL_`: "),
        ({"ENVLOCK_CHANNEL_X": "x"}, "`ENVLOCK_CHANNEL_X`: 'x' does not fit (expected the name of a channel with an "),
    ],
)
def test_a_wrong_variable(environ: Mapping[str, str], says: str) -> None:
    (found,) = mistakes(environ=environ)
    assert found.startswith(says)
