"""Backlinks, mentions, neighbours, orphans and missing names, and that all follow the vault."""

import unicodedata
from collections.abc import Iterable, Mapping
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.index.backlinks import Backlink
from server.index.graph import Direction, Neighbourhood
from server.index.store import Index, Row
from server.models import FileStat

from .build import Seeing, doc, entry, everything, outside_secret, target_of


def row(index: Index, path: str) -> Row:
    found = index.get(path)
    assert found is not None
    return found


def backlinks(index: Index, path: str, sees: Seeing = everything) -> list[Backlink]:
    found, total = index.backlinks(row(index, path), sees, limit=100, offset=0)
    assert total == len(found)
    return found


def test_a_backlink_tells_line_form_section_and_alias(index: Index) -> None:
    index.put([
        doc("note.md"),
        doc("a.md", '---\nup: "[[note]]"\n---\none\n  see [[note#Part|shown]] and [x](note.md)\n'),
        doc("b.md", "![[note]]\r\n"),
    ])  # fmt: skip
    assert backlinks(index, "note.md") == [
        Backlink("a.md", 2, 'up: "[[note]]"', "property"),
        Backlink("a.md", 5, "see [[note#Part|shown]] and [x](note.md)", "wiki", "Part", "shown"),
        Backlink("a.md", 5, "see [[note#Part|shown]] and [x](note.md)", "markdown", None, "x"),
        Backlink("b.md", 1, "![[note]]", "embed"),
    ]


def test_a_long_line_is_cut_around_the_link(index: Index) -> None:
    index.put([doc("n.md"), doc("a.md", "x" * 500 + " [[n]] " + "y" * 500)])
    (found,) = backlinks(index, "n.md")
    assert "[[n]]" in found.text
    assert found.text.startswith("…x")
    assert found.text.endswith("y…")
    assert len(found.text) <= 162


def test_links_that_only_have_the_name_come_last(index: Index) -> None:
    index.put([
        doc("x.md"), doc("deep/x.md"), doc("a.md", "[[x]]"), doc("b.md", "[[deep/x]]"),
        doc("c.md", "[[gone/x]]"), doc("d.md", "[[other/deep/x]]"),
    ])  # fmt: skip
    told = [(link.path, link.by_name) for link in backlinks(index, "deep/x.md")]
    # [[x]] could mean it as well; [[deep/x]] can't mean the other; what leads nowhere may mean any.
    assert told == [("b.md", False), ("a.md", True), ("c.md", True), ("d.md", True)]
    told = [(link.path, link.by_name) for link in backlinks(index, "x.md")]
    assert told == [("a.md", False), ("c.md", True), ("d.md", True)]


def test_attachments_and_folders_can_be_asked_for(index: Index) -> None:
    index.put_files([entry("img/pic.png"), entry("img", "folder")])
    index.put([doc("a.md", "![[pic.png]]\n[[img]]\n")])
    assert [(b.kind, b.by_name) for b in backlinks(index, "img/pic.png")] == [("embed", False)]
    assert [(b.line, b.by_name) for b in backlinks(index, "img")] == [(2, True)]


def test_links_to_itself_are_none(index: Index) -> None:
    index.put([doc("a.md", "# h\n[[#h]] [[a]]\n")])
    assert backlinks(index, "a.md") == []


def test_hidden_sources_are_neither_told_nor_counted(index: Index) -> None:
    index.put([doc("n.md"), doc("secret/s.md", "[[n]]"), doc("a.md", "[[n]] [[n]]")])
    page, total = index.backlinks(row(index, "n.md"), outside_secret, limit=1, offset=1)
    assert ([link.path for link in page], total) == (["a.md"], 2)


def mentioned(index: Index, path: str) -> list[tuple[str, int]]:
    found, more = index.mentions(row(index, path), everything, 50)
    assert not more
    assert {link.kind for link in found} <= {"mention"}
    return [(link.path, link.line) for link in found]


