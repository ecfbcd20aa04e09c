"""Edits by heading, block, property and text: what they change, and that nothing else does."""

from functools import partial
from typing import Any, get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from server.errors import Ambiguous, InvalidRequest, NotFound
from server.markdown.block_edits import find_block
from server.markdown.frontmatter import split
from server.markdown.note import parse
from server.markdown.patching import Target, Verb, parse_value, patch
from server.markdown.sections import find
from tests.unit.markdown.work import cost

NOTE = "---\na: 1\n---\n# T\n\nintro\n\n## A\n\none\n\n### Deep\ntwo\n\n## B\nthree\n## C\n\n## D"


def run(text: str, target: Target, selector: str, verb: Verb, content: str | None = None) -> str:
    """The edit, which must do the same to a note with other line breaks and a mark."""
    after = patch(text, "n.md", target, selector, verb, content)
    other = patch("\ufeff" + text.replace("\n", "\r\n"), "n.md", target, selector, verb, content)
    assert other == "\ufeff" + (after.replace("\n", "\r\n") if "\n" in text else after)
    return after


def shared(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    return next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


HEADINGS: dict[str, tuple[str, str, Verb, str | None, str]] = {
    "append before the blank line": ("## A\none\n\n## B\n", "A", "append", "x", "## A\none\nx\n\n## B\n"),
    "append below sub-headings": (
        "# A\n## S\none\n\n# B", "A", "append", "x", "# A\n## S\none\nx\n\n# B"
    ),
    "append without a blank line": ("# A\none\n# B", "A", "append", "x", "# A\none\nx\n# B"),
    "append at the end": ("# A\none\n", "A", "append", "x", "# A\none\nx\n"),
    "append without a last break": ("# A\none", "A", "append", "x\n", "# A\none\nx"),
    "append with blanks at the end": ("# A\none  \n\n\n", "A", "append", "x", "# A\none  \nx\n\n\n"),
    "append several lines": ("# A\none\n\n# B", "A", "append", "x\n\ny\n\n", "# A\none\nx\n\ny\n\n# B"),
    "append with a blank line of its own": ("# A\none\n", "A", "append", "\nx", "# A\none\n\nx\n"),
    "append below nothing": ("# A", "A", "append", "x", "# A\nx"),
    "append below a heading alone": ("# A\n", "A", "append", "x", "# A\nx\n"),
    "append below a blank line": ("# A\n\n", "A", "append", "x", "# A\n\nx\n"),
    "append between headings": ("# A\n# B", "A", "append", "x", "# A\nx\n# B"),
    "append between headings apart": ("# A\n\n# B", "A", "append", "x", "# A\nx\n\n# B"),
    "append between headings far apart": ("# A\n\n\n# B", "A", "append", "x", "# A\n\nx\n\n# B"),
    "append above a setext heading": ("# A\nB\n=\n", "A", "append", "x", "# A\nx\n\nB\n=\n"),
    "append a rule": ("# A\none\n", "A", "append", "---", "# A\none\n\n---\n"),
    "append below setext": ("A\n=\none\n\nB\n=\n", "A", "append", "x", "A\n=\none\nx\n\nB\n=\n"),
    "prepend right below": ("# A\none\n", "A", "prepend", "x", "# A\nx\none\n"),
    "prepend below the blank line": ("# A\n\none\n", "A", "prepend", "x", "# A\n\nx\none\n"),
    "prepend above a sub-heading": ("# A\n## S\n", "A", "prepend", "x", "# A\nx\n## S\n"),
    "prepend above a setext one": ("# A\nS\n---\n", "A", "prepend", "x", "# A\nx\n\nS\n---\n"),
    "prepend above a rule": ("# A\n---\n", "A", "prepend", "x", "# A\nx\n\n---\n"),
    "prepend below setext": ("A\nB\n===\none", "A B", "prepend", "x", "A\nB\n===\nx\none"),
    "prepend below nothing": ("# A", "A", "prepend", "x", "# A\nx"),
    "replace": ("# A\n\none\n## S\ntwo\n\n# B\n", "A", "replace", "x\n", "# A\n\nx\n\n# B\n"),
    "replace without blank lines": ("# A\none\n# B", "A", "replace", "x\n\n", "# A\nx\n# B"),
    "replace without a last break": ("# A\none", "A", "replace", "x\n", "# A\nx"),
    "replace with the heading": ("# A\none\n", "A", "replace", "# A\nx", "# A\nx\n"),
    "replace with the heading apart": ("# A\n\none\n", "A", "replace", "# A\n\nx", "# A\n\nx\n"),
    "replace nothing with the heading": ("# A\n\n", "A", "replace", "# A\n\nx", "# A\n\nx\n"),
    "replace nothing by a blank line too": ("# A\n\n# B", "A", "replace", "\nx", "# A\n\nx\n\n# B"),
    "replace by the heading alone": ("# A\none\n", "A", "replace", "# A\n", "# A\n"),
    "replace with another heading": ("# A\none\n", "A", "replace", "## A\nx", "# A\n## A\nx\n"),
    "replace by the same": ("# A\n\none\ntwo\n\n# B", "A", "replace", "one\ntwo\n", "# A\n\none\ntwo\n\n# B"),
    "replace nothing": ("# A\n# B", "A", "replace", "x", "# A\nx\n# B"),
    "replace by nothing": ("# A\n\none\n\n# B", "A", "replace", "", "# A\n\n# B"),
    "replace by nothing, tight": ("# A\none\n# B", "A", "replace", "", "# A\n# B"),
    "replace by nothing, blank above": ("# A\n\none\n# B", "A", "replace", "", "# A\n\n# B"),
    "replace by nothing at the end": ("# A\n\none\n", "A", "replace", "", "# A\n"),
    "replace nothing by nothing": ("# A\n\n# B", "A", "replace", "", "# A\n\n# B"),
    "delete": ("one\n\n# A\nx\n## S\ny\n\n# B\n", "A", "delete", None, "one\n\n# B\n"),
    "delete at the end": ("one\n\n# A\nx", "A", "delete", None, "one\n"),
    "delete all there is": ("# A\nx\n", "A", "delete", None, ""),
    "delete below frontmatter": ("---\na: 1\n---\n\n# A\n", "A", "delete", None, "---\na: 1\n---\n"),
    "delete above a setext heading": ("one\n# A\nx\n\nB\n=\n", "A", "delete", "", "one\n\nB\n=\n"),
    "delete setext": ("one\n\nA\n=\nx\n\n# B", "A", "delete", None, "one\n\n# B"),
    "by its path": ("# P\n## A\n# Q\n## A\n", "Q#A", "append", "x", "# P\n## A\n# Q\n## A\nx\n"),
    "code opens no section": ("# A\n```\n# B\n```\n", "A", "append", "x", "# A\n```\n# B\n```\nx\n"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "selector", "verb", "content", "after"), HEADINGS.values(), ids=HEADINGS.keys()
)
def test_heading(text: str, selector: str, verb: Verb, content: str | None, after: str) -> None:
    assert run(text, "heading", selector, verb, content) == after


CREATED = {
    "in a note without headings": ("one\n", "A", "one\n\n## A\nx\n"),
    "without a last break": ("one", "A", "one\n\n## A\nx"),
    "in an empty note": ("", "A", "## A\nx\n"),
    "below frontmatter": ("---\na: 1\n---\n", "A", "---\na: 1\n---\n## A\nx\n"),
    "below frontmatter alone": ("---\na: 1\n---", "A", "---\na: 1\n---\n## A\nx\n"),
    "below a title": ("# T\n", "A", "# T\n\n## A\nx\n"),
    "beside several of level 1": ("# T\none\n# U\n\n", "A", "# T\none\n# U\n\n# A\nx\n\n"),
    "beside those of level 3": ("### T\none\n", "A", "### T\none\n\n### A\nx\n"),
    "with the blank line others have": ("# T\n\none\n", "A", "# T\n\none\n\n## A\n\nx\n"),
    "under its parent": ("# P\none\n\n# Q\n", "P#A", "# P\none\n\n## A\nx\n\n# Q\n"),
    "under the deepest parent": (
        "# P\n## S\none\n# Q\n", "P#S#A#B", "# P\n## S\none\n\n### A\n#### B\nx\n# Q\n"
    ),
    "with its parents": ("one\n", "P#A", "one\n\n## P\n### A\nx\n"),
    "above a setext heading": ("# P\none\n\nQ\n=\n", "P#A", "# P\none\n\n## A\nx\n\nQ\n=\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "selector", "after"), CREATED.values(), ids=CREATED.keys())
@pytest.mark.parametrize("verb", ["append", "prepend", "replace"])
def test_missing_heading_is_created(text: str, selector: str, after: str, verb: Verb) -> None:
    assert patch(text, "n.md", "heading", selector, verb, "x\n", create_missing=True) == after
    windows = patch(
        text.replace("\n", "\r\n"), "n.md", "heading", selector, verb, "x", create_missing=True
    )
    if "\n" in text:
        assert windows == after.replace("\n", "\r\n")
    found = find(after, parse(after, "n.md"), selector)
    assert after[found.body : found.end].strip() == "x"


def test_headings_have_six_levels() -> None:
    with pytest.raises(InvalidRequest, match="6 levels"):
        patch("##### P\n", "n.md", "heading", "P#A#B", "append", "x", create_missing=True)


@pytest.mark.parametrize("selector", ["", "##", "a\nb"])
def test_what_is_no_heading_is_not_created(selector: str) -> None:
    with pytest.raises(InvalidRequest, match="can't be a heading"):
        patch("x", "n.md", "heading", selector, "append", "x", create_missing=True)


def test_a_missing_heading_is_not_deleted() -> None:
    with pytest.raises(NotFound):
        patch(NOTE, "n.md", "heading", "X", "delete", None, create_missing=True)


def test_a_missing_heading_names_the_nearest_and_the_way_to_add_it() -> None:
    with pytest.raises(NotFound) as raised:
        patch(NOTE, "n.md", "heading", "Dep", "append", "x")
    assert "Did you mean: T#A#Deep" in raised.value.hint
    assert "create_missing=true" in raised.value.hint


def test_an_id_is_no_heading() -> None:
    with pytest.raises(InvalidRequest) as raised:
        patch("x ^a\n", "n.md", "heading", "^a", "append", "y")
    assert "target 'block'" in raised.value.hint


BLOCKS: dict[str, tuple[str, Verb, str | None, str]] = {
    "append to a paragraph": ("a\n\nb ^x\n\nc\n", "append", "n", "a\n\nb ^x\n\nn\n\nc\n"),
    "append at the end": ("b ^x", "append", "n\n", "b ^x\n\nn"),
    "append an item": ("- a\n- b ^x\n- c\n", "append", "- n", "- a\n- b ^x\n- n\n- c\n"),
    "append below what is below": (
        "- b ^x\n  - d\n- c",
        "append",
        "- n",
        "- b ^x\n  - d\n- n\n- c",
    ),
    "append a nested item": ("- a\n  - b ^x\n- c", "append", "- n", "- a\n  - b ^x\n  - n\n- c"),
    "append text to an item": ("- b ^x\n- c\n", "append", "n", "- b ^x\n\nn\n\n- c\n"),
    "append to a quoted item": ("> - b ^x\n", "append", "- n", "> - b ^x\n> - n\n"),
    "append to a table": ("|b|\n|-|\n\n^x\n\nc", "append", "n", "|b|\n|-|\n\n^x\n\nn\n\nc"),
    "append to a heading": ("# b ^x\nc\n", "append", "n", "# b ^x\nn\n\nc\n"),
    "append to a setext heading": ("b ^x\n===\nc\n", "append", "n", "b ^x\n===\nn\n\nc\n"),
    "replace a setext heading": ("b ^x\n===\nc\n", "replace", "n", "n ^x\n===\nc\n"),
    "delete a setext heading": ("a\n\nb ^x\n===\n\nc\n", "delete", None, "a\n\nc\n"),
    "append above a heading": ("b ^x\n# c\n", "append", "n", "b ^x\n\nn\n# c\n"),
    "prepend": ("a\n\nb ^x\n", "prepend", "n", "a\n\nn\n\nb ^x\n"),
    "prepend at the top": ("b ^x\n", "prepend", "n", "n\n\nb ^x\n"),
    "prepend below a heading": ("# h\nb ^x\n", "prepend", "n", "# h\nn\n\nb ^x\n"),
    "prepend an item": ("- a\n  - b ^x\n", "prepend", "- n", "- a\n  - n\n  - b ^x\n"),
    "prepend below frontmatter": (
        "---\na: 1\n---\nb ^x",
        "prepend",
        "n",
        "---\na: 1\n---\nn\n\nb ^x",
    ),
    "replace": ("a\n\nb\nbb  ^x \n\nc", "replace", "n", "a\n\nn  ^x \n\nc"),
    "replace with the id": ("b ^x\n", "replace", "n ^X", "n ^x\n"),
    "replace several lines": ("b ^x\n", "replace", "n\nm", "n\nm ^x\n"),
    "replace by the same": ("b\nc ^x\n", "replace", "b\nc", "b\nc ^x\n"),
    "replace an item": ("- a\n  * b ^x\n- c", "replace", "n", "- a\n  * n ^x\n- c"),
    "replace a task": ("- [ ] b ^x\n", "replace", "n", "- [ ] n ^x\n"),
    "replace an item by one": ("  - b ^x\n", "replace", "- [x] n", "  - [x] n ^x\n"),
    "replace with what is below": ("- b ^x\n  - d\n", "replace", "- n\n  - m", "- n ^x\n  - m\n"),
    "replace an item by lines": ("1. b ^x\n", "replace", "n\nm", "1. n\n   m ^x\n"),
    "replace a quote": ("> b\n> c ^x\n", "replace", "n\nm", "> n\n> m ^x\n"),
    "replace a heading": ("## b ^x\n", "replace", "n", "## n ^x\n"),
    "replace a table": ("|b|\n|-|\n\n^x\n", "replace", "|n|\n|-|", "|n|\n|-|\n\n^x\n"),
    "replace by code": ("b ^x\n", "replace", "```\nn\n```", "```\nn\n```\n\n^x\n"),
    "replace an id alone": ("^x\n", "replace", "n", "n\n\n^x\n"),
    "replace above an id": ("b\n^x\n", "replace", "n", "n\n^x\n"),
    "delete": ("a\n\nb ^x\n\nc\n", "delete", None, "a\n\nc\n"),
    "delete an item": ("- a\n- b ^x\n  - d\n- c\n", "delete", None, "- a\n- c\n"),
    "delete code with a blank line": ("a\n\n```\nb\n\nc\n```\n\n^x\n\nd", "delete", None, "a\n\nd"),
    "replace code": ("~~~\nb\n\nc\n~~~\n^x\n", "replace", "```\nn\n```", "```\nn\n```\n^x\n"),
    "delete below code": ("```\nb\n\nc\n```\n\nd\n^x\n", "delete", None, "```\nb\n\nc\n```\n"),
    "delete a table below a heading": ("# h\n|b|\n^x\nc\n", "delete", None, "# h\nc\n"),
    "delete below a setext heading": ("h\n===\nb ^x\n\nc\n", "delete", None, "h\n===\n\nc\n"),
    "delete a heading by an id below": ("a\n\n# h\n\n^x\n\nc\n", "delete", None, "a\n\nc\n"),
    "delete an item above a quote": ("- b ^x\n  > d\n> c\n", "delete", None, "> c\n"),
    "delete at the end": ("a\n\nb ^x\n", "delete", None, "a\n"),
    "delete at the top": ("b ^x\n\na\n", "delete", None, "a\n"),
    "delete all": ("b ^x", "delete", None, ""),
    "delete a table": ("a\n\n|b|\n\n^x\n\nc", "delete", None, "a\n\nc"),
    "delete above a rule": ("a\n# b ^x\n---\n", "delete", None, "a\n\n---\n"),
}


@pytest.mark.parametrize(("text", "verb", "content", "after"), BLOCKS.values(), ids=BLOCKS.keys())
@pytest.mark.parametrize("selector", ["^x", "x", "#^X"])
def test_block(text: str, verb: Verb, content: str | None, after: str, selector: str) -> None:
    assert run(text, "block", selector, verb, content) == after
    if verb == "replace":
        assert run(after, "block", selector, verb, content) == after
    if verb != "delete":
        assert [block.id for block in parse(after, "n.md").blocks] == ["x"]


def test_a_missing_block() -> None:
    with pytest.raises(NotFound):
        patch("a ^b\n", "n.md", "block", "c", "append", "x")
    with pytest.raises(InvalidRequest, match="can't be created") as raised:
        patch("a ^b\n", "n.md", "block", "c", "append", "x", create_missing=True)
    assert "^b" in raised.value.hint


def test_two_blocks_of_one_id() -> None:
    with pytest.raises(Ambiguous):
        patch("a ^b\n\nc ^b\n", "n.md", "block", "b", "append", "x")


def test_a_block_is_not_replaced_by_nothing() -> None:
    with pytest.raises(InvalidRequest, match="name nothing"):
        patch("a ^b\n", "n.md", "block", "b", "replace", "")


def test_a_heading_is_not_replaced_by_several_lines() -> None:
    with pytest.raises(InvalidRequest, match="one line"):
        patch("# a ^b\n", "n.md", "block", "b", "replace", "x\ny")


PROPERTIES: dict[str, tuple[str, Verb, str | None, str]] = {
    "number": ("k: 1\n", "replace", "3", "k: 3\n"),
    "list": ("k: 1\n", "replace", "[a, b]", "k:\n  - a\n  - b\n"),
    "list in lines": ("k: [x]\n", "replace", "- a\n- b", "k: [a, b]\n"),
    "date": ("k: 1\n", "replace", "2026-01-02", "k: 2026-01-02\n"),
    "text": ("k: 1\n", "replace", "a: b", "k: 'a: b'\n"),
    "quoted": ("k: 1\n", "replace", '"3"', "k: '3'\n"),
    "nothing": ("k: 1\n", "replace", "", "k:\n"),
    "the same": ("k: 'x' # c\n", "replace", "x", "k: 'x' # c\n"),
    "append": ("k: [a]\n", "append", "b", "k: [a, b]\n"),
    "append several": ("k: [a]\n", "append", "[b, a, c]", "k: [a, b, c]\n"),
    "prepend": ("k:\n- a\n", "prepend", "b", "k:\n- b\n- a\n"),
    "append to text": ("k: a\n", "append", "b", "k:\n  - a\n  - b\n"),
    "delete": ("a: 1\nk: [\n  b ]\n", "delete", None, "a: 1\n"),
    "any case": ("K: 1\n", "replace", "2", "K: 2\n"),
}


@pytest.mark.parametrize(
    ("lines", "verb", "content", "after"), PROPERTIES.values(), ids=PROPERTIES.keys()
)
def test_property(lines: str, verb: Verb, content: str | None, after: str) -> None:
    text = f"---\n{lines}---\nbody"
    assert run(text, "frontmatter", "k", verb, content) == f"---\n{after}---\nbody"


PARSED = {
    "3": 3,
    "3.0": 3.0,
    "true": True,
    "yes": "yes",
    "": None,
    "a b": "a b",
    "it's": "it's",
    "fix #3 now": "fix #3 now",
    "#tag": "#tag",
    "[[Note]]": "[[Note]]",
    "{{date}}": "{{date}}",
    "*important*": "*important*",
    "!x": "!x",
    "@me": "@me",
    "a: b: c": "a: b: c",
    "[a": "[a",
    "12:30": "12:30",
    "one\ntwo": "one\ntwo",
    "a: 1\nb: [2]": {"a": 1, "b": [2]},
    "- a\n- 1": ["a", 1],
    "{a: 1}": {"a": 1},
    "'3'": "3",
    "|\n a": "|\n a",
    "- a\nb": "- a\nb",
}


@pytest.mark.parametrize(("content", "value"), PARSED.items())
def test_a_value_given_as_text(content: str, value: Any) -> None:
    read = parse_value(content)
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize("verb", ["append", "prepend", "replace", "delete"])
def test_an_absent_property(verb: Verb) -> None:
    content = None if verb == "delete" else "x"
    with pytest.raises(NotFound) as raised:
        patch("---\na: 1\n---\n", "n.md", "frontmatter", "k", verb, content)
    assert raised.value.details["keys"] == ["a"]
    assert ("create_missing=true" in raised.value.hint) == (verb != "delete")
    if verb != "delete":
        after = patch("b", "n.md", "frontmatter", "k", verb, "x", create_missing=True)
        assert after == ("---\nk: x\n---\nb" if verb == "replace" else "---\nk:\n  - x\n---\nb")


@pytest.mark.parametrize("create_missing", [True, False])
def test_a_malformed_block_is_named(create_missing: bool) -> None:
    with pytest.raises(InvalidRequest, match="line 3"):
        patch(
            "---\na: 1\nb: ]\n---\n", "n.md", "frontmatter", "a", "replace", "2",
            create_missing=create_missing,
        )  # fmt: skip


TEXTS: dict[str, tuple[str, str, Verb, str | None, str]] = {
    "append": ("a b c\n", "b", "append", "x", "a bx c\n"),
    "prepend": ("a b c\n", "b", "prepend", "x", "a xb c\n"),
    "replace": ("a b c\n", "b", "replace", "x\ny", "a x\ny c\n"),
    "replace by nothing": ("a b c\n", "b ", "replace", "", "a c\n"),
    "delete": ("a\nb\nc\n", "b", "delete", None, "a\n\nc\n"),
    "delete a line": ("a\nb\nc\n", "b\n", "delete", None, "a\nc\n"),
    "over lines": ("a\nb\nc\nd\n", "b\nc", "replace", "x", "a\nx\nd\n"),
    "line breaks alone": ("a\n\nb\n", "\n\n", "replace", "\n", "a\nb\n"),
    "in frontmatter": ("---\nk: v\n---\n", "k: v", "replace", "k: w", "---\nk: w\n---\n"),
    "the same": ("a b", "b", "replace", "b", "a b"),
}


@pytest.mark.parametrize(
    ("text", "selector", "verb", "content", "after"), TEXTS.values(), ids=TEXTS.keys()
)
def test_text(text: str, selector: str, verb: Verb, content: str | None, after: str) -> None:
    assert run(text, "text", selector, verb, content) == after
    assert run(text, "text", selector.replace("\n", "\r\n"), verb, content) == after


def test_text_over_mixed_line_breaks() -> None:
    text = "a\r\nb\nc\r\nd\n"
    assert patch(text, "n.md", "text", "b\nc\nd", "replace", "x\ny") == "a\r\nx\r\ny\n"
    assert patch(text, "n.md", "text", "a\nb\nc", "replace", "a\nb\nc") == text


def test_text_that_is_there_several_times() -> None:
    with pytest.raises(Ambiguous) as raised:
        patch("x a\r\n\r\nb x\r\n", "n.md", "text", "x", "delete", None)
    assert raised.value.details["candidates"] == [
        {"line": 1, "text": "x a"},
        {"line": 3, "text": "b x"},
    ]
    with pytest.raises(Ambiguous, match="more than 10") as raised:
        patch("x\n" * 500, "n.md", "text", "x", "delete", None)
    assert len(raised.value.details["candidates"]) == 10


def test_overlapping_places_are_several() -> None:
    with pytest.raises(Ambiguous):
        patch("aaa", "n.md", "text", "aa", "delete", None)


def test_text_that_is_not_there_names_the_nearest_lines() -> None:
    text = "one\n\nThe quick brown fox jumps.\nA slow red dog.\n"
    with pytest.raises(NotFound) as raised:
        patch(text, "n.md", "text", "the quick brown fox jumped", "delete", None)
    near = [{"line": 3, "text": "The quick brown fox jumps."}]
    assert raised.value.details["did_you_mean"] == near
    assert "Line 3" in raised.value.hint
    with pytest.raises(NotFound) as raised:
        patch(text, "n.md", "text", "zzz", "delete", None)
    assert raised.value.details["did_you_mean"] == []


@pytest.mark.parametrize("target", get_args(Target))
@pytest.mark.parametrize("verb", ["append", "prepend"])
@pytest.mark.parametrize("content", ["", None])
def test_nothing_is_no_addition(target: Target, verb: Verb, content: str | None) -> None:
    with pytest.raises(InvalidRequest) as raised:
        patch("# a ^a\n", "n.md", target, "a", verb, content)
    assert "'delete'" in raised.value.hint


@pytest.mark.parametrize("target", ["heading", "block"])
def test_blanks_are_no_lines(target: Target) -> None:
    with pytest.raises(InvalidRequest):
        patch("# a ^a\n", "n.md", target, "a", "append", " \n\n")


def test_a_patch_of_a_large_note_is_little_more_work_than_reading_it() -> None:
    part = (
        "## Heading {n}\n\n"
        + "Some words of a line that goes on, [[Link]].\n" * 10
        + "end ^b{n}\n\n"
    )
    text = "---\na: [x]\n---\n" + "".join(part.replace("{n}", str(n)) for n in range(200))
    assert len(text) > 90_000
    edits: list[tuple[Target, str]] = [
        ("heading", "Heading 150"), ("block", "b150"), ("frontmatter", "a"), ("text", "end ^b150"),
    ]  # fmt: skip
    reading = cost(lambda: parse(text, "n.md"))
    for target, selector in edits:
        assert cost(partial(patch, text, "n.md", target, selector, "append", "x")) < 6 * reading


@pytest.mark.parametrize("target", get_args(Target))
def test_a_deletion_takes_no_content(target: Target) -> None:
    with pytest.raises(InvalidRequest, match="no content"):
        patch("# a\n", "n.md", target, "a", "delete", "x")


def test_an_empty_text_is_nowhere() -> None:
    with pytest.raises(InvalidRequest):
        patch("a", "n.md", "text", "", "append", "x")


LINES = st.sampled_from(
    ["", "", "one", "two  ", "- item", "  - sub", "- task ^id", "para ^id2", "> quote", "| t |",
     "# A", "## B", "### C", "A", "===", "---", "```", "^id3", "\tcode", "日本 🎉", "\udcff"]
)  # fmt: skip
NOTES = st.builds(
    lambda head, above, below, eols, last: (
        head
        + "".join(
            f"{line}{eol}"
            for line, eol in zip([*above, "## Own", "own ^own", *below], eols * 30, strict=False)
        )
        + last
    ),
    st.sampled_from(["", "---\na: 1 # c\n---\n", "---\r\na: [x]\r\n---\r\n"]),
    st.lists(LINES, max_size=12),
    st.lists(LINES, max_size=12),
    st.lists(st.sampled_from(["\n", "\r\n"]), min_size=1, max_size=3),
    st.sampled_from(["", "end"]),
)
CONTENTS = st.sampled_from(["x", "x\ny\n", "- x", "\nx\n\n", "# X", "---", "```\nx\n```", "x ^n"])


@settings(max_examples=200, deadline=None)
@given(NOTES, st.data())
def test_what_an_edit_does_not_name_stays(text: str, data: st.DataObject) -> None:
    note = parse(text, "n.md")
    names = [("heading", heading.text) for heading in note.headings]
    names += [("block", block.id) for block in note.blocks]
    if not names:
        return
    target, selector = data.draw(st.sampled_from(names))
    verb: Verb = data.draw(st.sampled_from(get_args(Verb)))
    content = None if verb == "delete" else data.draw(CONTENTS)
    try:
        section = (
            find(text, note, selector)
            if target == "heading"
            else find_block(text, note, selector)[0]
        )
        after = patch(text, "n.md", target, selector, verb, content)  # type: ignore[arg-type]
    except (Ambiguous, NotFound, InvalidRequest):
        return
    marked = patch("\ufeff" + text, "n.md", target, selector, verb, content)  # type: ignore[arg-type]
    assert marked == "\ufeff" + after
    same = shared(text, after)
    if verb == "delete":
        assert same >= len(text[: section.start].rstrip())
        assert after.endswith(text[section.end :].lstrip("\r\n"))
    elif verb == "replace":
        assert same >= (section.body if target == "heading" else section.start)
        assert after.endswith(text[section.end :])
    else:
        assert same + shared(text[::-1], after[::-1]) >= len(text)
        assert len(after) > len(text)


@settings(max_examples=200, deadline=None)
@given(NOTES, st.data())
def test_a_second_replace_changes_nothing(text: str, data: st.DataObject) -> None:
    note = parse(text, "n.md")
    names = [("heading", heading.text) for heading in note.headings if heading.text]
    names += [("block", block.id) for block in note.blocks]
    names.append(("frontmatter", "a"))
    target, selector = data.draw(st.sampled_from(names))
    # A paragraph that becomes a list item may get the lines below it as its own.
    more = [] if target == "block" else ["- x"]
    content = data.draw(st.sampled_from(["x", "x\ny\n", "\nx\n\n", "x ^n", *more]))
    if target == "block" and "```" in text:
        return
    create = target != "block"
    try:
        once = patch(text, "n.md", target, selector, "replace", content, create_missing=create)  # type: ignore[arg-type]
        twice = patch(once, "n.md", target, selector, "replace", content, create_missing=create)  # type: ignore[arg-type]
    except (Ambiguous, InvalidRequest, NotFound):
        return
    assert twice == once


@settings(max_examples=200, deadline=None)
@given(NOTES, st.data())
def test_other_headings_stay_what_they_are(text: str, data: st.DataObject) -> None:
    note = parse(text, "n.md")
    if not note.headings:
        return
    selector = data.draw(st.sampled_from([heading.text for heading in note.headings]))
    verb: Verb = data.draw(st.sampled_from(get_args(Verb)))
    try:
        section = find(text, note, selector)
        after = patch(text, "n.md", "heading", selector, verb, None if verb == "delete" else "x")
    except (Ambiguous, NotFound, InvalidRequest):
        return
    # Code that is never closed takes in all that is added or cut off below it.
    if "```" in text[section.start : section.end]:
        return
    gone = {"delete": section.start, "replace": section.body}.get(verb, section.end)
    kept = [
        (heading.level, heading.text)
        for heading in note.headings
        if not gone <= heading.start < section.end
    ]
    assert [(heading.level, heading.text) for heading in parse(after, "n.md").headings] == kept


@settings(max_examples=200, deadline=None)
@given(NOTES, st.data())
def test_text_edits_are_exact(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    selector = text[start : start + data.draw(st.integers(1, 30))]
    assume(not selector.startswith("\n") and not selector.endswith("\r"))
    try:
        deleted = patch(text, "n.md", "text", selector.replace("\r\n", "\n"), "delete", None)
    except Ambiguous:
        return
    at = text.index(selector)
    assert deleted == text[:at] + text[at + len(selector) :]
    added = patch(text, "n.md", "text", selector, "append", "X")
    assert added == text[: at + len(selector)] + "X" + text[at + len(selector) :]


def test_a_created_heading_is_found_again() -> None:
    after = patch(NOTE, "n.md", "heading", "A#Deep#New", "append", "x", create_missing=True)
    assert split(after).properties == {"a": 1}
    assert "### Deep\ntwo\n\n#### New\nx\n\n## B" in after
