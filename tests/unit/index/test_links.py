import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.index.store import Index
from server.models import FileStat

from .build import doc, entry, target_of


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("top.md", "Note", "Note.md"),
        ("top.md", "note.MD", "Note.md"),
        ("a/src.md", "Note", "Note.md"),
        ("a/src.md", "other", "a/Other.md"),
        ("b/src.md", "Other", "b/Other.md"),
        ("top.md", "Other", "a/Other.md"),
        ("top.md", "deep/Leaf", "a/deep/Leaf.md"),
        ("top.md", "a/deep/Leaf", "a/deep/Leaf.md"),
        ("top.md", "eep/Leaf", None),
        ("a/deep/src.md", "../Other", "a/Other.md"),
        ("a/src.md", "./deep/Leaf", "a/deep/Leaf.md"),
        ("a/src.md", "../../Note", None),
        ("a/src.md", "/Note", "Note.md"),
        ("a/src.md", "/Other", None),
        ("top.md", "pic.png", "img/pic.png"),
        ("top.md", "pic", None),
        ("top.md", "Nothing", None),
        ("top.md", "img", None),
        ("top.md", "v1.2", "a/v1.2.md"),
        ("top.md", "cafe\u0301", "Café.md"),
    ],
)
def test_a_link_leads_where_obsidian_says(
    index: Index, source: str, target: str, found: str | None
) -> None:
    paths = ("Note.md", "a/Other.md", "b/Other.md", "a/deep/Leaf.md", "a/v1.2.md", "Café.md")
    index.put([doc(path) for path in paths])
    index.put_files([entry("img/pic.png"), entry("img", "folder")])
    index.put([doc(source, f"see [[{target}]]")])
    assert target_of(index, source) == [found]


def test_a_link_without_target_is_to_the_note_itself_and_counts_for_nothing(index: Index) -> None:
    index.put([doc("a.md", "# h\n[[#h]]\n")])
    assert target_of(index, "a.md") == ["a.md"]
    assert index.link_counts("a.md") == (0, 0)


def test_links_follow_names_that_come_go_and_change(index: Index) -> None:
    index.put([doc("src.md", "[[Target]]")])
    assert target_of(index, "src.md") == [None]
    index.put([doc("deep/down/target.md")])
    assert target_of(index, "src.md") == ["deep/down/target.md"]
    index.put([doc("z/Target.md")])
    assert target_of(index, "src.md") == ["z/Target.md"]
    index.rename("z/Target.md", "z/Else.md", "z/Else.md", FileStat(0, 1))
    assert target_of(index, "src.md") == ["deep/down/target.md"]
    index.rename("z/Else.md", "Target.md", "Target.md", FileStat(0, 1))
    assert target_of(index, "src.md") == ["Target.md"]
    index.remove(["Target.md", "deep/down/target.md"])
    assert target_of(index, "src.md") == [None]
    index.put_files([entry("Target")])
    assert target_of(index, "src.md") == ["Target"]


def test_when_one_namesake_goes_its_links_lead_to_the_other(index: Index) -> None:
    index.put([doc("x.md"), doc("deep/x.md"), doc("src.md", "[[x]]")])
    index.remove(["x.md"])
    assert target_of(index, "src.md") == ["deep/x.md"]
    index.remove(["deep/x.md"])
    index.put([doc("other.md")])
    assert target_of(index, "src.md") == [None]
    assert index.inbound("other.md") == []


def test_a_moved_note_resolves_its_own_links_anew(index: Index) -> None:
    index.put([doc("a/x.md"), doc("b/x.md"), doc("a/src.md", "[[x]]")])
    index.rename("a/src.md", "b/src.md", "b/src.md", FileStat(5, 1))
    assert target_of(index, "b/src.md") == ["b/x.md"]


def test_inbound_and_outbound_tell_place_and_form(index: Index) -> None:
    index.put([doc("b.md"), doc("a.md", "one\n![[b#sec|shown]] [[b]]\n"), doc("c.md", "[[b]]")])
    first, second, third = index.inbound("b.md")
    assert (first.src, first.dst, first.embed, first.section, first.alias) == (
        ("a.md", "b.md", True, "sec", "shown")
    )
    assert first.line == second.line
    assert first.start < first.end <= second.start
    assert (second.embed, third.src) == (False, "c.md")
    assert index.link_counts("b.md") == (3, 0)
    assert index.link_counts("a.md") == (0, 2)
    assert index.inbound("nowhere.md") == []


_NAMES = ["a.md", "A.md", "b.md", "x/a.md", "x/b.md", "x/y/a.md", "p.png"]
_TARGETS = ["a", "b", "x/a", "y/a", "../a", "./b", "/a", "p.png", ""]
_NOTES = [name for name in _NAMES if name.endswith(".md")]

_Step = tuple[str, str, list[str]]
_put: st.SearchStrategy[_Step] = st.tuples(
    st.just("put"), st.sampled_from(_NOTES), st.lists(st.sampled_from(_TARGETS), max_size=3)
)
_nothing: st.SearchStrategy[list[str]] = st.just([])
_other: st.SearchStrategy[_Step] = st.one_of(
    st.tuples(st.just("remove"), st.sampled_from(_NAMES), _nothing),
    st.tuples(
        st.just("rename"), st.sampled_from(_NOTES), st.lists(st.sampled_from(_NOTES), min_size=1)
    ),
    st.tuples(st.just("file"), st.just("p.png"), _nothing),
)


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(st.one_of(_put, _put, _other), max_size=14))
def test_step_by_step_gives_what_building_anew_gives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[_Step]
) -> None:
    index = Index.open(tmp_path_factory.mktemp("steps"), segment_bytes=256)
    texts: dict[str, str] = {}
    for step, path, extra in steps:
        if step == "put":
            texts[path] = " ".join(f"[[{target}]]" for target in extra) + f" word{len(texts)}"
            index.put([doc(path, texts[path])])
        elif step == "remove":
            texts.pop(path, None)
            index.remove([path])
        elif step == "file":
            texts[path] = ""
            index.put_files([entry(path)])
        elif path in texts:
            texts[extra[0]] = texts.pop(path)
            index.rename(path, extra[0], extra[0], FileStat(len(texts[extra[0]]), 1))
    anew = Index.open(tmp_path_factory.mktemp("anew"))
    anew.put([doc(path, text) for path, text in texts.items() if path.endswith(".md")])
    anew.put_files([entry(path) for path in texts if not path.endswith(".md")])
    assert {row.path for row in index.snapshot()} == set(texts)
    for path in index.paths():
        assert index.outbound(path) == anew.outbound(path)
        assert index.inbound(path) == anew.inbound(path)
        row = index.get(path)
        assert row is not None and index.text(row) == texts[path].encode()
    assert index.check() == []
    index.close()
    anew.close()
