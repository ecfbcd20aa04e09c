"""note_delete: into the trash, or for good with the history as the last copy."""

import asyncio
from typing import Any

import pytest

from server.models import Content, FileStat, etag_of
from server.vault.vault import Written

from .edits import kept, tree
from .house import CALLER, House


def delete(house: House, path: str, **more: Any) -> dict[str, Any]:
    return house.call("note_delete", path=path, **more)


@pytest.mark.requirement("edit.delete")
def test_a_note_goes_to_the_trash_under_a_name_of_its_own(house: House) -> None:
    for number in range(3):
        house.fill(**{"sub/Note": f"v{number}"})
        answer = delete(house, "sub/note.md")
        name = ".trash/Note.md" if not number else f".trash/Note {number + 1}.md"
        assert answer == {
            "path": "sub/Note.md", "deleted": True, "trashed_to": name, "broken_links": 0,
        }  # fmt: skip
        assert house.bytes(name) == f"v{number}".encode()
        assert not (house.folder / "sub/Note.md").exists()
    entries, total = house.app.history.of("sub/Note.md", limit=9)
    assert total == 3
    assert [entry.before for entry in entries] == [etag_of(f"v{n}".encode()) for n in (2, 1, 0)]
    assert {entry.after for entry in entries} == {None}


@pytest.mark.requirement("edit.delete")
def test_a_note_that_is_deleted_for_good_is_in_the_history(house: House) -> None:
    house.fill(a="last words")
    answer = delete(house, "a.md", permanent=True)
    assert "trashed_to" not in answer
    assert [path for path in tree(house) if path != ".vault-mcp"] == []
    entries, _ = house.app.history.of("a.md", limit=9)
    assert house.app.history.content(entries[0].before or "") == b"last words"
    house.call("note_restore", path="a.md")
    assert house.bytes("a.md") == b"last words"
    assert house.call("vault_search", query="last words")["total"] == 1


@pytest.mark.requirement("edit.delete")
@pytest.mark.parametrize("permanent", [True, False])
def test_what_is_deleted_is_nowhere_to_be_found(house: House, permanent: bool) -> None:
    house.fill(
        gone="needle [[b]] #unique\n", b="x\n", c="[[gone]] and [[gone#H]]\n", d="![](gone.md)\n"
    )
    answer = delete(house, "gone.md", permanent=permanent)
    assert answer["broken_links"] == 3
    assert house.call("vault_search", query="needle")["total"] == 0
    assert house.call("search_notes", mode="full_text", query="needle")["total"] == 0
    assert house.call("backlinks_search", path="b.md")["total"] == 0
    assert house.call("list_tags")["total"] == 0
    listed = [entry["path"] for entry in house.call("vault_list")["entries"]]
    assert listed == ["b.md", "c.md", "d.md"]
    assert house.call("note_read", path="gone.md")["exists"] is False
    house.scan()
    assert [entry["path"] for entry in house.call("vault_list")["entries"]] == listed


@pytest.mark.requirement("edit.delete")
@pytest.mark.parametrize("permanent", [True, False])
def test_an_attachment_can_be_deleted_too(house: House, permanent: bool) -> None:
    house.write("img/pic.tar.gz", b"\0\1\2")
    house.fill(a="![[pic.tar.gz]]\n")
    answer = delete(house, "img/pic.tar.gz", permanent=permanent)
    assert (answer["path"], answer["broken_links"]) == ("img/pic.tar.gz", 1)
    assert answer.get("trashed_to") == (None if permanent else ".trash/pic.tar.gz")
    assert not (house.folder / "img/pic.tar.gz").exists()
    assert house.app.history.content(etag_of(b"\0\1\2")) == b"\0\1\2"
    names = [entry["path"] for entry in house.call("vault_list", depth=3)["entries"]]
    assert "img/pic.tar.gz" not in names


@pytest.mark.requirement("edit.delete")
@pytest.mark.parametrize(
    ("path", "code", "word"),
    [
        ("folder", "invalid_request", "one by one"),
        ("plannin.md", "not_found", "planning.md"),
        ("elsewhere/entirely.pdf", "not_found", "already"),
        (".trash/old.md", "path_not_allowed", ""),
        (".vault-mcp", "path_not_allowed", ""),
        ("../x.md", "invalid_path", ""),
        ("", "invalid_path", ""),
    ],
)
@pytest.mark.parametrize("permanent", [True, False])
def test_what_can_not_be_deleted(
    house: House, path: str, code: str, word: str, permanent: bool
) -> None:
    house.fill(**{"folder/a": "x", "planning": "y", ".trash/old": "z"})
    before = tree(house)
    error = house.refused("note_delete", path=path, permanent=permanent)
    assert error.code == code
    assert word in error.hint
    assert tree(house) == before
    assert kept(house) == 0


@pytest.mark.requirement("edit.delete")
def test_a_note_that_is_too_large_for_the_history_goes_to_the_trash_only(house: House) -> None:
    house.fill(a="x" * 60_000)
    error = house.refused("note_delete", path="a.md", permanent=True)
    assert (error.code, "permanent=false" in error.hint) == ("too_large", True)
    assert len(house.bytes("a.md")) == 60_000
    assert delete(house, "a.md")["trashed_to"] == ".trash/a.md"
    assert len(house.bytes(".trash/a.md")) == 60_000


@pytest.mark.requirement("edit.delete")
def test_notes_of_one_name_that_go_at_once_all_arrive(house: House) -> None:
    house.fill(**{f"{n}/note": f"text {n}" for n in range(6)})

    async def storm() -> list[Any]:
        calls = [
            house.app.dispatcher.call("note_delete", {"path": f"{n}/note.md"}, CALLER)
            for n in range(6)
        ]
        return await asyncio.gather(*calls)

    answers = asyncio.run(storm())
    assert len({answer.trashed_to for answer in answers}) == 6
    assert {house.bytes(answer.trashed_to) for answer in answers} == {
        f"text {n}".encode() for n in range(6)
    }


@pytest.mark.parametrize("permanent", [False, True])
def test_the_last_note_may_be_deleted_and_another_be_made(house: House, permanent: bool) -> None:
    """An empty folder is no impostor where this server made it so; one without its marker still is."""
    house.fill(a="the only one")
    house.app.scanner.scan()
    delete(house, "a.md", permanent=permanent)
    assert house.app.guard.probe().state == "ok"
    house.call("note_upsert", path="b.md", content="another")
    house.app.scanner.scan()
    (house.folder / "b.md").unlink()
    assert house.app.guard.probe().state == "empty"


def test_what_is_written_again_in_the_trash_stays_out_of_sight(house: House) -> None:
    """A note may be moved there before rclone has uploaded its last change."""
    content = Content(b"secret kettle", FileStat(13, 1))
    written = Written(".trash/a.md", ".trash/a.md", True, content, "mount", False, 1)
    house.app.service.notes._loader.store_written(written)
    assert house.app.index.get(".trash/a.md") is None
    assert house.call("search_notes", mode="full_text", query="kettle")["total"] == 0
    assert house.call("vault_search", query="kettle")["total"] == 0
