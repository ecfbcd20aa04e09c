"""Links and headings rewritten in the form they had, and nothing else touched."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from server.errors import InvalidRequest, NotFound
from server.markdown.forms import Ends, destination, follow, form_of
from server.markdown.note import parse
from server.markdown.rewriting import read, relink, resection, retitle
from server.markdown.sections import find

RELINKED = {
    "name": ("see [[Old]].", "New", "see [[New]]."),
    "alias": ("[[Old|shown]]", "a/New", "[[a/New|shown]]"),
    "heading": ("[[Old#Part#Sub]]", "New", "[[New#Part#Sub]]"),
    "block": ("[[Old#^b-1|x]]", "New", "[[New#^b-1|x]]"),
    "embed": ("![[Old]]", "New", "![[New]]"),
    "image size": ("![[Old.png|300]]", "b/New.png", "![[b/New.png|300]]"),
    "blanks": ("[[ Old # Part | x ]]", "New", "[[ New # Part | x ]]"),
    "table": ("| [[Old\\|x]] | b |", "New", "| [[New\\|x]] | b |"),
    "table with heading": ("| [[Old#H\\|x]] |", "New", "| [[New#H\\|x]] |"),
    "table without alias": ("| [[Old]] | [[Old\\", "New", "| [[New]] | [[Old\\"),
    "quote": ("[[Old]]", "It's", "[[It's]]"),
    "comment": ("%% [[Old]] %%", "New", "%% [[New]] %%"),
    "crlf": ("a\r\n[[Old]]\r\nb\r\n", "New", "a\r\n[[New]]\r\nb\r\n"),
    "bom": ("\ufeff[[Old]]", "New", "\ufeff[[New]]"),
    "odd bytes": ("\udcff [[Old]] \udc80", "New", "\udcff [[New]] \udc80"),
    "markdown": ("[text](Old.md)", "a/New.md", "[text](a/New.md)"),
    "markdown title": ('[x]( Old.md#H "a (title)" )', "New.md", '[x]( New.md#H "a (title)" )'),
    "space becomes encoded": ("[x](Old.md)", "a b/New é.md", "[x](a%20b/New%20é.md)"),
    "encoded stays encoded": ("[x](Z%C3%BCrich.md)", "Köln.md", "[x](K%C3%B6ln.md)"),
    "kept parts stay as written": ("[x](a%62/Old.md)", "ab/ü.md", "[x](a%62/ü.md)"),
    "angle brackets": ("[x](<Old a.md#H 1>)", "New b.md", "[x](<New b.md#H 1>)"),
    "blank at the end": ("[x](<Old>)", "New ", "[x](<New%20>)"),
    "encoded in angle brackets": ("[x](<a%20b.md>)", "c d.md", "[x](<c%20d.md>)"),
    "escaped hash": ("[x](Old.md\\#H)", "New.md", "[x](New.md\\#H)"),
    "hash": ("[x](Old.md#H)", "C#.md", "[x](C%23.md#H)"),
    "per cent": ("[x](Old.md)", "100%25.md", "[x](100%2525.md)"),
    "lone per cent": ("[x](Old.md)", "100% sure.md", "[x](100%%20sure.md)"),
    "balanced brackets": ("[x](Old.md)", "a(b).md", "[x](a(b).md)"),
    "unbalanced brackets": ("[x](Old.md)", "a(b.md", "[x](a%28b.md)"),
    "brackets over folders": ("[x](a(1/b).md)", "a(1/c.md", "[x](a%281/c.md)"),
    "no scheme": ("[x](Old.md)", "ab: c.md", "[x](ab%3A%20c.md)"),
    "embedded picture": ("![alt](Old.png)", "p/New.png", "![alt](p/New.png)"),
    "alias with blanks": ("[ a b ](Old.md)", "New.md", "[ a b ](New.md)"),
    "no alias": ("[ ](Old.md)", "New.md", "[ ](New.md)"),
    "code in the alias": ("[`](<`](Old.md)", "New.md", "[`](<`](New.md)"),
    "plain property": ("---\nup: see [[Old]]\n---\n", "It's", "---\nup: see [[It's]]\n---\n"),
    "double quotes": ('---\nup: "[[Old|x]]" # c\n---\n', "N", '---\nup: "[[N|x]]" # c\n---\n'),
    "single quotes": ("---\nup: '[[Old]]'\n---\n", "It's", "---\nup: '[[It''s]]'\n---\n"),
    "anchored": ("---\nup: &a '[[Old]]'\n---\n", "It's", "---\nup: &a '[[It''s]]'\n---\n"),
    "quotes in a list": ("---\nup:\n  - '[[Old]]'\n---\n", "N", "---\nup:\n  - '[[N]]'\n---\n"),
    "flow list": ('---\r\nup: ["[[Old]]", b]\r\n---\r\n', "N", '---\r\nup: ["[[N]]", b]\r\n---\r\n'),
    "block text": ("---\nup: |\n  a [[Old]]\n---\n", "It's", "---\nup: |\n  a [[It's]]\n---\n"),
    "escapes": ('---\nup: "[[Caf\\u00e9#H]]"\n---\n', "Né", '---\nup: "[[Né#H]]"\n---\n'),
    "bar in quotes": ('---\nup: "[[Old\\\\|x]]"\n---\n', "N", '---\nup: "[[N\\\\|x]]"\n---\n'),
    "odd bytes above": ("---\na: \udcff\nup: '[[Old]]'\n---\n", "N", "---\na: \udcff\nup: '[[N]]'\n---\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "target", "changed"), RELINKED.values(), ids=RELINKED.keys())
def test_a_link_gets_another_target_and_keeps_the_rest(
    text: str, target: str, changed: str
) -> None:
    assert relink(text, read(text), {0: target}) == changed


def test_only_the_chosen_links_change() -> None:
    text = "[[A]] `[[A]]` [![i](A.png)](A.md) [[A]]\n```\n[[A]]\n```\n[[A]]"
    changed = relink(text, read(text), {0: "B", 1: "C.md", 2: "p/i.png", 4: "D"})
    assert changed == "[[B]] `[[A]]` [![i](p/i.png)](C.md) [[A]]\n```\n[[A]]\n```\n[[D]]"


def test_a_note_that_was_parsed_as_it_is_will_do() -> None:
    text = "---\na: \udcff\n---\n[[Old]]"
    assert relink(text, parse(text, "n.md"), {0: "New"}).endswith("[[New]]")


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("[[Old]]", "C#"),
        ("[[Old]]", "a|b"),
        ("[[Old]]", "a]b"),
        ("[[Old]]", " New"),
        ("[[Old]]", ""),
        ("---\nup: see [[Old]]\n---\n", "a: b"),
    ],
)
def test_what_a_link_cannot_hold_is_refused(text: str, target: str) -> None:
    with pytest.raises(InvalidRequest):
        relink(text, read(text), {0: target})


def test_a_note_of_another_text_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        relink("no link here", read("see [[Old]]"), {0: "New"})


NAMES = st.text(
    st.sampled_from("abAB 012'(),;&%+=!~@$é東e\u0301\u3000\xa0.-_{}`"), min_size=1, max_size=12
).filter(lambda name: name == name.strip() and not name.endswith("."))
SPELLINGS = (
    "[[{}]]", "![[{}|300]]", "| [[{}#H\\|x]] |", "[t](<{}>)", "---\nup: '[[{}]]'\n---\n",
    '---\nup:\n- "[[{}|a]]"\n---\n',
)  # fmt: skip


@settings(max_examples=200)
@given(st.sampled_from(SPELLINGS), st.lists(NAMES, min_size=1, max_size=3), NAMES)
def test_there_and_back_again_is_the_same_text(form: str, parts: list[str], old: str) -> None:
    assume("`" not in old and "%" not in old)
    text = f"{form.format(old)} and `[[{old}]]`\n"
    note = read(text)
    assume(note.links and note.links[0].target == old)
    new = "/".join(parts)
    assume("%" not in new)
    changed = relink(text, note, {0: new})
    again = read(changed)
    assert again.links[0] == replace(note.links[0], target=new, end=again.links[0].end)
    assert relink(changed, again, {0: old}) == text


@settings(max_examples=200)
@given(st.lists(NAMES, min_size=1, max_size=3), st.sampled_from(("[t](Old.md#H)", "![](O%C3%A9)")))
def test_any_name_fits_into_a_markdown_link(parts: list[str], text: str) -> None:
    new = "/".join(parts)
    assert read(relink(text, read(text), {0: new})).links[0].target == new


# Forms


@pytest.mark.parametrize(
    ("target", "kind", "path", "source", "form"),
    [
        ("Note", "wiki", "a/Note.md", "a/src.md", "name"),
        ("note.md", "property", "Note.md", "src.md", "name"),
        ("a/Note", "wiki", "a/Note.md", "src.md", "whole"),
        ("A/note.md", "markdown", "a/Note.md", "b/src.md", "whole"),
        ("b/Note", "wiki", "a/b/Note.md", "a/src.md", "ending"),
        ("b/Note.md", "markdown", "a/b/Note.md", "a/src.md", "relative"),
        ("Note.md", "markdown", "a/Note.md", "a/src.md", "relative"),
        ("Note.md", "markdown", "a/Note.md", "b/src.md", "name"),
        ("../Note", "wiki", "Note.md", "a/src.md", "relative"),
        ("/a/Note", "wiki", "a/Note.md", "src.md", "absolute"),
    ],
)
def test_the_form_of_a_target(target: str, kind: str, path: str, source: str, form: str) -> None:
    assert form_of(target, kind, path, source) == form  # type: ignore[arg-type]


DESTINATIONS = {
    "a name": ("Old", "wiki", "x/Old.md", "y/New.md", {"New": "y/New.md"}, "New"),
    "a name that is taken": (
        "Old", "wiki", "x/Old.md", "y/z/New.md",
        {"New": "New.md", "z/New": "y/z/New.md", "y/z/New": "y/z/New.md"}, "z/New",
    ),
    "a whole path that is taken": (
        "x/Old", "wiki", "x/Old.md", "y/New.md", {"y/New": "s/y/New.md", "/y/New": "y/New.md"},
        "/y/New",
    ),
    "an extension": ("Old.md", "wiki", "x/Old.md", "y/New.md", {"New.md": "y/New.md"}, "New.md"),
    "a path": ("x/Old", "wiki", "x/Old.md", "y/New.md", {"New": "y/New.md", "y/New": "y/New.md"}, "y/New"),
    "the end of a path": (
        "x/Old", "wiki", "w/x/Old.md", "w/y/New.md", {"New": "w/y/New.md", "y/New": "w/y/New.md"}, "y/New",
    ),
    "an absolute path": ("/x/Old.md", "markdown", "x/Old.md", "y/New.md", {"/y/New.md": "y/New.md"}, "/y/New.md"),
    "a relative path": (
        "../x/Old.md", "markdown", "x/Old.md", "y/New.md", {"../y/New.md": "y/New.md"}, "../y/New.md",
    ),
    "a relative path to its own folder": (
        "../x/Old.md", "markdown", "x/Old.md", "s/New.md", {"New.md": "s/New.md"}, "New.md",
    ),
    "a relative path that is taken": (
        "../x/Old.md", "markdown", "x/Old.md", "s/New.md",
        {"New.md": "New.md", "./New.md": "s/New.md"}, "./New.md",
    ),
    "a relative wikilink": (
        "../x/Old", "wiki", "x/Old.md", "s/New.md", {"./New": "s/New.md", "New": "s/New.md"}, "./New",
    ),
    "an attachment": ("a.png", "wiki", "x/a.png", "y/b.png", {"b.png": "y/b.png"}, "b.png"),
    "a name with a blank in front": (
        "Old", "wiki", "x/Old.md", "y/ New.md", {" New": "y/ New.md", "y/ New": "y/ New.md"}, "y/ New",
    ),
    "a note that ends in md twice": (
        "Old", "wiki", "Old.md", "New.md.md", {"New.md": "New.md", "New.md.md": "New.md.md"},
        "New.md.md",
    ),
    "a note that becomes a file": ("Old", "wiki", "Old.md", "New.txt", {"New.txt": "New.txt"}, "New.txt"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("target", "kind", "path", "new", "leads", "wanted"),
    DESTINATIONS.values(),
    ids=DESTINATIONS.keys(),
)
def test_a_destination_keeps_its_form(
    target: str, kind: str, path: str, new: str, leads: dict[str, str], wanted: str
) -> None:
    ends = Ends("s/src.md", "s/src.md", path, new)
    assert destination(target, kind, ends, leads.get) == wanted  # type: ignore[arg-type]


def test_a_link_that_still_says_where_the_file_is_stays() -> None:
    ends = Ends("src.md", "src.md", "x/y/Note.md", "z/y/Note.md")
    for target in ("Note", "y/note.MD", "NOTE"):
        assert destination(target, "wiki", ends, lambda _: "z/y/Note.md") is None


def test_a_path_that_leads_there_by_luck_is_told_anew() -> None:
    ends = Ends("src.md", "src.md", "x/Note.md", "z/x/Note.md")
    assert destination("x/Note", "wiki", ends, lambda _: "z/x/Note.md") == "z/x/Note"
    ends = Ends("a/src.md", "b/src.md", "a/n.md", "a/n.md")
    assert destination("n.md", "markdown", ends, lambda _: "a/n.md") == "../a/n.md"


def test_a_name_follows_a_change_of_case_only_where_it_had_the_case() -> None:
    ends = Ends("src.md", "src.md", "note.md", "Note.md")
    assert destination("note", "wiki", ends, lambda _: "Note.md") == "Note"
    assert destination("NOTE", "wiki", ends, lambda _: "Note.md") is None


def test_a_file_that_no_link_can_name_is_refused() -> None:
    ends = Ends("src.md", "src.md", "x/Note.md", "C#/Note.md")
    with pytest.raises(InvalidRequest):
        destination("x/Note", "wiki", ends, lambda target: "C#/Note.md" if "#" in target else None)
    assert destination("x/Note.md", "markdown", ends, lambda _: "C#/Note.md") == "C#/Note.md"


def test_what_leads_nowhere_stays_but_for_relative_paths_that_would_lead_somewhere() -> None:
    ends = Ends("a/src.md", "a/b/src.md", None, None)
    assert destination("Gone", "wiki", ends, lambda _: "x/Gone.md") is None
    assert destination("../Gone", "wiki", ends, lambda _: None) is None
    assert destination("../Gone", "wiki", ends, {"../Gone": "a/Gone.md"}.get) == "../../Gone"
    assert destination("../Gone", "wiki", ends, lambda _: "a/Gone.md") is None


# Sections

BEFORE = "# Work\n## Log\n### Deep\n# Home\n## Log ^id\n## C# & more\n# Last\n"


@pytest.mark.parametrize(
    ("n", "new", "section", "followed"),
    [
        (1, "Diary", "Log", "Diary"),
        (1, "Diary", "Work#log", "Work#Diary"),
        (1, "Diary", "Work#Log#Deep", "Work#Diary#Deep"),
        (1, "Diary", "Home#Log", None),
        (1, "Diary", "^log", None),
        (1, "Diary", "Other", None),
        (1, "Diary", "Last", None),
        (4, "Diary", "Home#Log", "Home#Diary"),
        (4, "Diary", "Log", None),
        (0, "Big: [work] | 50%", "Work", "Big work 50"),
        (5, "D", "C# & more", "D"),
        (5, "D", "Home#C & more", "Home#D"),
        (6, "last", "Last", "last"),
        (5, "Deep", "C & more", "Home#Deep"),
        # No path tells it from the first of that name.
        (6, "Log", "Last", "Log"),
    ],
)
def test_a_section_follows_its_heading(
    n: int, new: str, section: str, followed: str | None
) -> None:
    note = read(BEFORE)
    after = read(retitle(BEFORE, note.headings[n], new))
    assert follow(section, note.headings, after.headings) == followed


def test_headings_that_come_to_share_a_name_are_told_by_their_paths() -> None:
    note = read("# A\n## X\n# B\n## Y\n")
    after = read("# A\n## Y\n# B\n## Y\n")
    assert follow("Y", note.headings, after.headings) == "B#Y"
    assert follow("X", note.headings, after.headings) == "A#Y"
    note = read("# Y\n# B\n## X\n# B\n## Y\n")
    after = read("# Y\n# B\n## Y\n# B\n## Y\n")
    assert follow("X", note.headings, after.headings) == "B#Y"


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from("ABCD")), min_size=1, max_size=8),
    st.integers(0, 7),
    st.sampled_from("XY"),
    st.lists(st.sampled_from("ABCD"), min_size=1, max_size=3),
)
def test_a_section_is_found_again_whatever_is_renamed(
    headings: list[tuple[int, str]], n: int, new: str, parts: list[str]
) -> None:
    text = "".join(f"{'#' * level} {name}\n" for level, name in headings)
    section = "#".join(parts)
    note = read(text)
    assume([name for _, name in headings].count(parts[-1]) == 1)
    try:
        found = find(text, note, section)
    except NotFound:
        return
    changed = retitle(text, note.headings[n % len(headings)], new)
    followed = follow(section, note.headings, read(changed).headings) or section
    assert find(changed, read(changed), followed).start == found.start


def test_a_heading_without_letters_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        follow("A", read("# A").headings, read("# [ ]").headings)


RESECTIONED = {
    "wiki": ("[[N#Old|x]]", "New", "[[N#New|x]]"),
    "itself": ("[[#Old]]", "New", "[[#New]]"),
    "blanks": ("[[N # Old # B |x]]", "New # B", "[[N # New # B |x]]"),
    "two marks": ("[[N##Old]]", "New", "[[N##New]]"),
    "table": ("| [[N#Old\\|x]] |", "New", "| [[N#New\\|x]] |"),
    "markdown": ("[x](N.md#A%42#Old%20h 't')", "AB#New é h", "[x](N.md#A%42#New%20é%20h 't')"),
    "markdown itself": ("[x](#Old)", "New h", "[x](#New%20h)"),
    "angled": ("[x](<N.md#Old h>)", "New h", "[x](<N.md#New h>)"),
    "single quotes": ("---\na: '[[N#It''s]]'\n---\n", "He's", "---\na: '[[N#He''s]]'\n---\n"),
}


@pytest.mark.parametrize(("text", "new", "changed"), RESECTIONED.values(), ids=RESECTIONED.keys())
def test_a_link_gets_another_section_and_keeps_the_rest(text: str, new: str, changed: str) -> None:
    assert resection(text, read(text), {0: new}) == changed


# Headings

RETITLED = {
    "atx": ("# Old\ntext", "New", "# New\ntext"),
    "closed": ("##  Old name  ##  \r\ntext", "New #2", "##  New #2  ##  \r\ntext"),
    "block id": ("# Old ^id-1\n", "New", "# New ^id-1\n"),
    "new block id": ("# Old ^id-1\n", "New ^b", "# New ^b\n"),
    "empty": ("a\n#\r\nb", "New", "a\n# New\r\nb"),
    "empty and closed": ("# ##\n", "New", "# New ##\n"),
    "setext": ("Old\n===\ntext", "New", "New\n===\ntext"),
    "setext of two lines": ("p\n\n Old \r\n more\r\n---\r\n", "New", "p\n\n New\r\n---\r\n"),
    "bom": ("\ufeff# Old", "New", "\ufeff# New"),
    "links": ("# Old\n[[a]]", "[[b]]", "# [[b]]\n[[a]]"),
}


@pytest.mark.parametrize(("text", "new", "changed"), RETITLED.values(), ids=RETITLED.keys())
def test_a_heading_is_renamed_and_nothing_else(text: str, new: str, changed: str) -> None:
    assert retitle(text, read(text).headings[0], new) == changed


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("# Old\n", " "),
        ("# Old\n", "a\nb"),
        ("# Old\n", "a #"),
        ("Old\n---\n", "- item"),
        ("Old\n---\n", "# atx"),
        ("# Old\n[[a]] -->\n# Next\n", "a <!-- b"),
    ],
)
def test_a_heading_that_would_be_something_else_is_refused(text: str, new: str) -> None:
    with pytest.raises(InvalidRequest):
        retitle(text, read(text).headings[0], new)
