"""note_write: exactly these bytes, or nothing, and an answer that says which."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.models import etag_of

from .edits import etag, kept, tree, write
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
        "etag": etag_of(data), "bytes": len(data), "uploaded": True, "ack": "disk",
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


PIECES = st.sampled_from(
    [
        b"---\n",
        b"---\r\n",
        b"a: 1\n",
        b"\n",
        b"\r\n",
        b"# H\n",
        b"text",
        b"\xff",
        BOM,
        b"\xc3\xa9",
        b"\r",
    ]
)


@pytest.mark.requirement("edit.write")
def test_whatever_is_there_stays_there(house: House) -> None:
    @settings(max_examples=60, deadline=None, database=None)
    @given(
        st.lists(PIECES, max_size=8),
        st.text("ab\n-", min_size=1),
        st.sampled_from(["append", "prepend"]),
    )
    def holds(pieces: list[bytes], content: str, mode: str) -> None:
        before = b"".join(pieces)
        house.write("a.md", before)
        write(house, "a.md", content, mode)
        after = house.bytes("a.md")
        places = range(len(before) + 1)
        assert any(after.startswith(before[:n]) and after.endswith(before[n:]) for n in places)
        assert content.encode() in after.replace(b"\r\n", b"\n")
        assert (
            len(after.replace(b"\r\n", b"\n"))
            <= len(before.replace(b"\r\n", b"\n")) + len(content) + 2
        )

    holds()


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
