"""Getting things back: every earlier content to the byte, and a caller's work taken back as one."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.errors import VaultError
from server.models import Caller, etag_of
from tests.drive.processes import wait_for

from .house import House, hiding, opened

ANN, BOB = Caller("ann", session="s1"), Caller("bob", session="s2")
ODD = [
    b"",
    b"plain\n",
    b"a\r\nb\r\n",
    b"\xef\xbb\xbfbom\n",
    b"\xff\xfe\xfa bad \x80\n",
    b"no newline",
    b"\0\n",
]


def ask(house: House, caller: Caller, tool: str, /, **arguments: Any) -> dict[str, Any]:
    output = asyncio.run(house.app.dispatcher.call(tool, arguments, caller))
    return output.model_dump(exclude_none=True)


def refusal(house: House, caller: Caller, tool: str, /, **arguments: Any) -> VaultError:
    with pytest.raises(VaultError) as caught:
        ask(house, caller, tool, **arguments)
    assert caught.value.hint, "every refusal says what to do next"
    return caught.value


def files(house: House, below: str = "") -> dict[str, bytes]:
    """Every file but the trash and the server's own."""
    return {
        str(file.relative_to(house.folder)): file.read_bytes()
        for file in (house.folder / below).rglob("*")
        if file.is_file() and not str(file.relative_to(house.folder)).startswith(".")
    }


