"""The diff of disk and index, against the obvious way to compute it."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from server.models import Entry, FileStat, Kind
from server.scanner.diff import diff, is_racy


@dataclass(frozen=True)
class Row:
    path: str
    disk: str
    kind: Kind
    size: int
    mtime_ns: int
    etag: str | None
    racy: bool
    md5: str | None = None


PATHS = st.sampled_from(["a.md", "b.md", "B.md", "sub", "sub/a.md", "é.md", "z.png", "日本.md"])
STATS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(st.dictionaries(PATHS, STATS), st.dictionaries(PATHS, st.tuples(STATS, st.booleans())))
def test_diff_is_what_sets_say(
    disk: dict[str, tuple[int, int]], index: dict[str, tuple[tuple[int, int], bool]]
) -> None:
    entries = [Entry(path, path, "note", FileStat(*stat)) for path, stat in sorted(disk.items())]
    rows = [
        Row(path, path, "note", *stat, "e", racy) for path, (stat, racy) in sorted(index.items())
    ]
    result = diff(entries, rows)
    changed = {p for p in disk.keys() & index.keys() if disk[p] != index[p][0] or index[p][1]}
    assert {e.path for e in result.added} == disk.keys() - index.keys()
    assert {r.path for r in result.removed} == index.keys() - disk.keys()
    assert {e.path for e in result.modified} == changed
    assert {p: (row.size, row.mtime_ns) for p, row in result.before.items()} == {
        p: index[p][0] for p in changed
    }
    assert result.unchanged == len(disk.keys() & index.keys() - changed)


def test_folders_differ_only_in_spelling() -> None:
    row = Row("sub", "sub", "folder", 0, 1, None, False)
    assert diff([Entry("sub", "sub", "folder", FileStat(0, 2))], [row]).unchanged == 1
    assert len(diff([Entry("sub", "sub\u0301", "folder", FileStat(0, 1))], [row]).modified) == 1


def test_a_file_that_became_a_folder_is_modified() -> None:
    row = Row("a.md", "a.md", "note", 0, 1, "e", False)
    assert len(diff([Entry("a.md", "a.md", "folder", FileStat(0, 1))], [row]).modified) == 1


def test_of_two_spellings_of_one_path_the_first_counts() -> None:
    entries = [
        Entry("é", "e\u0301", "note", FileStat(1, 1)),
        Entry("é", "é", "note", FileStat(2, 2)),
    ]
    assert [e.disk for e in diff(entries, []).added] == ["e\u0301"]


def test_a_file_changed_within_two_seconds_of_the_look_is_racy() -> None:
    assert is_racy(10_000_000_000, 10_500_000_000)
    assert is_racy(12_000_000_000, 10_000_000_000)
    assert not is_racy(10_000_000_000, 12_500_000_000)


def test_a_hash_says_what_times_can_not() -> None:
    row = Row("a.md", "a.md", "note", 5, 1, "e", False, "same")
    racy = Row("a.md", "a.md", "note", 5, 1, "e", True, "same")

    def seen(mtime: int, md5: str | None) -> Entry:
        return Entry("a.md", "a.md", "note", FileStat(5, mtime), md5=md5)

    assert [e.path for e in diff([seen(2, "same")], [row]).touched] == ["a.md"]
    assert [e.path for e in diff([seen(1, "same")], [racy]).touched] == ["a.md"]
    assert [e.path for e in diff([seen(1, "other")], [row]).modified] == ["a.md"]
    assert [e.path for e in diff([seen(2, None)], [row]).modified] == ["a.md"]
    assert diff([seen(1, "same")], [row]).unchanged == 1
