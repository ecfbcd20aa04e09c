"""Sections and blocks by name, and the outline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.errors import Ambiguous, NotFound
from server.markdown.note import parse
from server.markdown.sections import find, outline

TEXT = """---
tags: [a]
---
intro

# Work
w
## Log
one
### Deep *part*
deep
## C# & more: [x]
sharp
# Home
## Log
two
## Other
```
## Not here
```

Last
====
end"""

FOUND = {
    "to the next of the same level": ("Deep *part*", "### Deep *part*\ndeep\n"),
    "with what is below it": ("Home", TEXT[TEXT.index("# Home") : TEXT.index("Last")]),
    "fences open no section": ("Other", "## Other\n```\n## Not here\n```\n\n"),
    "to the end": ("Last", "Last\n====\nend"),
    "any case": ("HOME#oTHER", "## Other\n```\n## Not here\n```\n\n"),
    "leading hashes": ("### Deep *part*", "### Deep *part*\ndeep\n"),
    "path": ("Home#Log", "## Log\ntwo\n"),
    "path with leading hash": ("#Home#Log", "## Log\ntwo\n"),
    "path with a gap": ("Work#Deep *part*", "### Deep *part*\ndeep\n"),
    "hash in the heading": ("C# & more: [x]", "## C# & more: [x]\nsharp\n"),
    "as a link spells it": ("C & more x", "## C# & more: [x]\nsharp\n"),
    "blanks in the path": (" Home # Log ", "## Log\ntwo\n"),
}


@pytest.mark.parametrize(("selector", "source"), FOUND.values(), ids=FOUND.keys())
def test_section(selector: str, source: str) -> None:
    section = find(TEXT, parse(TEXT, "n.md"), selector)
    assert TEXT[section.start : section.end] == source
    assert section.heading is not None
    assert section.body == section.heading.end


def test_body_is_past_the_heading() -> None:
    section = find(TEXT, parse(TEXT, "n.md"), "Last")
    assert TEXT[section.body : section.end] == "end"


def test_several_headings_of_one_name() -> None:
    with pytest.raises(Ambiguous) as raised:
        find(TEXT, parse(TEXT, "n.md"), "log")
    assert raised.value.details["candidates"] == [
        {"heading": "Work#Log", "line": 8},
        {"heading": "Home#Log", "line": 15},
    ]


def test_a_whole_path_beats_a_partial_one() -> None:
    text = "# Log\na\n# Work\n## Log\nb\n"
    assert find(text, parse(text, "n.md"), "Log").end == 8


@pytest.mark.parametrize("selector", ["Work#Other", "Not here", "", "#", "Log#Home"])
def test_missing_heading(selector: str) -> None:
    with pytest.raises(NotFound):
        find(TEXT, parse(TEXT, "n.md"), selector)


def test_missing_heading_names_the_nearest() -> None:
    with pytest.raises(NotFound) as raised:
        find(TEXT, parse(TEXT, "n.md"), "Othr")
    assert raised.value.hint == "Did you mean: Home#Other."


def test_missing_heading_lists_at_most_ten() -> None:
    text = "".join(f"# h{i}\n" for i in range(30))
    with pytest.raises(NotFound) as raised:
        find(text, parse(text, "n.md"), "zzzzzzzz")
    assert raised.value.hint.count(";") == 9


def test_missing_heading_where_there_is_none() -> None:
    with pytest.raises(NotFound, match="no heading"):
        find("x", parse("x", "n.md"), "a")


BLOCKS = {
    "line": ("a\n\nb ^x\n\nc", "b ^x\n"),
    "paragraph": ("a\n\nb\nc ^x\n\nd", "b\nc ^x\n"),
    "below a heading": ("# h\nb ^x\n", "b ^x\n"),
    "below frontmatter": ("---\na: 1\n---\nb ^x", "b ^x"),
    "list item": ("- a\n- b ^x\n- c", "- b ^x\n"),
    "list item of two lines": ("- a\n- b\n  c ^x\n- d", "- b\n  c ^x\n"),
    "list item with what is below it": ("- a ^x\n  - b\n    c\n- d", "- a ^x\n  - b\n    c\n"),
    "quoted": ("a\n\n> b\n> c ^x\n", "> b\n> c ^x\n"),
    "alone below a table": ("a\n\n|b|\n|-|\n|c|\n\n^x\n\nd", "|b|\n|-|\n|c|\n\n^x\n"),
    "alone right below": ("a\n\n- b\n- c\n^x\n", "- b\n- c\n^x\n"),
    "alone in a quote": ("> b\n> ^x\n", "> b\n> ^x\n"),
    "alone at the top": ("^x\n", "^x\n"),
    "alone below a heading": ("a\n# h\n\n^x", "# h\n\n^x"),
    "any case": ("a\n\nb ^X", "b ^X"),
}


@pytest.mark.parametrize(("text", "source"), BLOCKS.values(), ids=BLOCKS.keys())
def test_block(text: str, source: str) -> None:
    section = find(text, parse(text, "n.md"), "^x")
    assert text[section.start : section.end] == source
    assert (section.heading, section.body) == (None, section.start)


def test_missing_block_lists_the_blocks() -> None:
    with pytest.raises(NotFound) as raised:
        find("a ^x\nb ^y", parse("a ^x\nb ^y", "n.md"), "^z")
    assert raised.value.hint == "Blocks: ^x, ^y."


def test_several_blocks_of_one_name() -> None:
    text = "a ^x\nb ^x"
    with pytest.raises(Ambiguous) as raised:
        find(text, parse(text, "n.md"), "#^x")
    assert [one["line"] for one in raised.value.details["candidates"]] == [1, 2]


def test_outline() -> None:
    rows = [
        (one.heading.line, one.path, one.own, one.whole) for one in outline(TEXT, parse(TEXT, ""))
    ]
    assert rows[:4] == [
        (6, "Work", 9, 65),
        (8, "Work#Log", 11, 32),
        (10, "Work#Log#Deep *part*", 21, 21),
        (12, "Work#C# & more: [x]", 24, 24),
    ]
    assert rows[-1] == (22, "Last", 13, 13)


LINES = st.lists(
    st.sampled_from(
        ["# a", "## b", "### c", "# d", "text", "- item ^i1", "^i2", "```", "", "x\n==="]
    )
)


@given(LINES)
def test_sections_tile_the_text_and_nest(lines: list[str]) -> None:
    text = "\n".join(lines)
    note = parse(text, "n.md")
    rows = outline(text, note)
    if rows:
        assert rows[0].heading.start + sum(row.own for row in rows) == len(text)
    ends = [row.heading.start + row.whole for row in rows]
    for index, row in enumerate(rows):
        inside = [later for later in rows[index + 1 :] if later.heading.start < ends[index]]
        assert all(later.heading.level > row.heading.level for later in inside)


@given(LINES, st.sampled_from(["a", "b", "a#b", "b#c", "^i1", "^i2", "none"]))
def test_find_answers_or_says_why(lines: list[str], selector: str) -> None:
    text = "\n".join(lines)
    note = parse(text, "n.md")
    try:
        section = find(text, note, selector)
    except (NotFound, Ambiguous) as error:
        assert error.hint
    else:
        assert 0 <= section.start <= section.body <= section.end <= len(text)
        source = text[section.start : section.end].rstrip("\n")
        assert selector[-2:] in source if selector[0] == "^" else source.startswith("#")
