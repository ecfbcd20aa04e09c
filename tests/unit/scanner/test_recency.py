from server.models import Entry, FileStat
from server.scanner.recency import by_recency


def note(path: str, mtime_ns: int) -> Entry:
    return Entry(path, path, "note", FileStat(1, mtime_ns))


def test_folders_in_use_come_first_and_then_what_changed_last() -> None:
    notes = [note("a/old.md", 1), note("a/new.md", 9), note("b/x.md", 5), note("top.md", 7)]
    paths = [entry.path for entry in by_recency(notes, ["b", ""])]
    assert paths == ["b/x.md", "top.md", "a/new.md", "a/old.md"]


def test_without_any_use_the_newest_are_first() -> None:
    notes = [note("a.md", 1), note("b.md", 3), note("c.md", 2)]
    assert [entry.path for entry in by_recency(notes, [])] == ["b.md", "c.md", "a.md"]
