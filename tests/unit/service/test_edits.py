"""note_write and note_patch: exactly these bytes, or nothing, and an answer that says which."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from server.models import etag_of

from .edits import etag, kept, patch, tree, write
from .house import House

BOM = b"\xef\xbb\xbf"


@pytest.mark.requirement("edit.write")
@pytest.mark.parametrize("mode", ["create", "overwrite", "append", "prepend"])
def test_every_mode_makes_a_note_that_is_not_there(house: House, mode: str) -> None:
    answer = write(house, "new/a.md", "x\r\ny", mode, frontmatter={"n": 1})
    data = b"---\nn: 1\n---\n\nx\r\ny"
    assert house.bytes("new/a.md") == data
    assert answer == {
        "path": "new/a.md", "changed": True, "created": True, "written": True,
        "etag": etag_of(data), "bytes": len(data), "uploaded": True,
    }  # fmt: skip
    assert house.call("vault_search", query="^y")["total"] == 1


@pytest.mark.requirement("edit.write")
def test_a_note_is_created_once(house: House) -> None:
    house.fill(a="old")
    error = house.refused("note_write", path="A.md", content="new", mode="create")
    assert (error.code, error.details) == ("conflict", {"etag": etag_of(b"old")})
    assert "overwrite" in error.hint
    assert house.bytes("a.md") == b"old"
    assert kept(house) == 0


@pytest.mark.requirement("edit.write")
def test_create_never_becomes_another_mode_whatever_etag_comes_along(house: House) -> None:
    house.fill(a="old\n")
    old = etag(house, "a.md")
    write(house, "a.md", "now\n", "overwrite")
    for if_match in (old, etag_of(b"now\n"), "0" * 32):
        error = house.refused(
            "note_write", path="a.md", content="x", mode="create", if_match=if_match
        )
        assert (error.code, error.details) == ("conflict", {"etag": etag_of(b"now\n")})
    assert house.bytes("a.md") == b"now\n"


@pytest.mark.requirement("edit.write")
@pytest.mark.parametrize("matching", [True, False])
def test_an_overwrite_with_the_right_etag_or_with_none(house: House, matching: bool) -> None:
    house.fill(a="old")
    more = {"if_match": etag(house, "a.md")} if matching else {}
    answer = write(house, "a.md", "new\n", "overwrite", frontmatter={"tags": ["x"]}, **more)
    data = b"---\ntags:\n  - x\n---\n\nnew\n"
    assert house.bytes("a.md") == data
    assert (answer["etag"], answer["created"], answer["written"]) == (etag_of(data), False, True)
    assert "merged" not in answer
    assert house.app.history.content(etag_of(b"old")) == b"old"
    entry = house.app.history.entry(answer["version"])
    assert entry is not None
    assert (entry.before, entry.after) == (etag_of(b"old"), etag_of(data))


@pytest.mark.requirement("edit.write")
def test_an_overwrite_with_an_etag_that_nobody_knows(house: House) -> None:
    house.fill(a="old")
    error = house.refused(
        "note_write", path="a.md", content="new", mode="overwrite", if_match="f" * 32
    )
    assert error.code == "conflict"
    assert error.details == {"if_match": "f" * 32, "etag": etag_of(b"old"), "diff": None}
    assert "Read it again" in error.hint
    assert house.bytes("a.md") == b"old"
    gone = house.refused(
        "note_write", path="b.md", content="new", mode="overwrite", if_match="f" * 32
    )
    assert (gone.code, gone.details["etag"]) == ("conflict", None)
    assert not (house.folder / "b.md").exists()


@pytest.mark.requirement("edit.write")
@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"", "x", b"x"),
        (b"a", "x", b"a\nx"),
        (b"a\n", "x", b"a\nx"),
        (b"a\n\n", "x\n", b"a\n\nx\n"),
        (b"a\r\nb", "x\ny", b"a\r\nb\r\nx\r\ny"),
        (b"a\r\n", "x\n", b"a\r\nx\r\n"),
        (b"a\n", "x\r\ny", b"a\nx\ny"),
        (BOM, "x", BOM + b"x"),
        (BOM + b"a", "x", BOM + b"a\nx"),
        (b"\xff\xfe", "x", b"\xff\xfe\nx"),
        (b"---\na: 1\n---", "x", b"---\na: 1\n---\nx"),
        (b"a", "", b"a"),
    ],
)
def test_an_append_begins_a_line(house: House, before: bytes, content: str, after: bytes) -> None:
    house.fill(a=before)
    answer = write(house, "a.md", content, "append")
    assert house.bytes("a.md") == after
    assert (answer["written"], answer["bytes"]) == (before != after, len(after))


@pytest.mark.requirement("edit.write")
@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"", "x", b"x"),
        (b"b", "x", b"x\nb"),
        (b"b", "x\n", b"x\nb"),
        (BOM + b"b\r\nc", "x\ny", BOM + b"x\r\ny\r\nb\r\nc"),
        (b"---\na: 1\n---\nb", "x", b"---\na: 1\n---\nx\nb"),
        (b"---\r\na: 1\r\n---\r\n\r\nb", "x", b"---\r\na: 1\r\n---\r\nx\r\n\r\nb"),
        (BOM + b"---\na: 1\n---\nb", "x", BOM + b"---\na: 1\n---\nx\nb"),
        (b"---\na: 1\n---", "x", b"---\na: 1\n---\nx"),
        (b"---\na: 1\n---\n", "x", b"---\na: 1\n---\nx"),
        (b"---\na: [\n---\nb", "x", b"---\na: [\n---\nx\nb"),
        (b"---\nnot closed\n", "x", b"x\n---\nnot closed\n"),
        (b"\xff\n", "x", b"x\n\xff\n"),
        (b"b", "", b"b"),
    ],
)
def test_a_prepend_goes_below_the_frontmatter(
    house: House, before: bytes, content: str, after: bytes
) -> None:
    house.fill(a=before)
    write(house, "a.md", content, "prepend")
    assert house.bytes("a.md") == after


@pytest.mark.requirement("edit.frontmatter")
@pytest.mark.parametrize(
    ("before", "properties", "after"),
    [
        (b"---\na: 1 # why\nb:   'x'\n---\nt", {"b": 2}, b"---\na: 1 # why\nb:   2\n---\nt\n+"),
        (b"---\r\nb: 1\r\n# c\r\n---\r\nt\r\n", {"b": 2, "n": 3},
         b"---\r\nb: 2\r\n# c\r\nn: 3\r\n---\r\nt\r\n+"),
        (b"---\nv: 1.10\nd: 2026-01-05\n---\n", {"x": "y"}, b"---\nv: 1.10\nd: 2026-01-05\nx: y\n---\n+"),
        (b"t\n", {"x": [1, 2]}, b"---\nx:\n  - 1\n  - 2\n---\nt\n+"),
    ],
)  # fmt: skip
def test_properties_set_beside_an_append_touch_only_their_lines(
    house: House, before: bytes, properties: dict[str, Any], after: bytes
) -> None:
    house.fill(a=before)
    write(house, "a.md", "+", "append", frontmatter=properties)
    assert house.bytes("a.md") == after


@pytest.mark.requirement("edit.frontmatter")
def test_properties_alone_leave_the_text_as_it_is(house: House) -> None:
    house.fill(a=b"---\nb: 1\n---\nno line break")
    for mode, number in (("append", 2), ("prepend", 3)):
        write(house, "a.md", "", mode, frontmatter={"b": number})
        assert house.bytes("a.md") == f"---\nb: {number}\n---\nno line break".encode()


@pytest.mark.requirement("edit.unchanged")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("note_write", {"mode": "overwrite", "content": "# H\nt\n"}),
        ("note_write", {"mode": "append", "content": ""}),
        ("note_patch", {"target": "heading", "selector": "H", "operation": "replace", "content": "t"}),
        ("note_patch", {"target": "text", "selector": "t", "operation": "replace", "content": "t"}),
        ("notes_edit", {"edits": [{"path": "a.md", "mode": "overwrite", "content": "# H\nt\n"}]}),
    ],
)  # fmt: skip
def test_what_changes_nothing_writes_nothing(
    house: House, tool: str, arguments: dict[str, Any]
) -> None:
    house.fill(a="# H\nt\n")
    before = tree(house)
    arguments = arguments if "edits" in arguments else {"path": "a.md", **arguments}
    answer = house.call(tool, **arguments)
    if tool == "notes_edit":
        assert answer == {"notes": [], "diff": ""}
    else:
        assert (answer["changed"], answer["etag"]) == (False, etag_of(b"# H\nt\n"))
        assert answer.get("written", False) is False
        assert "diff" not in answer
    assert tree(house) == before
    assert kept(house) == 0


@pytest.mark.requirement("edit.refused")
@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        ({"mode": "overwrite", "content": "x" * 60_000}, "too_large", "Split"),
        ({"mode": "append", "content": "x" * 52_000}, "too_large", "new note"),
        ({"mode": "append", "content": "nul \0"}, "invalid_request", "text"),
        ({"mode": "overwrite", "content": "half \ud83d"}, "invalid_request", "UTF-8"),
        ({"mode": "append", "content": "x", "frontmatter": {"a": "half \ud83d"}}, "invalid_request", ""),
        ({"mode": "append", "content": "x", "frontmatter": {"a\nb": 1}}, "invalid_request", "one line"),
        ({"mode": "replace", "content": "x"}, "invalid_request", "Arguments"),
        ({"mode": "append"}, "invalid_request", "Arguments"),
        ({"mode": "append", "content": "x", "idempotency_key": "k" * 201}, "invalid_request", "UUID"),
    ],
)  # fmt: skip
def test_what_note_write_refuses(
    house: House, arguments: dict[str, Any], code: str, word: str
) -> None:
    house.fill(a="y" * 1_000)
    before = tree(house)
    error = house.refused("note_write", path="a.md", **arguments)
    assert error.code == code
    assert word in error.hint
    assert tree(house) == before
    assert kept(house) == 0


@pytest.mark.requirement("edit.refused")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("note_write", {"mode": "append", "content": "x"}),
        ("note_write", {"mode": "overwrite", "content": "x"}),
        ("note_patch", {"target": "text", "selector": "PNG", "operation": "delete"}),
        ("heading_rename", {"heading": "H", "to": "G"}),
    ],
)
def test_a_binary_file_that_is_called_a_note_is_left_alone(
    house: House, tool: str, arguments: dict[str, Any]
) -> None:
    house.fill(a=b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    before = tree(house)
    error = house.refused(tool, path="a.md", **arguments)
    assert (error.code, "leave it alone" in error.hint) == ("invalid_request", True)
    assert tree(house) == before


NOTE = "---\ntags:\n  - a\nn: 1\n---\n# One\n\nfirst ^id\n\n## Two\nsecond\n\n# Three\nlast\n"

DRESSES: Mapping[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "crlf": lambda text: text.encode().replace(b"\n", b"\r\n"),
    "bom": lambda text: BOM + text.encode(),
    "invalid": lambda text: text.encode().replace(b"last", b"l\xe4\xffst\x80"),
}


@pytest.mark.requirement("edit.patch")
@pytest.mark.parametrize(
    ("target", "selector", "operation", "content", "old", "new"),
    [
        ("heading", "Two", "append", "+", "second\n", "second\n+\n"),
        ("heading", "One#Two", "prepend", "+", "## Two\n", "## Two\n+\n"),
        ("heading", "## Two", "replace", "+\n+", "second\n", "+\n+\n"),
        ("heading", "two", "delete", "", "## Two\nsecond\n\n", ""),
        ("block", "^id", "append", "+", "first ^id\n", "first ^id\n\n+\n"),
        ("block", "id", "prepend", "+", "first ^id\n", "+\n\nfirst ^id\n"),
        ("block", "id", "replace", "other", "first ^id", "other ^id"),
        ("block", "id", "delete", "", "first ^id\n\n", ""),
        ("frontmatter", "tags", "append", "b", "  - a\n", "  - a\n  - b\n"),
        ("frontmatter", "tags", "prepend", "b", "  - a\n", "  - b\n  - a\n"),
        ("frontmatter", "n", "replace", "2", "n: 1", "n: 2"),
        ("frontmatter", "n", "delete", "", "n: 1\n", ""),
        ("text", "second", "append", " +", "second", "second +"),
        ("text", "second", "prepend", "+ ", "second", "+ second"),
        ("text", "second\n\n# Three", "replace", "# 3", "second\n\n# Three", "# 3"),
        ("text", "first ", "delete", "", "first ", ""),
    ],
)
def test_a_patch_changes_its_target_and_no_other_byte(
    house: House, target: str, selector: str, operation: str, content: str, old: str, new: str
) -> None:
    assert NOTE.count(old) == 1
    house.fill(**{kind: dress(NOTE) for kind, dress in DRESSES.items()})
    for kind, dress in DRESSES.items():
        answer = patch(house, f"{kind}.md", target, selector, operation, content)
        after = dress(NOTE.replace(old, new))
        assert house.bytes(f"{kind}.md") == after
        assert (answer["etag"], answer["changed"]) == (etag_of(after), True)
        diff = answer["diff"].splitlines()
        assert diff[:2] == [f"--- a/{kind}.md", f"+++ b/{kind}.md"]
        removed = [line[1:] for line in diff[2:] if line.startswith("-")]
        added = [line[1:] for line in diff[2:] if line.startswith("+")]
        assert len(added) - len(removed) == after.count(b"\n") - NOTE.count("\n")
        assert set(removed) <= set(NOTE.splitlines())
        assert etag(house, f"{kind}.md") == answer["etag"]


@pytest.mark.requirement("edit.patch")
def test_what_is_missing_is_made_when_that_is_wanted(house: House) -> None:
    house.fill(a="# A\n\ntext\n")
    patch(house, "a.md", "heading", "A#Log", "append", "- one", create_missing=True)
    patch(house, "a.md", "heading", "A#Log", "append", "- two", create_missing=True)
    patch(house, "a.md", "frontmatter", "status", "replace", "open", create_missing=True)
    assert house.bytes("a.md") == (
        b"---\nstatus: open\n---\n# A\n\ntext\n\n## Log\n\n- one\n- two\n"
    )


@pytest.mark.requirement("edit.frontmatter")
@pytest.mark.parametrize(
    ("block", "selector", "operation", "content", "after"),
    [
        (b"# top\nz: 1 # why\na: 2\n", "a", "replace", "3", b"# top\nz: 1 # why\na: 3\n"),
        (b"version: 1.10\nn: 1\n", "n", "replace", "2", b"version: 1.10\nn: 2\n"),
        (b"date: 2026-01-05\nn: 1\n", "n", "delete", "", b"date: 2026-01-05\n"),
        (b"date: 2026-01-05\n", "date", "replace", "2026-01-06", b"date: 2026-01-06\n"),
        (b"a: 'it''s'\nb: \"x: y\"\nn: 1\n", "n", "replace", "yes: no",
         b"a: 'it''s'\nb: \"x: y\"\nn: 'yes: no'\n"),
        (b"tags: [a, b]\nn: 1\n", "tags", "append", "c", b"tags: [a, b, c]\nn: 1\n"),
        (b"tags: [a, b]\n", "tags", "append", "#A", b"tags: [a, b]\n"),
        (b"n: on\nx: 1\n", "x", "replace", "007", b"n: on\nx: '007'\n"),
        (b"up: '[[a]]'\n", "up", "replace", "[[b]]", b"up: \"[[b]]\"\n"),
        (b"t: |\n  two\n  lines\nn: 1\n", "n", "replace", "2", b"t: |\n  two\n  lines\nn: 2\n"),
    ],
)  # fmt: skip
def test_the_traps_of_frontmatter(
    house: House, block: bytes, selector: str, operation: str, content: str, after: bytes
) -> None:
    def notes(lines: bytes) -> dict[str, bytes]:
        data = b"---\n" + lines + b"---\nbody: 1\n"
        return {"unix": data, "windows": data.replace(b"\n", b"\r\n")}

    house.fill(**notes(block))
    for name, data in notes(after).items():
        patch(house, f"{name}.md", "frontmatter", selector, operation, content)
        assert house.bytes(f"{name}.md") == data


@pytest.mark.requirement("edit.refused")
@pytest.mark.parametrize(
    ("arguments", "code", "words", "detail"),
    [
        ({"target": "heading", "selector": "Thre"}, "not_found", ["Three", "create_missing"], None),
        ({"target": "heading", "selector": "Same"}, "ambiguous", ["Parent#Heading"], "candidates"),
        ({"target": "block", "selector": "^ix"}, "not_found", ["id"], None),
        ({"target": "frontmatter", "selector": "tag"}, "not_found", ["tags", "create_missing"], "keys"),
        ({"target": "text", "selector": "first ^ix"}, "not_found", ["nearest"], "did_you_mean"),
        ({"target": "text", "selector": "same"}, "ambiguous", ["around"], "candidates"),
        ({"target": "heading", "selector": "^id"}, "invalid_request", ["block"], None),
        ({"target": "text", "selector": ""}, "invalid_request", ["part"], None),
        ({"target": "text", "selector": "last", "content": ""}, "invalid_request", ["delete"], None),
        ({"target": "text", "selector": "last", "content": "\0"}, "invalid_request", [], None),
        ({"target": "heading", "selector": "N\0", "create_missing": True}, "invalid_request", [], None),
        ({"target": "heading", "selector": "\ud83d", "create_missing": True}, "invalid_request", [], None),
        ({"target": "frontmatter", "selector": "\udcff", "create_missing": True}, "invalid_request", [], None),
    ],
)  # fmt: skip
def test_a_refused_patch_says_what_there_is(
    house: House, arguments: dict[str, Any], code: str, words: list[str], detail: str | None
) -> None:
    house.fill(a=NOTE + "## Same\nsame\n# More\n## Same\nsame\n")
    before = tree(house)
    error = house.refused("note_patch", path="a.md", **{"operation": "append", "content": "+"} | arguments)
    assert error.code == code
    assert error.hint
    for word in words:
        assert word in error.hint, error.hint
    assert detail is None or error.details[detail]
    assert tree(house) == before
    assert kept(house) == 0


@pytest.mark.requirement("edit.refused")
def test_a_patch_of_a_note_that_is_not_there_names_its_neighbours(house: House) -> None:
    house.fill(planning="x")
    error = house.refused(
        "note_patch", path="plannin.md", target="text", selector="x", operation="delete"
    )
    assert (error.code, error.details["did_you_mean"]) == ("not_found", ["planning.md"])
    assert "planning.md" in error.hint
    far = house.refused("note_patch", path="q/z.md", target="text", selector="x", operation="delete")
    assert "mode=create" in far.hint
    assert not (house.folder / "q").exists()


@pytest.mark.requirement("edit.patch")
def test_a_patch_that_would_make_the_note_too_large(house: House) -> None:
    house.fill(a="# H\n" + "y" * 50_000)
    error = house.refused(
        "note_patch", path="a.md", target="heading", selector="H", operation="append",
        content="x" * 5_000,
    )  # fmt: skip
    assert error.code == "too_large"
    assert len(house.bytes("a.md")) == 50_004
    assert kept(house) == 0
    assert len(house.app.journal) == 0
