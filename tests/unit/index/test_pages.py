"""Pages of notes, beginnings of paths, values and folders, whole and as far as they may be seen."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.index.names import key_of, link_name
from server.index.store import Index
from server.index.transaction import Logged
from server.models import FileStat

from .build import Seeing, doc, entry, everything, hiding

NAMES = st.sampled_from(["a.md", "B.md", "x/a.md", "x/Äb.md", "x/y/ab.md", "secret/a.md", "b/x.md"])


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, st.integers(0, 3), max_size=7), st.integers(1, 4), st.booleans())
def test_pages_together_are_all_notes_in_one_order(
    tmp_path_factory: pytest.TempPathFactory, notes: dict[str, int], size: int, hidden: bool
) -> None:
    sight = hiding("secret") if hidden else everything
    index = Index.open(tmp_path_factory.mktemp("pages"))
    index.put([doc(path, path, mtime_ns=time) for path, time in notes.items()])
    found: list[str] = []
    after: tuple[int, str] | None = None
    while rows := index.newest(after, size, sight):
        found += [row.path for row in rows]
        after = rows[-1].mtime_ns, rows[-1].path
    index.close()
    seen = [path for path in notes if sight(path)]
    assert found == sorted(seen, key=lambda path: (-notes[path], path))


@settings(max_examples=60, deadline=None)
@given(
    st.sets(NAMES, max_size=7), st.sampled_from(["", "a", "A", "x/", "Ä", "ä", "X/Y", "sec", "%"])
)
def test_a_beginning_finds_paths_then_names(
    tmp_path_factory: pytest.TempPathFactory, paths: set[str], prefix: str
) -> None:
    index = Index.open(tmp_path_factory.mktemp("pages"))
    index.put([doc(path, path) for path in paths])
    found, total = index.beginning(prefix, "note", 3, hiding("secret"))
    index.close()
    seen, key = [path for path in paths if not path.startswith("secret")], key_of(prefix)
    by_path = sorted(path for path in seen if key_of(path).startswith(key))
    by_name = sorted(
        path
        for path in seen
        if path not in by_path and (link_name(key_of(path), "note") or "").startswith(key)
    )
    assert total == len(by_path + by_name)
    assert found == (by_path + by_name)[:3]


def test_folders_have_beginnings_too(index: Index) -> None:
    index.put_files([entry("Alpha", "folder"), entry("Alpha/Beta", "folder"), entry("b.png")])
    assert index.beginning("al", "folder", 10) == (["Alpha", "Alpha/Beta"], 2)


@pytest.mark.parametrize(
    ("sight", "values", "total"),
    [(everything, ["Sync", "api", "7"], 3), (hiding("secret"), ["api", "7"], 2)],
)
def test_values_are_those_that_may_be_seen(
    index: Index, sight: Seeing, values: list[str], total: int
) -> None:
    index.put(
        [
            doc("a.md", "---\ntopic: api\n---\n"),
            doc("b.md", "---\ntopic: 7\n---\n"),
            doc("c.md", "---\ntopic: API\n---\n"),
            doc("e.md", "---\ntopic: []\nother: x\n---\n"),
            *(doc(f"secret/{n}.md", "---\ntopic: Sync\n---\n") for n in range(3)),
        ]
    )
    found, count = index.values_of("Topic", "", 10, sight)
    assert (sorted(map(str.lower, found)), count) == (sorted(map(str.lower, values)), total)
    assert index.values_of("topic", "AP", 10, sight)[1] == 1
    assert index.values_of("topic", "s", 10, sight)[1] == total - 2


def test_the_folders_in_the_root_are_counted_as_seen(index: Index) -> None:
    index.put([doc(path) for path in ("a.md", "x/a.md", "x/y/b.md", "z/a.md", "secret/a.md")])
    assert index.top_folders() == [("x", 2), ("secret", 1), ("z", 1)]
    assert index.top_folders(hiding("secret", "x/y")) == [("x", 1), ("z", 1)]


def test_each_commit_says_what_it_changed(index: Index) -> None:
    told: list[Logged | None] = []
    index.on_change = lambda changes: told.extend(changes if changes is not None else [None])
    index.put([doc("a.md", "one"), doc("b.md", "two")])
    index.put([doc("a.md", "one", mtime_ns=5)])
    assert told == [("created", "a.md", None), ("created", "b.md", None)]
    told.clear()
    index.put([doc("a.md", "other")])
    index.put_files([entry("folder", "folder"), entry("x.png", size=3)])
    index.rename("a.md", "c.md", "c.md", FileStat(5, 1))
    index.remove(["b.md", "nothing.md"])
    assert told == [
        ("modified", "a.md", None),
        ("created", "x.png", None),
        ("moved", "c.md", "a.md"),
        ("deleted", "b.md", None),
    ]


def test_an_index_that_took_over_says_that_anything_may_have_changed(tmp_path: Path) -> None:
    index = Index.open(tmp_path)
    index.put([doc("a.md", "one")])
    told: list[object] = []
    index.on_change = told.append
    (tmp_path / "rebuild").touch()
    index.target().put([doc("a.md", "one")])
    index.promote()
    assert told == [None]
    index.close()
