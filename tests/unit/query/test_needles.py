"""The words that a search by eye would look for."""

import pytest

from server.query.language import parse_query
from server.query.needles import needles

CASES = {
    "kettle": ("kettle",),
    '"the blue kettle"': ("kettle",),
    "tea kettle": ("kettle",),
    "tea OR kettle": ("tea", "kettle"),
    "(tea OR kettle) saucepan": ("saucepan",),
    "(teapot OR kettle) pan": ("teapot", "kettle"),
    "kett*": ("kett",),
    "tea -kettle": ("tea",),
    "-kettle": (),
    "tag:kitchen": (),
    "kettle OR tag:kitchen": (),
    "tea tag:kitchen": ("tea",),
}


@pytest.mark.parametrize("query", CASES)
def test_every_note_that_meets_a_query_has_one_of_them(query: str) -> None:
    assert needles(parse_query(query)) == CASES[query]


def test_no_query_has_none() -> None:
    assert needles(None) == ()