def versions(house: House, path: str, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(house, ANN, "note_history", path=path, **more)["versions"]
    return found


def append(house: House, caller: Caller, path: str, content: str) -> None:
    ask(house, caller, "note_upsert", path=path, content=content)


def replace(house: House, caller: Caller, path: str, old: str, new: str) -> None:
    ask(
        house, caller, "note_patch", path=path, target="text", selector=old, operation="replace",
        content=new,
    )  # fmt: skip


def first_of(house: House, caller: Caller) -> str:
    """The moment before a caller's first change, as undo takes it."""
    return f"#{house.app.history.since(0, caller=caller.name, limit=1)[0].id}"


def undo(house: House, caller: Caller = ANN, **more: Any) -> dict[str, Any]:
    since = more.pop("since", None) or first_of(house, caller)
    return ask(house, caller, "undo", since=since, apply=True, **more)


# -- note_history ---------------------------------------------------------------------------------


def test_a_note_that_nobody_changed_here_has_no_versions(house: House) -> None:
    house.fill(a="x")
    assert ask(house, ANN, "note_history", path="A.md") == {
        "path": "a.md", "versions": [], "total": 0, "truncated": False,
    }  # fmt: skip


def test_what_is_told_of_a_version(house: House) -> None:
    append(house, ANN, "a.md", "one")
    append(house, BOB, "a.md", "two")
    newest, oldest = versions(house, "a.md")
    assert (newest["by"], newest["tool"], newest["change"]) == ("bob", "note_upsert", "append")
    assert (newest["size"], newest["etag"]) == (3, etag_of(b"one"))
    assert (oldest["by"], oldest["change"]) == ("ann", "create")
    assert "etag" not in oldest
    assert newest["version"] > oldest["version"]


def test_versions_come_in_pages(house: House) -> None:
    for number in range(5):
        append(house, ANN, "a.md", str(number))
    page = ask(house, ANN, "note_history", path="a.md", limit=2, offset=2)
    assert (len(page["versions"]), page["total"], page["truncated"]) == (2, 5, True)
    assert [v["version"] for v in page["versions"]] == [
        v["version"] for v in versions(house, "a.md")
    ][2:4]
    assert ask(house, ANN, "note_history", path="a.md", limit=2, offset=3)["truncated"] is False


def test_a_path_of_which_nothing_is_known(house: House) -> None:
    house.fill(welcome="x")
    error = refusal(house, ANN, "note_history", path="welcom.md")
    assert (error.code, error.details["did_you_mean"]) == ("not_found", ["welcome.md"])
    assert refusal(house, ANN, "note_restore", path="nowhere.md").code == "not_found"


def test_the_history_of_a_deleted_note_in_any_spelling(house: House) -> None:
    append(house, ANN, "Café/Note.md", "one")
    ask(house, ANN, "note_delete", path="Café/Note.md", permanent=True)
    answer = ask(house, ANN, "note_history", path="CAFE\u0301/note.md")
    assert [v["change"] for v in answer["versions"]] == ["delete", "create"]
    assert answer["path"] == "Café/Note.md"
    restored = ask(house, ANN, "note_restore", path="cafe\u0301/NOTE.md")
    assert (restored["path"], restored["created"]) == ("Café/Note.md", True)
    assert files(house) == {"Café/Note.md": b"one"}


def test_the_history_follows_moves(house: House) -> None:
    append(house, ANN, "a.md", "one")
    ask(house, ANN, "note_move", **{"from": "a.md", "to": "sub/b.md"})
    append(house, ANN, "sub/b.md", "two")
    found = versions(house, "sub/b.md")
    assert [v["change"] for v in found] == ["append", "move", "create"]
    assert found[1]["moved_from"] == "a.md"
    replace(house, ANN, "sub/b.md", "one", "1")
    oldest = versions(house, "sub/b.md")[2]["version"]
    ask(house, ANN, "note_restore", path="sub/b.md", version=oldest)
    assert house.bytes("sub/b.md") == b"one"


@pytest.fixture
def closed(house: House) -> Iterator[House]:
    past = house.app.service.past
    before, past._access = past._access, hiding("secret", of=["ann", "bob"])
    yield house
    past._access = before


def test_places_that_a_caller_may_not_read_are_left_out(closed: House) -> None:
    append(closed, ANN, "secret/a.md", "one")
    append(closed, ANN, "secret/a.md", "two")
    ask(closed, ANN, "note_move", **{"from": "secret/a.md", "to": "b.md"})
    append(closed, ANN, "b.md", "three")
    answer = ask(closed, ANN, "note_history", path="b.md")
    assert ([v["change"] for v in answer["versions"]], answer["total"]) == (["append"], 1)
    hidden = ask(closed, Caller("owner"), "note_history", path="b.md")["versions"]
    assert len(hidden) == 4
    secret = hidden[2]["version"]
    assert refusal(closed, ANN, "note_restore", path="b.md", version=secret).code == "not_found"
    assert refusal(closed, ANN, "note_history", path="secret/a.md").code == "permission_denied"


def test_only_who_may_undoes_the_work_of_others(closed: House) -> None:
    append(closed, BOB, "a.md", "one")
    since = first_of(closed, BOB)
    assert refusal(closed, ANN, "undo", since=since, caller="bob").code == "permission_denied"
    assert ask(closed, BOB, "undo", since=since, caller="bob")["total"] == 1
    assert ask(closed, Caller("owner"), "undo", since=since, caller="bob")["total"] == 1


# -- note_restore ---------------------------------------------------------------------------------


def test_every_earlier_content_comes_back_to_the_byte(house: House) -> None:
    house.fill(a=ODD[0])
    for data in ODD[1:]:
        house.write("a.md", data)
        append(house, ANN, "a.md", "more")
    kept = [v for v in versions(house, "a.md") if v["change"] == "append"]
    assert [v["etag"] for v in kept] == [etag_of(data) for data in reversed(ODD[1:])]
    for version, data in zip(kept, reversed(ODD[1:]), strict=True):
        answer = ask(house, ANN, "note_restore", path="a.md", version=version["version"])
        assert house.bytes("a.md") == data
        assert answer["etag"] == etag_of(data) == version["etag"]


def test_a_restoration_is_a_version_too(house: House) -> None:
    append(house, ANN, "a.md", "one")
    append(house, ANN, "a.md", "two")
    first = ask(
        house, ANN, "note_restore", path="a.md", version=versions(house, "a.md")[0]["version"]
    )
    assert house.bytes("a.md") == b"one"
    assert "-two" in first["diff"]
    newest = versions(house, "a.md")[0]
    assert (newest["version"], newest["change"], newest["tool"]) == (
        first["version"],
        "restore",
        "note_restore",
    )
    ask(house, ANN, "note_restore", path="a.md", version=first["version"])
    assert house.bytes("a.md") == b"one\ntwo"
    again = ask(house, ANN, "note_restore", path="a.md")
    assert (house.bytes("a.md"), again["changed"]) == (b"one", True), "the last change by default"


def test_a_restoration_is_found_at_once(house: House) -> None:
    append(house, ANN, "a.md", "needle")
    replace(house, ANN, "a.md", "needle", "hay")
    ask(house, ANN, "note_restore", path="a.md")
    assert ask(house, ANN, "vault_search", query="needle")["total"] == 1


def test_what_it_says_already_is_no_change(house: House) -> None:
    append(house, ANN, "a.md", "one")
    append(house, ANN, "a.md", "two")
    version = versions(house, "a.md")[0]["version"]
    house.write("a.md", "one")
    answer = ask(house, ANN, "note_restore", path="a.md", version=version)
    assert answer["changed"] is False
    assert "diff" not in answer
    assert len(versions(house, "a.md")) == 2


@pytest.mark.parametrize("permanent", [True, False])
def test_a_deleted_note_comes_back(house: House, permanent: bool) -> None:
    house.fill(a=b"\xff\r\n")
    ask(house, ANN, "note_delete", path="a.md", permanent=permanent)
    assert files(house) == {}
    answer = ask(house, ANN, "note_restore", path="a.md")
    assert (answer["created"], answer["changed"], house.bytes("a.md")) == (True, True, b"\xff\r\n")


def test_a_deleted_attachment_comes_back(house: House) -> None:
    data = b"\x89PNG\r\n\x1a\n\0\0"
    house.write("pic.png", data)
    house.scan()
    ask(house, ANN, "note_delete", path="pic.png", permanent=True)
    ask(house, ANN, "note_restore", path="pic.png")
    assert house.bytes("pic.png") == data
    listed = ask(house, ANN, "vault_list")["entries"]
    assert [entry["kind"] for entry in listed] == ["attachment"]


def test_versions_that_are_not_the_note_s(house: House) -> None:
    append(house, ANN, "a.md", "one")
    for number in range(7):
        append(house, ANN, "a.md", str(number))
    append(house, ANN, "b.md", "other")
    append(house, ANN, "b.md", "more")
    own = [v["version"] for v in versions(house, "a.md")]
    before = files(house)
    for version in (versions(house, "b.md")[0]["version"], 10**6, 0, -1, 1 << 62):
        error = refusal(house, ANN, "note_restore", path="a.md", version=version)
        assert (error.code, error.details["versions"]) == ("not_found", own[:5])
    error = refusal(house, ANN, "note_restore", path="a.md", version=own[-1])
    assert error.code == "invalid_request"
    assert "note_delete" in error.hint
    house.fill(c="never changed here")
    assert refusal(house, ANN, "note_restore", path="c.md").code == "not_found"
    assert {**before, "c.md": b"never changed here"} == files(house)


def test_a_restoration_only_of_what_was_read(house: House) -> None:
    append(house, ANN, "a.md", "one")
    append(house, ANN, "a.md", "two")
    stale = etag_of(b"one")
    error = refusal(house, ANN, "note_restore", path="a.md", if_match=stale)
    assert (error.code, error.details["etag"]) == ("conflict", etag_of(b"one\ntwo"))
    assert house.bytes("a.md") == b"one\ntwo"
    ask(house, ANN, "note_restore", path="a.md", if_match=error.details["etag"])
    assert house.bytes("a.md") == b"one"
    ask(house, ANN, "note_delete", path="a.md")
    assert refusal(house, ANN, "note_restore", path="a.md", if_match=stale).code == "conflict"


def test_a_dry_run_restores_and_undoes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        append(house, ANN, "a.md", "one")
        append(house, ANN, "a.md", "two")
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE="dry-run") as house:
        answer = ask(house, ANN, "note_restore", path="a.md")
        assert (answer["dry_run"], "-two" in answer["diff"]) == (True, True)
        answer = undo(house)
        assert (answer["dry_run"], answer["applied"]) == (True, False)
        assert house.bytes("a.md") == b"one\ntwo"
        assert len(versions(house, "a.md")) == 2
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE="off") as house:
        since = first_of(house, ANN)
        assert refusal(house, ANN, "note_restore", path="a.md").code == "permission_denied"
        assert refusal(house, ANN, "undo", since=since, apply=True).code == "permission_denied"
        assert ask(house, ANN, "undo", since=since)["total"] == 1, "looking is no write"
        assert house.bytes("a.md") == b"one\ntwo"


