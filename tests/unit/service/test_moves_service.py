"""note_move and heading_rename: what links there follows at once, or nothing happens."""

from pathlib import Path
from typing import Any

import pytest

from server.models import etag_of

from .edits import kept, tree
from .house import House, opened


def move(house: House, old: str, new: str, **more: Any) -> dict[str, Any]:
    return house.call("note_move", **{"from": old, "to": new, **more})


def not_moved(house: House, old: str, new: str) -> tuple[str, str]:
    error = house.refused("note_move", **{"from": old, "to": new})
    return error.code, error.hint


def backlinks(house: House, path: str) -> list[str]:
    return [item["path"] for item in house.call("backlinks_search", path=path)["items"]]


LINKS = (
    "[[Note]] [[sub/Note|shown]] [[Note#Head]] [[Note#^b|x]] ![[Note]] [text](sub/Note.md) "
    "[t](<sub/Note.md#Head>) `[[Note]]`\n"
)


@pytest.mark.requirement("edit.move")
@pytest.mark.parametrize(
    ("to", "path", "links"),
    [
        ("sub/New name.md", "sub/New name.md",
         "[[New name]] [[sub/New name|shown]] [[New name#Head]] [[New name#^b|x]] ![[New name]] "
         "[text](sub/New%20name.md) [t](<sub/New name.md#Head>) `[[Note]]`\n"),
        ("deep/er/Note.md", "deep/er/Note.md",
         "[[Note]] [[deep/er/Note|shown]] [[Note#Head]] [[Note#^b|x]] ![[Note]] "
         "[text](deep/er/Note.md) [t](<deep/er/Note.md#Head>) `[[Note]]`\n"),
        ("other", "other/Note.md",
         "[[Note]] [[other/Note|shown]] [[Note#Head]] [[Note#^b|x]] ![[Note]] "
         "[text](other/Note.md) [t](<other/Note.md#Head>) `[[Note]]`\n"),
    ],
)  # fmt: skip
def test_links_follow_in_the_form_they_had(house: House, to: str, path: str, links: str) -> None:
    house.write("other/a.md", "x")
    house.fill(**{"sub/Note": "# Head\ntext ^b\n", "linker": LINKS})
    answer = move(house, "sub/note.md", to)
    assert house.bytes("linker.md").decode() == links
    assert house.bytes(path) == b"# Head\ntext ^b\n"
    assert not (house.folder / "sub/Note.md").exists()
    assert (answer["path"], answer["moved_from"], answer["moved"]) == (path, "sub/Note.md", 1)
    assert (answer["notes_changed"], answer["total_changed"]) == (["linker.md"], 1)
    assert backlinks(house, path) == ["linker.md"] * 7
    hits = house.call("vault_search", query="^# Head")["results"]
    assert [hit["path"] for hit in hits] == [path]
    assert house.call("note_read", path="sub/Note.md")["exists"] is False
    before = tree(house)
    house.scan()
    assert backlinks(house, path) == ["linker.md"] * 7
    assert tree(house) == before
    entries, _ = house.app.history.of(path, limit=9)
    assert [(entry.kind, entry.other) for entry in entries] == [("move", "sub/Note.md")]
    assert house.app.history.content(etag_of(LINKS.encode())) == LINKS.encode()


@pytest.mark.requirement("edit.move")
def test_the_moved_note_still_leads_where_it_led(house: House) -> None:
    house.write("a/pic.png", b"\0")
    house.fill(
        **{
            "a/Note": "[x](other.md) ![p](pic.png) [[Note#H]] [self](Note.md)\n# H\n",
            "a/other": "x",
        }
    )
    answer = move(house, "a/Note.md", "b/c/Moved.md")
    assert house.bytes("b/c/Moved.md").decode() == (
        "[x](../../a/other.md) ![p](../../a/pic.png) [[Moved#H]] [self](Moved.md)\n# H\n"
    )
    assert answer["notes_changed"] == ["b/c/Moved.md"]
    assert backlinks(house, "a/other.md") == ["b/c/Moved.md"]


