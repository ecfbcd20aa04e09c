"""notes_edit: all of the edits or none."""

from typing import Any

import pytest

from server.models import etag_of

from .edits import etag, kept, tree
from .house import House


def edit(house: House, *edits: dict[str, Any]) -> dict[str, Any]:
    return house.call("notes_edit", edits=list(edits))


def text(path: str, old: str, new: str, **more: Any) -> dict[str, Any]:
    return {
        "path": path, "target": "text", "selector": old, "operation": "replace", "content": new,
        **more,
    }  # fmt: skip


@pytest.mark.requirement("edit.several")
def test_edits_of_many_notes_and_several_of_one_compose(house: House) -> None:
    house.fill(a="# A\none\n", b="two\n")
    answer = edit(
        house,
        text("a.md", "one", "1"),
        {"path": "b.md", "mode": "append", "content": "more\n"},
        {
            "path": "a.md",
            "target": "heading",
            "selector": "A",
            "operation": "append",
            "content": "2",
        },
        {"path": "new/c.md", "mode": "create", "content": "three\n"},
        text("a.md", "2", "two"),
        {"path": "new/c.md", "mode": "append", "content": "four\n"},
    )
    expected = {"a.md": b"# A\n1\ntwo\n", "b.md": b"two\nmore\n", "new/c.md": b"three\nfour\n"}
    assert {path: house.bytes(path) for path in expected} == expected
    assert answer["notes"] == [
        {"path": path, "created": path == "new/c.md", "etag": etag_of(data)}
        for path, data in expected.items()
    ]
    for line in ("--- a/a.md", "-one", "+two", "--- /dev/null", "+++ b/new/c.md", "+four"):
        assert line in answer["diff"].splitlines()
    assert "dry_run" not in answer
    assert house.call("vault_search", query="^(1|more|four)$")["total"] == 3
    entries = house.app.history.recent(9)
    assert len({entry.operation for entry in entries}) == 1
    assert {entry.path: entry.after for entry in entries} == {
        path: etag_of(data) for path, data in expected.items()
    }


@pytest.mark.requirement("edit.several")
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (text("b.md", "absent", "x"), "not_found"),
        (text("none.md", "x", "y"), "not_found"),
        ({"path": "a.md", "mode": "create", "content": "x"}, "conflict"),
        (text("b.md", "two", "x", if_match="0" * 32), "conflict"),
        ({"path": "b.md", "mode": "append", "content": "x" * 60_000}, "too_large"),
        ({"path": "b.md", "mode": "append", "content": "\0"}, "invalid_request"),
        ({"path": "x?.md", "mode": "create", "content": "x"}, "invalid_path"),
        ({"path": ".obsidian/x.md", "mode": "create", "content": "x"}, "path_not_allowed"),
        ({"path": "a.md/x.md", "mode": "create", "content": "x"}, "invalid_path"),
        ({"path": "b.md", "content": "x"}, "invalid_request"),
        ({"path": "b.md", "mode": "append", "target": "text"}, "invalid_request"),
        ({"path": "b.md", "target": "text", "selector": "two"}, "invalid_request"),
    ],
)
def test_one_that_fails_leaves_everything_as_it_was(
    house: House, bad: dict[str, Any], code: str
) -> None:
    house.fill(a="one\n", b="two\n", z="last\n")
    before = tree(house)
    good = [text("a.md", "one", "1"), {"path": "new/c.md", "mode": "create", "content": "c"}]
    error = house.refused("notes_edit", edits=[*good, bad, text("z.md", "last", "z")])
    assert (error.code, bool(error.hint)) == (code, True)
    after = {path: file for path, file in tree(house).items() if path != "new"}
    assert {path: file and file[0] for path, file in after.items()} == {
        path: file and file[0] for path, file in before.items()
    }
    assert kept(house) == 0
    house.scan()
    assert house.call("vault_search", query="^(1|c|z)$")["total"] == 0


@pytest.mark.requirement("edit.several")
def test_every_edit_of_a_note_may_name_the_etag_that_was_read(house: House) -> None:
    house.fill(a="one\ntwo\n")
    read = etag(house, "a.md")
    edit(house, text("a.md", "one", "1", if_match=read), text("a.md", "two", "2", if_match=read))
    assert house.bytes("a.md") == b"1\n2\n"
    stale = house.refused("notes_edit", edits=[text("a.md", "1", "x", if_match="0" * 32)])
    assert (stale.code, stale.details["etag"]) == ("conflict", etag_of(b"1\n2\n"))


@pytest.mark.requirement("edit.several")
def test_edits_merge_with_what_others_did_meanwhile(house: House) -> None:
    house.fill(a="one\n\ntwo\n\nthree\n")
    read = etag(house, "a.md")
    house.write("a.md", "one\n\ntwo\n\ntheirs\n", age=50)
    edit(house, text("a.md", "one", "1", if_match=read))
    assert house.bytes("a.md") == b"1\n\ntwo\n\ntheirs\n"


@pytest.mark.requirement("edit.several")
def test_two_spellings_of_one_note_are_one_note(house: House) -> None:
    house.fill(Note="one\ntwo\n")
    answer = edit(
        house,
        text("Note.md", "one", "1"),
        text("note.md", "two", "2"),
        {"path": "New.md", "mode": "create", "content": "x"},
        {"path": "new.md", "mode": "append", "content": "y"},
    )
    assert house.bytes("Note.md") == b"1\n2\n"
    assert house.bytes("New.md") == b"x\ny"
    assert [note["path"] for note in answer["notes"]] == ["Note.md", "New.md"]


@pytest.mark.requirement("edit.several")
def test_there_are_at_most_a_hundred(house: House) -> None:
    line = {"path": "a.md", "mode": "append", "content": "x\n"}
    for edits in ([], [line] * 101):
        assert house.refused("notes_edit", edits=edits).code == "invalid_request"
    assert not (house.folder / "a.md").exists()
    edit(house, *[line] * 100)
    assert house.bytes("a.md") == b"x\n" * 100
    assert kept(house) == 1


@pytest.mark.requirement("edit.several")
def test_a_long_diff_is_cut_and_names_every_kind_of_change(house: House) -> None:
    edits = [{"path": f"{n}.md", "mode": "create", "content": "x\n" * 50} for n in range(60)]
    answer = edit(house, *edits)
    assert len(answer["diff"]) <= 2_000
    assert answer["diff"].endswith("more files")
    assert len(answer["notes"]) == 60