# -- undo -----------------------------------------------------------------------------------------


def fill(house: House) -> dict[str, bytes]:
    house.write("a.md", "# A\n\none\ntwo\nthree\nfour\nfive\nsix\n")
    house.write("crlf.md", b"\xef\xbb\xbfone\r\n\xff two\r\nthree [[a]]\r\n")
    house.write("sub/b.md", "links to [[a]] and [x](../a.md)\n")
    house.write("sub/deep/c.md", "[[b]]\n\nlast")
    house.write("gone.md", "to be deleted\n")
    house.write("swept.md", "to be deleted for good")
    house.write("sub/pic.png", b"\x89PNG\0")
    house.scan()
    return files(house)


def work(house: House, caller: Caller) -> None:
    """One of everything."""
    append(house, caller, "new/note.md", "created")
    append(house, caller, "new/note.md", "and appended to")
    append(house, caller, "crlf.md", "more")
    replace(house, caller, "a.md", "two", "2")
    ask(house, caller, "note_delete", path="gone.md")
    ask(house, caller, "note_delete", path="swept.md", permanent=True)
    ask(house, caller, "note_move", **{"from": "a.md", "to": "moved/A of old.md"})
    replace(house, caller, "moved/A of old.md", "five", "5")
    append(house, caller, "a.md", "another in its place")
    ask(house, caller, "note_move", **{"from": "sub", "to": "elsewhere/sub"})
    append(house, caller, "swept.md", "again")
    ask(house, caller, "heading_rename", path="moved/A of old.md", heading="A", to="Alpha")


