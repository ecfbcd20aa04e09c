"""note_upsert: exactly these bytes, or nothing."""

import asyncio
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from server.models import etag_of

from .house import CALLER, House, opened


def upsert(house: House, path: str, content: str, **more: Any) -> dict[str, Any]:
    return house.call("note_upsert", path=path, content=content, **more)


@pytest.mark.parametrize(
    ("content", "frontmatter", "data"),
    [
        ("text", None, b"text"),
        ("text", {}, b"text"),
        ("", None, b""),
        ("a\r\nb", None, b"a\r\nb"),
        ("é 日本 🎉\n", None, "é 日本 🎉\n".encode()),
        ("\ufeffbom", None, b"\xef\xbb\xbfbom"),
        ("# T\n", {"tags": ["devlog"], "n": 1}, b"---\ntags:\n  - devlog\nn: 1\n---\n\n# T\n"),
        ("", {"a": "b: c"}, b"---\na: 'b: c'\n---\n\n"),
        ("x", {"a": None, "b": True}, b"---\na:\nb: true\n---\n\nx"),
    ],
)
def test_a_new_note_has_exactly_these_bytes(
    house: House, content: str, frontmatter: dict[str, Any] | None, data: bytes
) -> None:
    answer = upsert(house, "a.md", content, frontmatter=frontmatter)
    assert house.bytes("a.md") == data
    assert answer == {
        "path": "a.md", "created": True, "etag": etag_of(data), "bytes": len(data),
        "uploaded": True, "ack": "disk",
    }  # fmt: skip


@pytest.mark.parametrize(
    "before",
    [b"", b"x", b"x\n", b"x\r\n", b"\xef\xbb\xbfx", b"\xff\xfe", b"---\na: 1\n---\n", b"a\0"],
)
def test_an_append_adds_a_newline_and_the_content(house: House, before: bytes) -> None:
    house.fill(a=before)
    answer = upsert(house, "a.md", "more\n", frontmatter={"ignored": True})
    assert house.bytes("a.md") == before + b"\nmore\n"
    assert (answer["created"], answer["bytes"]) == (False, len(before) + 6)
    upsert(house, "a.md", "")
    assert house.bytes("a.md") == before + b"\nmore\n\n"


def test_an_append_is_found_at_once(house: House) -> None:
    upsert(house, "new/folder/a.md", "first needle")
    upsert(house, "new/folder/a.md", "second needle [[b]]")
    assert house.call("vault_search", query="needle")["total"] == 2
    assert house.call("note_read", path="new/folder/a.md")["content"].endswith("[[b]]")
    assert [e["path"] for e in house.call("vault_list", depth=5)["entries"]] == [
        "new",
        "new/folder",
        "new/folder/a.md",
    ]


@pytest.mark.parametrize("char", list('*"<>:|?#^[]'))
def test_a_new_name_must_be_linkable(house: House, char: str) -> None:
    error = house.refused("note_upsert", path=f"a/x{char}y.md", content="x")
    assert error.code == "invalid_path"
    assert os.listdir(house.folder) == [".vault-mcp"]


def test_a_name_that_is_there_already_may_be_odd(house: House) -> None:
    house.write("C# [old]/What?.md", "x")
    answer = upsert(house, "C# [old]/What?.md", "y")
    assert answer["created"] is False
    assert house.bytes("C# [old]/What?.md") == b"x\ny"


@pytest.mark.parametrize("name", [" a.md", "a .md", "a.md ", "a/ b/c.md", "a./b.md", "a.md."])
def test_names_that_other_systems_can_not_keep(house: House, name: str) -> None:
    if name == "a .md":
        assert upsert(house, name, "x")["created"] is True
        return
    assert house.refused("note_upsert", path=name, content="x").code == "invalid_path"
    assert os.listdir(house.folder) == [".vault-mcp"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"content": "nul \0"}, "invalid_request"),
        ({"content": "half \ud83d"}, "invalid_request"),
        ({"content": "x" * 60_000}, "too_large"),
        ({"content": "x", "frontmatter": {"a": "y" * 60_000}}, "too_large"),
        ({"content": 5}, "invalid_request"),
        ({}, "invalid_request"),
        ({"content": "x", "typo": 1}, "invalid_request"),
        ({"content": "x", "frontmatter": ["a"]}, "invalid_request"),
    ],
)
def test_what_can_not_be_written(house: House, arguments: dict[str, Any], code: str) -> None:
    assert house.refused("note_upsert", path="new/a.md", **arguments).code == code
    assert os.listdir(house.folder) == [".vault-mcp"]
    assert len(house.app.journal.items()) == 0


@pytest.mark.parametrize("value", ["nul \0", "esc \x1b", "\u2028", "---\n"])
def test_properties_never_make_a_note_unreadable(house: House, value: str) -> None:
    upsert(house, "a.md", "body", frontmatter={"a": value, "b": 1})
    data = house.bytes("a.md")
    assert b"\0" not in data
    assert data.decode().endswith("\n---\n\nbody")
    properties = house.call("note_read", path="a.md", include_metadata=True)["metadata"]
    assert properties["properties"]["b"] == 1


