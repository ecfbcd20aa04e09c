"""Unified diffs that are small: what they show, and what they leave out."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.markdown.differences import unified, unified_all
from tests.unit.markdown.work import TIMES, assert_linear

HEAD = "--- a/n.md\n+++ b/n.md\n"
SHOWN = {
    "a changed line": ("a\nb\nc\n", "a\nB\nc\n", HEAD + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"),
    "context of two lines": (
        "1\n2\n3\n4\n5\n6\n7\n",
        "1\n2\n3\nx\n5\n6\n7\n",
        HEAD + "@@ -2,5 +2,5 @@\n 2\n 3\n-4\n+x\n 5\n 6",
    ),
    "an insertion": ("a\nb\n", "a\nx\nb\n", HEAD + "@@ -1,2 +1,3 @@\n a\n+x\n b"),
    "a deletion": ("a\nb\n", "b\n", HEAD + "@@ -1,2 +1 @@\n-a\n b"),
    "a new file": (None, "a\nb\n", "--- /dev/null\n+++ b/n.md\n@@ -0,0 +1,2 @@\n+a\n+b"),
    "a deleted file": ("a\n", None, "--- a/n.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-a"),
    "a new file without text": (None, "", "--- /dev/null\n+++ b/n.md"),
    "a last break added": (
        "a",
        "a\n",
        HEAD + "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a",
    ),
    "no last break around it": (
        "a\nb",
        "x\nb",
        HEAD + "@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file",
    ),
    "line breaks aren't shown": ("a\r\nb\r\n", "a\r\nB\r\n", HEAD + "@@ -1,2 +1,2 @@\n a\n-b\n+B"),
    "line breaks that changed along": (
        "a\r\nb\r\n",
        "a\nB\n",
        HEAD + "@@ -1,2 +1,2 @@\n a\n-b\n+B",
    ),
    "line breaks are all that changed": (
        "a\r\nb\n",
        "a\nb\n",
        HEAD + "@@ -1,2 +1,2 @@\n-a␍\n+a\n b",
    ),
    "bytes that are no text": ("a\udcff\n", "b\n", HEAD + "@@ -1 +1 @@\n-a\ufffd\n+b"),
    "nothing": ("a\n", "a\n", ""),
}


@pytest.mark.parametrize(("before", "after", "diff"), SHOWN.values(), ids=SHOWN.keys())
def test_unified(before: str | None, after: str | None, diff: str) -> None:
    assert unified(before, after, "n.md") == diff


def test_changes_far_apart_are_two_hunks() -> None:
    lines = [f"{n}\n" for n in range(20)]
    diff = unified("".join(lines), "x\n" + "".join(lines) + "y\n", "n.md")
    assert diff.count("@@ -") == 2
    assert "10" not in diff.replace("@@", "").split("\n", 3)[3]


def test_a_long_diff_ends_at_a_line_and_counts_the_rest() -> None:
    diff = unified("", "".join(f"line {n}\n" for n in range(1000)), "n.md", max_chars=500)
    *shown, last = diff.split("\n")
    assert len(diff) <= 500
    assert shown[3:] == [f"+line {n}" for n in range(len(shown) - 3)]
    assert last == f"… {1000 - (len(shown) - 3)} more lines"


def test_a_long_line_is_cut_around_the_change() -> None:
    before = "word " * 2000 + "old" + " word" * 2000
    diff = unified(before, before.replace("old", "new"), "n.md")
    assert "old" in diff
    assert "new" in diff
    assert len(diff) < 800


def test_several_files_share_the_room() -> None:
    long = "".join(f"line {n}\n" for n in range(500))
    diff = unified_all([("a.md", "x\n", long), ("b.md", "x\n", "y\n"), ("c.md", long, None)], 2000)
    assert len(diff) <= 2000
    assert "--- a/b.md\n+++ b/b.md\n@@ -1 +1 @@\n-x\n+y" in diff
    assert len(diff) > 1800
    assert [line for line in diff.split("\n") if line.startswith("---")] == [
        "--- a/a.md", "--- a/b.md", "--- a/c.md"
    ]  # fmt: skip


def test_more_files_than_there_is_room_for_are_counted() -> None:
    changes = [(f"{n}.md", "a\n", "b\n") for n in range(100)]
    diff = unified_all([*changes, ("same.md", "a", "a")], 1000)
    assert len(diff) <= 1000
    assert diff.endswith("\n… 95 more files")
    assert unified_all([("same.md", "a", "a")], 1000) == ""


TEXTS = st.lists(st.sampled_from(["", "a", "b", "c", "日本", "x" * 300]), max_size=15).map(
    "\n".join
)


@settings(max_examples=200)
@given(TEXTS, TEXTS)
def test_a_diff_says_how_to_get_from_one_to_the_other(before: str, after: str) -> None:
    diff = unified(before, after, "n.md", context=100, max_chars=10**6)
    if before == after:
        assert diff == ""
        return
    old: list[str] = []
    new: list[str] = []
    sides: list[list[str]] = []
    for line in diff.split("\n")[3:]:
        if line.startswith("\\"):
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
            continue
        sides = {" ": [old, new], "-": [old], "+": [new]}[line[0]]
        for side in sides:
            side.append(line[1:] + "\n")
    shown = "".join(old), "".join(new)
    assert tuple(re.sub("…?x+…?", "x", side) for side in shown) == tuple(
        re.sub("x+", "x", side) for side in (before, after)
    )


LINES = st.lists(st.sampled_from(["", "a", "b", "c", "ab", "日本"]), max_size=12).map("\n".join)


@settings(max_examples=200)
@given(LINES, LINES, LINES, LINES)
def test_a_diff_says_where_its_lines_are(start: str, old: str, new: str, end: str) -> None:
    before, after = start + old + end, start + new + end
    diff = unified(before, after, "n.md", max_chars=10**6).split("\n")
    left, made = before.split("\n"), after.split("\n")
    at = new_at = 0
    for line in diff[2:]:
        if ranges := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            # What lies between two hunks is the same in both.
            to, new_to = (
                int(ranges[n]) - (ranges[n + 1] != "0") for n in (1, 3)
            )  # fmt: skip
            assert left[at:to] == made[new_at:new_to]
            at, new_at = to, new_to
        elif line[0] != "\\":
            if line[0] in " -":
                assert left[at] == line[1:]
                at += 1
            if line[0] in " +":
                assert made[new_at] == line[1:]
                new_at += 1
    assert diff == [""] or "".join(left[at:]) == "".join(made[new_at:])


@settings(max_examples=100)
@given(TEXTS, TEXTS, st.integers(60, 600))
def test_a_diff_keeps_to_its_room(before: str, after: str, room: int) -> None:
    assert len(unified(before, after, "n.md", max_chars=room)) <= room
    changes = [("a.md", before, after), ("b.md", after, before), ("c.md", None, after)]
    assert len(unified_all(changes, room)) <= max(room, 60)


@pytest.mark.parametrize("words", [1, 2, 40, 100_000])
def test_large_notes_are_compared_in_linear_time(words: int) -> None:
    def texts(count: int) -> tuple[str, str]:
        lines = [
            f"line {n * 7919 % words} of the note, as long as they are\n" for n in range(count)
        ]
        changed = [("x" + line if n % 5 == 0 else line) for n, line in enumerate(lines)]
        return "".join(lines), "".join(changed)

    small, large = texts(2_500), texts(2_500 * TIMES)
    assert_linear(lambda: unified(*small, "n.md"), lambda: unified(*large, "n.md"))
    assert len(unified(*large, "n.md")) <= 4000


def test_one_long_line_is_compared_in_linear_time() -> None:
    small, large = "x" * 125_000, "x" * 125_000 * TIMES
    assert_linear(
        lambda: unified(small, small[:-1] + "y", "n.md"),
        lambda: unified(large, large[:-1] + "y", "n.md"),
    )