def test_everything_that_one_did_is_taken_back(house: House) -> None:
    before = fill(house)
    work(house, ANN)
    after = files(house)
    assert len(set(before.items()) & set(after.items())) == 0, "nothing is what it was"
    since = first_of(house, ANN)
    shown = ask(house, ANN, "undo", since=since)
    assert files(house) == after, "only shown"
    assert (shown["applied"], shown["truncated"]) == (False, False)
    assert sorted((change["path"], change["what"]) for change in shown["changes"]) == [
        ("a.md", "deleted"),
        ("a.md", "moved_back"),
        ("crlf.md", "restored"),
        ("gone.md", "recreated"),
        ("new/note.md", "deleted"),
        ("sub/b.md", "moved_back"),
        ("sub/deep/c.md", "moved_back"),
        ("sub/pic.png", "moved_back"),
        ("swept.md", "restored"),
    ]
    assert shown["total"] == len(shown["changes"])
    assert "-and appended to" in shown["diff"]
    assert len(shown["diff"]) <= 4_000

    done = undo(house)
    assert done["applied"] is True
    assert done["changes"] == shown["changes"]
    assert files(house) == before
    house.scan()
    assert ask(house, ANN, "backlinks_search", path="a.md")["total"] == 3

    again = undo(house, since=f"#{done['version']}")
    assert again["applied"] is True
    assert files(house) == after, "an undo is undone like anything else"
    assert undo(house)["applied"] is True
    assert files(house) == before, "all of it from the beginning"
    assert undo(house)["total"] == 0, "there is nothing left"


def test_what_others_did_elsewhere_in_a_note_stays(house: House) -> None:
    house.fill(a="one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n", b="theirs\n")
    replace(house, ANN, "a.md", "two", "2")
    replace(house, BOB, "a.md", "eight", "8")
    replace(house, ANN, "a.md", "four", "4")
    append(house, BOB, "b.md", "more")
    house.write("a.md", house.bytes("a.md").replace(b"six", b"6"))
    append(house, BOB, "c.md", "new")
    answer = undo(house)
    assert house.bytes("a.md") == b"one\ntwo\nthree\nfour\nfive\n6\nseven\n8\n"
    assert [change["path"] for change in answer["changes"]] == ["a.md"]
    assert house.bytes("b.md") == b"theirs\n\nmore"
    undo(house, BOB)
    assert house.bytes("a.md") == b"one\ntwo\nthree\nfour\nfive\n6\nseven\neight\n"
    assert files(house).keys() == {"a.md", "b.md"}


