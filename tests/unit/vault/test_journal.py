"""The journal: durable before anything else, bounded, and honest about torn entries."""

from pathlib import Path

import pytest

from server.errors import Unavailable
from server.vault.journal import KEEP_ASIDE, Journal, Record, by_path


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
