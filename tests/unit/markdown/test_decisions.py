"""Decision records: named by convention, written with typed properties, changed in place."""

from datetime import date
from typing import Any

import pytest

from server.markdown.decisions import (
    Decision,
    file_name,
    link_to,
    new_decision,
    number_of,
    parts_of,
    title_of,
    with_related,
    with_status,
)
from server.markdown.frontmatter import split
from server.markdown.note import parse

DAY = date(2026, 2, 20)
WHAT = Decision(
    "Poll | watch", "Because.\n", "Poll.", "Late.", ["watch\nslowly", "poll"], project="vault"
)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ADR-007-polling.md", 7),
        ("ADR-7 polling.md", 7),
        ("adr-0007-polling.md", 7),
        ("ADR 12.md", 12),
        ("adr12.md", 12),
        ("0007-polling.md", 7),
        ("007 polling.md", 7),
        ("2026-02-20-notes.md", None),
        ("7-samurai.md", None),
        ("polling.md", None),
        ("ADR-template.md", None),
    ],
)
def test_numbers_are_found_in_names_of_many_forms(name: str, number: int | None) -> None:
    assert number_of(name) == number


@pytest.mark.parametrize(
    ("value", "number"),
    [(7, 7), (7.0, 7), (7.5, None), (True, None), ("7", None), (-1, None), (float("inf"), None)],
)
def test_a_property_names_what_a_name_does_not(value: Any, number: int | None) -> None:
    assert number_of("polling.md", {"adr": value}) == number
    assert number_of("ADR-003-x.md", {"adr": value}) == 3


def test_a_new_record_has_sections_and_typed_properties() -> None:
    text = new_decision(3, DAY, WHAT, ["[[ADR-001-x]]", "https://example.org/1"])
    assert dict(split(text).properties) == {
        "tags": ["adr", "accepted"],
        "adr": 3,
        "date": DAY,
        "status": "accepted",
        "project": "vault",
        "related": ["[[ADR-001-x]]", "https://example.org/1"],
    }
    assert "\nadr: 3\ndate: 2026-02-20\nstatus: accepted\n" in text
    body = text[split(text).body :]
    assert body == (
        "# ADR-003: Poll | watch\n\n## Context\n\nBecause.\n\n## Options\n\n1. watch\n   slowly\n"
        "2. poll\n\n## Decision\n\nPoll.\n\n## Consequences\n\nLate.\n"
    )
    assert file_name(3, WHAT.title) == "ADR-003-poll-watch.md"
    assert title_of(parse(text, "x.md").title) == "Poll | watch"


def test_without_options_there_is_no_such_section() -> None:
    text = new_decision(1000, DAY, Decision("a", "b", "c", "d"), [])
    assert "Options" not in text
    assert text.count("related: []") == 1
    assert "# ADR-1000: a" in text


@pytest.mark.parametrize(
    ("tags", "after"),
    [
        ("tags: [adr, accepted]", "tags: [adr, superseded]"),
        (
            "tags:\n  - x # why\n  - accepted\n  - adr",
            "tags:\n  - x # why\n  - superseded\n  - adr",
        ),
        ("tags: [adr]", "tags: [adr, superseded]"),
        ("tags: [adr, Proposed, accepted]", "tags: [adr, superseded]"),
        ("tags: [adr, superseded]", "tags: [adr, superseded]"),
    ],
)
def test_a_status_changes_where_it_stands(tags: str, after: str) -> None:
    text = f"---\n{tags}\nstatus: accepted # since then\nz: 1.10\n---\n# x\nstatus: accepted\n"
    changed = with_status(text, parse(text, "x.md"), "superseded")
    assert changed == text.replace(tags, after).replace(
        "status: accepted #", "status: superseded #"
    )


def test_a_record_without_properties_gets_them() -> None:
    changed = with_status("# x\r\n", parse("# x\r\n", "x.md"), "accepted")
    assert split(changed).properties == {"status": "accepted", "tags": ["adr", "accepted"]}
    assert changed.endswith("---\r\n# x\r\n")


def test_a_link_is_related_once() -> None:
    text = '---\nrelated: ["[[a]]"]\n---\nx\n'
    once = with_related(text, "[[b]]")
    assert once == '---\nrelated: ["[[a]]", "[[b]]"]\n---\nx\n'
    assert with_related(once, "[[b]]") == once


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("notes/a.md", "[[notes/a]]"),
        ("[[a|b]]", "[[a|b]]"),
        ("https://example.org/x", "https://example.org/x"),
    ],
)
def test_related_things_become_links(name: str, link: str) -> None:
    assert link_to(name) == link


def test_long_sections_share_the_room_that_short_ones_leave() -> None:
    text = f"# t\n\nabove\n\n## A\n\n{'a' * 1000}\n\n### sub\n\n## B\n\nbb\n\n## C\n\n{'c' * 500}\n"
    parts = parts_of(text, parse(text, "t.md"), 307)
    assert [(part.heading, len(part.text)) for part in parts] == [
        ("", 5), ("A", 150), ("B", 2), ("C", 150),
    ]  # fmt: skip
    assert [part.chars for part in parts] == [5, 1009, 2, 500]
    whole = parts_of(text, parse(text, "t.md"), 10_000)
    assert all(part.chars == len(part.text) for part in whole)