@pytest.mark.parametrize("start", [b"", b"top", b"top\n", b"\xfftop\r\n"])
def test_two_who_append_to_one_log(house: House, start: bytes) -> None:
    house.fill(log=start)
    for number in range(3):
        append(house, ANN, "log.md", f"ann {number}")
        append(house, BOB, "log.md", f"bob {number}")
    undo(house)
    assert house.bytes("log.md") == start + b"".join(b"\nbob %d" % n for n in range(3))


def test_what_others_did_in_the_same_place_stands_against_it(house: House) -> None:
    house.fill(a="one\ntwo\nthree\n", b="b\n")
    replace(house, ANN, "a.md", "two", "2")
    append(house, ANN, "b.md", "more")
    append(house, ANN, "c.md", "new")
    replace(house, BOB, "a.md", "2", "II")
    append(house, BOB, "c.md", "theirs")
    before = files(house)
    since = first_of(house, ANN)
    for apply in (False, True):
        error = refusal(house, ANN, "undo", since=since, apply=apply)
        assert error.code == "conflict"
        assert {one["path"] for one in error.details["paths"]} == {"a.md", "c.md"}
        assert "skip" in error.hint
        assert files(house) == before
    answer = undo(house, skip=["A.md", "c.md"])
    assert [change["path"] for change in answer["changes"]] == ["b.md"]
    assert files(house) == {**before, "b.md": b"b\n"}


def test_what_one_took_back_oneself_stands_against_nothing(house: House) -> None:
    house.fill(a="one\ntwo\nthree\nfour\nfive\n")
    replace(house, ANN, "a.md", "two", "2")
    replace(house, ANN, "a.md", "five", "5")
    replace(house, ANN, "a.md", "2", "two")
    append(house, ANN, "t.md", "passing")
    ask(house, ANN, "note_delete", path="t.md")
    replace(house, BOB, "a.md", "two", "II")
    append(house, BOB, "t.md", "theirs")
    undo(house)
    assert files(house) == {"a.md": b"one\nII\nthree\nfour\nfive\n", "t.md": b"theirs"}


def test_what_another_put_back_already(house: House) -> None:
    house.fill(a="one\n", b="two\n")
    ask(house, ANN, "note_delete", path="a.md")
    replace(house, ANN, "b.md", "two", "2")
    ask(house, BOB, "note_restore", path="a.md")
    ask(house, BOB, "note_restore", path="b.md")
    assert undo(house)["total"] == 0
    assert files(house) == {"a.md": b"one\n", "b.md": b"two\n"}


@pytest.mark.parametrize("more", ["top\nann and bob", "top\nann\nbob\n"])
def test_what_another_added_to_a_line_of_one_s_own(house: House, more: str) -> None:
    house.fill(a="top")
    append(house, ANN, "a.md", "ann" if "and" in more else "ann\n")
    ask(house, BOB, "note_write", path="a.md", content=more, mode="overwrite")
    assert refusal(house, ANN, "undo", since=first_of(house, ANN), apply=True).code == "conflict"
    assert house.bytes("a.md") == more.encode()


def test_a_name_that_only_changed_its_case(house: House) -> None:
    house.fill(a="one")
    ask(house, ANN, "note_move", **{"from": "a.md", "to": "A.md"})
    undo(house)
    assert files(house) == {"a.md": b"one"}
    assert [v["change"] for v in versions(house, "a.md")] == ["move", "move"]


def test_folders_that_only_changed_their_case(house: House) -> None:
    house.write("Top/Sub/a.md", "one [[b]]")
    house.write("Top/b.md", "two [[Sub/a]]")
    house.write("Top/stays.png", b"\0")
    house.scan()
    before = files(house)
    ask(house, ANN, "note_move", **{"from": "Top", "to": "TOP"})
    ask(house, ANN, "note_move", **{"from": "TOP/Sub", "to": "TOP/sub"})
    assert files(house).keys() == {"TOP/sub/a.md", "TOP/b.md", "TOP/stays.png"}
    undo(house)
    assert files(house) == before
    listed = ask(house, ANN, "vault_list", depth=3)["entries"]
    assert {entry["path"] for entry in listed} == {*before, "Top", "Top/Sub"}


