"""What is odd about names, and what only looks so."""

import pytest

from server.models import Entry, FileStat, Kind
from server.scanner.oddities import conflict_of, find_oddities


def entry(path: str, disk: str | None = None, size: int = 5, kind: Kind = "note") -> Entry:
    return Entry(path, disk or path, kind, FileStat(size, 1))


@pytest.mark.parametrize(
    ("copy", "original"),
    [
        ("a/note (1).md", "a/note.md"),
        ("note.sync-conflict-20260102-030405-ABCDEFG.md", "note.md"),
        ("note.conflict-20260102-030405-ab12.md", "note.md"),
        ("note (Anna's conflicted copy 2026-01-02).md", "note.md"),
        ("note (conflict).md", "note.md"),
        ("Plan (2026).md", None),
        ("f(x).md", None),
        ("the conflict.md", None),
        ("note.md", None),
    ],
)
def test_a_conflict_copy_is_known_by_its_name(copy: str, original: str | None) -> None:
    assert conflict_of(copy) == original


def test_a_copy_without_an_original_is_a_name_like_any() -> None:
    assert find_oddities([entry("Part (1).md")]).counts == {}
    found = find_oddities([entry("Part (1).md"), entry("Part.md")])
    assert found.examples == {"conflict_copies": ("Part (1).md",)}


def test_names_that_only_look_alike_are_told_apart() -> None:
    found = find_oddities(
        [
            entry("A.md"), entry("a.md"), entry("b.md"), entry("b.md"),
            entry("\u00e9.md", "e\u0301.md"), entry("\u00e9.md", "\u00e9.md"),
        ]
    )  # fmt: skip
    assert found.counts == {
        "same_but_for_case": 1, "duplicate_names": 1, "same_but_for_unicode_form": 1
    }  # fmt: skip


def test_empty_notes_are_counted_and_few_are_named() -> None:
    found = find_oddities([entry(f"{n}.md", size=0) for n in range(9)])
    assert (found.counts["empty_notes"], len(found.examples["empty_notes"])) == (9, 5)
    assert find_oddities([entry("x.png", size=0, kind="attachment")]).counts == {}
