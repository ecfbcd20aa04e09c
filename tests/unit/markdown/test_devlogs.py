"""Devlogs: lines as the convention has them, files as people left them."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.markdown.devlogs import (
    TYPES,
    Entry,
    add_entries,
    entry_line,
    new_devlog,
    read_entries,
)
from server.markdown.frontmatter import split

DAY = date(2026, 2, 20)
NOW = datetime(2026, 2, 20, 12, 30, 5, tzinfo=UTC)
SAMPLE = """---
tags: [devlog]
topic: vault-server
created: 2026-02-18
updated: 2026-02-18 # by hand
---
# vault-server

[impl]    2026-02-18  Scanner
"""


def test_dates_of_all_types_stand_below_each_other() -> None:
    lines = [entry_line(kind, DAY, "text") for kind in TYPES]
    assert lines[0] == "[impl]    2026-02-20  text"
    assert len({line.index("2026") for line in lines}) == 1


def test_a_resolution_follows_an_arrow() -> None:
    line = entry_line("problem", DAY, "it broke\n  badly ", "restart\r\nit")
    assert line == "[problem] 2026-02-20  it broke badly → restart it"


def test_a_new_devlog_has_properties_of_the_right_types() -> None:
    text = new_devlog("Grüße: 2026", "vault", DAY, ["line"])
    assert dict(split(text).properties) == {
        "tags": ["devlog"],
        "topic": "Grüße: 2026",
        "project": "vault",
        "created": DAY,
        "updated": DAY,
    }
    assert "created: 2026-02-20\nupdated: 2026-02-20\n" in text
    assert text.endswith("---\n# Grüße: 2026\n\nline\n")


def test_a_topic_that_looks_like_a_number_stays_a_text() -> None:
    assert split(new_devlog("2026", None, DAY, [])).properties["topic"] == "2026"


def test_an_append_changes_the_date_and_the_end() -> None:
    text = add_entries(SAMPLE, ["[impl]    2026-02-20  more"], NOW)
    expected = SAMPLE.replace("updated: 2026-02-18 #", "updated: 2026-02-20 #")
    assert text == expected + "[impl]    2026-02-20  more\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "LINE\n"),
        ("# t", "# t\n\nLINE\n"),
        ("# t\n", "# t\n\nLINE\n"),
        ("# t\n\n", "# t\n\nLINE\n"),
        ("# t\r\n", "# t\r\n\r\nLINE\r\n"),
        ("# t\r\n\r\nx", "# t\r\n\r\nx\r\n\r\nLINE\r\n"),
        ("[impl] 2026-01-01  a", "[impl] 2026-01-01  a\nLINE\n"),
        ("- [impl] 2026-01-01 a\n", "- [impl] 2026-01-01 a\n- LINE\n"),
        ("| a |\n|---|\n| b |\n", "| a |\n|---|\n| b |\n\nLINE\n"),
        ("[impl] 2026-01-01  a\n\n\n", "[impl] 2026-01-01  a\n\n\nLINE\n"),
        ("---\na: [\n---\nx\n", "---\na: [\n---\nx\n\nLINE\n"),
        ("---\na: 1\n---\n", "---\na: 1\nupdated: 2026-02-20\n---\n\nLINE\n"),
    ],
)
def test_lines_go_to_the_end_of_what_is_there(before: str, after: str) -> None:
    assert add_entries(before, ["LINE"], NOW) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2026-02-19", "2026-02-20"),
        ("2026-02-21", "2026-02-21"),
        ("2026-02-19T08:00:00", "2026-02-20T12:30:05"),
        ("someday", "2026-02-20"),
        ("", "2026-02-20"),
    ],
)
def test_the_date_only_goes_forward_and_keeps_its_type(before: str, after: str) -> None:
    text = add_entries(f"---\nupdated: {before}\nb: 1\n---\n", [], NOW)
    assert text.split("\n")[1:3] == [f"updated: {after}", "b: 1"]


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("[impl]    2026-02-20  text", Entry("impl", "2026-02-20", "text")),
        ("[problem] 2026-02-20  a → b", Entry("problem", "2026-02-20", "a", "b")),
        ("- [Problem] 2026-02-20 a -> b", Entry("problem", "2026-02-20", "a", "b")),
        ("  * **[verify]** 2026-02-20: ok", Entry("verify", "2026-02-20", "ok")),
        ("> [insight] 2026-02-20 - so", Entry("insight", "2026-02-20", "so")),
        ("[impl] 2026-02-20 14:05 text", Entry("impl", "2026-02-20", "text")),
        ("- [ ] [problem] 2026-02-20 open", Entry("problem", "2026-02-20", "open")),
    ],
)
def test_lines_are_read_as_people_write_them(line: str, entry: Entry) -> None:
    assert list(read_entries(f"# x\n\n{line}\r\nmore\n")) == [entry]


@pytest.mark.parametrize(
    "line", ["[impl] text", "[other] 2026-02-20 x", "[impl] 2026-13-40 x", "impl 2026-02-20 x"]
)
def test_other_lines_are_passed_over(line: str) -> None:
    assert list(read_entries(line)) == []


@given(
    st.sampled_from(TYPES),
    st.text(min_size=1, max_size=60).filter(lambda text: text.strip()),
    st.text(max_size=200),
)
@settings(max_examples=200)
def test_what_is_written_is_read_again(kind: str, words: str, before: str) -> None:
    line = entry_line(kind, DAY, words)  # type: ignore[arg-type]
    text = add_entries(before, [line], NOW)
    *earlier, last = read_entries(text)
    assert (last.type, last.date) == (kind, "2026-02-20")
    assert len(earlier) == len(list(read_entries(before)))
    assert text.count("\n") >= before.count("\n") + 1
