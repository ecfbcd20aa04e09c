"""Properties changed where they stand: not a byte beside the key's own lines."""

import math
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.errors import Ambiguous, InvalidRequest, NotFound
from server.markdown.frontmatter import split
from server.markdown.property_lines import append_to_property, delete_property, set_property

# What other tools change though they weren't asked to. Every line must survive an edit of `x`.
TRAPS = {
    "a comment": "# why\na: 1 # because\n",
    "an indented comment": "a:\n  - b\n  # c\n  - d\n",
    "trailing zero": "version: 1.10\n",
    "a date": "date: 2026-01-02\n",
    "a time": "when: 2026-01-02T10:30\n",
    "a moment with a space": "when: 2026-01-02 10:30:05\n",
    "yes, no and on": "a: yes\nb: no\nc: on\nd: Off\n",
    "True in capitals": "a: TRUE\n",
    "flow list": "tags: [a,b ,  c]\n",
    "flow list over lines": "tags: [\n  a, # first\n  b,\n]\n",
    "unindented list": "tags:\n- a\n-   b\n",
    "deeply indented list": "tags:\n        - a\n        - b\n",
    "a long line": f"a: {'word ' * 60}end\n",
    "a folded plain text": "a: one\n  two\n  three\n",
    "quotes": "a: 'x'\nb: \"y\"\nc: 'it''s'\n",
    "escapes": 'a: "\\u00e9\\t\\x41"\n',
    "unicode": "ключ: значение\n日本: 語\n",
    "emoji": "mood: 🎉\n",
    "empty": 'a:\nb: null\nc: ~\nd: ""\n',
    "key order": "z: 1\na: 2\nm: 3\n",
    "blank lines": "\na: 1\n\n\nb: 2\n\n",
    "a key that is there twice": "a: 1\na: 2\n",
    "tabs": "a:\t1\nb: 2\t\n",
    "leading zeros": "a: 0123\nb: 0o17\nc: 0x1F\n",
    "sexagesimal": "a: 12:30\nb: 190:20:30\n",
    "links": 'up: "[[Home]]"\nrelated:\n  - "[[A|b]]"\n',
    "literal": "a: |\n  one\n    two\n\n  three\n",
    "literal that keeps its breaks": "a: |+\n  one\n\n",
    "folded": "a: >-\n  one\n  two\n",
    "trailing blanks": "a: 1   \nb:  \n",
    "quoted keys": "\"a b\": 1\n'c': 2\n",
    "aligned values": "a:      1\nlonger: 2\n",
    "nested": "a:\n   b:\n      - c: 1\n        d: 2\n",
    "flow mapping": "a: {b: 1,   c: [2]}\n",
    "template": "{{title}}: x\n",
    "anchors": "a: &l [1, 2]\nb: *l\n",
    "tags of YAML": "a: !custom x\n",
    "numbers": "a: 1e3\nb: +7\nc: .5\nd: 1_000\n",
    "indented block": "  a: 1\n  b: 2\n",
}
FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "byte order mark": lambda text: "\ufeff" + text,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("lines", TRAPS.values(), ids=TRAPS.keys())
@pytest.mark.parametrize("end", ["---\nbody  \n", "---"], ids=["body", "nothing below"])
def test_other_lines_stay(lines: str, form: Callable[[str], str], end: str) -> None:
    indent = "  " if lines.startswith("  ") else ""
    without = form(f"---\n{lines}{end}")
    first = form(f"---\n{indent}x: 1\n{lines}{end}")
    last = form(f"---\n{lines}{indent}x: 1\n{end}")

    assert set_property(without, "x", 1) == last
    assert set_property(last, "x", 2) == last.replace("x: 1", "x: 2")
    assert set_property(first, "x", 2) == first.replace("x: 1", "x: 2")
    assert delete_property(last, "x") == without
    assert delete_property(first, "x") == without
    listed = form(f"{indent}x:\n{indent}  - 1\n{indent}  - a").removeprefix("\ufeff")
    assert append_to_property(first, "x", ["a"]) == first.replace(f"{indent}x: 1", listed)
    for key, value in split(without).properties.items():
        assert set_property(without, key, value) == without