@pytest.mark.parametrize(
    ("text", "is_mention"),
    [
        ("about the Big Plan today", True),
        ("BIG plan", True),
        ("(big plan)", True),
        ("**Big Plan**", True),
        ("# Big Plan", True),
        ("the long title", True),
        ("aka BP2", True),
        ("the bigplan", False),
        ("big planning", False),
        ("xbig plan", False),
        ("[[Big Plan]]", False),
        ("[[other|Big Plan]]", False),
        ("[Big Plan](https://x.org)", False),
        ("https://x.org/bp2", False),
        ("#bp2", False),
        ("`Big Plan`", False),
        ("```\nBig Plan\n```", False),
        ("    Big Plan", False),
        ("$Big Plan$", False),
        ("<!-- Big Plan -->", False),
        ("---\nabout: Big Plan\n---\n", False),
    ],
)
def test_a_mention_is_a_whole_word_that_could_be_a_link(
    index: Index, text: str, is_mention: bool
) -> None:
    index.put([
        doc("Big Plan.md", "---\ntitle: The long title\naliases: [BP2]\n---\nBig Plan"),
        doc("a.md", text),
    ])  # fmt: skip
    assert bool(mentioned(index, "Big Plan.md")) is is_mention


def test_scripts_without_spaces_have_no_whole_words(index: Index) -> None:
    index.put([doc("東京.md"), doc("a.md", "私は東京都に住む\n"), doc("b.md", "京都")])
    assert mentioned(index, "東京.md") == [("a.md", 1)]


def test_a_mention_is_found_in_any_unicode_form(index: Index) -> None:
    index.put([doc("Café.md"), doc("a.md", unicodedata.normalize("NFD", "the\nCafé!\n"))])
    assert mentioned(index, "Café.md") == [("a.md", 2)]


def test_one_line_is_one_mention_and_hidden_notes_have_none(index: Index) -> None:
    index.put([doc("n1.md"), doc("a.md", "n1 n1\n\nn1"), doc("secret/b.md", "n1")])
    found, _ = index.mentions(row(index, "n1.md"), outside_secret, 50)
    assert [(link.path, link.line) for link in found] == [("a.md", 1), ("a.md", 3)]


def test_more_mentions_than_are_looked_at_are_admitted(index: Index) -> None:
    index.put([doc("n1.md"), *(doc(f"m{n}.md", "n1") for n in range(4))])
    found, more = index.mentions(row(index, "n1.md"), everything, 3)
    assert (len(found), more) == (3, True)


def test_a_name_without_letters_is_mentioned_nowhere(index: Index) -> None:
    index.put([doc("!.md", ""), doc("a.md", "! !")])
    assert mentioned(index, "!.md") == []


def near(
    index: Index,
    path: str,
    depth: int = 1,
    direction: Direction = "both",
    limit: int = 50,
    sees: Seeing = everything,
    tags: bool = False,
) -> Neighbourhood:
    return index.neighbours(
        row(index, path), sees, depth=depth, direction=direction, limit=limit, tags=tags
    )


def names(found: Neighbourhood) -> list[tuple[str, int]]:
    return [(node.path, node.distance) for node in found.nodes]


@pytest.fixture
def chain(index: Index) -> Index:
    """a → b → c → d, and e → a twice."""
    texts = {"a": "[[b]]", "b": "[[c]]", "c": "[[d]]", "d": "", "e": "[[a]] [[a]]"}
    index.put([doc(f"{name}.md", text) for name, text in texts.items()])
    return index


def test_neighbours_come_nearest_first(chain: Index) -> None:
    assert names(near(chain, "a.md", 1)) == [("a.md", 0), ("e.md", 1), ("b.md", 1)]
    assert names(near(chain, "a.md", 3, "out")) == [
        ("a.md", 0), ("b.md", 1), ("c.md", 2), ("d.md", 3),
    ]  # fmt: skip
    assert names(near(chain, "c.md", 2, "in")) == [("c.md", 0), ("b.md", 1), ("a.md", 2)]


def test_edges_are_counted_among_the_nodes(chain: Index) -> None:
    found = near(chain, "a.md", 1)
    assert {(e.source, e.target, e.count) for e in found.edges} == {
        ("e.md", "a.md", 2), ("a.md", "b.md", 1),
    }  # fmt: skip
    assert not found.truncated


def test_a_limit_is_admitted(chain: Index) -> None:
    found = near(chain, "a.md", 3, limit=1)
    assert names(found) == [("a.md", 0), ("e.md", 1)]
    assert found.truncated
    assert not near(chain, "a.md", 1, limit=2).truncated
    assert near(chain, "a.md", 2, limit=2).truncated
    assert not near(chain, "d.md", 1, "out", limit=1).truncated


