"""What a note says: one row per rule of the flavour, then what holds for every text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.markdown.links import WIKI
from server.markdown.note import Link, Note, parse


def read(text: str) -> Note:
    return parse(text, "Name.md")


TAGS = {
    "letters, digits, _ - /": ("#aZ9_b-c/d", "aZ9_b-c/d"),
    "any script and emoji": ("#日本語 #заметка #🎉", "日本語 заметка 🎉"),
    "at least one non-digit": ("#2024 #2024a #2024/01", "2024a 2024/01"),
    "case-insensitive, first casing shown": ("#Work #WORK #work", "Work"),
    "line start": ("#a\n#b", "a b"),
    "after a tab, NBSP, U+3000": ("x\t#a\u00a0#b\u3000#c", "a b c"),
    "two in a row": ("#a#b", "a b"),
    "in emphasis": ("_#a_ *#b* **#c** ~~#d~~ ==#e==", "a b c d e"),
    "emphasis with an inner underscore": ("_#a_b_", "a_b"),
    "emphasis that never closes": ("*#a", ""),
    "emphasis inside a word": ("x_#a_", ""),
    "single ~ and = are no emphasis": ("~#a~ =#b=", ""),
    "in table cells": ("|#a|#b|\n|-|-|\n|#c|x|", "a b c"),
    "bar outside a table": ("x|#a|", ""),
    "in a link's text": ("[t #a](https://e.org)", "a"),
    "not in parentheses": ("(#a) (#a#b)", ""),
    "not in quotes": ("\"#a\" '#b'", ""),
    "not inside a word or an address": ("x#a https://e.org/#b", ""),
    "escaped": ("\\#a", ""),
    "ends at ASCII punctuation": ("#a. #b, #c: #d! #e? #f) #g' #h\"", "a b c d e f g h"),
    "ends at U+2000-206F and U+2E00-2E7F": ("#a… #b—c #d⸺e", "a b d"),
    "slashes at the ends": ("#a/ #/b", "a b"),
    "in a heading": ("# Title #a", "a"),
    "in a list and a quote": ("- #a\n> #b", "a b"),
    "in a comment": ("%% #a %%", "a"),
    "not in fenced code": ("```\n#a\n```\n~~~\n#b\n~~~", ""),
    "not in an unclosed fence": ("```\n#a", ""),
    "not in inline code": ("`#a` ``x ` #b``", ""),
    "not in inline code over two lines": ("`x\n#a`", ""),
    "not in indented code": ("x\n\n    #a\n\t#b\n\n    #c\ny", ""),
    "indented below a paragraph is text": ("x\n    #a", "a"),
    "indented below a list item is text": ("- x\n\n    #a\n\n1. y\n\n    #b", "a b"),
    "indented further below a list item is code": ("- x\n\n      #a", ""),
    "indented after a list has ended": ("- x\n\ny\n\n    #a", ""),
    "indented after a heading has ended a list": ("- x\n# y\n\n    #a", ""),
    "indented code below a heading": ("# x\n    #a", ""),
    "indented inside a fence is not the issue": ("```\n\n    x\n```\n#a", "a"),
    "not in math": ("$x #a$ and $$y #b$$\n$$\n#c\n\n#d\n$$", ""),
    "prices are no math": ("costs $5 #a and $6", "a"),
    "not in HTML comments": ("<!-- #a\n\n#b --> #c", "c"),
    "not in an unclosed HTML comment": ("x\n<!-- #a\n\n#b", ""),
    "not in HTML blocks": ("<div>\n#a\n</div>\n\n#b", "b"),
    "not in raw HTML": ("<pre>\n\n#a\n</pre>\n#b", "b"),
    "not in attributes": ('x <span title="a #b">c</span> #d', "d"),
    "less-than is no HTML": ("a <b #c", "c"),
    "heading marks": ("## \n##x\n# x ##", ""),
}


@pytest.mark.parametrize(("text", "tags"), TAGS.values(), ids=TAGS.keys())
def test_tag(text: str, tags: str) -> None:
    assert " ".join(read(text).tags) == tags


PROPERTY_TAGS = {
    "list": ("tags: [a, b/c]", "a b/c"),
    "block list": ("tags:\n  - a\n  - b", "a b"),
    "one text is one tag": ("tags: a", "a"),
    "key in any case": ("Tags: [a]", "a"),
    "values with spaces are dropped": ("tags: [a b, c]", "c"),
    "text with spaces is dropped": ("tags: a b", ""),
    "commas": ("tags: a, b", "a b"),
    "tag": ("tag: a", "a"),
    "with a hash": ('tags: ["#a"]', "a"),
    "digits alone": ("tags: [2024, '1', a1]", "a1"),
    "dates have dashes": ("tags: [2026-02-20]", "2026-02-20"),
    "no tags": ("tags:", ""),
    "mappings and nulls": ("tags: [{a: 1}, null, [b], c]", "c"),
    "before the body's, same tag once": ("tags: [Z, A]\n---\n#a #b #z", "Z A b"),
}


@pytest.mark.parametrize(("block", "tags"), PROPERTY_TAGS.values(), ids=PROPERTY_TAGS.keys())
def test_property_tag(block: str, tags: str) -> None:
    assert " ".join(read(f"---\n{block}\n---\n").tags) == tags


ALIASES = {
    "list": ("aliases: [A, B b]", ("A", "B b")),
    "text": ("aliases: A a", ("A a",)),
    "commas": ("aliases: A, B", ("A", "B")),
    "commas in a list stay": ('aliases: ["Doe, Jane"]', ("Doe, Jane",)),
    "alias": ("alias: A", ("A",)),
    "key in any case": ("Aliases: [A]", ("A",)),
    "numbers and dates": ("aliases: [2024, 2026-02-20]", ("2024", "2026-02-20")),
    "twice": ("aliases: [A, A, null, '']", ("A",)),
}


@pytest.mark.parametrize(("block", "aliases"), ALIASES.values(), ids=ALIASES.keys())
def test_alias(block: str, aliases: tuple[str, ...]) -> None:
    assert read(f"---\n{block}\n---\n").aliases == aliases


def shown(link: Link) -> str:
    """A link as `target#section|alias`, with its mark and the first letter of its kind."""
    section = f"#{link.section}" if link.section else ""
    alias = f"|{link.alias}" if link.alias else ""
    return f"{'!' * link.embed}{link.kind[0]}:{link.target}{section}{alias}"


LINKS = {
    "name": ("[[a b]]", "w:a b"),
    "path": ("[[x/y.md]]", "w:x/y.md"),
    "heading": ("[[a#b]]", "w:a#b"),
    "heading path": ("[[a#b#c|d]]", "w:a#b#c|d"),
    "own heading": ("[[#b]]", "w:#b"),
    "block": ("[[a#^b1]]", "w:a#^b1"),
    "own block": ("[[#^b1]]", "w:#^b1"),
    "alias": ("[[a|b c]]", "w:a|b c"),
    "alias with brackets": ("[[a|b [c] d]]", "w:a|b [c] d"),
    "empty alias": ("[[a|]]", "w:a"),
    "blanks around": ("[[ a | b ]]", "w:a|b"),
    "embed": ("![[a.png|100]]", "!w:a.png|100"),
    "embed of a section": ("![[a#b]]", "!w:a#b"),
    "escaped embed mark": ("\\![[a]]", "w:a"),
    "escaped bar in a table": ("| [[a\\|b]] | [[a#c\\|d]] |", "w:a|b w:a#c|d"),
    "third bracket": ("[[[a]]]", "w:a"),
    "nothing in it": ("[[]] [[ ]] [[|a]] [[#]]", ""),
    "over two lines": ("[[a\nb]]", ""),
    "unclosed": ("[[a [[b]]", "w:b"),
    "escaped": ("\\[[a]]", ""),
    "address": ("[[https://e.org]]", ""),
    "in a comment": ("%% [[a]] %%\n%%\n[[b]]\n%%", "w:a w:b"),
    "in a callout": ("> [!note] [[a]]", "w:a"),
    "in a heading": ("# [[a]]", "w:a"),
    "not in fenced code": ("```\n[[a]]\n```\n[[b]]", "w:b"),
    "fence closed by a longer one only": ("````\n```\n[[a]]\n````\n[[b]]", "w:b"),
    "fence closed by its own kind only": ("~~~\n```\n[[a]]\n~~~\n[[b]]", "w:b"),
    "fence with an info string": ("```py x\n[[a]]\n``` no\n[[b]]\n```\n[[c]]", "w:c"),
    "backticks in the info string make it inline": ("```x``` [[a]]", "w:a"),
    "fence in a list": ("- ```\n  [[a]]\n  ```\n- [[b]]", "w:b"),
    "fence in a quote": ("> ```\n> [[a]]\n> ```\n> [[b]]", "w:b"),
    "fence ends with its quote": ("> ```\n> [[a]]\n\n[[b]]", "w:b"),
    "quoted marks don't end an outer fence's text": ("```\n> [[a]]\n```\n[[b]]", "w:b"),
    "not in inline code": ("`[[a]]` ``[[b]]` [[c]]``", ""),
    "inline code ends with the paragraph": ("`[[a]]\n\n`[[b]]", "w:a w:b"),
    "inline code ends before a list item": ("`x\n- [[a]]`", "w:a"),
    "unclosed backticks": ("`` [[a]] `", "w:a"),
    "escaped backtick": ("\\`[[a]]`", "w:a"),
    "long inline code": (f"`{'x' * 300} [[a]]` [[b]]", "w:b"),
    "not in indented code": ("x\n\n    [[a]]\n\n[[b]]", "w:b"),
    "not in math": ("$[[a]]$ $$[[b]]$$ [[c]]", "w:c"),
    "not in math blocks": ("- $$\n  [[a]]\n  $$\n[[b]]", "w:b"),
    "unclosed math": ("$$ [[a]]\n$ [[b]]", "w:a w:b"),
    "escaped dollar": ("\\$[[a]]$", "w:a"),
    "not in HTML comments": ("x <!-- [[a]] --> [[b]]", "w:b"),
    "not in HTML blocks": ("<div>\n[[a]]\n\n[[b]]", "w:b"),
    "HTML block ends with its quote": ("> <div>\n> [[a]]\n[[b]]", "w:b"),
    "inline HTML": ("<b>[[a]]</b>\n<i>x</i> [[b]]", "w:a w:b"),
    "markdown": ("[t](a.md)", "m:a.md|t"),
    "markdown, percent-decoded": ("[t](a%20b/%C3%BC.md#c%20d)", "m:a b/ü.md#c d|t"),
    "markdown, encoded hash": ("[t](a%23b.md#c)", "m:a#b.md#c|t"),
    "markdown in angle brackets": ("[t](<a b.md>)", "m:a b.md|t"),
    "markdown with a title": ("[t](a.md \"x\") [u](b.md 'y')", "m:a.md|t m:b.md|u"),
    "markdown with parentheses": ("[t](a(b).md)", "m:a(b).md|t"),
    "markdown with an escape": ("[t](a\\(b.md)", "m:a(b.md|t"),
    "markdown with a blank": ("[t](a b.md)", ""),
    "markdown to its own heading": ("[t](#a)", "m:#a|t"),
    "markdown to a block": ("[t](a.md#^b)", "m:a.md#^b|t"),
    "markdown relative": ("[t](../a.md)", "m:../a.md|t"),
    "markdown embed": ("![t](a.png)", "!m:a.png|t"),
    "markdown without text": ("![](a.png)", "!m:a.png"),
    "markdown over two lines": ("[t\nu](a.md)", "m:a.md|t\nu"),
    "markdown over two paragraphs": ("[t\n\nu](a.md)", ""),
    "image in a link": ("[![i](a.png)](b.md)", "m:b.md|![i](a.png) !m:a.png|i"),
    "brackets in the text": ("[a [b] c](d.md)", "m:d.md|a [b] c"),
    "link in a link": ("[a [b](c.md) d](e.md)", "m:c.md|b"),
    "escaped bracket": ("\\[t](a.md)", ""),
    "empty destination": ("[t]() [u](#)", ""),
    "external": ("[a](https://e.org) [b](mailto:x@e.org) [c](//e.org) [d](obsidian://x)", ""),
    "external image": ("![a](http://e.org/a.png)", ""),
    "task box": ("- [ ] [[a]]", "w:a"),
    "footnote": ("x[^1] [[a]]\n\n[^1]: [[b]]", "w:a w:b"),
}


@pytest.mark.parametrize(("text", "links"), LINKS.values(), ids=LINKS.keys())
def test_link(text: str, links: str) -> None:
    assert " ".join(map(shown, read(text).links)) == links


PROPERTY_LINKS = {
    "quoted": ('up: "[[a]]"', "p:a"),
    "single quotes": ("up: '[[it''s]]'", "p:it's"),
    "in a list": ('up:\n  - "[[a#b|c]]"\n  - "[[d]]"', "p:a#b|c p:d"),
    "inside a text": ("up: see [[a]] and [[b]]", "p:a p:b"),
    "nested": ('up: {x: ["[[a]]"]}', "p:a"),
    "in a block text": ("up: |\n  [[a]]\n  [[b]]", "p:a p:b"),
    "embed": ('up: "![[a.png]]"', "!p:a.png"),
    "unquoted is a list": ("up: [[a]]", ""),
    "in a comment": ("up: x # [[a]]", ""),
    "in a key": ('"[[a]]": x', ""),
    "in json": ('{"up": "[[a]]"}', "p:a"),
    "after wide characters": ('t: 🎉日本\nup: "[[a]]"', "p:a"),
    "same text as a list above": ('x: [[a]]\nup: "[[a]]"', "p:a"),
}


@pytest.mark.parametrize(("block", "links"), PROPERTY_LINKS.values(), ids=PROPERTY_LINKS.keys())
def test_property_link(block: str, links: str) -> None:
    text = f"---\n{block}\n---\n"
    found = read(text).links
    assert " ".join(map(shown, found)) == links
    for link in found:
        assert WIKI.search(text[link.start : link.end])
        assert text.count("\n", 0, link.start) + 1 == link.line
    if "same text" in block or block.startswith("x:"):
        assert [link.line for link in found] == [3]


HEADINGS = {
    "levels": ("# a\n## b\n###### f\n####### g", "1a 2b 6f"),
    "no space": ("#a", ""),
    "tab": ("#\ta", "1a"),
    "up to three spaces": ("   # a\n\n    # b", "1a"),
    "closing hashes": ("## a ##\n# b #c\n# d#", "2a 1b #c 1d#"),
    "empty": ("#\n## \n### ###", "1 2 3"),
    "carriage returns": ("# a\r\n\r\nb\r\n===\r\n", "1a 1b"),
    "byte order mark": ("\ufeff# a", "1a"),
    "setext": ("a\n===\n\nb\n---", "1a 2b"),
    "setext over two lines": ("a\nb\n=", "1a b"),
    "setext below a heading": ("# x\na\n---", "1x 2a"),
    "rule after a blank line": ("a\n\n---", ""),
    "rule after a heading": ("# a\n---", "1a"),
    "rule after a rule": ("a\n\n---\n---", ""),
    "rule after a list": ("- a\nb\n---", ""),
    "rule after a quote": ("> a\n---", ""),
    "rule after a table": ("|a|\n|-|\n---", ""),
    "rule after code": ("```\na\n```\n---", ""),
    "rule after a comment": ("<!-- a -->\n---", ""),
    "rule after a row of stars": ("***\n---", ""),
    "not in fenced code": ("```\n# a\n```\n# b", "1b"),
    "not in indented code": ("x\n\n    # a\n    b\n    ---", ""),
    "not in comments": ("<!--\n# a\n-->\n# b", "1b"),
    "not in quotes and lists": ("> # a\n- # b", ""),
    "not in math": ("$$\n# a\n$$", ""),
    "table delimiter": ("a | b\n--- | ---", ""),
    "frontmatter": ("---\na: 1\n---\n# b", "1b"),
}


@pytest.mark.parametrize(("text", "headings"), HEADINGS.values(), ids=HEADINGS.keys())
def test_heading(text: str, headings: str) -> None:
    assert " ".join(f"{one.level}{one.text}" for one in read(text).headings) == headings


BLOCKS = {
    "at a line's end": ("text ^a-1\nmore ^B2  ", "a-1 B2"),
    "on its own line": ("| a |\n\n^t1\n", "t1"),
    "in a quote": ("> a\n> ^q1", "q1"),
    "carriage return": ("a ^b1\r\n", "b1"),
    "not inside a line": ("a ^b c", ""),
    "not inside a word": ("a^b", ""),
    "other characters": ("a ^b_c\nd ^é", ""),
    "not in a link": ("[[a#^b]]", ""),
    "not in code": ("```\na ^b\n```\n`c ^d`", ""),
    "not in math": ("$$\nx ^2\n$$", ""),
}


@pytest.mark.parametrize(("text", "blocks"), BLOCKS.values(), ids=BLOCKS.keys())
def test_block(text: str, blocks: str) -> None:
    found = read(text).blocks
    assert " ".join(block.id for block in found) == blocks
    for block in found:
        assert text[block.start :].startswith(f"^{block.id}")


TASKS = {
    "open": ("- [ ] a", "[ ]a"),
    "done": ("- [x] a\n* [X] b", "[x]a+ [X]b+"),
    "custom": ("- [/] a\n- [-] b", "[/]a [-]b"),
    "numbered": ("1. [ ] a\n2) [x] b", "[ ]a [x]b+"),
    "nested and quoted": ("- a\n    - [ ] b\n> - [x] c", "[ ]b [x]c+"),
    "no list item": ("[ ] a\n> [ ] b", ""),
    "no blank after": ("- [ ]a\n- [x](b)", ""),
    "two characters": ("- [ab] c", ""),
    "not at the start": ("- a [ ] b", ""),
    "not in code": ("```\n- [ ] a\n```", ""),
    "carriage return": ("- [ ] a\r\n", "[ ]a"),
}


@pytest.mark.parametrize(("text", "tasks"), TASKS.values(), ids=TASKS.keys())
def test_task(text: str, tasks: str) -> None:
    found = read(text).tasks
    assert " ".join(f"[{task.mark}]{task.text}{'+' * task.done}" for task in found) == tasks


TITLES = {
    "property": ("---\ntitle: T\n---\n# H", "T"),
    "property that is no text": ("---\ntitle: 2024\n---\n# H", "H"),
    "empty property": ("---\ntitle: ' '\n---\n# H", "H"),
    "first heading of level 1": ("## a\n# b\n# c", "b"),
    "setext": ("a\n===", "a"),
    "empty heading": ("#\n# b", "b"),
    "file name": ("## a", "Name"),
    "malformed frontmatter": ("---\na: b: c\n---\n# H", "H"),
}


@pytest.mark.parametrize(("text", "title"), TITLES.values(), ids=TITLES.keys())
def test_title(text: str, title: str) -> None:
    assert read(text).title == title


@pytest.mark.parametrize(("name", "title"), [("a.md", "a"), ("a.MD", "a"), ("a.b", "a.b")])
def test_title_of_a_file(name: str, title: str) -> None:
    assert parse("", name).title == title


def test_malformed_frontmatter_keeps_the_note() -> None:
    note = read("---\na: b: c\n---\n# H\n#t [[l]]")
    assert note.warnings == ("frontmatter, line 2: mapping values are not allowed in this context",)
    assert (note.title, note.tags, [link.target for link in note.links]) == ("H", ("t",), ["l"])


def test_unclosed_frontmatter_is_read_as_text() -> None:
    note = read("---\n# H\n#t")
    assert note.warnings
    assert (note.title, note.tags) == ("H", ("t",))


def test_lines_and_offsets_count_in_the_whole_file() -> None:
    text = "\ufeff---\nup: '[[p]]'\n---\n\n# H\ns\nt\n===\n- [ ] t\n![[l]] [x](m.md) ^b\n"
    text = text.replace("\n", "\r\n")
    note = read(text)
    assert [(one.line, text[one.start : one.end]) for one in note.headings] == [
        (5, "# H\r\n"),
        (6, "s\r\nt\r\n===\r\n"),
    ]
    assert [(one.line, text[one.start : one.end]) for one in note.links] == [
        (2, "[[p]]"),
        (10, "![[l]]"),
        (10, "[x](m.md)"),
    ]
    assert [(one.line, text[one.start :]) for one in note.blocks] == [(10, "^b\r\n")]
    assert [one.line for one in note.tasks] == [9]


PIECES = [
    *(
        "# ",
        "## ",
        "\n",
        "\n\n",
        "---",
        "===",
        "    ",
        "\t",
        "> ",
        "- ",
        "1. ",
        "[ ] ",
        "[x] ",
        "|",
    ),
    *("[[", "]]", "[", "]", "](", "(", ")", "!", "#", "#tag", "^id", "`", "```", "~~~", "$", "$$"),
    *("<!--", "-->", "<div>", "</div>", "<b a='", "<pre>", "%%", "\\", "*", "_", "==", "a", "b c"),
    *("\r\n", "\u00a0", "é", "🎉", "\ufeff", "---\n", "tags: [a]\n", 'x: "[[y]]"\n', "%20", ".md"),
]
TEXTS = st.text() | st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
NOTES = TEXTS | TEXTS.map(lambda text: f"---\ntags: [x]\nup: '[[y]]'\n---\n{text}")


@given(NOTES)
def test_every_text_is_a_note_whose_elements_are_where_they_say(text: str) -> None:
    note = read(text)
    lines = text.removeprefix("\ufeff").split("\n")
    for link in note.links:
        source = text[link.start : link.end]
        assert source.startswith("!") == link.embed
        assert source.endswith(")" if link.kind == "markdown" else "]]")
        assert source.lstrip("!").startswith("[")
        assert link.target or link.section
    for heading in note.headings:
        first = lines[heading.line - 1]
        assert text[heading.start :].startswith(first)
        assert first.strip().startswith("#") or heading.text.split()[0] in first
        assert heading.end == len(text) or text[heading.end - 1] == "\n"
    for block in note.blocks:
        assert text[block.start :].startswith(f"^{block.id}")
    for task in note.tasks:
        assert f"[{task.mark}]" in lines[task.line - 1]
    places = [
        [(link.start, link.line) for link in note.links],
        [(heading.start, heading.line) for heading in note.headings],
        [(block.start, block.line) for block in note.blocks],
    ]
    for order in places:
        assert order == sorted(order)
        assert all(text.count("\n", 0, start) == line - 1 for start, line in order)
    assert len({tag.casefold() for tag in note.tags}) == len(note.tags)


@given(TEXTS)
def test_carriage_returns_change_nothing(text: str) -> None:
    text = text.replace("\r", "")
    plain, windows = read(text), read(text.replace("\n", "\r\n"))
    assert plain.tags == windows.tags
    assert [(h.level, h.text, h.line) for h in plain.headings] == [
        (h.level, h.text, h.line) for h in windows.headings
    ]
    assert [(x.target, x.section, x.line) for x in plain.links] == [
        (x.target, x.section, x.line) for x in windows.links
    ]
    assert plain.tasks == windows.tasks
    assert [(b.id, b.line) for b in plain.blocks] == [(b.id, b.line) for b in windows.blocks]