SET = {
    "comment stays": ("a: draft  # why\n", "done", "a: done  # why\n"),
    "comment after quotes": ("a: 'x # y' # z\n", "q", "a: q # z\n"),
    "comment stays with a list": ("a: 1 # why\n", ["b"], "a: # why\n  - b\n"),
    "comment on the line of a list": ("a: # why\n  - b\n", "c", "a: c # why\n"),
    "comment on the line of a literal": ("a: | # why\n  b\n", "c", "a: c # why\n"),
    "comment above the value": ("a: # why\n  b\n", "c", "a: c # why\n"),
    "comment of nothing": ("a: # why\n", 1, "a: 1 # why\n"),
    "comments of the next key": ("a:\n  - 1\n\n# next\nb: 1\n", 2, "a: 2\n\n# next\nb: 1\n"),
    "blanks after the colon": ("a:    1\n", 2, "a:    2\n"),
    "blanks at the end": ("a: 1  \n", 2, "a: 2  \n"),
    "null": ("a: 1\n", None, "a:\n"),
    "from null": ("a:\n", "x", "a: x\n"),
    "from null with blanks": ("a:  \n", "x", "a: x\n"),
    "yes is text": ("a: 1\n", "yes", "a: yes\n"),
    "true as text": ("a: 1\n", "true", "a: 'true'\n"),
    "number as text": ("a: 1\n", "1.10", "a: '1.10'\n"),
    "link": ("a: 1\n", "[[x]]", 'a: "[[x]]"\n'),
    "date": ("a: 2026-01-01\n", date(2026, 2, 3), "a: 2026-02-03\n"),
    "date as text": ("a: 2026-01-01\n", "2026-02-03", "a: 2026-02-03\n"),
    "a text that is no date": ("a: x\n", "2026-99-99", "a: 2026-99-99\n"),
    "lines": ("a: 1\nb: 2\n", "x\ny", "a: |-\n  x\n  y\nb: 2\n"),
    "from a literal": ("a: |\n  x\n  y\n\nb: 2\n", 1, "a: 1\n\nb: 2\n"),
    "from a literal that keeps breaks": ("a: |+\n  x\n\nb: 2\n", 1, "a: 1\nb: 2\n"),
    "from folded lines": ("a: x\n  y\nb: 2\n", 1, "a: 1\nb: 2\n"),
    "from a flow list over lines": ("a: [x,\n  y] # z\nb: 2\n", 1, "a: 1 # z\nb: 2\n"),
    "from an unindented list": ("a:\n- x\n- y\nb: 2\n", 1, "a: 1\nb: 2\n"),
    "from a mapping": ("a:\n  b: 1\n  c: 2\nd: 3\n", 1, "a: 1\nd: 3\n"),
    "mapping": ("a: 1\n", {"b": [1]}, "a:\n  b:\n    - 1\n"),
    "flow list kept": ('a: [x, "y"]\n', ["y", "z"], 'a: ["y", z]\n'),
    "flow list with what must be quoted": ("a: [x]\n", ["x", "b, c"], 'a: [x, "b, c"]\n'),
    "block list kept": ("a:\n-  'x' # c\n-  y\n", ["y", "x", 3], "a:\n-  y\n-  'x' # c\n-  3\n"),
    "comments go with their item": (
        "a:\n  # 1\n  - x\n  # 2\n  - y\n",
        ["y"],
        "a:\n  # 1\n  # 2\n  - y\n",
    ),
    "emptied list": ("a:\n  - x\nb: 1\n", [], "a: []\nb: 1\n"),
    "filled flow list": ("a: []\n", [1, "x"], "a: [1, x]\n"),
    "key in another case": ("Status: a\n", "b", None),
    "quoted key": ('"a": 1\n', 2, '"a": 2\n'),
    "key that is there twice": ("a: 1\nb: 0\na: 2\n", 3, "a: 1\nb: 0\na: 3\n"),
    "anchor that nobody uses": ("a: &x 1\n", 2, "a: 2\n"),
    "alias": ("b: &x 1\na: *x\n", 2, "b: &x 1\na: 2\n"),
    "key below in a mapping": ("b:\n  a: 1\na: 2\n", 3, "b:\n  a: 1\na: 3\n"),
}


