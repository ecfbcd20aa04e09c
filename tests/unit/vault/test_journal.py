"""The journal: durable before anything else, bounded, and honest about torn entries."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from server.errors import Unavailable
from server.vault.journal import KEEP_ASIDE, QUEUED, Journal, Record, by_path


def record(number: int = 1, path: str = "a.md", size: int = 3) -> Record:
    return Record(
        id=f"{number:016x}", path=path, disk=path, base=None, etag="e", md5="m", size=size,
        protocol="local", temp=".t", created=1_700_000_000.0 + number,
    )  # fmt: skip


def test_a_write_goes_through_its_states(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.prepare(record(), b"new")
    assert [(item.state, item.data()) for item in journal.items()] == [("prepared", b"new")]
    journal.applied(record())
    assert [item.state for item in journal.items()] == ["applied"]
    journal.done(record())
    assert journal.items() == []
    assert len(journal) == 0


def test_content_may_hold_anything(tmp_path: Path) -> None:
    data = b"\n\0{}\r\n\xff" * 100
    journal = Journal(tmp_path)
    journal.prepare(record(size=len(data)), data)
    assert Journal(tmp_path).items()[0].data() == data


def test_a_torn_entry_was_never_begun(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.prepare(record(), b"new")
    file = journal.items()[0].file
    file.write_bytes(file.read_bytes()[:-1])
    assert Journal(tmp_path).items() == []


def test_entries_survive_a_restart_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in (3, 1, 2):
        journal.prepare(record(number), b"new")
    again = Journal(tmp_path)
    assert [int(item.record.id, 16) for item in again.items()] == [1, 2, 3]
    assert len(again) == 3


def test_the_journal_is_bounded(tmp_path: Path) -> None:
    journal = Journal(tmp_path, max_entries=2)
    journal.prepare(record(1), b"new")
    journal.prepare(record(2), b"new")
    with pytest.raises(Unavailable):
        journal.prepare(record(3), b"new")
    journal.done(record(1))
    journal.prepare(record(3), b"new")
    with pytest.raises(Unavailable):
        Journal(tmp_path / "other", max_bytes=2).prepare(record(1), b"new")


def test_what_is_set_aside_is_kept_for_a_while(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in range(KEEP_ASIDE + 5):
        journal.prepare(record(number), b"new")
        journal.set_aside(record(number))
    items = journal.items()
    assert len(items) == KEEP_ASIDE
    assert int(items[-1].record.id, 16) == KEEP_ASIDE + 4
    assert len(journal) == 0


def test_an_abandoned_journal_is_taken_over(tmp_path: Path) -> None:
    old, new = Journal(tmp_path / "old"), Journal(tmp_path / "new")
    old.prepare(record(1), b"new")
    old.prepare(record(2), b"new")
    old.applied(record(2))
    assert new.take_over(tmp_path / "old") == 2
    assert [item.state for item in new.items()] == ["prepared", "applied"]
    assert len(new) == 2
    assert new.take_over(tmp_path / "nowhere") == 0


def test_a_state_folder_that_can_not_be_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    (tmp_path / "j").rmdir()
    with pytest.raises(Unavailable, match="state folder"):
        journal.prepare(record(), b"new")
    assert len(journal) == 0


def test_writes_to_one_note_form_a_chain(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number, path in ((1, "a.md"), (2, "b.md"), (3, "a.md")):
        journal.prepare(record(number, path), b"new")
    chains = by_path(journal.items())
    assert [int(item.record.id, 16) for item in chains["a.md"]] == [1, 3]


def test_an_acknowledged_write_follows_its_note(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.prepare(record(1, "Box/a.md"), b"new")
    journal.applied(record(1, "Box/a.md"))
    ((was, now),) = journal.redirect("Box/a.md", "Shelf/b.md")
    assert was == record(1).id
    (item,) = Journal(tmp_path).items()
    assert (item.record.id, item.state, item.data()) == (now, "applied", b"new")
    assert (item.record.path, item.record.disk, item.record.base) == ("Shelf/b.md",) * 2 + (None,)
    assert item.record.created == record(1).created
    assert len(journal) == 1


def test_a_chain_keeps_its_order_when_a_folder_moves(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    paths = {1: "Box/a.md", 2: "Box/in/b.md", 3: "Box/a.md", 4: "Boxes/c.md", 5: "Box.md"}
    for number, path in paths.items():
        data = b"%03d" % number
        journal.prepare(record(number, path), data)
        journal.applied(record(number, path))
    assert len(journal.redirect("Box", "Café")) == 3
    chains = by_path(journal.items())
    assert {path: [item.data() for item in chain] for path, chain in chains.items()} == {
        "Café/a.md": [b"001", b"003"],
        "Café/in/b.md": [b"002"],
        "Boxes/c.md": [b"004"],
        "Box.md": [b"005"],
    }
    assert chains["Café/a.md"][0].record.path == "Café/a.md"
    assert len(journal) == 5


def test_what_was_there_before_may_be_left_at_every_place_of_a_move(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    edit = replace(record(1, "a.md"), base="uploaded")
    journal.prepare(edit, b"new")
    journal.applied(edit)
    journal.redirect("a.md", "b.md")
    journal.redirect("b.md", "c.md")
    left = {ghost.disk: tuple(ghost.etags) for ghost in journal.ghosts}
    assert left == {"a.md": ("uploaded",), "b.md": ("uploaded",)}
    (item,) = Journal(tmp_path).items()
    assert (item.record.disk, item.record.base) == ("c.md", None)
    assert item.record.earlier == ("uploaded",)


def test_a_write_to_what_was_removed_is_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number, path in ((1, "a.md"), (2, "a.md"), (3, "b.md")):
        journal.prepare(record(number, path), b"new")
        journal.applied(record(number, path))
    assert journal.redirect("a.md", None) == [(record(1).id, None), (record(2).id, None)]
    assert [item.record.disk for item in Journal(tmp_path).items()] == ["b.md"]
    assert len(journal) == 1


def test_a_write_in_progress_does_not_follow(tmp_path: Path) -> None:
    """Its thread still names it as it was."""
    journal = Journal(tmp_path)
    journal.prepare(record(1, "a.md"), b"new")
    assert journal.redirect("a.md", "b.md") == []
    assert [item.record.disk for item in journal.items()] == ["a.md"]


def test_a_full_journal_lets_its_writes_follow(tmp_path: Path) -> None:
    journal = Journal(tmp_path, max_entries=1, max_bytes=3)
    journal.prepare(record(1, "a.md"), b"new")
    journal.applied(record(1, "a.md"))
    assert len(journal.redirect("a.md", "b.md")) == 1
    assert [item.record.disk for item in journal.items()] == ["b.md"]
    with pytest.raises(Unavailable):
        journal.prepare(record(2), b"new")


def test_a_write_that_can_not_follow_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.prepare(record(1, "a.md"), b"new")
    journal.applied(record(1, "a.md"))

    def refuse(_fd: int) -> None:
        raise OSError(28, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="no space"):
            journal.redirect("a.md", "b.md")
    assert [item.record.disk for item in journal.items()] == ["a.md"]
    assert len(journal) == 1


def test_a_clock_that_is_set_back_does_not_turn_the_order_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    first = replace(record(1), created=journal.stamp())
    journal.prepare(first, b"new")
    monkeypatch.setattr(time, "time", lambda: 1_000_000_000.0)
    second = replace(record(2), created=journal.stamp())
    journal.prepare(second, b"new")
    third = replace(record(3), created=Journal(tmp_path).stamp())
    journal.prepare(third, b"new")
    assert [item.record for item in journal.items()] == [first, second, third]


def test_the_newest_write_that_waits_is_found(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.queued("note1.md") is None
    made = record(1)
    journal.prepare(made, b"new", "applied")
    assert journal.queued(made.path) is None, "this one was made"
    older, newer = (replace(record(n), path=made.path, protocol=QUEUED) for n in (2, 3))
    journal.prepare(newer, b"new", "applied")
    journal.prepare(older, b"new", "applied")
    found = journal.queued(made.path.upper())
    assert found is not None
    assert (found.record, found.data()) == (newer, b"new")
