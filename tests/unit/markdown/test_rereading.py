"""A note that is read again after an edit says what it would say to who reads it first."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.markdown import rereading
from server.markdown.note import parse
from server.markdown.rereading import Readings

LINES = [
    "", "", "word word", "# One", "## Two", "### Three [[c]] #tag", "  ## Two", "####", "## ", "#no",
    "[[a]] and ![[b|c]]", "[x](y.md)", "[open", "shut](z.md)", "#tag", "#other", "^block", "text ^id",
    "- [ ] task", "- [x] done [[d]]", "> quote", "> ```", "> ## Quoted", "```", "~~~", "````", "`code",
    "code` [[e]]", "``", "===", "---", "- item", "1. item", "| #a | [[f]] |", "\\[[g]]", "*#bold*",
    "    indented [[h]]", "\t- nested", "$$", "$x$", "<!--", "-->", "<div>", "</div>", "%%", "[a]: b",
    "\\#no ![i](j.png)", "word\r", "<a b=", "==#marked==", "| cell",
]  # fmt: skip
PLAIN = [line for line in LINES if not set("<$") & set(line) and not line.startswith("    ")]
HEADS = ["", '---\ntags: [a]\nup: "[[u]]"\n---\n', "---\ntitle: T\n---\n", "---\n", "text\n"]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rereading, "_SHORTEST", 0)


def texts(lines: list[str], most: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(lines), max_size=most).map("\n".join)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(HEADS), texts(LINES, 15), texts(LINES, 3), texts(LINES, 3), texts(LINES, 15))
def test_whatever_changed_it_is_read_as_if_for_the_first_time(
    head: str, above: str, old: str, new: str, below: str
) -> None:
    readings = Readings()
    for part in (old, new, new + "x", "\n" + new, old):
        text = f"{head}{above}{part}{below}"
        assert readings.parse(text, "n.md") == parse(text, "n.md")


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(HEADS), st.integers(), st.integers(3, 40))
def test_edits_that_follow_each_other_add_up_to_no_error(head: str, seed: int, size: int) -> None:
    chance = random.Random(seed)
    readings, lines = Readings(), chance.choices(PLAIN, k=size)
    for _ in range(8):
        at = chance.randrange(size)
        lines[at : at + chance.randrange(3)] = chance.choices(PLAIN, k=chance.randrange(3))
        text = head + "\n".join(lines)
        assert readings.parse(text, "n.md") == parse(text, "n.md")


def test_a_change_below_a_heading_is_all_that_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    text = "".join(f"## H{n}\n\n[[a{n}]] #tag\n- [ ] do\nline ^b{n}\n\n" for n in range(50))
    changed = text.replace("[[a30]]", "[[new]]\nmore [[links]]")
    readings = Readings()
    readings.parse(text, "n.md")
    monkeypatch.setattr(rereading, "parse", refuse)
    found = readings.parse(changed, "n.md")
    assert found == parse(changed, "n.md")
    assert [link.target for link in found.links][29:33] == ["a29", "new", "links", "a31"]
    assert readings.parse(changed, "n.md") is found


def test_another_name_is_another_note() -> None:
    readings = Readings()
    assert readings.parse("text", "a.md").title == "a"
    assert readings.parse("text", "b.md").title == "b"


def test_it_remembers_only_as_much_as_it_may() -> None:
    readings = Readings(most_chars=25)
    first, second = readings.parse("1" * 10, "a.md"), readings.parse("2" * 10, "b.md")
    assert readings.parse("2" * 10, "b.md") is second
    readings.parse("3" * 10, "c.md")
    assert readings.parse("1" * 10, "a.md") is not first
    large = readings.parse("4" * 26, "d.md")
    assert readings.parse("4" * 26, "d.md") is not large
