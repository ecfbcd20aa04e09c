"""Two edits of one text: merged where they don't meet, refused where they do."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from server.markdown.merging import merge
from tests.unit.markdown.work import TIMES, assert_linear

BASE = "a\nb\nc\nd\ne\n"
MERGED = {
    "apart": (BASE, "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", "A\nb\nc\nd\nE\n"),
    "an insertion and a deletion": (BASE, "a\nx\nb\nc\nd\ne\n", "a\nb\nc\ne\n", "a\nx\nb\nc\ne\n"),
    "the same on both sides": (BASE, "a\nX\nc\nd\ne\n", "a\nX\nc\nd\ne\n", "a\nX\nc\nd\ne\n"),
    "the same, and one more": (BASE, "a\nX\nc\nd\ne\n", "a\nX\nc\nd\nE\n", "a\nX\nc\nd\nE\n"),
    "one line between": ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"),
    "the one at the top, the other at the end": ("b\n", "a\nb\n", "b\nc\n", "a\nb\nc\n"),
    "added at the end by both": ("a\n", "a\nb\n", "a\nb\nc\n", "a\nb\nc\n"),
    "added without a last break": ("a", "a\nb", "a\nb\nc", "a\nb\nc"),
    "added to nothing": ("", "a\n", "a\nb\n", "a\nb\n"),
    "other line breaks stay": ("a\r\nb\nc\r\n", "A\r\nb\nc\r\n", "a\r\nb\nC\n", "A\r\nb\nC\n"),
}
REFUSED = {
    "the same line": (BASE, "a\nX\nc\nd\ne\n", "a\nY\nc\nd\ne\n"),
    "neighbouring lines": (BASE, "a\nX\nc\nd\ne\n", "a\nb\nY\nd\ne\n"),
    "an insertion beside a change": (BASE, "a\nb\nx\nc\nd\ne\n", "a\nB\nc\nd\ne\n"),
    "two insertions in one place": (BASE, "a\nx\nb\nc\nd\ne\n", "a\ny\nb\nc\nd\ne\n"),
    "one insertion that goes on, not at the end": ("a\nz\n", "a\nb\nz\n", "a\nb\nc\nz\n"),
    "a deletion of what the other changed": (BASE, "a\ne\n", "a\nb\nC\nd\ne\n"),
    "different ends": ("a\n", "a\nb\n", "a\nc\n"),
    "ends that share half a line": ("a\n", "a\nbc", "a\nbcd"),
    "a last line that both went on with": ("a", "ab", "abc"),
    "a last line deleted and changed": ("a\nb\n", "a\n", "a\nb\nc\n"),
    "line breaks of all lines": ("a\nb\n", "a\r\nb\r\n", "a\nB\n"),
}


@pytest.mark.parametrize(("base", "ours", "theirs", "merged"), MERGED.values(), ids=MERGED.keys())
def test_merged(base: str, ours: str, theirs: str, merged: str) -> None:
    assert merge(base, ours, theirs) == merged
    assert merge(base, theirs, ours) == merged


@pytest.mark.parametrize(("base", "ours", "theirs"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(base: str, ours: str, theirs: str) -> None:
    assert merge(base, ours, theirs) is None
    assert merge(base, theirs, ours) is None


TEXTS = st.lists(st.sampled_from(["", "a", "b", "c", "# h", "- x\r"]), max_size=12).map("\n".join)


@settings(max_examples=200)
@given(TEXTS, TEXTS)
def test_a_side_that_did_nothing_loses_nothing(base: str, side: str) -> None:
    assert merge(base, side, base) == side
    assert merge(base, base, side) == side
    assert merge(base, side, side) == side


@settings(max_examples=200)
@given(TEXTS, TEXTS, TEXTS)
def test_the_sides_are_alike(base: str, ours: str, theirs: str) -> None:
    assert merge(base, ours, theirs) == merge(base, theirs, ours)


@settings(max_examples=200)
@given(st.data(), st.integers(3, 30))
def test_edits_that_are_apart_are_both_there(data: st.DataObject, size: int) -> None:
    """Every line of the base is its own, so that there is one way to see what was edited."""
    lines = [f"line {n}\n" for n in range(size)]
    cut = data.draw(st.integers(1, size - 2))
    ours, theirs = lines[:cut], lines[cut + 1 :]
    for side, mark in ((ours, "o"), (theirs, "t")):
        at = data.draw(st.integers(0, len(side) - 1))
        side[at : at + data.draw(st.integers(0, 3))] = [
            f"{mark}{n}\n" for n in range(data.draw(st.integers(0, 3)))
        ]
    base = "".join(lines)
    assume("".join(ours + lines[cut:]) != base != "".join(lines[: cut + 1] + theirs))
    merged = merge(base, "".join(ours + lines[cut:]), "".join(lines[: cut + 1] + theirs))
    assert merged == "".join([*ours, lines[cut], *theirs])


def test_too_many_changes_are_refused() -> None:
    base = "".join(f"{n}\n" for n in range(30_000))
    assert merge(base, base.replace("\n", "x\n"), base + "end\n") is None


@pytest.mark.parametrize("lines", [["\n", "x\n"], ["same\n"], ["a\n", "\n", "b\n", "\n"]])
def test_repeated_lines_are_merged_in_linear_time(lines: list[str]) -> None:
    def texts(times: int) -> tuple[str, str, str]:
        base = lines * times
        ours, theirs = list(base), list(base)
        for n in range(0, len(base), 7):
            ours[n] = f"{n}\n"
            theirs[-n - 1] = f"-{n}\n"
        return "".join(base), "".join(ours), "".join(theirs)

    small, large = texts(1000), texts(1000 * TIMES)
    assert_linear(lambda: merge(*small), lambda: merge(*large))
