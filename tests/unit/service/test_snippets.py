"""Snippets: the right words, whole words, marked, and no more than asked for."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.query.tree import Text
from server.service.snippets import CHARS, Snippets

LONG = "filler words stand here " * 40


def snippet(text: str, *words: str, prefix: bool = False, chars: int = CHARS) -> str:
    return Snippets([Text(word, prefix) for word in words]).of(text, chars)


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("a Café here", ["cafe"], ["Café"]),
        ("a cafe here", ["CAFÉ"], ["cafe"]),
        (unicodedata.normalize("NFD", "a Café here"), ["cafe"], ["Café"]),
        ("party art arts", ["art"], ["art"]),
        ("snake_case and case", ["case"], ["case", "case"]),
        ("the big\n  *red* dog", ["big red"], ["big *red"]),
        ("私は東京都に住む", ["東京"], ["東京"]),
        ("Python東京", ["python"], ["Python"]),
        ("Python東京", ["python東"], ["Python東"]),
        ("Привет мир", ["привет"], ["Привет"]),
        ("one two three", ["two", "three"], ["two", "three"]),
        ("co-operate", ["co-operate"], ["co-operate"]),
    ],
)
def test_matches_are_marked_as_search_matches_them(
    text: str, words: list[str], marked: list[str]
) -> None:
    assert re.findall(r"\*\*(.+?)\*\*", snippet(text, *words)) == marked


def test_a_beginning_is_marked_with_the_rest_of_its_word() -> None:
    assert snippet("the gardener came", "gard", prefix=True) == "the **gardener** came"


def test_the_best_window_has_the_most_different_words() -> None:
    text = f"alpha {LONG} alpha alpha {LONG} alpha near beta {LONG}"
    assert "**alpha** near **beta**" in snippet(text, "alpha", "beta")


def test_matches_that_overlap_are_marked_once() -> None:
    assert snippet("big red dog", "big red", "red", "red dog") == "**big red** dog"


def test_bold_text_is_not_marked_twice() -> None:
    assert snippet("a **bold** and ==loud== word", "bold") == "a **bold** and loud word"


def test_properties_are_shown_only_when_nothing_else_matches() -> None:
    note = "---\nstatus: open\ntitle: zebra\n---\nA zebra and a lion.\n"
    assert snippet(note, "zebra") == "A **zebra** and a lion."
    assert snippet(note, "open") == "status: **open** title: zebra"
    assert snippet(note.replace("\n", "\r\n"), "zebra") == "A **zebra** and a lion."


def test_a_note_found_by_its_name_is_shown_from_its_beginning() -> None:
    assert snippet("---\nk: v\n---\n\n# Heading\n\ntext", "nothing") == "# Heading text"
    assert snippet("", "nothing") == ""
    assert snippet("only text") == "only text"


def test_a_snippet_begins_with_its_line_if_that_is_near() -> None:
    text = f"{LONG}\n- [ ] water the zebra\n{LONG}"
    assert snippet(text, "zebra").startswith("…- [ ] water the **zebra** filler")


def test_a_match_that_is_too_long_is_cut_between_words() -> None:
    shown = snippet(LONG, LONG, chars=60)
    assert len(shown) <= 60
    assert shown.startswith("**filler words")
    assert set(re.findall(r"\w+", shown)) <= {"filler", "words", "stand", "here"}
    assert len(snippet("x" * 500, "x", prefix=True, chars=60)) <= 60


def test_a_match_far_down_a_long_note_is_found() -> None:
    assert "**zebra**" in snippet(LONG * 40 + " zebra " + LONG, "zebra")


_TEXT = st.text(st.sampled_from("ab é東京 \n.*#-_'"), max_size=400)
_WORD = st.text(st.sampled_from("abé東京 "), min_size=1, max_size=6)


@given(
    text=_TEXT, words=st.lists(_WORD, max_size=4), prefix=st.booleans(), chars=st.integers(24, 200)
)
def test_never_longer_than_asked_and_never_half_a_word(
    text: str, words: list[str], prefix: bool, chars: int
) -> None:
    shown = Snippets([Text(word, prefix) for word in words]).of(text, chars)
    assert len(shown) <= chars
    whole = set[str]()
    for run in re.findall(r"[abé]+(?:(?:\*\*)+[abé]+)*", text):
        # Words that only marks of emphasis part are one to a reader, and shown without them.
        parts = re.findall(r"[abé]+", run)
        whole |= {"".join(parts[a:b]) for a in range(len(parts)) for b in range(a, len(parts) + 1)}
    plain = shown.replace("*", " ").replace("=", " ")
    longest = max((len(word) for word in whole), default=0)
    if longest < chars // 4:
        assert set(re.findall(r"[abé]+", plain)) <= whole
