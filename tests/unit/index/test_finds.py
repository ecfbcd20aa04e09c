"""Searching the index: what matches, in which order, how many, and who may see it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.index import ranking
from server.index.finds import Scope
from server.index.ranking import Sort
from server.index.store import Index
from server.models import FileStat
from server.query.language import parse_query
from server.query.tree import Node, Op, PropertyTest, Text

from .build import doc, entry, hiding

DAY = 86_400_000_000_000


def paths(index: Index, query: str | Node | None, **options: Any) -> list[str]:
    """The hits of a query, which must be as many as are counted."""
    node = parse_query(query) if isinstance(query, str) else query
    found = index.find(node, **{"limit": 100, **options})
    assert len(found.hits) == min(found.total, 100)
    return [hit.row.path for hit in found.hits]


def with_property(value: str) -> str:
    return f"---\nk: {value}\n---\n"


@pytest.mark.parametrize(
    ("stored", "op", "asked", "passes"),
    [
        ("5", "eq", "5", True),
        ("'5'", "eq", 5, True),
        ("5.0", "eq", 5, True),
        ("'5.0'", "eq", 5, False),
        ("5", "eq", "5.0", True),
        ("15", "eq", 5, False),
        ("true", "eq", "True", True),
        ("'TRUE'", "eq", True, True),
        ("1", "eq", True, False),
        ("Open", "eq", "oPEN", True),
        ("Straße", "eq", "STRASSE", True),
        ("' Open '", "eq", "open", True),
        ("[a, B]", "eq", "b", True),
        ("[a, B]", "eq", "c", False),
        ("", "eq", None, True),
        ("''", "eq", None, True),
        ("[]", "eq", None, True),
        ("0", "eq", None, False),
        ("x", "ne", "x", False),
        ("x", "ne", "y", True),
        ("[x, y]", "ne", "y", False),
        ("in progress", "contains", "PROG", True),
        ("[abc, def]", "contains", "ef", True),
        ("5", "gt", 4, True),
        ("'10'", "gt", 9, True),
        ("high", "gt", 9, False),
        ("[1, 7]", "gt", 5, True),
        ("5", "gte", "5", True),
        ("-1", "lt", 0, True),
        ("2.5", "lte", 2.5, True),
        ("banana", "gt", "Apple", True),
        ("5", "gt", "apple", False),
        ("2026-02-20", "eq", "2026-02-20", True),
        ("2026-02-20T10:30", "eq", "2026-02-20", True),
        ("2026-02-20", "eq", "2026-02-20T00:00", True),
        ("2026-02-20T10:30", "eq", "2026-02", True),
        ("2026-02-20T10:30", "eq", 2026, True),
        ("'2026-02-20 10:30'", "eq", "2026-02-20T10:30:00", True),
        ("2026-02-20T10:30", "gt", "2026-02-20", False),
        ("2026-02-21", "gt", "2026-02-20", True),
        ("2026-02-20T10:30", "lte", "2026-02-20", True),
        ("2026-02-20T10:30", "lt", "2026-02-20T10:31", True),
        ("2026-02-20T10:30:00+02:00", "gte", "2026-02-20T10:30", True),
        ("9999-12-31", "gt", "2026", True),
        ("2026-02-30", "gt", "2026-02-01", False),
        ("1700000000", "gt", "2020-01-01", False),
        ("x", "in", ("y", "X"), True),
        ("x", "in", ("y",), False),
        ("", "exists", True, True),
        ("", "exists", False, False),
    ],
)
def test_values_compare_as_obsidian_shows_them(
    index: Index, stored: str, op: Op, asked: Any, passes: bool
) -> None:
    index.put([doc("a.md", with_property(stored))])
    assert paths(index, PropertyTest("K", op, asked)) == (["a.md"] if passes else [])


def test_a_note_without_the_property_is_unequal_to_everything(index: Index) -> None:
    index.put([doc("with.md", with_property("x")), doc("without.md", "text")])
    assert paths(index, PropertyTest("k", "ne", "x")) == ["without.md"]
    assert paths(index, PropertyTest("k", "exists", False)) == ["without.md"]
    assert paths(index, PropertyTest("k", "lt", "z")) == ["with.md"]


def test_a_tag_is_found_with_those_below_it(index: Index) -> None:
    index.put([doc("a.md", "#Work/Alpha"), doc("b.md", "#work"), doc("c.md", "#workshop")])
    assert paths(index, "tag:WORK") == ["a.md", "b.md"]
    assert paths(index, "#work/alpha") == ["a.md"]
    assert paths(index, "-tag:work") == ["c.md"]


def test_places_are_found_without_case_and_only_notes(index: Index) -> None:
    index.put([doc("Über/plan.md", "x"), doc("b/Übung.md", "x")])
    index.put_files([entry("über/plan.png"), entry("Über", "folder")])
    assert paths(index, "path:ÜBER") == ["Über/plan.md"]
    assert paths(index, "file:üb") == ["b/Übung.md"]
    assert paths(index, "file:plan.md") == ["Über/plan.md"]
    assert paths(index, None) == ["b/Übung.md", "Über/plan.md"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("cafe", ["a.md"]),
        ("CAFÉ", ["a.md"]),
        ('"au cafe"', ["a.md"]),
        ('"cafe au"', []),
        ("gar*", ["b.md"]),
        ("京都", ["c.md"]),
        ("京", ["c.md"]),
        ("cafe OR garden", ["a.md", "b.md"]),
        ("tag:t -cafe", ["b.md"]),
        ("(cafe OR tag:t) -garden", ["a.md"]),
        ("cafe OR -tag:t", ["a.md", "c.md"]),
        ("-cafe -garden", ["c.md"]),
        ("10:30", ["b.md"]),
    ],
)
def test_words_conditions_and_their_mixtures(index: Index, query: str, found: list[str]) -> None:
    index.put(
        [
            doc("a.md", "au Café #t"),
            doc("b.md", "garden at 10:30 #t"),
            doc("c.md", "東京都に住む"),
        ]
    )
    assert sorted(paths(index, query)) == found


def test_names_weigh_more_than_headings_and_those_more_than_the_body(index: Index) -> None:
    filler = "other words " * 20
    index.put(
        [
            doc("body.md", f"# A\n{filler} zebra"),
            doc("heading.md", f"# B\n\n## zebra\n{filler}"),
            doc("zebra.md", f"# C\n{filler}"),
            doc("alias.md", f"---\naliases: [zebra]\n---\n# D\n{filler}"),
            *(doc(f"none{n}.md", filler) for n in range(10)),
        ]
    )
    found = index.find(Text("zebra"))
    names = [hit.row.path for hit in found.hits]
    assert set(names[:2]) == {"zebra.md", "alias.md"}
    assert names[2:] == ["heading.md", "body.md"]
    scores = [hit.score or 0 for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert 0.5 < scores[0] <= 1
    assert 0 < scores[-1] < scores[0]


def test_of_equals_the_newer_comes_first_but_recency_never_beats_a_better_match(
    index: Index,
) -> None:
    index.put(
        [
            doc("old.md", "zebra and some more", mtime_ns=1 * DAY),
            doc("new.md", "zebra and some more", mtime_ns=900 * DAY),
            doc("top.md", "zebra zebra zebra zebra", mtime_ns=1),
            *(doc(f"none{n}.md", "other", mtime_ns=1) for n in range(10)),
        ]
    )
    assert paths(index, "zebra") == ["top.md", "new.md", "old.md"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("modified_desc", ["c.md", "a.md", "b.md"]),
        ("path_asc", ["a.md", "b.md", "c.md"]),
        ("created", ["b.md", "a.md", "c.md"]),
        ("title", ["b.md", "c.md", "a.md"]),
    ],
)
def test_orders(index: Index, sort: Sort, expected: list[str]) -> None:
    index.put(
        [
            doc("a.md", "---\ndate: 2026-01-02\ntitle: zoo\n---\nword", mtime_ns=2 * DAY),
            doc("b.md", "---\ncreated: 2026-01-03T10:00\ntitle: Ant\n---\nword", mtime_ns=1 * DAY),
            doc("c.md", "---\ntitle: bee\n---\nword", mtime_ns=3 * DAY),
        ]
    )
    assert paths(index, "word", sort=sort) == expected
    assert paths(index, "tag:x OR file:md", sort=sort) == expected


def test_what_may_not_be_seen_is_not_counted(index: Index) -> None:
    index.put([doc("open/a.md", "zebra"), doc("closed/b.md", "zebra"), doc("root.md", "zebra")])
    for query in ("zebra", "-lion", "path:.md", None):
        assert paths(index, query, sight=hiding("closed")) == ["open/a.md", "root.md"]
        assert paths(index, query, sight=hiding("Open/A.md")) == ["closed/b.md", "root.md"]
        assert paths(index, query, sight=hiding("open", "closed", "root.md")) == []
        assert len(paths(index, query, sight=hiding())) == 3


def test_scopes_are_folders_notes_and_globs(index: Index) -> None:
    index.put([doc(path, "zebra") for path in ("Log/a.md", "log/x/b.md", "logbook/c.md", "d.md")])
    assert paths(index, "zebra", scopes=[Scope("LOG")]) == ["Log/a.md", "log/x/b.md"]
    assert paths(index, None, scopes=[Scope("d.md"), Scope("log/x")]) == ["d.md", "log/x/b.md"]
    ends_in_b = Scope("", "*b.md", lambda path: path.endswith("b.md"))
    assert paths(index, "zebra", scopes=[ends_in_b]) == ["log/x/b.md"]
    assert paths(index, "zebra", scopes=[Scope("")]) == paths(index, "zebra")


def test_what_was_found_before_is_not_believed_after_a_change(index: Index) -> None:
    index.put([doc("a.md", with_property("x"), mtime_ns=1), doc("b.md", with_property("x"), 2)])
    asked = PropertyTest("k", "eq", "x")
    assert paths(index, asked) == ["b.md", "a.md"]
    index.put([doc("c.md", with_property("x") + "zebra", mtime_ns=3)])
    assert paths(index, asked) == ["c.md", "b.md", "a.md"]
    assert paths(index, "zebra") == ["c.md"]
    index.touch("a.md", FileStat(0, 9), False)
    assert paths(index, asked) == ["a.md", "c.md", "b.md"]
    index.put([doc("b.md", with_property("y"), mtime_ns=2)])
    assert paths(index, asked) == ["a.md", "c.md"]
    index.rename("c.md", "log/c.md", "log/c.md", FileStat(0, 3))
    assert paths(index, asked, scopes=[Scope("log")]) == ["log/c.md"]
    index.remove(["log/c.md"])
    assert paths(index, asked) == ["a.md"]
    assert paths(index, "zebra") == []


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """3,000 notes with one word, which a few have in their names, and some without it."""
    index = Index.open(tmp_path_factory.mktemp("many") / Path("state"))
    texts = [f"zebra number{n % 7}" for n in range(3_000)] + ["other"] * 500
    docs = [
        doc(f"f{n % 10}/n{n:04}.md", text, mtime_ns=(n * 37 % 3_500) * DAY)
        for n, text in enumerate(texts)
    ]
    index.put([*docs, doc("f1/old zebra.md", "about it", mtime_ns=1)])
    yield index
    index.close()


def every_page(
    index: Index, node: Node, size: int, **options: Any
) -> tuple[list[str], list[float]]:
    found: list[str] = []
    scores: list[float] = []
    while True:
        page = index.find(node, limit=size, offset=len(found), **options)
        found += [hit.row.path for hit in page.hits]
        scores += [hit.score or 0.0 for hit in page.hits]
        if not page.hits:
            assert len(found) == page.total
            return found, scores


@pytest.mark.parametrize("vast", [False, True])
def test_many_hits_are_counted_exactly_and_paged_without_gaps(
    many: Index, monkeypatch: pytest.MonkeyPatch, vast: bool
) -> None:
    if vast:
        monkeypatch.setattr(ranking, "_VAST", 100)
    found, scores = every_page(many, Text("zebra"), 700)
    assert len(found) == len(set(found)) == 3_001
    assert found[0] == "f1/old zebra.md"
    assert scores == sorted(scores, reverse=True)
    again, _ = every_page(many, Text("zebra"), 997)
    assert again == found
    inside, _ = every_page(many, Text("zebra"), 100, scopes=[Scope("f1")])
    assert sorted(inside) == sorted(path for path in found if path.startswith("f1/"))


def test_beyond_the_ranked_hits_the_newest_come_first(many: Index) -> None:
    rows = {path: many.get(path) for path in every_page(many, Text("zebra"), 1_000)[0]}
    times = [row.mtime_ns for row in rows.values() if row]
    assert times[2_500:] == sorted(times[2_500:], reverse=True)


def test_no_limit_means_count_only(many: Index) -> None:
    assert many.find(Text("zebra"), limit=0).total == 3_001
    assert many.find(Text("zebra"), limit=0).hits == []
    assert many.find(Text("zebra"), offset=5_000).hits == []


def test_a_hit_carries_what_it_is(index: Index) -> None:
    text = (
        "---\ntags: [b, a/c]\nk: [1, x]\nflag: true\nnone:\nlong: "
        + "y" * 400
        + "\n---\nzebra #d\n"
    )
    index.put([doc("a.md", text)])
    (hit,) = index.find(Text("zebra")).hits
    assert hit.tags == ("a/c", "b", "d")
    assert hit.properties["k"] == [1, "x"]
    assert hit.properties["flag"] is True
    assert hit.properties["none"] is None
    assert len(hit.properties["long"]) == 300
    assert hit.row.path == "a.md"


def test_many_conditions_at_once(index: Index) -> None:
    index.put([doc(f"n{n}.md", f"word{n} shared #t{n % 2}") for n in range(60)])
    query = " ".join(f"-word{n}" for n in range(0, 60, 2)) + " shared #t1"
    assert len(paths(index, query)) == 30
