"""Tags and properties are counted right whatever happens; changes tell what became of notes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.index.changes import Changed, collapse
from server.index.store import Index
from server.index.vocabulary import Property, Tag
from server.markdown.note import parse
from server.models import FileStat

from .build import Seeing, doc, entry, everything, hiding, outside_secret


def tags(index: Index, prefix: str = "", **more: Any) -> list[tuple[str, int, int]]:
    options = {"sort": "count", "limit": 100, "offset": 0, **more}
    found, _ = index.tags(prefix, **options)
    return [(tag.tag, tag.count, tag.direct) for tag in found]


def properties(index: Index, prefix: str = "", **more: Any) -> list[Property]:
    options = {"sort": "count", "limit": 100, "offset": 0, "values": 5, **more}
    found, _ = index.properties(prefix, **options)
    return found


def test_a_tag_counts_what_is_nested_in_it(index: Index) -> None:
    index.put([doc("a.md", "#Work/api #work"), doc("b.md", "#work/API/v2"), doc("c.md", "#other")])
    assert tags(index) == [
        ("work", 2, 1),
        ("Work/api", 2, 1),
        ("other", 1, 1),
        ("work/API/v2", 1, 1),
    ]
    assert tags(index, "WORK/") == [("Work/api", 2, 1), ("work/API/v2", 1, 1)]
    assert [tag for tag, _, _ in tags(index, sort="name")] == [
        "other", "work", "Work/api", "work/API/v2",
    ]  # fmt: skip


def test_a_page_knows_how_many_there_are(index: Index) -> None:
    index.put([doc("a.md", "#a #b #c")])
    found, total = index.tags("", sort="name", limit=1, offset=1)
    assert (found, total) == ([Tag("b", 1, 1)], 3)
    assert index.tags("", sort="name", limit=1, offset=9) == ([], 3)


def test_counts_are_of_the_folders_that_may_be_seen(index: Index) -> None:
    index.put([
        doc("secret/a.md", "---\nKey: 1\nhidden: x\n---\n#Both #mine"),
        doc("open/b.md", "---\nkey: 2\n---\n#both"), doc("open/deep/c.md", "#both"),
    ])  # fmt: skip
    assert tags(index, sight=outside_secret) == [("both", 2, 2)]
    assert [(p.key, p.count, dict(p.values)) for p in properties(index, sight=outside_secret)] == [
        ("key", 1, {"2": 1})
    ]
    assert tags(index, sight=everything, scope=["open/deep"]) == [("Both", 1, 1)]
    assert tags(index, sight=everything, scope=["OPEN", "secret"])[0] == ("Both", 3, 3)
    assert tags(index, sight=everything, scope=["ope"]) == []
    assert tags(index, sight=outside_secret, scope=["secret"]) == []


def test_a_note_that_is_hidden_alone_is_not_counted_with_its_folder(index: Index) -> None:
    index.put([
        doc("open/a.md", "---\nKey: [1, 2]\nmine: x\n---\n#Both #mine"),
        doc("open/b.md", "---\nkey: 2\n---\n#both/x"), doc("open/deep/c.md", "#both"),
    ])  # fmt: skip
    seen = hiding("open/a.md")
    assert tags(index, sight=seen) == [("both", 2, 1), ("both/x", 1, 1)]
    assert properties(index, sight=seen) == [Property("key", 1, {"num": 1}, {"2": 1})]
    assert tags(index, sight=seen, scope=["open/deep"]) == [("both", 1, 1)]


def test_properties_tell_types_and_frequent_values(index: Index) -> None:
    index.put([
        doc("a.md", "---\nstate: open\nn: 5\nok: true\nwhen: 2026-01-02\nlist: [x, y, x]\n---\n"),
        doc("b.md", "---\nState: done\nn: many\nok:\nwhen: 2026-01-02T10:00\nlist: x\n---\n"),
        doc("c.md", "---\nstate: done\nlist: []\nlong: " + "x" * 200 + "\nobj: {a: 1}\n---\n"),
    ])  # fmt: skip
    found = {p.key.lower(): (p.count, dict(p.types), dict(p.values)) for p in properties(index)}
    assert found == {
        "state": (3, {"str": 3}, {"done": 2, "open": 1}),
        "n": (2, {"num": 1, "str": 1}, {"5": 1, "many": 1}),
        "ok": (2, {"bool": 1, "null": 1}, {"true": 1}),
        "when": (2, {"date": 1, "datetime": 1}, {"2026-01-02": 1, "2026-01-02T10:00:00": 1}),
        "list": (3, {"list": 2, "str": 1}, {"x": 3, "y": 1}),
        "long": (1, {"str": 1}, {}),
        "obj": (1, {"json": 1}, {}),
    }
    assert [p.key for p in properties(index, sort="name", limit=2)] == ["list", "long"]
    assert [p.key.lower() for p in properties(index, "ST")] == ["state"]


_TEXTS = [
    "", "#a", "#a/b #A", "#b #a/b/c", "---\nk: 1\ntags: [a, b]\n---\n", "---\nk: [x, x, y]\n---\n",
    "---\nk: x\nK: 2\nother: [p]\n---\n#a", "---\nl: []\nk: [1, x]\nm: [x]\n---\n",
]  # fmt: skip
_PATHS = ["a.md", "b.md", "x/a.md", "x/c.md", "x/y/d.md"]
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "remove", "rename", "large"]),
        st.sampled_from(_PATHS),
        st.sampled_from([*_PATHS, "z/e.md"]),
        st.sampled_from(_TEXTS),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(steps=_STEPS, scope=st.sampled_from([[], ["x"], ["x/y", "z"]]))
def test_counts_are_those_of_counting_anew(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, str, str, str]],
    scope: list[str],
) -> None:
    index = Index.open(tmp_path_factory.mktemp("counts"))
    texts: dict[str, str] = {}
    for step, path, other, text in steps:
        if step == "put":
            texts[path] = text
            index.put([doc(path, text)])
        elif step == "large":
            texts[path] = ""
            index.put_files([entry(path, "note", 1 << 30)])
        elif step == "remove":
            texts.pop(path, None)
            index.remove([path])
        elif path in texts:
            texts[other] = texts.pop(path)
            index.rename(path, other, other, FileStat(1, 1))
    inside = [
        text
        for path, text in texts.items()
        if not scope or any(path.startswith(f"{folder}/") for folder in scope)
    ]
    found = {tag.lower(): (count, own) for tag, count, own in tags(index, scope=scope)}
    assert found == _count_tags(inside)
    kept = {p.key.lower(): (p.count, dict(p.values)) for p in properties(index, scope=scope)}
    assert kept == _count_properties(inside)
    index.close()


def _count_tags(texts: list[str]) -> dict[str, tuple[int, int]]:
    below: Counter[str] = Counter()
    direct: Counter[str] = Counter()
    for text in texts:
        own = {tag.lower() for tag in parse(text, "n.md").tags}
        direct.update(own)
        parts = (tag.split("/") for tag in own)
        below.update({"/".join(p[: n + 1]) for p in parts for n in range(len(p))})
    return {tag: (count, direct[tag]) for tag, count in below.items()}


def _count_properties(texts: list[str]) -> dict[str, tuple[int, dict[str, int]]]:
    notes: Counter[str] = Counter()
    values: dict[str, Counter[str]] = {}
    for text in texts:
        for key, value in parse(text, "n.md").frontmatter.properties.items():
            notes[key.lower()] += 1
            items = value if isinstance(value, list) else [value]
            values.setdefault(key.lower(), Counter()).update(map(str, items))
    return {key: (count, dict(values[key])) for key, count in notes.items()}


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ([("created", "a")], [("a", "created", None)]),
        ([("created", "a"), ("modified", "a")], [("a", "created", None)]),
        ([("created", "a"), ("deleted", "a")], []),
        ([("created", "a"), ("moved", "b", "a")], [("b", "created", None)]),
        ([("created", "a"), ("moved", "b", "a"), ("deleted", "b")], []),
        ([("modified", "a"), ("modified", "a")], [("a", "modified", None)]),
        ([("moved", "b", "a"), ("modified", "b")], [("b", "moved", "a")]),
        ([("moved", "b", "a"), ("moved", "c", "b")], [("c", "moved", "a")]),
        ([("moved", "b", "a"), ("moved", "a", "b")], []),
        ([("moved", "b", "a"), ("modified", "b"), ("moved", "a", "b")], [("a", "modified", None)]),
        ([("moved", "b", "a"), ("deleted", "b")], [("b", "deleted", "a")]),
        ([("deleted", "a")], [("a", "deleted", None)]),
        ([("deleted", "a"), ("created", "a")], [("a", "modified", None)]),
        ([("moved", "b", "a"), ("created", "a")], [("a", "created", None), ("b", "moved", "a")]),
        ([("moved", "secret/a", "a")], [("a", "deleted", None)]),
        ([("moved", "a", "secret/a")], [("a", "created", None)]),
        ([("modified", "secret/a"), ("deleted", "secret/b")], []),
        ([("moved", "secret/b", "secret/a"), ("moved", "b", "secret/b")], [("b", "created", None)]),
    ],
)
def test_one_entry_tells_what_became_of_a_note(
    log: list[tuple[str, ...]], told: list[tuple[str, str, str | None]]
) -> None:
    rows = [
        (at, kind, f"{path}.md", f"{old[0]}.md" if old else None)
        for at, (kind, path, *old) in enumerate(log)
    ]
    found = collapse(rows, outside_secret)
    assert [
        (entry.path[:-3], entry.change, entry.old_path and entry.old_path[:-3]) for entry in found
    ] == told


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 1_000

    def __call__(self) -> int:
        return self.at


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def timed(tmp_path: Path, hand: Hand) -> Iterator[Index]:
    opened = Index.open(tmp_path / "timed", clock=hand)
    yield opened
    opened.close()


def changes(
    index: Index, since: int, sees: Seeing = everything
) -> tuple[list[Changed], int | None]:
    return index.changes(since, sees)


def test_changes_come_latest_first_since_a_moment(timed: Index, hand: Hand) -> None:
    timed.put([doc("a.md"), doc("b.md")])
    hand.at = 2_000
    timed.put([doc("a.md", "x", mtime_ns=2_000)])
    hand.at = 3_000
    timed.put([doc("c.md", mtime_ns=3_000)])
    timed.put_files([entry("pic.png"), entry("folder", "folder")])
    timed.remove(["b.md"])
    assert changes(timed, 1_500) == (
        [
            Changed("b.md", "deleted", 3_000),
            Changed("c.md", "created", 3_000),
            Changed("a.md", "modified", 2_000),
        ],
        1_000,
    )
    assert changes(timed, 2_500)[0] == [
        Changed("b.md", "deleted", 3_000), Changed("c.md", "created", 3_000),
    ]  # fmt: skip
    assert changes(timed, 4_000) == ([], 1_000)


def test_what_the_first_scan_found_is_no_news_unless_the_file_is_new(
    timed: Index, hand: Hand
) -> None:
    assert changes(timed, 0) == ([], None)
    timed.put([doc("old.md", mtime_ns=10), doc("new.md", mtime_ns=990)])
    assert [entry.path for entry in changes(timed, 900)[0]] == ["new.md"]
    hand.at = 2_000
    timed.put([doc("new.md", "x", mtime_ns=2_000)])
    timed.put([doc("copied.md", mtime_ns=20)])
    assert [entry.path for entry in changes(timed, 900)[0]] == ["copied.md", "new.md"]
    assert [entry.path for entry in changes(timed, 5)[0]] == ["copied.md", "new.md", "old.md"]


def test_a_long_log_tells_how_far_back_it_was_read(timed: Index, hand: Hand) -> None:
    for hand.at in range(1_001, 2_100):
        timed.put([doc("a.md", str(hand.at), mtime_ns=hand.at)])
    assert changes(timed, 0) == ([Changed("a.md", "modified", 2_099)], 1_099)


def test_titles_of_notes_that_are_there(index: Index) -> None:
    index.put([doc("a.md", "# One\n")])
    assert index.titles(["a.md", "gone.md"]) == {"a.md": "One"}


def test_a_list_counts_once_when_it_comes_and_when_it_goes(index: Index) -> None:
    lists = "---\nk: [x, y, z]\nl: [x]\n---\n"
    index.put([doc(f"{name}.md", lists) for name in "abc"])
    index.put([doc("a.md", "")])
    assert [(p.key, p.count) for p in properties(index)] == [("k", 2), ("l", 2)]
    index.rename("b.md", "x/b.md", "x/b.md", FileStat(1, 1))
    index.remove(["c.md"])
    assert [(p.key, p.count, dict(p.values)) for p in properties(index)] == [
        ("k", 1, {"x": 1, "y": 1, "z": 1}), ("l", 1, {"x": 1}),
    ]  # fmt: skip