def test_an_edit_from_outside_is_kept_or_stands_against_it(house: House) -> None:
    house.fill(a="one\ntwo\nthree\nfour\n", b="one\ntwo\n")
    replace(house, ANN, "a.md", "one", "1")
    replace(house, ANN, "b.md", "one", "1")
    house.write("a.md", house.bytes("a.md") + b"five\n")
    undo(house, skip=["b.md"])
    assert house.bytes("a.md") == b"one\ntwo\nthree\nfour\nfive\n"
    house.write("b.md", "all new\n")
    house.scan()
    error = refusal(house, ANN, "undo", since=first_of(house, ANN), apply=True)
    assert [one["path"] for one in error.details["paths"]] == ["b.md"]
    assert house.bytes("b.md") == b"all new\n"


def test_a_note_that_another_moved_is_put_right_where_it_is_now(house: House) -> None:
    house.fill(a="one\ntwo\n")
    replace(house, ANN, "a.md", "one", "1")
    ask(house, BOB, "note_move", **{"from": "a.md", "to": "sub/b.md"})
    append(house, BOB, "a.md", "not the same")
    undo(house)
    assert files(house) == {"sub/b.md": b"one\ntwo\n", "a.md": b"not the same"}


def test_a_note_that_another_moved_on(house: House) -> None:
    house.fill(a="one\ntwo\n")
    ask(house, ANN, "note_move", **{"from": "a.md", "to": "b.md"})
    replace(house, ANN, "b.md", "one", "1")
    ask(house, BOB, "note_move", **{"from": "b.md", "to": "c.md"})
    error = refusal(house, ANN, "undo", since=first_of(house, ANN), apply=True)
    assert [one["path"] for one in error.details["paths"]] == ["c.md"]
    assert undo(house, skip=["c.md"])["total"] == 0
    assert files(house) == {"c.md": b"1\ntwo\n"}


def test_a_place_that_another_took(house: House) -> None:
    house.fill(a="one", b="two", z="other")
    ask(house, ANN, "note_delete", path="a.md")
    ask(house, ANN, "note_move", **{"from": "b.md", "to": "c.md"})
    ask(house, BOB, "note_move", **{"from": "z.md", "to": "a.md"})
    append(house, BOB, "b.md", "in its place")
    before = files(house)
    error = refusal(house, ANN, "undo", since=first_of(house, ANN), apply=True)
    assert {one["path"] for one in error.details["paths"]} == {"a.md", "b.md"}
    assert files(house) == before


def test_what_another_deleted_is_not_brought_back(house: House) -> None:
    house.fill(a="one\n", b="two\n")
    append(house, ANN, "a.md", "more")
    append(house, ANN, "b.md", "more")
    append(house, ANN, "new.md", "more")
    ask(house, BOB, "note_delete", path="a.md")
    ask(house, BOB, "note_delete", path="new.md", permanent=True)
    undo(house)
    assert files(house) == {"b.md": b"two\n"}


def test_what_went_without_a_trace_stands_against_it(house: House) -> None:
    house.fill(a="one\n", b="two\n")
    append(house, ANN, "a.md", "more")
    append(house, ANN, "b.md", "more")
    (house.folder / "a.md").rename(house.folder / "renamed.md")
    error = refusal(house, ANN, "undo", since=first_of(house, ANN), apply=True)
    assert [one["path"] for one in error.details["paths"]] == ["a.md"]
    undo(house, skip=["a.md"])
    assert files(house) == {"renamed.md": b"one\n\nmore", "b.md": b"two\n"}


def test_names_that_were_swapped(house: House) -> None:
    house.fill(a="one", b="two")
    for old, new in (("a.md", "t.md"), ("b.md", "a.md"), ("t.md", "b.md"), ("a.md", "A.md")):
        ask(house, ANN, "note_move", **{"from": old, "to": new})
    assert files(house) == {"A.md": b"two", "b.md": b"one"}
    done = undo(house)
    assert files(house) == {"a.md": b"one", "b.md": b"two"}
    undo(house, since=f"#{done['version']}")
    assert files(house) == {"A.md": b"two", "b.md": b"one"}


