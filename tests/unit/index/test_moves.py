"""Which links a move puts in doubt, and where they would lead."""

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.index.moves import Doubt
from server.index.store import Index
from server.models import FileStat

from .build import doc, entry, target_of


def doubts(index: Index, moves: dict[str, str]) -> list[tuple[str, str, str | None, str | None]]:
    """Source, target, where the link ought to lead and where it would."""
    return [
        (doubt.source, doubt.target, doubt.wanted, doubt.after)
        for doubt in index.links_in_doubt(moves)
    ]


def test_links_to_a_renamed_note_are_in_doubt(index: Index) -> None:
    index.put([doc("a/Old.md"), doc("src.md", "[[Old]] [[b]] [x](a/Old.md) [[a/Old#h|s]]")])
    assert index.links_in_doubt({"a/Old.md": "a/New.md"}) == [
        Doubt("src.md", n, target, kind, "a/Old.md", "a/New.md", None)  # type: ignore[arg-type]
        for n, target, kind in ((0, "Old", "wiki"), (2, "a/Old.md", "markdown"), (3, "a/Old", "wiki"))
    ]  # fmt: skip


def test_names_that_still_do_are_not(index: Index) -> None:
    index.put([doc("a/Note.md"), doc("src.md", "[[Note]] [[a/Note]]"), doc("a/in.md", "[[Note]]")])
    assert doubts(index, {"a/Note.md": "b/Note.md"}) == [("src.md", "a/Note", "b/Note.md", None)]
    assert doubts(index, {"a/Note.md": "a/Note.md"}) == []


def test_a_path_that_would_lead_there_by_luck_is_in_doubt(index: Index) -> None:
    index.put([doc("a/Note.md"), doc("src.md", "[[a/Note]] [[Note]]")])
    assert doubts(index, {"a/Note.md": "z/a/Note.md"}) == [
        ("src.md", "a/Note", "z/a/Note.md", "z/a/Note.md")
    ]


def test_a_change_of_case_alone_is_in_doubt_where_it_shows(index: Index) -> None:
    index.put([doc("note.md"), doc("src.md", "[[note]] [[NOTE]]")])
    assert doubts(index, {"note.md": "Note.md"}) == [("src.md", "note", "Note.md", "Note.md")]


def test_links_of_a_moved_note_are_in_doubt_when_its_folder_matters(index: Index) -> None:
    text = "[[x]] [[y]] [a](../y.md) [b](x.md) [[#h]]"
    index.put([doc("a/x.md"), doc("b/x.md"), doc("y.md"), doc("a/src.md", text)])
    assert doubts(index, {"a/src.md": "b/src.md"}) == [
        ("a/src.md", "x", "a/x.md", "b/x.md"),
        ("a/src.md", "x.md", "a/x.md", "b/x.md"),
    ]
    assert doubts(index, {"a/src.md": "b/c/src.md"}) == [
        ("a/src.md", "../y.md", "y.md", None),
        ("a/src.md", "x.md", "a/x.md", "a/x.md"),
    ]


def test_links_to_namesakes_are_in_doubt_when_they_would_be_captured(index: Index) -> None:
    index.put([doc("a/deep/x.md"), doc("Old.md"), doc("src.md", "[[x]] [[deep/x]] [[a/deep/x]]")])
    assert doubts(index, {"Old.md": "x.md"}) == [("src.md", "x", "a/deep/x.md", "x.md")]
    assert doubts(index, {"Old.md": "deep/x.md"}) == [
        ("src.md", "x", "a/deep/x.md", "deep/x.md"),
        ("src.md", "deep/x", "a/deep/x.md", "deep/x.md"),
    ]


def test_links_to_namesakes_are_in_doubt_when_they_would_be_released(index: Index) -> None:
    index.put([doc("x.md"), doc("a/x.md"), doc("src.md", "[[x]]")])
    assert doubts(index, {"x.md": "longer/way/x.md"}) == [
        ("src.md", "x", "longer/way/x.md", "a/x.md")
    ]


def test_a_link_to_nowhere_is_in_doubt_when_a_file_takes_its_name(index: Index) -> None:
    index.put([doc("Old.md"), doc("src.md", "[[New]] [[Other]]")])
    assert index.links_in_doubt({"Old.md": "New.md"}) == [
        Doubt("src.md", 0, "New", "wiki", None, None, "New.md")
    ]


def test_attachments_move_too_and_files_may_change_places(index: Index) -> None:
    index.put([doc("src.md", "![[p.png]] ![](i/p.png) [[a]] [[b]]"), doc("a.md"), doc("b.md")])
    index.put_files([entry("i/p.png"), entry("i", "folder")])
    assert doubts(index, {"i/p.png": "j/p.png"}) == [("src.md", "i/p.png", "j/p.png", None)]
    assert doubts(index, {"a.md": "b.md", "b.md": "a.md"}) == [
        ("src.md", "a", "b.md", "a.md"),
        ("src.md", "b", "a.md", "b.md"),
    ]