def test_a_hidden_note_is_no_bridge(index: Index) -> None:
    index.put([
        doc("a.md", "[[secret/s]]"), doc("secret/s.md", "[[b]]"), doc("b.md", "[[c]]"), doc("c.md"),
    ])  # fmt: skip
    assert len(near(index, "a.md", 3).nodes) == 4
    assert names(near(index, "a.md", 3, sees=outside_secret)) == [("a.md", 0)]


def test_tags_are_nodes_on_request(index: Index) -> None:
    index.put([doc("a.md", "#T/x [[b]]"), doc("b.md", "#t/X #u")])
    found = near(index, "a.md", tags=True)
    assert names(found) == [("a.md", 0), ("b.md", 1), ("#T/x", 1), ("#u", 2)]
    assert ("b.md", "#T/x", 1) in {(e.source, e.target, e.count) for e in found.edges}


def test_orphans_have_no_links_at_all_that_may_be_seen(index: Index) -> None:
    index.put([
        doc("alone.md"), doc("self.md", "[[self]]"), doc("out.md", "[[nowhere]]"),
        doc("a.md", "[[b]]"), doc("b.md"), doc("secret/s.md", "[[c]]"), doc("c.md"),
        doc("secret/alone.md"),
    ])  # fmt: skip

    def orphans(sees: Seeing) -> tuple[list[str], int]:
        found, total = index.orphans(sees, limit=9, offset=0)
        return [note.path for note in found], total

    assert orphans(everything) == (["alone.md", "secret/alone.md", "self.md"], 3)
    assert orphans(outside_secret) == (["alone.md", "c.md", "self.md"], 3)
    index.put([doc("late.md"), doc("a.md", "")])
    assert orphans(outside_secret)[0] == ["a.md", "alone.md", "b.md", "c.md", "late.md", "self.md"]
    page, total = index.orphans(everything, limit=1, offset=1)
    assert ([note.path for note in page], total) == (["alone.md"], 6)


def test_a_link_to_a_hidden_note_leads_to_its_namesake_or_nowhere(index: Index) -> None:
    index.put([
        doc("a.md", "[[plan]] [[only]]"), doc("z/deep/plan.md", "[[plan]]"),
        doc("secret/plan.md"), doc("secret/only.md"),
    ])  # fmt: skip
    assert names(near(index, "a.md")) == [("a.md", 0), ("secret/only.md", 1), ("secret/plan.md", 1)]
    seen = near(index, "a.md", sees=outside_secret)
    assert names(seen) == [("a.md", 0), ("z/deep/plan.md", 1)]
    assert [(edge.source, edge.target, edge.count) for edge in seen.edges] == [
        ("a.md", "z/deep/plan.md", 1)
    ]
    (link,) = backlinks(index, "z/deep/plan.md", outside_secret)
    assert (link.path, link.by_name) == ("a.md", False)
    assert index.link_counts("z/deep/plan.md", outside_secret) == (1, 0)
    assert index.linked("a.md", outside_secret) == (["z/deep/plan.md"], [])
    missing, total = index.unresolved(outside_secret, limit=9, offset=0)
    assert ([one.name for one in missing], total) == (["only"], 1)
    assert index.orphans(outside_secret, limit=9, offset=0)[1] == 0


def test_missing_names_are_counted_for_those_who_may_know(index: Index) -> None:
    index.put([
        doc("a.md", "[[Wanted]] [[wanted#x]] [[here]]"), doc("here.md", "[[old/Wanted]] [[b]]"),
        doc("secret/s.md", "[[Wanted]] [[Hidden]]"),
    ])  # fmt: skip

    def missing(sees: Seeing) -> list[tuple[str, int, list[str]]]:
        found, total = index.unresolved(sees, limit=9, offset=0)
        assert total == len(found)
        return [(one.name, one.count, list(one.examples)) for one in found]

    assert missing(everything) == [
        ("Wanted", 4, ["a.md", "here.md", "secret/s.md"]),
        ("b", 1, ["here.md"]), ("Hidden", 1, ["secret/s.md"]),
    ]  # fmt: skip
    assert missing(outside_secret) == [
        ("Wanted", 3, ["a.md", "here.md"]), ("b", 1, ["here.md"]),
    ]  # fmt: skip
    index.put([doc("new/wanted.md")])
    assert [name for name, _, _ in missing(outside_secret)] == ["b", "old/Wanted"]
    some, total = index.unresolved(
        everything, limit=9, offset=0, within=[row(index, "secret/s.md").id]
    )
    assert ([one.name for one in some], total) == (["Hidden"], 1)