def test_a_note_through_a_link_and_by_its_name(house: House) -> None:
    house.fill(real="one\n")
    (house.folder / "link.md").symlink_to("real.md")
    append(house, ANN, "link.md", "two")
    undo(house)
    assert house.bytes("real.md") == b"one\n"
    append(house, ANN, "real.md", "other")
    append(house, ANN, "link.md", "three")
    assert refusal(house, ANN, "undo", since=first_of(house, ANN)).code == "conflict"


def test_only_a_session_and_only_since_a_moment(house: House) -> None:
    house.fill(a="one\n", b="two\n", c="three\n")
    append(house, ANN, "a.md", "more")
    append(house, Caller("ann", session="later"), "b.md", "more")
    append(house, ANN, "c.md", "more")
    since = first_of(house, ANN)
    assert undo(house, Caller("ann", "now"), since=since, session="later")["total"] == 1
    assert files(house) == {"a.md": b"one\n\nmore", "b.md": b"two\n", "c.md": b"three\n\nmore"}
    version = versions(house, "c.md")[0]["version"]
    assert ask(house, ANN, "undo", since=f"#{version}", session="s1")["total"] == 1
    assert ask(house, ANN, "undo", since="1h", session="s1")["total"] == 2
    assert ask(house, ANN, "undo", since="2999-01-01")["total"] == 0
    assert ask(house, BOB, "undo", since="1h", apply=True)["applied"] is False
    assert refusal(house, ANN, "undo", since="#999999").code == "not_found"
    assert refusal(house, ANN, "undo", since="just now").code == "invalid_request"
    assert refusal(house, ANN, "undo", since="1h", skip=["../x.md"]).code == "invalid_path"


def test_an_empty_note_is_a_content_like_any_other(house: House) -> None:
    house.fill(a=b"")
    replace_all = {"path": "a.md", "content": "x\ny\n", "mode": "overwrite"}
    ask(house, ANN, "note_write", **replace_all)
    undo(house)
    assert house.bytes("a.md") == b""


def test_how_much_is_kept_is_told(house: House) -> None:
    append(house, ANN, "a.md", "one")
    append(house, ANN, "a.md", "two")
    told = ask(house, ANN, "health_check")["history"]
    assert (told["entries"], told["budget_mb"]) == (2, 512.0)
    wait_for(lambda: house.metric("vault_history_entries") == 2)
    assert house.metric("vault_history_bytes") == 3


# -- two at work ----------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["line", "line", "line", "create", "delete", "move"]),
        st.sampled_from([0, 0, 1]),
        st.integers(0, 4),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=14,
)
LINES = 13
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("undo")
    with opened(folder / "vault", folder / "state") as house:
        yield house


class Pair:
    """Two callers who each keep to lines and notes of their own, and what one alone would have made."""

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.callers = Caller(f"ann{seed}"), Caller(f"bob{seed}")
        self.root = f"t{seed}"
        self.alone: dict[str, bytes] = {}
        for note in range(5):
            text = "".join(f"{note} line {n}\n" for n in range(LINES)).encode()
            house.write(f"{self.root}/{note}.md", text)
            self.alone[f"{self.root}/{note}.md"] = text
        house.scan()
        self.moved = {f"{self.root}/{note}.md": f"{self.root}/{note}.md" for note in range(5)}
        self.count = 0

    def step(self, kind: str, who: int, note: int, line: int) -> None:
        """Ann edits lines 0, 4 and 8 of the notes, Bob lines 2, 6 and 10; only Ann moves and deletes."""
        self.count += 1
        home = f"{self.root}/{note}.md"
        now = self.moved.get(home)
        caller = self.callers[who]
        if kind == "create":
            path = f"{self.root}/{'ab'[who]}{note}.md"
            append(self.house, caller, path, f"text {self.count}")
            if who:
                before = self.alone.get(path)
                text = f"text {self.count}".encode()
                self.alone[path] = text if before is None else before + b"\n" + text
        elif now is None:
            return
        elif kind == "line":
            at = (line % 3) * 4 + 2 * who
            data = self.house.bytes(now)
            new = _with_line(data, at, f"{note} by {who}: {self.count}\n".encode())
            ask(self.house, caller, "note_write", path=now, content=new.decode(), mode="overwrite")
            if who:
                self.alone[home] = _with_line(
                    self.alone[home], at, f"{note} by 1: {self.count}\n".encode()
                )
        elif kind == "move" and not who:
            new_path = f"{self.root}/m{self.count}/{note}.md"
            ask(self.house, caller, "note_move", **{"from": now, "to": new_path})
            self.moved[home] = new_path
        elif kind == "delete" and not who:
            ask(self.house, caller, "note_delete", path=now)
            del self.moved[home]


