"""Whatever a freeze pins, the profile that is made of it can be read, and asks for each of those versions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envlock import adopting, facts, foreign, foreign_names, profile, profile_text, store
from envlock.adopting import Known
from envlock.app import judging
from envlock.errors import Misuse
from envlock.foreign import Foreign

TEXTS = store.facts_texts()
FACTS = facts.parse(TEXTS)
KNOWN = Known(facts=FACTS, rules=judging.rules(FACTS), names=foreign_names.parse(TEXTS))

NAMES = st.from_regex(r"[A-Za-z]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True)
VERSIONS = st.from_regex(r"(0|[1-9][0-9]?)(\.(0|[1-9][0-9]?)){0,3}((a|rc)[0-9])?(\.post[1-9])?", fullmatch=True)
TORCHES = st.none() | st.sampled_from([row.torch for row in FACTS.torch_pypi])
ENDS = st.sampled_from(["\n", "\r\n"])
LABELS = st.sampled_from(["", "+cu118", "+cu121", "+cpu", "+local.1"])


def made(text: str) -> str:
    lines, dropped = foreign.requirements(text, "freeze.txt")
    found = Foreign(kind="requirements", lines=lines, dropped=dropped)
    draft = adopting.derive(found, KNOWN, python=None, here="3.12")
    return profile_text.render(draft, name="mine", summary="mine", origin="freeze.txt")


@given(
    pins=st.dictionaries(NAMES.map(canonicalize_name), VERSIONS, min_size=1, max_size=8),
    torch=TORCHES,
    label=LABELS,
    end=ENDS,
)
def test_a_freeze_of_pins_becomes_a_profile_that_keeps_each(
    pins: dict[str, str], torch: str | None, label: str, end: str
) -> None:
    pins = {name: version for name, version in pins.items() if name not in {"torch", "bitsandbytes"}}
    rows = [f"{name}=={version}" for name, version in pins.items()]
    rows += [f"torch=={torch}{label}"] if torch else []
    if not rows:
        return
    read = profile.parse(made(end.join(rows) + end), "mine.toml")
    for spec in read.backends:
        kept = {str(canonicalize_name(one.name)): str(one.specifier) for one in map(Requirement, spec.requires)}
        assert {name: kept.get(name) for name in pins} == {name: f"=={version}" for name, version in pins.items()}
        assert kept.get("torch") == (f"=={torch}" if torch else None)


PIECES = st.sampled_from(
    [
        "torch",
        "==2.4.1",
        "+cu121",
        ">=1",
        "\n",
        "\r\n",
        " \\\n",
        "-r",
        "-e .",
        "#",
        " @ ",
        "https://x.example/",
        "[x]",
        ";",
    ]
) | st.text(max_size=4)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_a_profile_or_an_error_with_a_code(text: str) -> None:
    code = None
    try:
        profile.parse(made(text), "mine.toml")
    except Misuse as error:
        code = error.code
    assert code in {None, "requirements-invalid", "nothing-kept", "version-unknown", "python-without-build"}