# Resolution against an obvious one.

_FOLDERS = ["", "a/", "B/", "a/b/", "Ünï/", "x y/"]
_FILES = ["Note.md", "note.md", "Café.md", "c d.md", "v1.2.md", "pic.png", "Note.png", "100%.md"]
_PATHS = st.builds(lambda folder, name: folder + name, *map(st.sampled_from, (_FOLDERS, _FILES)))
_STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "remove", "rename"]), _PATHS, _PATHS), max_size=8
)
_TARGETS = st.builds(
    lambda up, folder, name, form, case: up + unicodedata.normalize(form, case(folder + name)),
    st.sampled_from(["", "", "", "./", "../", "../../", "/", "a/../"]),
    st.sampled_from(["", "", *_FOLDERS, "b/"]),
    st.sampled_from([*_FILES, *(file.removesuffix(".md") for file in _FILES), "Alias", "none"]),
    st.sampled_from(["NFC", "NFD"]),
    st.sampled_from([str, str.upper, str.lower]),
)


def _plain(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _bare(path: str) -> str:
    return _plain(path).removesuffix(".md")


def meant(files: Iterable[str], source: str, target: str) -> str | None:
    """Where a link leads, the slow way: the rules one after the other over all files."""
    ordered = sorted(files, key=lambda path: (len(path), path))
    wanted, home = _bare(target), _plain(source).split("/")[:-1]

    def exact(parts: list[str]) -> str | None:
        return next((path for path in ordered if _bare(path) == "/".join(parts)), None)

    if target.startswith("/"):
        return exact(wanted.lstrip("/").split("/"))
    parts = wanted.split("/")
    if parts[0] in (".", "..") or ".." in parts[1:]:
        walked = list(home)
        for part in parts:
            if part == ".." and not walked:
                return None
            if part == "..":
                walked.pop()
            elif part != ".":
                walked.append(part)
        return exact(walked)
    ending = (path for path in ordered if _bare(path).split("/")[-len(parts) :] == parts)
    return exact(parts) or exact(home + parts) or next(ending, None)


def _links(targets: Iterable[str]) -> str:
    """Every target as a wikilink, as an embed and as a markdown link."""
    lines = []
    for target in targets:
        lines += [f"[[{target}|x]]", f"![[{target}]]", f"[x]({quote(target)})"]
    return "---\naliases: [Alias]\n---\n" + "\n".join(lines)


@settings(max_examples=150, deadline=None)
@given(
    start=st.lists(_PATHS, max_size=6, unique=True),
    steps=_STEPS,
    targets=st.lists(_TARGETS, min_size=1, max_size=5),
)
def test_links_lead_where_the_obvious_resolver_says(
    tmp_path_factory: pytest.TempPathFactory,
    start: list[str],
    steps: list[tuple[str, str, str]],
    targets: list[str],
) -> None:
    index = Index.open(tmp_path_factory.mktemp("resolve"), segment_bytes=4096)
    sources = ["src.md", "a/src2.md", "a/b/src3.md"]
    index.put([doc(path, _links(targets)) for path in sources])
    files: dict[str, None] = dict.fromkeys(sources)

    def put(path: str) -> None:
        files[path] = None
        if path.endswith(".md"):
            index.put([doc(path, "---\naliases: [none, Alias]\n---\n")])
        else:
            index.put_files([entry(path)])

    def check() -> None:
        for source in sources:
            expected = [meant(files, source, target) for target in targets for _ in range(3)]
            assert target_of(index, source) == expected
        _check_backlinks(index, files, sources, targets)

    for path in start:
        put(path)
    check()
    for step, path, other in steps:
        if step == "put":
            put(path)
        elif step == "remove":
            files.pop(path, None)
            index.remove([path])
        elif path in files:
            del files[path]
            files[other] = None
            index.rename(path, other, other, FileStat(0, 1))
        check()
    index.close()


def _check_backlinks(
    index: Index, files: Mapping[str, None], sources: list[str], targets: list[str]
) -> None:
    for path in files:
        found, _ = index.backlinks(row(index, path), everything, limit=1000, offset=0)
        expected = [
            source
            for source in sorted(sources)
            for target in targets
            for _ in range(3)
            if source != path and meant(files, source, target) == path
        ]
        assert [link.path for link in found if not link.by_name] == expected
