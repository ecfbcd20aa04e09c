"""A note that changes leaves no trace of what it said before, however little is written for that."""

from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.index.facts import derive
from server.index.store import Index

from .build import doc, entry

HEADS = [
    "", "---\ntags: [a, b/c]\nn: 1\n---\n", "---\ntags: [a, b/c]\nn: 1.0\n---\n",
    "---\nn: [1, 2]\ncreated: 2020-01-01\naliases: [x]\n---\n", "---\nn: [2]\naliases: [y, x]\n---\n",
]  # fmt: skip
LINES = [
    "", "word", "# One", "## Two", "[[a]]", "[[b|c]]", "![[p.png]]", "[[none]]", "#tag", "#tag/sub",
    "- [ ] do", "- [x] do", "text ^id", "[[#One]]",
]  # fmt: skip
NOTES = st.tuples(st.sampled_from(HEADS), st.lists(st.sampled_from(LINES), max_size=8)).map(
    lambda parts: parts[0] + "\n".join(parts[1])
)
TABLES = (
    "links", "tags", "props", "aliases", "headings", "blocks", "tasks", "tag_counts", "prop_counts",
    "value_counts", "fulltext_sum",
)  # fmt: skip
SAID = "id, path, key, name_lc, kind, size, mtime_ns, etag, title, words, warning, created_ns"


def said(folder: Path) -> dict[str, list[str]]:
    """Everything the tables hold, the kind of every number included."""
    db = apsw.Connection(str(next(folder.rglob("index.db"))))
    found = {
        table: sorted(repr(row) for row in db.execute(f"SELECT * FROM {table}")) for table in TABLES
    }
    found["notes"] = [repr(row) for row in db.execute(f"SELECT {SAID} FROM notes ORDER BY id")]
    db.close()
    return found


@settings(max_examples=40, deadline=None)
@given(before=st.lists(NOTES, min_size=1, max_size=3), after=NOTES, own=st.booleans())
def test_a_changed_note_is_stored_as_if_it_were_new(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: str, own: bool
) -> None:
    kept = []
    for contents in ([*before, after], [after]):
        folder = tmp_path_factory.mktemp("index")
        index = Index.open(folder)
        index.put_files([entry("p.png")])
        index.put([doc("n.md", contents[0]), doc("a.md", "[[n]]"), doc("b.md", "[[a]]")])
        for content in contents[1:]:
            if own:
                index.put_own(doc("n.md", content))
            else:
                index.put([doc("n.md", content)])
        assert not [hit for hit in index.check() if hit]
        index.close()
        kept.append(said(folder))
    assert kept[0] == kept[1]


def test_a_link_that_stays_follows_the_names_that_come_with_it(index: Index) -> None:
    index.put([doc("n.md", "[[a]] [[b]]\n"), doc("x/a.md")])
    index.put([doc("n.md", "more\n\n[[a]] [[b]]\n"), doc("a.md"), doc("b.md")])
    assert [(link.dst, link.line) for link in index.outbound("n.md")] == [("a.md", 3), ("b.md", 3)]


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u2003é."), max_size=30))
def test_words_are_what_stands_between_spaces(text: str) -> None:
    assert derive("n.md", text.encode(), 1 << 20).words == len(text.split())
