"""The block at the top of a note: typing, what is malformed, and the way back to text."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.markdown.frontmatter import jsonable, render, split


def properties(*lines: str) -> Mapping[str, Any]:
    note = split("\n".join(("---", *lines, "---", "body")))
    assert note.warning is None
    return note.properties


TYPES = {
    "text": ("hello world", "hello world"),
    "quoted number is text": ('"12"', "12"),
    "yes is text": ("yes", "yes"),
    "No is text": ("No", "No"),
    "on is text": ("on", "on"),
    "off is text": ("off", "off"),
    "y is text": ("y", "y"),
    "time is text": ("10:30", "10:30"),
    "time with seconds is text": ("10:30:15", "10:30:15"),
    "underscored number is text": ("1_000", "1_000"),
    "leading zero is text": ("010", "010"),
    "leading zero in a float is text": ("00.5", "00.5"),
    "hexadecimal is text": ("0x1F", "0x1F"),
    "octal is text": ("0o17", "0o17"),
    "too long for a number is text": ("1234567890123456789", "1234567890123456789"),
    "overflowing float is text": ("1e999", "1e999"),
    "true": ("true", True),
    "False": ("False", False),
    "int": ("42", 42),
    "negative int": ("-7", -7),
    "plus sign": ("+7", 7),
    "zero": ("0", 0),
    "float": ("3.14", 3.14),
    "float without fraction": ("3.", 3.0),
    "float without integer": (".5", 0.5),
    "exponent": ("1e3", 1000.0),
    "infinity": ("-.inf", -math.inf),
    "null": ("null", None),
    "tilde": ("~", None),
    "nothing": ("", None),
    "date": ("2026-02-20", date(2026, 2, 20)),
    "impossible date is text": ("2026-13-40", "2026-13-40"),
    "week date is text": ("2026-W01-1", "2026-W01-1"),
    "datetime": ("2026-02-20T10:30:00", datetime(2026, 2, 20, 10, 30)),
    "datetime with a space": ("2026-02-20 10:30:05", datetime(2026, 2, 20, 10, 30, 5)),
    "datetime to the minute": ("2026-02-20T10:30", datetime(2026, 2, 20, 10, 30)),
    "datetime in UTC": ("2026-02-20T10:30:00Z", datetime(2026, 2, 20, 10, 30, tzinfo=UTC)),
    "datetime with a zone": (
        "2026-02-20T10:30:00+0200",
        datetime(2026, 2, 20, 10, 30, tzinfo=timezone(timedelta(hours=2))),
    ),
    "impossible time is text": ("2026-02-20T25:00:00", "2026-02-20T25:00:00"),
    "list": ("[a, 1, yes]", ["a", 1, "yes"]),
    "mapping": ("{a: {b: no}}", {"a": {"b": "no"}}),
    "bare brackets are lists": ("[[x]]", [["x"]]),
    "quoted link": ('"[[x]]"', "[[x]]"),
    "template": ("{{date}}", {"{date}": None}),
    "unknown tag is ignored": ("!secret abc", "abc"),
    "python tag is ignored": ("!!python/object/apply:os.system ls", "ls"),
    "merge key is a key": ("{<<: {a: 1}}", {"<<": {"a": 1}}),
    "emoji": ("🎉 日本", "🎉 日本"),
}


@pytest.mark.parametrize(("source", "value"), TYPES.values(), ids=TYPES.keys())
def test_value(source: str, value: object) -> None:
    read = properties(f"key: {source}")["key"]
    assert (type(read), read) == (type(value), value)


def test_nan() -> None:
    assert math.isnan(properties("key: .nan")["key"])


def test_keys_are_text_as_written() -> None:
    keys = properties("2024: a", "yes: b", "null: c", "1.0: d", "2024-01-01: e", "[x]: f")
    assert list(keys) == ["2024", "yes", "null", "1.0", "2024-01-01", "[x]"]


def test_aliases_are_resolved() -> None:
    assert properties("a: &x [1, 2]", "b: *x") == {"a": [1, 2], "b": [1, 2]}


FENCES = {
    "plain": ("---\na: 1\n---\nbody", {"a": 1}, "body"),
    "byte order mark": ("\ufeff---\na: 1\n---\nbody", {"a": 1}, "body"),
    "carriage returns": ("---\r\na: 1\r\nb: x\r\n---\r\nbody", {"a": 1, "b": "x"}, "body"),
    "blanks after the fences": ("--- \na: 1\n---\t\nbody", {"a": 1}, "body"),
    "nothing below": ("---\na: 1\n---", {"a": 1}, ""),
    "nothing below but a carriage return": ("---\na: 1\n---\r", {"a": 1}, ""),
    "empty": ("---\n---\nbody", {}, "body"),
    "only comments": ("---\n# x\n---\nbody", {}, "body"),
    "json": (
        '---\n{"a": [1, "x\\/y"], "b": null}\n---\nbody',
        {"a": [1, "x/y"], "b": None},
        "body",
    ),
    "json with surrogates": ('---\n{"a": "\\ud83d\\ude00"}\n---\nbody', {"a": "😀"}, "body"),
    "indented json": ('---\n{\n\t"a": 1\n}\n---\nbody', {"a": 1}, "body"),
    "dashes inside a text": ("---\na: |\n  ---\n---\nbody", {"a": "---\n"}, "body"),
    "rule below": ("---\na: 1\n---\nx\n---\ny", {"a": 1}, "x\n---\ny"),
    "no frontmatter": ("a: 1\n---\n", {}, "a: 1\n---\n"),
    "not on the first line": ("\n---\na: 1\n---\n", {}, "\n---\na: 1\n---\n"),
    "four dashes": ("----\na: 1\n----\n", {}, "----\na: 1\n----\n"),
    "text after the dashes": ("--- a\nb: 1\n---\n", {}, "--- a\nb: 1\n---\n"),
    "nothing": ("", {}, ""),
}


@pytest.mark.parametrize(("text", "values", "body"), FENCES.values(), ids=FENCES.keys())
def test_fence(text: str, values: object, body: str) -> None:
    found = split(text)
    assert (found.properties, text[found.body :], found.warning) == (values, body, None)


MALFORMED = {
    "two colons": ("a: 1\nb: c: d", "line 3", "mapping values"),
    "unclosed quote": ('a: "x', "line", ""),
    "unclosed list": ("a: [1", "line", ""),
    "tab": ("a:\n\tb: 1", "line 3", ""),
    "list": ("- a", "line 2", "instead of"),
    "text": ("hello", "line 2", "instead of"),
    "two documents": ("a: 1\n--- !!map\nb: 2", "line 3", "more than one document"),
    "nested lists": ("[" * 5000, "line 2", "nested"),
    "nested blocks": ("- " * 5000, "line 2", "nested"),
    "nested keys": ("? " * 5000, "line 2", "nested"),
    "nested json": ('{"a":' * 5000 + "1" + "}" * 5000, "line 2", "nested"),
    "alias bomb": (
        "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [{f'*a{i - 1},' * 9}]" for i in range(1, 12))]),
        "line",
        "values",
    ),
    "alias of itself": ("a: &x [*x]", "line 2", "alias"),
    "unknown alias": ("a: *x", "line 2", "alias"),
    "too long": ("a: " + "x" * 300_000, "line 2", "longer"),
    "control characters": ("a: \x00", "line", ""),
    "lone surrogate": ("a: \ud800", "line", ""),
    "lone surrogate in json": ('{"a": "\\ud800"}', "line 2", ""),
}


@pytest.mark.parametrize(("raw", "line", "problem"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_is_a_warning(raw: str, line: str, problem: str) -> None:
    found = split(f"---\n{raw}\n---\nbody")
    assert found.properties == {}
    assert found.raw == f"{raw}\n"
    assert found.warning is not None
    assert line in found.warning
    assert problem in found.warning
    assert len(found.warning) < 200
    assert found.body == len(raw) + 9


def test_unclosed_fence_is_a_warning_and_all_body() -> None:
    found = split("---\na: 1\n")
    assert (found.properties, found.raw, found.body) == ({}, "", 0)
    assert found.warning == "frontmatter, line 1: the opening --- is never closed"


def test_of_repeated_keys_the_last_counts() -> None:
    found = split("---\na: 1\nb: {x: 1}\na: 2\n---\n")
    assert found.properties == {"a": 2, "b": {"x": 1}}
    assert found.warning == "frontmatter, line 4: 'a' is there twice, the last one counts"


def test_render_looks_like_obsidian() -> None:
    block = render(
        {
            "title": "Überblick: 日本 🎉",
            "tags": ["devlog", "a/b"],
            "created": date(2026, 2, 20),
            "updated": datetime(2026, 2, 20, 10, 30),
            "up": "[[Home]]",
            "see": "also [[x]]",
            "done": False,
            "size": 3,
            "nothing": None,
            "none": [],
            "code": "007",
            "word": "yes",
            "flag": "true",
            "day": "2026-02-20",
            "time": "10:30",
            "lines": "one\ntwo",
            "long": "word " * 40 + "end",
            "nested": {"a": [{"b": 1}]},
        }
    )
    assert block == (
        "---\n"
        "title: 'Überblick: 日本 🎉'\n"
        "tags:\n  - devlog\n  - a/b\n"
        "created: 2026-02-20\n"
        "updated: 2026-02-20T10:30:00\n"
        'up: "[[Home]]"\n'
        "see: also [[x]]\n"
        "done: false\n"
        "size: 3\n"
        "nothing:\n"
        "none: []\n"
        "code: '007'\n"
        "word: yes\n"
        "flag: 'true'\n"
        "day: '2026-02-20'\n"
        "time: 10:30\n"
        "lines: |-\n  one\n  two\n"
        f"long: {'word ' * 40}end\n"
        "nested:\n  a:\n    - b: 1\n"
        "---\n"
    )


def test_render_of_nothing_is_nothing() -> None:
    assert render({}) == ""


TRICKY = st.sampled_from(
    [
        *("yes", "010", "1e3", "2026-02-20", "null", "~", "", "[[x]]", "- a", "a: b", "#x", " a "),
        *("---", "0x1f", "a #b", "|", ">", "a\n\nb\n", "\n", "a\n---\nb", "a \nb", "\ta\n b"),
        *("!x", "&a", "*a", "\r\n", "a\r\nb", "\x85", "\u2028x\n", "\ufeff", "\x00", "a\n\n"),
        *("''", '"', "1234567890" * 3, "\u00a0", "%a", "@a", "? a", "a:", "{}", "[]"),
    ]
)
TEXTS = st.text() | TRICKY
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**18) + 1, 10**18 - 1)
    | st.floats(allow_nan=False)
    | TEXTS
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)


@given(st.dictionaries(TEXTS, VALUES, max_size=6))
def test_what_is_rendered_is_read_back(values: dict[str, Any]) -> None:
    text = render(values) + "body"
    found = split(text)
    assert found.properties == values
    assert repr(jsonable(found.properties)) == repr(jsonable(values))  # 1, 1.0 and True differ
    assert found.warning is None
    assert text[found.body :] == "body"


@given(st.dictionaries(TEXTS, VALUES | st.just(math.nan), max_size=6))
def test_jsonable_survives_strict_json(values: dict[str, Any]) -> None:
    plain = jsonable(values)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_jsonable_values() -> None:
    moment = datetime(2026, 2, 20, 10, 30)
    values = {"a": date(2026, 2, 20), "b": [moment, math.inf], "c": (math.nan, 1.5, True, None)}
    assert jsonable(values) == {
        "a": "2026-02-20",
        "b": ["2026-02-20T10:30:00", "inf"],
        "c": ["nan", 1.5, True, None],
    }


YAML_LIKE = st.text(st.sampled_from("ab1:-[]{}&*!|>'\"%@`,#?~. \n\t\r\\u\ufeff😀\x00"))


@given(YAML_LIKE | st.text())
def test_split_never_raises(raw: str) -> None:
    text = f"---\n{raw}\n---\n"
    found = split(text)
    assert 0 <= found.body <= len(text)
    assert found.raw in text
    for start, end, value in found.linked:
        assert 0 < start < end <= found.body
        assert "[[" in value
