import json

import pytest

from server.index.facts import derive
from server.index.store import Index

from .build import doc, text_of


def test_tags_come_with_their_ancestors_and_without_case() -> None:
    facts = derive("n.md", b"#Work/Alpha/x #work #WORK/alpha\n", 1000)
    assert {row[0]: row[2] for row in facts.tags} == {
        "work": True,
        "work/alpha": True,
        "work/alpha/x": True,
    }
    facts = derive("n.md", b"#a/b\n", 1000)
    assert facts.tags == (("a", "a", False), ("a/b", "a/b", True))


def test_properties_are_typed_and_lists_are_spread() -> None:
    text = (
        "---\nno:\nyes_: true\nint: 3\nfloat: 2.5\nday: 2026-02-20\nquoted: '2026-02-20 10:00'\n"
        "word: text\nlist: [1, two]\nempty: []\nmap: {a: 1}\nnan: .nan\n"
        "Big: 123456789012345678901\n---\n"
    )
    facts = derive("n.md", text.encode(), 10_000)
    rows = [(key, listed, kind, value) for _, _, key, listed, kind, value in facts.props]
    assert rows == [
        ("no", False, "null", None),
        ("yes_", False, "bool", 1),
        ("int", False, "num", 3),
        ("float", False, "num", 2.5),
        ("day", False, "date", "2026-02-20"),
        ("quoted", False, "date", "2026-02-20T10:00"),
        ("word", False, "str", "text"),
        ("list", True, "num", 1),
        ("list", True, "str", "two"),
        ("empty", False, "json", "[]"),
        ("map", False, "json", json.dumps({"a": 1})),
        ("nan", False, "str", "nan"),
        ("Big", False, "str", "123456789012345678901"),
    ]
    assert [row[1] for row in facts.props][-1] == "big"


def test_the_name_and_the_title_are_both_found(index: Index) -> None:
    index.put([doc("filename.md", "# Heading\nbody")])
    assert index.fts_count("title:filename") == 1
    assert index.fts_count("headings:heading") == 1


@pytest.mark.parametrize(
    "text",
    [
        '---\ntags: ["\\ud800x"]\naliases: ["\\udfff"]\ntitle: "\\ud800"\n---\n',
        '---\nk: {"a": "\\ud800"}\nl: ["[[\\ud800]]"]\n---\n',
        '---\n{"k": "\\ud800", "tags": ["\\udc00t"]}\n---\n',
        '---\nk: "nul \\0 inside"\n---\n',
        "---\nk: " + "9" * 5000 + "\n---\n",
        "---\na: &a [*a]\n---\n",
        "---\n? [complex, key]\n: value\n---\n",
        "---\nunclosed: [\n---\n[[link\n",
        "\ufeff---\nk: v\n---\n",
        "[[a|b" * 500,
        "",
    ],
)
def test_odd_notes_are_stored_like_all_others(index: Index, text: str) -> None:
    index.put([doc("before.md", "x"), doc("odd.md", text), doc("after.md", "x")])
    assert text_of(index, "odd.md") == text.encode()
    assert index.counts().notes == 3
    assert index.check() == []