@pytest.mark.requirement("edit.move")
def test_a_folder_moves_with_all_that_is_in_it(house: House) -> None:
    house.write("old/pic.png", b"\0")
    house.fill(**{
        "old/a": "[[old/b]] [b](b.md) ![[pic.png]]\n", "old/deep/c": "[[a]]\n", "old/b": "x\n",
        "linker": "[[old/a]] [c](old/deep/c.md) ![[old/pic.png]]\n",
    })  # fmt: skip
    answer = move(house, "old/", "new/place")
    assert (answer["moved"], answer["path"]) == (4, "new/place")
    assert (
        house.bytes("linker.md")
        == b"[[new/place/a]] [c](new/place/deep/c.md) ![[new/place/pic.png]]\n"
    )
    assert house.bytes("new/place/a.md") == b"[[new/place/b]] [b](b.md) ![[pic.png]]\n"
    assert not (house.folder / "old").exists()
    assert house.bytes("new/place/pic.png") == b"\0"
    listed = [entry["path"] for entry in house.call("vault_list", depth=9)["entries"]]
    assert "old" not in listed
    assert {"new/place/pic.png", "new/place/deep/c.md"} <= set(listed)
    house.scan()
    assert [entry["path"] for entry in house.call("vault_list", depth=9)["entries"]] == listed
    assert backlinks(house, "new/place/a.md") == ["linker.md", "new/place/deep/c.md"]


@pytest.mark.requirement("edit.move")
def test_only_the_case_of_a_name_changes(house: House) -> None:
    house.fill(**{"sub/note": "x\n", "linker": "[[note]] [n](sub/note.md)\n"})
    assert move(house, "sub/note.md", "sub/Note.md")["path"] == "sub/Note.md"
    assert [file.name for file in (house.folder / "sub").iterdir()] == ["Note.md"]
    assert house.bytes("linker.md") == b"[[Note]] [n](sub/Note.md)\n"
    assert move(house, "sub", "Sub")["path"] == "Sub"
    assert house.bytes("Sub/Note.md") == b"x\n"
    assert house.bytes("linker.md") == b"[[Note]] [n](Sub/Note.md)\n"
    house.scan()
    assert backlinks(house, "Sub/Note.md") == ["linker.md"] * 2


@pytest.mark.requirement("edit.move")
def test_links_stay_when_that_is_wanted(house: House) -> None:
    house.fill(a="[x](b.md)\n", linker="[[a]]\n", b="x")
    answer = move(house, "a.md", "sub/c.md", update_links=False)
    assert (answer["links_updated"], answer["notes_changed"]) == (0, [])
    assert house.bytes("linker.md") == b"[[a]]\n"
    assert house.bytes("sub/c.md") == b"[x](b.md)\n"
    assert backlinks(house, "sub/c.md") == []


@pytest.mark.requirement("edit.move")
def test_a_link_that_would_lead_elsewhere_is_made_longer(house: House) -> None:
    """A note that arrives under a name that is there already must not take its links."""
    house.fill(**{"a/Note": "one\n", "b/Other": "two\n", "z": "[[Note]] [[Other]]\n"})
    move(house, "b/Other.md", "Note.md")
    assert house.bytes("z.md") == b"[[a/Note]] [[Note]]\n"
    for path in ("a/Note.md", "Note.md"):
        items = house.call("backlinks_search", path=path)["items"]
        assert [item["path"] for item in items if item["resolved"] is True] == ["z.md"]


@pytest.mark.requirement("edit.move")
@pytest.mark.parametrize(
    ("old", "new", "code", "word"),
    [
        ("a.md", "b.md", "conflict", "another name"),
        ("a.md", "B.MD", "conflict", "another name"),
        ("a.md", "full", "conflict", "another name"),
        ("full", "empty", "conflict", "another name"),
        ("a.md", "c", "invalid_path", "c.md"),
        ("a.md", "c.png", "invalid_path", "c.png.md"),
        ("pic.png", "pic.md", "invalid_path", ".png"),
        ("a.md", "what?.md", "invalid_path", "leave them out"),
        ("a.md", ".trash/a.md", "path_not_allowed", ""),
        ("a.md", "../a.md", "invalid_path", ""),
        ("a.md", "", "invalid_path", ""),
        ("", "x", "invalid_path", ""),
        ("none.md", "x.md", "not_found", ""),
        ("full", "full/deeper", "invalid_path", ""),
        ("a.md", "b.md/a.md", "invalid_path", ""),
    ],
)
def test_what_can_not_be_moved(house: House, old: str, new: str, code: str, word: str) -> None:
    house.write("pic.png", b"\0")
    house.fill(**{"a": "x\n", "b": "[[a]]\n", "full/a": "y\n"})
    (house.folder / "empty").mkdir()
    before = tree(house)
    error = not_moved(house, old, new)
    assert error[0] == code, error
    assert error[1]
    assert word in error[1]
    assert tree(house) == before
    assert kept(house) == 0


@pytest.mark.requirement("edit.move")
def test_a_link_that_somebody_else_just_wrote_follows_too(house: House) -> None:
    house.fill(a="x\n", linker="[[a]]\n")
    house.write("linker.md", "new line\n\n[[a]] and [[a|again]]\n", age=50)
    move(house, "a.md", "b.md")
    assert house.bytes("linker.md") == b"new line\n\n[[b]] and [[b|again]]\n"


