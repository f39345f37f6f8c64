from __future__ import annotations

import pytest

from envlock import foreign
from envlock.errors import Misuse


@pytest.mark.parametrize(
    ("text", "file", "kind"),
    [
        ("torch==2.4.1\n", "requirements.txt", "requirements"),
        ("", "requirements.txt", "requirements"),
        ("\ufefftorch==2.4.1\r\n", "-", "requirements"),
        ("-r base.txt\n", "-", "requirements"),
        ("name: x\r\ndependencies:\r\n  - python\r\n", "-", "environment.yml"),
        ("channels:\n  - x\n", "env.yaml", "environment.yml"),
        ("[project]\nname = 'x'\n", "-", "pyproject.toml"),
        ("[tool.poetry.dependencies]\n", "x.toml", "pyproject.toml"),
        ("not = toml =", "pyproject.toml", "pyproject.toml"),
    ],
)
def test_the_kind_shows_in_the_text_before_the_name(text: str, file: str, kind: str) -> None:
    assert foreign.kind(text, file) == kind


@pytest.mark.parametrize(
    ("text", "file", "says"),
    [
        ('{"default": {}}', "Pipfile.lock", "JSON"),
        ("<html>", "requirements.txt", "markup"),
        ("# conda\n@EXPLICIT\nhttps://index.example/a.conda\n", "spec.txt", "conda's files"),
        ("[[package]]\nname = 'x'\n", "uv.lock", "TOML without"),
        ("schema = 1\n", "mine.toml", "TOML without"),
        ("version: 6\nenvironments:\n  default: {}\n", "pixi.lock", "no `dependencies`"),
        ("metadata:\n  content_hash: {}\npackage: []\n", "conda-lock.yml", "no `dependencies`"),
        ("metadata:\n  x: 1\n", "-", "no `dependencies`"),
    ],
)
def test_what_is_taken_is_said_of_another_kind(text: str, file: str, says: str) -> None:
    with pytest.raises(Misuse) as caught:
        foreign.kind(text, file)
    (problem,) = caught.value.problems
    assert caught.value.code == "source-unknown"
    assert says in problem.message
    assert problem.expected == foreign.TAKEN


def test_hashes_are_counted_and_not_taken() -> None:
    text = "a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n    # via b\nb==2\n"
    lines, dropped = foreign.requirements(text, "r.txt")
    assert [(line.text, line.number) for line in lines] == [("a==1", 1), ("b==2", 5)]
    assert [(one.what, one.line) for one in dropped] == [("2 hashes", 2)]


def test_a_project_says_name_python_and_requirements_with_their_lines() -> None:
    text = '[project]\nname = "llava"\nrequires-python = ">=3.8"\ndependencies = [\n  "a==1",\n  "b",\n]\n'
    found = foreign.pyproject(text, "pyproject.toml")
    assert [(line.text, line.number) for line in found.lines] == [("a==1", 5), ("b", 6)]
    assert (found.name, found.summary) == ("llava", None)
    assert found.python is not None
    assert (found.python.text, found.python.number) == (">=3.8", 3)


def test_what_a_project_asks_for_elsewhere_is_told() -> None:
    text = (
        '[project]\nname = "x"\ndynamic = ["dependencies"]\n'
        '[project.optional-dependencies]\ntrain = ["a"]\n[dependency-groups]\ndev = ["b"]\n'
        '[tool.uv.sources]\na = { path = "x" }\n[tool.poetry.dependencies]\nc = "*"\n'
    )
    dropped = foreign.pyproject(text, "pyproject.toml").dropped
    assert [(one.what, one.line) for one in dropped] == [
        ("[project.optional-dependencies.train]", 5),
        ("[dependency-groups.dev]", 7),
        ("[project.dynamic]", 3),
        ("[tool.uv.sources]", 8),
        ("[tool.poetry.dependencies]", 10),
    ]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("[project\n", [(1, None)]),
        ("project = 3\n", [(1, "project")]),
        (
            "[project]\nname = 3\ndependencies = [\n  1,\n]\n",
            [(4, "project.dependencies.0"), (2, "project.name")],
        ),
        ("[project]\ndependencies = 'a'\n", [(2, "project.dependencies")]),
    ],
)
def test_every_mistake_in_a_project_has_its_place(text: str, places: list[tuple[int, str | None]]) -> None:
    with pytest.raises(Misuse) as caught:
        foreign.pyproject(text, "pyproject.toml")
    assert caught.value.code == "pyproject-invalid"
    assert [(problem.line, problem.key) for problem in caught.value.problems] == places
