"""vault_list: what is there, page by page, and what may have been meant."""

import random

import pytest

from .house import House

PATHS = (
    "a.md", "a/x.md", "a/deep/y.md", "a/deep/er/z.md", "a0.md", "b/pic.png", "b/x.md", "Café/é.md",
    "_index.md",
)  # fmt: skip


@pytest.fixture
def filled(house: House) -> House:
    for path in PATHS:
        house.write(path, path)
    (house.folder / "empty").mkdir()
    house.scan()
    return house


def listed(house: House, **arguments: object) -> list[str]:
    answer = house.call("vault_list", **arguments)
    assert answer["total"] >= len(answer["entries"])
    return [entry["path"] for entry in answer["entries"]]


def test_one_level_of_the_vault(filled: House) -> None:
    answer = filled.call("vault_list")
    assert answer["path"] == ""
    assert [(entry["path"], entry["kind"]) for entry in answer["entries"]] == [
        ("Café", "folder"), ("_index.md", "note"), ("a", "folder"), ("a.md", "note"),
        ("a0.md", "note"), ("b", "folder"), ("empty", "folder"),
    ]  # fmt: skip
    assert (answer["total"], answer["truncated"]) == (7, False)
    note = answer["entries"][3]
    assert note["size"] == 4
    assert note["modified"].endswith("Z")
    assert "size" not in answer["entries"][0]


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"path": "a"}, ["a/deep", "a/x.md"]),
        ({"path": "a/"}, ["a/deep", "a/x.md"]),
        ({"path": "A"}, ["a/deep", "a/x.md"]),
        ({"path": "cafe\u0301"}, ["Café/é.md"]),
        ({"path": "a", "depth": 2}, ["a/deep", "a/deep/er", "a/deep/y.md", "a/x.md"]),
        ({"path": "a/deep", "depth": 9}, ["a/deep/er", "a/deep/er/z.md", "a/deep/y.md"]),
        ({"path": "empty"}, []),
        ({"path": "", "kind": "folder"}, ["Café", "a", "b", "empty"]),
        ({"path": "/", "kind": "attachment", "depth": 9}, ["b/pic.png"]),
        (
            {"depth": 2, "kind": "note"},
            ["Café/é.md", "_index.md", "a.md", "a/x.md", "a0.md", "b/x.md"],
        ),
        ({"depth": 9, "glob": "*.png"}, ["b/pic.png"]),
        ({"depth": 9, "glob": "**/x.md"}, ["a/x.md", "b/x.md"]),
        ({"depth": 9, "glob": "a/**/*.md"}, ["a/deep/er/z.md", "a/deep/y.md", "a/x.md"]),
        ({"depth": 9, "glob": "/x.md"}, []),
        ({"glob": "a*.md"}, ["a.md", "a0.md"]),
        ({"glob": "*", "kind": "note"}, ["_index.md", "a.md", "a0.md"]),
    ],
)
def test_a_choice(filled: House, arguments: dict[str, object], paths: list[str]) -> None:
    assert listed(filled, **arguments) == paths


@pytest.mark.parametrize("arguments", [{}, {"glob": "*.md"}, {"kind": "note"}, {"path": "many"}])
def test_pages_neither_skip_nor_repeat(house: House, arguments: dict[str, object]) -> None:
    chance = random.Random(5)
    for n in range(40):
        house.write(f"many/{chance.choice('abc')}/{n}.md", "x")
    house.scan()
    whole = listed(house, depth=9, limit=1000, **arguments)
    assert len(whole) == len(set(whole)) >= 40
    assert whole == sorted(whole)
    pages: list[str] = []
    while True:
        answer = house.call("vault_list", depth=9, limit=7, offset=len(pages), **arguments)
        pages += [entry["path"] for entry in answer["entries"]]
        assert answer["total"] == len(whole)
        if not answer["truncated"]:
            break
    assert pages == whole
    assert listed(house, depth=9, offset=1000, **arguments) == []


def test_a_folder_that_is_not_there(filled: House) -> None:
    filled.write("projects/apollo/a.md", "x")
    filled.scan()
    error = filled.refused("vault_list", path="projects/apolo")
    assert error.code == "not_found"
    assert error.hint
    assert filled.refused("vault_list", path="a.md").code == "not_found"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"path": "../x"}, "invalid_path"),
        ({"path": ".obsidian"}, "path_not_allowed"),
        ({"depth": 0}, "invalid_request"),
        ({"depth": 21}, "invalid_request"),
        ({"limit": 0}, "invalid_request"),
        ({"limit": 1001}, "invalid_request"),
        ({"offset": -1}, "invalid_request"),
        ({"kind": "link"}, "invalid_request"),
        ({"glob": "x" * 501}, "invalid_request"),
        ({"glob": "a\0"}, "invalid_request"),
    ],
)
def test_what_makes_no_sense(filled: House, arguments: dict[str, object], code: str) -> None:
    assert filled.refused("vault_list", **arguments).code == code


@pytest.mark.parametrize(
    "glob", ["!", "[", "[a", "\\", "a\\", "**", "!*.md", "#x", "{a,b}.md", "  "]
)
def test_no_glob_is_an_internal_error(filled: House, glob: str) -> None:
    for tool, arguments in (
        ("vault_list", {"glob": glob}),
        ("vault_search", {"query": "x", "path_filter": glob}),
        ("note_read_many", {"glob": glob}),
    ):
        try:
            filled.call(tool, **arguments)
        except Exception as error:
            assert getattr(error, "code", None) == "invalid_request"


def test_what_was_removed_elsewhere_is_not_listed_after_a_scan(filled: House) -> None:
    (filled.folder / "a" / "deep" / "er" / "z.md").unlink()
    (filled.folder / "a" / "deep" / "er").rmdir()
    filled.scan()
    assert listed(filled, path="a/deep", depth=9) == ["a/deep/y.md"]
    assert filled.refused("vault_list", path="a/deep/er").code == "not_found"