@pytest.mark.parametrize(("lines", "value", "wanted"), SET.values(), ids=SET.keys())
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_set(lines: str, value: Any, wanted: str | None, eol: str) -> None:
    key = "a" if wanted is not None else "status"
    wanted = wanted if wanted is not None else lines.replace(": a", ": b")
    before, after = (f"---\n{block}---\nbody".replace("\n", eol) for block in (lines, wanted))
    assert set_property(before, key, value) == after
    assert set_property(after, key, value) == after


APPENDED = {
    "flow": ("a: [x, 'y']\n", ["z"], "a: [x, 'y', z]\n", "a: [z, x, 'y']\n"),
    "flow with a last comma": ("a: [x, y,]\n", ["z"], "a: [x, y, z,]\n", "a: [z, x, y,]\n"),
    "flow with blanks": ("a: [ x ]\n", ["z"], "a: [ x, z ]\n", "a: [ z, x ]\n"),
    "flow over lines": (
        "a: [\n  x,\n  y\n]\n",
        ["z"],
        "a: [\n  x,\n  y,\n  z\n]\n",
        "a: [\n  z,\n  x,\n  y\n]\n",
    ),
    "flow of one over lines": (
        "a: [\n  x\n]\n",
        ["z"],
        "a: [\n  x,\n  z\n]\n",
        "a: [\n  z,\n  x\n]\n",
    ),
    "empty flow": ("a: []\n", ["z"], "a: [z]\n", "a: [z]\n"),
    "block": (
        "a:\n  - 'x'\nb: 1\n",
        ["z"],
        "a:\n  - 'x'\n  - z\nb: 1\n",
        "a:\n  - z\n  - 'x'\nb: 1\n",
    ),
    "unindented": ("a:\n- x\nb: 1\n", ["z"], "a:\n- x\n- z\nb: 1\n", "a:\n- z\n- x\nb: 1\n"),
    "wide dashes": ("a:\n  -   x\n", ["z"], "a:\n  -   x\n  -   z\n", "a:\n  -   z\n  -   x\n"),
    "of mappings": (
        "a:\n  - b: 1\n    c: 2\n",
        [{"b": 3, "c": 4}],
        "a:\n  - b: 1\n    c: 2\n  - b: 3\n    c: 4\n",
        "a:\n  - b: 3\n    c: 4\n  - b: 1\n    c: 2\n",
    ),
    "with an empty item": ("a:\n  -\n", ["z"], "a:\n  -\n  - z\n", "a:\n  - z\n  -\n"),
    "with a literal item": (
        "a:\n  - |\n    x\n",
        ["z"],
        "a:\n  - |\n    x\n  - z\n",
        "a:\n  - z\n  - |\n    x\n",
    ),
    "one value": ('a: "x"\n', ["z"], 'a:\n  - "x"\n  - z\n', 'a:\n  - z\n  - "x"\n'),
    "nothing": ("a:\n", ["z", "y"], "a:\n  - z\n  - y\n", "a:\n  - z\n  - y\n"),
    "a literal": ("a: |\n  x\n", ["z"], "a:\n  - |\n    x\n  - z\n", "a:\n  - z\n  - |\n    x\n"),
    "absent": ("b: 1\n", ["z"], "b: 1\na:\n  - z\n", "b: 1\na:\n  - z\n"),
    "already there": ("a: [x, 'y']\n", ["y", "x"], "a: [x, 'y']\n", "a: [x, 'y']\n"),
    "given twice": ("a: [x]\n", ["y", "y"], "a: [x, y]\n", "a: [y, x]\n"),
    "1 isn't true": ("a: [true]\n", [1], "a: [true, 1]\n", "a: [1, true]\n"),
}


@pytest.mark.parametrize(
    ("lines", "values", "back", "front"), APPENDED.values(), ids=APPENDED.keys()
)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_append(lines: str, values: list[Any], back: str, front: str, eol: str) -> None:
    before, back, front = (f"---\n{b}---\nx".replace("\n", eol) for b in (lines, back, front))
    assert append_to_property(before, "a", values) == back
    assert append_to_property(before, "a", values, at_front=True) == front
    assert append_to_property(back, "a", values) == back


