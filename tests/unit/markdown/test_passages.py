"""Passages: everything of the body, nothing twice, none too long."""

from hypothesis import given
from hypothesis import strategies as st

from server.markdown.note import parse
from server.markdown.passages import passages

MARKDOWN = st.lists(
    st.sampled_from(
        [
            "# One\n",
            "## Two\n",
            "### Three\n",
            "\n",
            "words and words\n",
            "- item\n",
            "x" * 50,
            "日本語 ",
        ]
    )
).map("".join)


@given(MARKDOWN | st.text(), st.integers(10, 200))
def test_passages_cover_the_body_in_order_without_overlap(text: str, size: int) -> None:
    note = parse(text, "a.md")
    found = passages(text, note, size)
    at = note.frontmatter.body
    covered = []
    for passage in found:
        assert passage.start >= at
        assert 0 < passage.end - passage.start <= size
        at = passage.end
        covered.append(text[passage.start : passage.end])
    spans = [(h.start, h.end) for h in note.headings]
    body = "".join(
        char
        for i, char in enumerate(text)
        if i >= note.frontmatter.body and not any(a <= i < b for a, b in spans)
    )
    assert "".join("".join(covered).split()) == "".join(body.split())


def test_a_passage_knows_its_headings_and_prefers_to_end_with_a_paragraph() -> None:
    text = "intro\n\n# A\n\nfirst paragraph here\n\nsecond paragraph here\n\n## B\n\nbelow b\n"
    found = passages(text, parse(text, "a.md"), 40)
    assert [(p.heading, text[p.start : p.end]) for p in found] == [
        ("", "intro"),
        ("A", "first paragraph here"),
        ("A", "second paragraph here"),
        ("A#B", "below b"),
    ]
