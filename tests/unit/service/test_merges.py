"""Two who change one note: both changes are there, or the second is told what the first one did."""

from collections.abc import Callable
from typing import Any

import pytest

from server.errors import VaultError
from server.models import etag_of

from .edits import by, etag, kept, patch, write
from .house import House

BASE = "---\nn: 1\n---\n# A\nfirst\n\n# B\nsecond\n\n# C\nthird\n"
ELSEWHERE = BASE.replace("third", "third, changed")
SAME_PLACE = BASE.replace("first", "first, changed")
OURS = BASE.replace("first", "ours")

Other = Callable[[House, str], None]


def through_the_server(house: House, text: str) -> None:
    by(house, "other", "note_write", path="a.md", content=text, mode="overwrite")


def on_disk(house: House, text: str) -> None:
    house.write("a.md", text, age=50)


def on_disk_and_scanned(house: House, text: str) -> None:
    on_disk(house, text)
    house.scan()


WAYS = pytest.mark.parametrize("other", [through_the_server, on_disk, on_disk_and_scanned])

EDITS: dict[str, dict[str, Any]] = {
    "overwrite": {"mode": "overwrite", "content": OURS},
    "text": {"target": "text", "selector": "first", "operation": "replace", "content": "ours"},
    "heading": {"target": "heading", "selector": "A", "operation": "replace", "content": "ours"},
}


def ours(house: House, edit: str, **more: Any) -> dict[str, Any]:
    tool = "note_write" if "mode" in EDITS[edit] else "note_patch"
    return house.call(tool, path="a.md", **EDITS[edit], **more)


def refused(house: House, edit: str, **more: Any) -> VaultError:
    tool = "note_write" if "mode" in EDITS[edit] else "note_patch"
    return house.refused(tool, path="a.md", **EDITS[edit], **more)


@pytest.mark.requirement("edit.merge")
@pytest.mark.parametrize("edit", EDITS)
@WAYS
def test_changes_that_do_not_touch_are_both_made(house: House, other: Other, edit: str) -> None:
    house.fill(a=BASE)
    read = etag(house, "a.md")
    other(house, ELSEWHERE)
    answer = ours(house, edit, if_match=read)
    both = ELSEWHERE.replace("first", "ours").encode()
    assert house.bytes("a.md") == both
    assert (answer["merged"], answer["changed"], answer["etag"]) == (True, True, etag_of(both))
    assert house.call("note_read", path="a.md")["content"].encode() == both
    if edit != "overwrite":
        assert "third" not in answer["diff"], "the diff shows ours, not theirs"


@pytest.mark.requirement("edit.merge")
@pytest.mark.parametrize("edit", EDITS)
@WAYS
def test_changes_that_touch_are_a_conflict(house: House, other: Other, edit: str) -> None:
    house.fill(a=BASE)
    read = etag(house, "a.md")
    other(house, SAME_PLACE)
    entries = kept(house)
    error = refused(house, edit, if_match=read)
    assert error.code == "conflict"
    assert (error.details["if_match"], error.details["etag"]) == (
        read,
        etag_of(SAME_PLACE.encode()),
    )
    assert "-first\n+first, changed" in error.details["diff"]
    assert "new etag" in error.hint
    assert house.bytes("a.md").decode() == SAME_PLACE
    assert kept(house) == entries
    again = ours(house, "overwrite", if_match=error.details["etag"])
    assert "merged" not in again
    assert house.bytes("a.md").decode() == OURS


@pytest.mark.requirement("edit.merge")
@WAYS
def test_the_same_change_by_both_is_made_once(house: House, other: Other) -> None:
    house.fill(a=BASE)
    read = etag(house, "a.md")
    other(house, OURS)
    entries = kept(house)
    answer = ours(house, "overwrite", if_match=read)
    assert (answer["changed"], answer["written"]) == (False, False)
    assert house.bytes("a.md").decode() == OURS
    assert kept(house) == entries


@pytest.mark.requirement("edit.merge")
def test_a_base_that_nobody_kept_is_a_conflict(house: House) -> None:
    house.fill(a=BASE)
    error = refused(house, "text", if_match=etag_of(b"never there"))
    assert error.code == "conflict"
    assert error.details["etag"] == etag_of(BASE.encode())
    assert error.details["diff"] is None
    assert house.bytes("a.md").decode() == BASE


@pytest.mark.requirement("edit.merge")
def test_a_base_that_is_several_changes_old(house: House) -> None:
    house.fill(a=BASE)
    read = etag(house, "a.md")
    for number in range(5):
        by(house, f"agent{number}", "note_patch", path="a.md", target="heading", selector="C",
           operation="append", content=f"line {number}")  # fmt: skip
    assert ours(house, "text", if_match=read)["merged"] is True
    text = house.bytes("a.md").decode()
    assert text == OURS + "".join(f"line {number}\n" for number in range(5))


@pytest.mark.requirement("edit.merge")
def test_a_note_that_was_empty_is_a_base_too(house: House) -> None:
    house.fill(a="")
    read = etag(house, "a.md")
    by(house, "other", "note_write", path="a.md", content="theirs\n", mode="overwrite")
    error = house.refused(
        "note_write", path="a.md", content="ours\n", mode="overwrite", if_match=read
    )
    assert (error.code, "+theirs" in error.details["diff"]) == ("conflict", True)


@pytest.mark.requirement("edit.merge")
def test_a_note_that_was_deleted_meanwhile_is_a_conflict(house: House) -> None:
    house.fill(a=BASE)
    read = etag(house, "a.md")
    by(house, "other", "note_delete", path="a.md")
    error = refused(house, "overwrite", if_match=read)
    assert (error.code, error.details["etag"]) == ("conflict", None)
    assert not (house.folder / "a.md").exists()


@pytest.mark.requirement("edit.merge")
def test_a_merge_keeps_bytes_that_are_no_text_and_every_line_break(house: House) -> None:
    base = BASE.encode().replace(b"\n", b"\r\n").replace(b"second", b"sec\xff\xfeond")
    house.fill(a=b"\xef\xbb\xbf" + base)
    read = etag(house, "a.md")
    patch(house, "a.md", "text", "third", "append", "!")
    answer = patch(house, "a.md", "text", "first", "append", "?", if_match=read)
    assert answer["merged"] is True
    after = base.replace(b"first", b"first?").replace(b"third", b"third!")
    assert house.bytes("a.md") == b"\xef\xbb\xbf" + after


@pytest.mark.requirement("edit.merge")
def test_appends_at_one_place_are_a_conflict_for_who_insists_on_an_etag(house: House) -> None:
    house.fill(a="log\n")
    read = etag(house, "a.md")
    write(house, "a.md", "theirs\n", "append")
    error = house.refused("note_write", path="a.md", content="ours\n", mode="append", if_match=read)
    assert error.code == "conflict"
    write(house, "a.md", "ours\n", "append")
    assert house.bytes("a.md") == b"log\ntheirs\nours\n"