def test_tags_have_no_case_and_old_ones_have_commas() -> None:
    assert (
        append_to_property("---\ntags: [Work]\n---\n", "tags", ["#work"])
        == "---\ntags: [Work]\n---\n"
    )
    split_ = append_to_property("---\ntags: a, b\n---\n", "tags", ["c"])
    assert split_ == "---\ntags:\n  - a\n  - b\n  - c\n---\n"


def test_append_to_a_mapping_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="not a list"):
        append_to_property("---\na: {b: 1}\n---\n", "a", ["x"])


CREATED = {
    "no block": ("body\n", "---\nk: v\n---\nbody\n"),
    "nothing": ("", "---\nk: v\n---\n"),
    "byte order mark": ("\ufeffbody", "\ufeff---\nk: v\n---\nbody"),
    "CRLF": ("a\r\nb\n", "---\r\nk: v\r\n---\r\na\r\nb\n"),
    "empty block": ("---\n---\nbody", "---\nk: v\n---\nbody"),
    "comments only": ("---\n# c\n---\nbody", "---\n# c\nk: v\n---\nbody"),
    "a rule below": ("a\n\n---\n", "---\nk: v\n---\na\n\n---\n"),
    "blanks after the fence": ("--- \na: 1\n---\t\nb", "--- \na: 1\nk: v\n---\t\nb"),
}


@pytest.mark.parametrize(("before", "after"), CREATED.values(), ids=CREATED.keys())
def test_a_new_key(before: str, after: str) -> None:
    assert set_property(before, "k", "v") == after


DELETED = {
    "the last key takes the block along": ("---\na: 1\n---\nbody", "body"),
    "the mark stays": ("\ufeff---\r\na: 1\r\n---\r\nbody", "\ufeffbody"),
    "comments keep the block": ("---\n# c\na: 1\n---\nb", "---\n# c\n---\nb"),
    "a block below would move up": (
        "---\na: 1\n---\n---\nb: 1\n---\n",
        "---\n---\n---\nb: 1\n---\n",
    ),
    "twice": ("---\na: 1\nb: 2\na: 3\n---\n", "---\nb: 2\n---\n"),
    "comments of the next key": ("---\na: 1\n# b\nb: 2\n---\n", "---\n# b\nb: 2\n---\n"),
    "its own comments": (
        "---\nz: |\n  x\na:\n  - 1\n  # c\nb: 2\n---\n",
        "---\nz: |\n  x\nb: 2\n---\n",
    ),
    "any case": ("---\nA: 1\nb: 2\n---\n", "---\nb: 2\n---\n"),
    "the exact one": ("---\nA: 1\na: 2\n---\n", "---\nA: 1\n---\n"),
}


@pytest.mark.parametrize(("before", "after"), DELETED.values(), ids=DELETED.keys())
def test_delete(before: str, after: str) -> None:
    assert delete_property(before, "a") == after


REFUSED = {
    "not YAML": ("---\na: [\nb: 1\n---\n", "line 4"),
    "never closed": ("---\na: 1\n", "line 1"),
    "JSON": ('---\n{"a": 1}\n---\n', "lines of their own"),
    "JSON with surrogates": ('---\n{"a": "\\ud83d\\ude00"}\n---\n', "lines of their own"),
    "a key over lines": ("---\n? a\n: 1\n---\n", "plain"),
    "an anchor in use": ("---\na: &x 1\nb: *x\n---\n", "more than its lines"),
    "a document's end": ("---\nb: 1\n...\n---\n", "more than its lines"),
}


@pytest.mark.parametrize(("text", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_what_lines_cannot_do_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem) as raised:
        set_property(text, "a", 2)
    assert raised.value.hint


def test_a_rare_line_break_ends_no_line() -> None:
    text = "---\na: 1\u2028b: 2\n---\n"
    assert set_property(text, "a", 2) == "---\na: 2\u2028b: 2\n---\n"
    with pytest.raises(InvalidRequest, match="more than its lines"):
        set_property(text, "a", [1])
    with pytest.raises(InvalidRequest, match="plain"):
        set_property(text, "b", 1)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


BAD_VALUES = {
    "too long a number": 10**30,
    "an object": object(),
    "a lone surrogate": "\udc80",
    "too deep": nested(3000),
    "too long": "x" * 300_000,
}


@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=BAD_VALUES.keys())
@pytest.mark.parametrize("text", ["---\na: [1]\n---\n", "body"])
def test_values_that_would_read_otherwise_are_refused(text: str, value: Any) -> None:
    with pytest.raises(InvalidRequest):
        set_property(text, "a", value)
    with pytest.raises(InvalidRequest):
        append_to_property(text, "a", [value])