def test_what_is_created_or_removed_counts(index: Index) -> None:
    index.put([doc("a/x.md"), doc("b/long/x.md"), doc("src.md", "[[x]]"), doc("b/in.md", "[[q]]")])
    (captured,) = index.links_in_doubt({}, created=["x.md"])
    assert (captured.wanted, captured.after) == ("a/x.md", "x.md")
    (left,) = index.links_in_doubt({}, removed=["a/x.md", "b/in.md"])
    assert (left.now, left.wanted, left.after) == ("a/x.md", None, "b/long/x.md")
    assert index.links_in_doubt({}, created=["q.md"], removed=["b/in.md"]) == []


def test_a_note_that_becomes_another_kind_of_file_has_no_links(index: Index) -> None:
    index.put([doc("a/x.md"), doc("a/src.md", "[[x]] [b](x.md)"), doc("top.md", "[[src]]")])
    assert doubts(index, {"a/src.md": "b/src.txt"}) == [("top.md", "src", "b/src.txt", None)]


def test_what_will_be_can_be_asked(index: Index) -> None:
    index.put([doc("a/x.md"), doc("b/x.md"), doc("y.md")])
    after = index.after(
        {"a/x.md": "a/z.md", "y.md": "c/y.md"}, created=["c/n.md"], removed=["b/x.md"]
    )
    assert [after(target, "c/src.md") for target in ("x", "z", "y", "./y", "../y", "n", "/n")] == [
        None, "a/z.md", "c/y.md", "c/y.md", None, "c/n.md", None,
    ]  # fmt: skip
    assert after("", "c/src.md") == "c/src.md"
    assert index.after({"y.md": "a/x.md"})("x", "src.md") == "a/x.md"


def test_a_folder_takes_its_files_along(index: Index) -> None:
    index.put([doc("a/x.md"), doc("a/b/y.md"), doc("ab/z.md"), doc("a.md"), doc("a0.md")])
    index.put_files([entry("a/p.png"), entry("a/b", "folder")])
    assert [row.path for row in index.files_below("a")] == ["a/b/y.md", "a/p.png", "a/x.md"]
    assert len(index.files_below("")) == 6


def test_references_are_the_links_to_sections(index: Index) -> None:
    index.put(
        [doc("n.md", "# A\n[[#A]] [[#^b]] [[n]]"), doc("s.md", "[[n#X#a|t]] [[m#A]] [[N#a b]]")]
    )
    found = index.references_to("n.md")
    assert [(one.source, one.n, one.section) for one in found] == [
        ("n.md", 0, "A"), ("n.md", 1, "^b"), ("s.md", 0, "X#a"), ("s.md", 2, "a b"),
    ]  # fmt: skip
    named = index.references_to("n.md", ["A"])
    assert [(one.source, one.n) for one in named] == [("n.md", 0), ("s.md", 0)]
    assert [one.n for one in index.references_to("n.md", ["A: b"])] == [2]


PATHS = [f"{folder}{name}.md" for folder in ("", "a/", "b/", "a/c/") for name in ("x", "y", "Z")]
TARGETS = ("x", "y", "z", "a/x", "c/x", "b/Y", "../x", "./y", "/a/x", "a/c/z", "../a/y", "c/../x")


@settings(max_examples=60, deadline=None)
@given(
    paths=st.lists(st.sampled_from(PATHS), min_size=2, max_size=8, unique=True),
    places=st.lists(st.sampled_from(PATHS), min_size=1, max_size=4, unique=True),
)
def test_what_was_foreseen_is_what_comes(
    tmp_path_factory: pytest.TempPathFactory, paths: list[str], places: list[str]
) -> None:
    text = " ".join(f"[[{target}]]" for target in TARGETS)
    free = [place for place in places if place not in paths]
    moves = dict(zip(paths, free, strict=False))
    with closing(Index.open(tmp_path_factory.mktemp("state"))) as index:
        index.put([doc(path, text) for path in paths])
        after = index.after(moves)
        doubted = {(doubt.source, doubt.n) for doubt in index.links_in_doubt(moves)}
        before = {path: target_of(index, path) for path in paths}
        for old, new in moves.items():
            index.rename(old, new, new, FileStat(0, 1))
        for path in paths:
            source = moves.get(path, path)
            found = target_of(index, source)
            assert found == [after(target, source) for target in TARGETS]
            for n, (then, now) in enumerate(zip(before[path], found, strict=True)):
                assert now == (moves.get(then, then) if then else None) or (path, n) in doubted