@pytest.mark.requirement("edit.move")
def test_a_dry_run_of_a_move_tells_and_does_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE="dry-run") as house:
        house.fill(a="x\n", linker="[[a]]\n")
        before = tree(house)
        answer = move(house, "a.md", "sub/b.md")
        assert (answer["dry_run"], answer["links_updated"]) == (True, 1)
        assert answer["notes_changed"] == ["linker.md"]
        assert tree(house) == before
        assert backlinks(house, "a.md") == ["linker.md"]


@pytest.mark.requirement("edit.heading")
def test_references_to_a_heading_follow(house: House) -> None:
    house.fill(
        note="# Top\n[[#Old]] [[note#Old|x]]\n## Old\ntext\n### Below\n# Other\n## Old too\n",
        linker="[[note#Old]] [[note#Top#Old#Below|b]] [t](note.md#Old) ![[note#Below]] [[note#Old too]]\n",
        apart="[[apart#Old]]\n# Old\n",
    )
    answer = house.call("heading_rename", path="note.md", heading="Old", to="New name")
    assert house.bytes("note.md").decode() == (
        "# Top\n[[#New name]] [[note#New name|x]]\n## New name\ntext\n### Below\n# Other\n## Old too\n"
    )
    assert house.bytes("linker.md").decode() == (
        "[[note#New name]] [[note#Top#New name#Below|b]] [t](note.md#New%20name) ![[note#Below]] "
        "[[note#Old too]]\n"
    )
    assert house.bytes("apart.md") == b"[[apart#Old]]\n# Old\n"
    assert answer["etag"] == etag_of(house.bytes("note.md"))
    assert (answer["heading"], answer["notes_changed"]) == ("New name", ["linker.md"])
    assert answer["links_updated"] == 5
    assert "-## Old" in answer["diff"].splitlines()
    assert house.call("note_read", path="note.md", section="New name")["content"].startswith(
        "## New"
    )
    assert house.call("vault_search", query="#New")["total"] == 2


@pytest.mark.requirement("edit.heading")
def test_one_of_two_headings_with_one_name(house: House) -> None:
    house.fill(note="# A\n## Log\na\n# B\n## Log\nb\n", linker="[[note#Log]] [[note#B#Log]]\n")
    error = house.refused("heading_rename", path="note.md", heading="Log", to="New")
    assert (error.code, len(error.details["candidates"])) == ("ambiguous", 2)
    house.call("heading_rename", path="note.md", heading="B#Log", to="New")
    assert house.bytes("note.md") == b"# A\n## Log\na\n# B\n## New\nb\n"
    assert house.bytes("linker.md") == b"[[note#Log]] [[note#B#New]]\n"


@pytest.mark.requirement("edit.heading")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"heading": "None"}, "not_found"),
        ({"heading": "^b"}, "invalid_request"),
        ({"to": ""}, "invalid_request"),
        ({"to": "two\nlines"}, "invalid_request"),
        ({"to": "half \ud83d"}, "invalid_request"),
        ({"to": "nul \0"}, "invalid_request"),
        ({"path": "nothing.md"}, "not_found"),
        ({"path": "folder"}, "invalid_path"),
    ],
)
def test_what_heading_rename_refuses(house: House, arguments: dict[str, Any], code: str) -> None:
    house.fill(**{"note": "# Old\ntext ^b\n", "folder/x": "", "linker": "[[note#Old]]\n"})
    before = tree(house)
    given = {"path": "note.md", "heading": "Old", "to": "New"} | arguments
    error = house.refused("heading_rename", **given)
    assert (error.code, bool(error.hint)) == (code, True)
    assert tree(house) == before
    assert kept(house) == 0


@pytest.mark.requirement("edit.heading")
def test_a_heading_keeps_the_bytes_around_it(house: House) -> None:
    house.fill(note=b"\xef\xbb\xbf# Old #\r\n\xff\r\n\r\nUnder\r\n=====\r\n")
    house.call("heading_rename", path="note.md", heading="Old", to="New")
    assert house.bytes("note.md").endswith(b"\r\n\xff\r\n\r\nUnder\r\n=====\r\n")
    house.call("heading_rename", path="note.md", heading="Under", to="Over")
    assert house.bytes("note.md").endswith(b"\r\n\xff\r\n\r\nOver\r\n=====\r\n")
    assert house.bytes("note.md").startswith(b"\xef\xbb\xbf# New")