@pytest.mark.parametrize("key", ["", " ", "a\nb", " a", "x" * 200])
def test_keys_that_are_no_names_are_refused(key: str) -> None:
    with pytest.raises(InvalidRequest, match="name of a property"):
        set_property("body", key, 1)


def test_keys_that_differ_in_case_only_are_ambiguous() -> None:
    with pytest.raises(Ambiguous) as raised:
        set_property("---\nTag: 1\nTAG: 2\n---\n", "tag", 3)
    assert raised.value.details["candidates"] == ["Tag", "TAG"]


def test_deleting_what_is_not_there_names_what_is() -> None:
    with pytest.raises(NotFound) as raised:
        delete_property("---\nb: 1\nc: 2\n---\n", "a")
    assert raised.value.details["keys"] == ["b", "c"]
    assert "b, c" in raised.value.hint


def test_not_a_number_is_itself() -> None:
    assert set_property("---\na: .NaN\n---\n", "a", math.nan) == "---\na: .NaN\n---\n"


words = st.text("ab #:-,[]{}'\"&*!|>%@`\\.019yesно🎉\t", max_size=12)
scalars = st.one_of(
    words,
    st.integers(-(10**6), 10**6),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.dates(),
)
values = st.one_of(
    scalars, st.lists(scalars, max_size=4), st.dictionaries(words, scalars, min_size=1, max_size=2)
)
sources = st.sampled_from([*TRAPS.values(), *(lines for lines, *_ in SET.values())])


@settings(max_examples=200, deadline=None)
@given(
    above=sources, below=sources, value=values, more=st.lists(scalars, min_size=1, max_size=3),
    form=st.sampled_from(list(FORMS.values())), end=st.sampled_from(["---\nx\n", "---\n\n y", "---"]),
    style=st.sampled_from(["", " 1 # c", " [p, 'q']", "\n- p\n- q", "\n    -  p # d", " |\n  p", " {p: 1}"]),
)  # fmt: skip
def test_any_edit_leaves_the_rest(
    above: str, below: str, value: Any, more: list[Any], form: Any, end: str, style: str
) -> None:
    if above.startswith("  ") or below.startswith("  "):
        above = below = "a: 1\n"
    head, tail = form(f"---\n{above}"), form(below + end).removeprefix("\ufeff")
    text = head + form(f"key:{style}\n").removeprefix("\ufeff") + tail
    if split(text).warning and not split(text).properties:
        return
    edits: list[Callable[[str], str]] = [
        lambda note: set_property(note, "key", value),
        lambda note: append_to_property(note, "key", more),
        lambda note: append_to_property(note, "key", more, at_front=True),
        lambda note: delete_property(note, "key"),
    ]
    for number, edit in enumerate(edits):
        try:
            after = edit(text)
        except InvalidRequest:
            continue
        assert after.startswith(head)
        assert after.endswith(tail)
        assert "\r\n" not in text or "\n" not in after.replace("\r\n", "")
        if number < 3:
            assert edit(after) == after


@settings(max_examples=200, deadline=None)
@given(value=values)
def test_plain_values_are_never_refused(value: Any) -> None:
    after = set_property("---\na: 1\nkey: old # c\nz: 2\n---\nbody", "key", value)
    assert after.startswith("---\na: 1\nkey:")
    assert after.endswith("\nz: 2\n---\nbody")
    items = [value] if not isinstance(value, list) else value
    for style in ("[p, 'q']", "\n- p\n- q"):
        listed = append_to_property(f"---\nkey: {style}\nz: 2\n---\nbody", "key", items)
        assert listed.endswith("\nz: 2\n---\nbody")