def _with_line(data: bytes, at: int, line: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join([*lines[:at], line, *lines[at + 1 :]])


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_without_one_of_two_it_is_as_if_the_other_had_been_alone(
    shared: House, steps: list[tuple[str, int, int, int]]
) -> None:
    pair = Pair(shared, next(NUMBERS))
    for step in steps:
        pair.step(*step)
    if not shared.app.history.since(0, caller=pair.callers[0].name, limit=1):
        return
    done = undo(shared, pair.callers[0])
    assert files(shared, pair.root) == pair.alone
    if done["applied"]:
        undo(shared, pair.callers[0], since=f"#{done['version']}")
        assert set(pair.moved.values()) <= files(shared, pair.root).keys()


MIXED = st.lists(
    st.tuples(
        st.sampled_from(["append", "line", "move", "delete", "create"]),
        st.booleans(),
        st.integers(0, 3),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=12,
)


class Crowd:
    """Two callers who do anything anywhere; every change leaves a word that nobody else wrote."""

    def __init__(self, house: House, number: int) -> None:
        self.house = house
        self.root = f"m{number}/"
        self.callers = Caller(f"first{number}"), Caller(f"second{number}")
        self.count = 0
        for note in range(3):
            text = "".join(f"{note} line {n}\n" for n in range(10))
            house.write(f"{self.root}{note}.md", text)
        house.scan()

    def files(self) -> dict[str, bytes]:
        return files(self.house, self.root)

    def words(self, who: int) -> set[str]:
        text = b" ".join(self.files().values()).decode()
        return {word for word in text.split() if word.startswith(f"word{who}x")}

    def step(self, kind: str, second: bool, note: int, line: int) -> None:
        self.count += 1
        caller, word = self.callers[second], f"word{int(second)}x{self.count}"
        there = sorted(self.files())
        path = there[note % len(there)] if there else f"{self.root}first.md"
        if kind == "create" or not there:
            append(self.house, caller, f"{self.root}new{note}.md", word)
        elif kind == "append":
            append(self.house, caller, path, word)
        elif kind == "line":
            data = self.house.bytes(path)
            at = line % (data.count(b"\n") + 1)
            content = _with_line(data, at, f"{word}\n".encode()).decode()
            ask(self.house, caller, "note_write", path=path, content=content, mode="overwrite")
        elif kind == "move":
            to = f"{self.root}{'ab'[line % 2]}/{note}.md"
            if to not in there:
                ask(self.house, caller, "note_move", **{"from": path, "to": to})
        else:
            ask(self.house, caller, "note_delete", path=path)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=MIXED)
def test_whatever_two_did_nothing_of_the_other_is_lost(
    shared: House, steps: list[tuple[str, bool, int, int]]
) -> None:
    crowd = Crowd(shared, next(NUMBERS))
    for step in steps:
        crowd.step(*step)
    first = crowd.callers[0]
    if not shared.app.history.since(0, caller=first.name, limit=1):
        return
    before, theirs = crowd.files(), crowd.words(1)
    try:
        done = undo(shared, first)
    except VaultError as error:
        assert error.code == "conflict"
        assert crowd.files() == before
        return
    assert theirs <= crowd.words(1)
    assert crowd.words(0) == set()
    if done["applied"]:
        undo(shared, first, since=f"#{done['version']}")
        assert crowd.files() == before