def test_an_append_that_would_be_too_large(house: House) -> None:
    house.fill(a="x" * 50_000)
    assert house.refused("note_upsert", path="a.md", content="y" * 5_000).code == "too_large"
    assert house.bytes("a.md") == b"x" * 50_000
    assert sorted(os.listdir(house.folder)) == [".vault-mcp", "a.md"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (".obsidian/a.md", "path_not_allowed"),
        ("a/.trash/b.md", "path_not_allowed"),
        (".a.md", "path_not_allowed"),
        ("a", "invalid_path"),
        ("a.txt", "invalid_path"),
        ("a.md/", "invalid_path"),
        ("folder.md", "invalid_path"),
        ("file.md/b.md", "invalid_path"),
        ("pic.png/b.md", "invalid_path"),
        ("x" * 250 + ".md", "invalid_path"),
    ],
)
def test_places_where_no_note_can_be(house: House, path: str, code: str) -> None:
    (house.folder / "folder.md").mkdir()
    house.write("file.md", "x")
    house.write("pic.png", "x")
    before = sorted(str(file) for file in house.folder.rglob("*"))
    error = house.refused("note_upsert", path=path, content="x")
    assert (error.code, bool(error.hint)) == (code, True)
    assert sorted(str(file) for file in house.folder.rglob("*")) == before


def test_the_note_that_is_there_gets_it_whatever_the_case(house: House) -> None:
    nfd = unicodedata.normalize("NFD", "Café")
    house.write(f"{nfd}/Note.md", "x")
    answer = upsert(house, "café/NOTE.md", "y")
    assert (answer["path"], answer["created"]) == ("Café/Note.md", False)
    assert house.bytes(f"{nfd}/Note.md") == b"x\ny"
    new = upsert(house, "CAFÉ/new.md", "z")
    assert new["path"] == "Café/new.md"
    assert sorted(os.listdir(house.folder / nfd)) == ["Note.md", "new.md"]
    assert house.call("note_read", path="café/new.md")["content"] == "z"
    house.scan()
    assert [e["path"] for e in house.call("vault_list", depth=9)["entries"]] == [
        "Café",
        "Café/Note.md",
        "Café/new.md",
    ]


def test_a_write_through_a_link_reaches_the_note_and_keeps_the_link(house: House) -> None:
    house.fill(real="x")
    (house.folder / "link.md").symlink_to("real.md")
    assert upsert(house, "link.md", "y")["path"] == "real.md"
    assert (house.folder / "link.md").is_symlink()
    assert house.bytes("real.md") == b"x\ny"
    (house.folder / "out.md").symlink_to("/etc/hostname")
    assert house.refused("note_upsert", path="out.md", content="x").code == "path_not_allowed"


def test_permissions_of_a_note_stay(house: House) -> None:
    file = house.write("a.md", "x")
    file.chmod(0o640)
    upsert(house, "a.md", "y")
    assert file.stat().st_mode & 0o7777 == 0o640


def test_many_writers_lose_nothing(house: House) -> None:
    async def storm() -> list[Any]:
        return await asyncio.gather(
            *(
                house.app.dispatcher.call(
                    "note_upsert", {"path": "log.md", "content": f"line {n}"}, CALLER
                )
                for n in range(24)
            )
        )

    outputs = asyncio.run(storm())
    assert sum(output.created for output in outputs) == 1
    lines = house.bytes("log.md").decode().split("\n")
    assert sorted(lines) == sorted(f"line {n}" for n in range(24))
    house.scan()
    assert house.call("vault_search", query="^line ", path_filter="log.md")["total"] == 24


def test_a_write_builds_on_what_others_wrote_a_moment_ago(house: House) -> None:
    upsert(house, "a.md", "ours")
    house.write("a.md", "theirs")
    upsert(house, "a.md", "ours again")
    assert house.bytes("a.md") == b"theirs\nours again"


def test_nothing_but_the_note_is_left_in_the_vault(house: House) -> None:
    for n in range(5):
        upsert(house, "a.md", str(n))
    assert sorted(os.listdir(house.folder)) == [".vault-mcp", "a.md"]
    assert house.app.journal.items() == []


def test_links_to_obsidian(tmp_path: Path) -> None:
    (tmp_path / "My Vault" / ".obsidian").mkdir(parents=True)
    folder = tmp_path / "My Vault" / "claude"
    with opened(folder, tmp_path / "state") as house:
        url = "obsidian://open?vault=My%20Vault&file=claude%2Fa%20%26%20b.md"
        assert upsert(house, "a & b.md", "x")["obsidian_url"] == url
        assert house.call("note_read", path="a & b.md")["obsidian_url"] == url
        health = house.call("health_check")["obsidian"]
        assert (health["vault"], health["prefix"]) == ("My Vault", "claude")
