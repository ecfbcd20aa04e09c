"""note_read, note_read_many, note_outline, note_info: what an agent gets of notes that are there, or not."""

import os
import unicodedata
from typing import Any

import pytest

from server.models import etag_of

from .house import House

LONG = "".join(f"line {n} with ünïcödé and 日本語 🎉\n" for n in range(700))


def test_an_absent_note_is_no_error(house: House) -> None:
    answer = house.call("note_read", path="nothing.md")
    assert answer == {"path": "nothing.md", "exists": False, "content": ""}
    assert house.call("note_read", path="no/such/folder/nothing.md")["exists"] is False


@pytest.mark.parametrize("asked", ["api-desgin.md", "API-design", "devlog/apidesign.md"])
def test_a_near_miss_is_told(house: House, asked: str) -> None:
    house.write("devlog/api-design.md", "x")
    house.scan()
    answer = house.call("note_read", path=asked)
    assert answer["exists"] is False
    assert answer["did_you_mean"] == ["devlog/api-design.md"]


def test_a_note_with_all_that_is_known_of_it(house: House) -> None:
    text = (
        "---\ntags: [one, two/three]\naliases: Uno\ndate: 2026-01-02\n---\n# Top\n"
        "[[b#S|see]] ![[p.png]] #inline\n- [ ] do\n- [x] done\n"
    )
    house.fill(a=text)
    plain = house.call("note_read", path="a.md")
    assert plain["content"] == text
    assert plain["etag"] == etag_of(text.encode())
    assert plain["chars"] == len(text)
    assert not {"metadata", "next_offset", "section", "stale"} & plain.keys()
    found = house.call("note_read", path="a.md", include_metadata=True)["metadata"]
    assert found["tags"] == ["one", "two/three", "inline"]
    assert found["aliases"] == ["Uno"]
    assert found["properties"]["date"] == "2026-01-02"
    assert [(h["level"], h["text"], h["line"]) for h in found["headings"]] == [(1, "Top", 6)]
    assert [link["target"] for link in found["links"]] == ["b", "p.png"]
    assert [task["done"] for task in found["tasks"]] == [False, True]


@pytest.mark.parametrize("size", [1, 7, 999, len(LONG), 20_000])
def test_pages_put_together_are_the_note(house: House, size: int) -> None:
    text = LONG if size > 100 else LONG[:200]
    house.fill(a=text)
    pages, offset = [], 0
    while True:
        page = house.call("note_read", path="a.md", offset=offset, max_chars=size)
        assert page["chars"] == len(text)
        pages.append(page["content"])
        if "next_offset" not in page:
            break
        assert page["next_offset"] > offset
        offset = page["next_offset"]
    assert "".join(pages) == text


def test_an_offset_behind_the_end_is_an_empty_page(house: House) -> None:
    house.fill(a="short")
    page = house.call("note_read", path="a.md", offset=99)
    assert (page["content"], page["chars"], page["exists"]) == ("", 5, True)
    assert "next_offset" not in page
    assert house.call("note_read", path="a.md", offset=5)["content"] == ""


def test_sections_and_blocks(house: House) -> None:
    house.fill(a="intro\n# One\na\n## Sub\nb ^here\n# Two\nc\n## Sub\nd\n")

    def read(section: str) -> dict[str, Any]:
        return house.call("note_read", path="a.md", section=section)

    assert read("One")["content"] == "# One\na\n## Sub\nb ^here\n"
    assert read("Two#Sub")["content"] == "## Sub\nd\n"
    assert read("two")["chars"] == len("# Two\nc\n## Sub\nd\n")
    assert "b ^here" in read("^here")["content"]
    assert read("One")["etag"] == house.call("note_read", path="a.md")["etag"]
    assert house.refused("note_read", path="a.md", section="Sub").code == "ambiguous"
    assert house.refused("note_read", path="a.md", section="Three").code == "not_found"
    assert house.refused("note_read", path="a.md", section="^nope").code == "not_found"


def test_a_section_in_pages(house: House) -> None:
    house.fill(a="x\n# One\n" + "y" * 50 + "\n# Two\n")
    first = house.call("note_read", path="a.md", section="One", max_chars=30)
    rest = house.call("note_read", path="a.md", section="One", offset=first["next_offset"])
    assert first["content"] + rest["content"] == "# One\n" + "y" * 50 + "\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbf# Bom\n", "# Bom\n"),
        (b"a\r\nb\r\n", "a\r\nb\r\n"),
        (b"old mac\rb", "old mac\rb"),
        (b"bad \xff byte", "bad \ufffd byte"),
        (b"", ""),
        ("\u2028\u0085é".encode(), "\u2028\u0085é"),
    ],
)
def test_text_comes_as_it_is(house: House, data: bytes, text: str) -> None:
    house.fill(a=data)
    answer = house.call("note_read", path="a.md")
    assert answer["content"] == text
    assert answer["etag"] == etag_of(data)
    assert house.call("note_info", path="a.md")["size"] == len(data)


def test_a_text_file_that_is_no_note(house: House) -> None:
    house.write("data/list.csv", "a,b\n1,2\n")
    house.scan()
    answer = house.call("note_read", path="data/list.csv", include_metadata=True)
    assert answer["content"] == "a,b\n1,2\n"
    assert "metadata" not in answer
    assert house.refused("note_read", path="data/list.csv", section="x").code == "invalid_request"
    for tool in ("note_outline", "note_info"):
        assert house.refused(tool, path="data/list.csv").code == "invalid_path"


def test_a_binary_file_named_like_a_note(house: House) -> None:
    house.fill(a=b"PK\x03\x04\0\0")
    for tool in ("note_read", "note_outline", "note_info"):
        error = house.refused(tool, path="a.md")
        assert (error.code, "not text" in error.message) == ("invalid_request", True)


def test_a_note_over_the_limit(house: House) -> None:
    house.fill(a=b"x" * 60_000)
    assert house.refused("note_read", path="a.md").code == "too_large"
    assert house.refused("note_upsert", path="a.md", content="more").code == "too_large"
    assert len(house.bytes("a.md")) == 60_000


def test_a_folder_is_not_a_note(house: House) -> None:
    house.write("sub.md/inner.md", "x")
    house.scan()
    assert house.call("note_read", path="sub.md")["exists"] is False


@pytest.mark.parametrize("tool", ["note_read", "note_outline", "note_info"])
def test_a_path_is_found_in_any_form_and_case(house: House, tool: str) -> None:
    nfd = unicodedata.normalize("NFD", "Café/Ünï.md")
    house.write(nfd, "# x")
    house.scan()
    for asked in ("Café/Ünï.md", nfd, "café/ünï.MD", unicodedata.normalize("NFD", "CAFÉ/ÜNÏ.md")):
        assert house.call(tool, path=asked)["path"] == "Café/Ünï.md"


def test_names_that_differ_only_in_case_must_be_spelled(house: House) -> None:
    house.fill(Note="upper", NOTE="shout")
    assert house.call("note_read", path="Note.md")["content"] == "upper"
    error = house.refused("note_read", path="note.md")
    assert error.code == "ambiguous"
    assert error.details["candidates"] == ["NOTE.md", "Note.md"]


def test_unicode_twins_are_told_apart(house: House) -> None:
    """Same size, same time, same path: only the spelling on disk tells them apart."""
    nfd = unicodedata.normalize("NFD", "é.md")
    one, two = house.write("é.md", "nfc"), house.write(nfd, "nfd")
    os.utime(one, (1e9, 1e9))
    os.utime(two, (1e9, 1e9))
    house.scan()
    assert house.call("note_read", path="é.md")["content"] == "nfc"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../outside.md", "invalid_path"),
        ("/etc/passwd", "invalid_path"),
        ("a\\b.md", "invalid_path"),
        ("a\0.md", "invalid_path"),
        ("", "invalid_path"),
        ("a//b.md", "invalid_path"),
        (".obsidian/app.json", "path_not_allowed"),
        (".vault-mcp", "path_not_allowed"),
        ("a/.git/config.md", "path_not_allowed"),
        ("\ud800.md", "invalid_path"),
        ("x" * 2000, "invalid_path"),
    ],
)
@pytest.mark.parametrize("tool", ["note_read", "note_info", "note_outline", "note_upsert"])
def test_paths_that_lead_nowhere(house: House, tool: str, path: str, code: str) -> None:
    content = {"content": "x"} if tool == "note_upsert" else {}
    before = sorted(os.listdir(house.folder))
    assert house.refused(tool, path=path, **content).code == code
    assert sorted(os.listdir(house.folder)) == before


def test_an_edit_made_elsewhere_is_read_before_any_scan(house: House) -> None:
    house.fill(a="one")
    house.write("a.md", "two!")
    assert house.call("note_read", path="a.md")["content"] == "two!"
    assert house.call("vault_search", query="two!")["total"] == 1, "the reader taught the index"
    house.write("new.md", "new")
    assert house.call("note_read", path="new.md")["content"] == "new"
    (house.folder / "a.md").unlink()
    assert house.call("note_read", path="a.md")["exists"] is False


def test_an_edit_of_the_same_size_and_time_is_read(house: House) -> None:
    file = house.write("a.md", "one", age=0)
    stat = file.stat()
    house.scan()
    file.write_text("two")
    os.utime(file, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    assert house.call("note_read", path="a.md")["content"] == "two"


def test_links_inside_the_vault_are_followed_and_none_outside(house: House) -> None:
    house.fill(real="inside")
    (house.folder / "link.md").symlink_to("real.md")
    (house.folder / "out.md").symlink_to("/etc/hostname")
    assert house.call("note_read", path="link.md")["content"] == "inside"
    assert house.refused("note_read", path="out.md").code == "path_not_allowed"


# -- several at once ------------------------------------------------------------------------------


def test_several_notes_by_paths(house: House) -> None:
    house.fill(a="aaaa", b="bb")
    answer = house.call("note_read_many", paths=["b.md", "no.md", "a.md", "b.md"], max_chars_each=3)
    assert [(n["path"], n["content"], n.get("next_offset")) for n in answer["notes"]] == [
        ("b.md", "bb", None),
        ("a.md", "aaa", 3),
    ]
    assert answer["missing"] == ["no.md"]
    assert (answer["total"], answer["truncated"]) == (3, False)


def test_several_notes_by_glob(house: House) -> None:
    house.fill(**{f"log/{n:02}": f"note {n}" for n in range(60)}, other="x")
    answer = house.call("note_read_many", glob="log/*.md")
    assert [n["path"] for n in answer["notes"]] == [f"log/{n:02}.md" for n in range(50)]
    assert (answer["total"], answer["truncated"]) == (60, True)
    few = house.call("note_read_many", glob="log/5*.md", include_metadata=True)
    assert (len(few["notes"]), few["total"], few["truncated"]) == (10, 10, False)
    assert few["notes"][0]["metadata"]["title"] == "50"
    assert house.call("note_read_many", glob="nothing/*.md") == {
        "notes": [], "missing": [], "total": 0, "truncated": False,
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [{}, {"paths": ["a.md"], "glob": "*.md"}, {"paths": []}])
def test_either_paths_or_a_glob(house: House, arguments: dict[str, object]) -> None:
    assert house.refused("note_read_many", **arguments).code == "invalid_request"


def test_too_many_paths(house: House) -> None:
    assert house.refused("note_read_many", paths=["a.md"] * 51).code == "invalid_request"


# -- structure ------------------------------------------------------------------------------------


def test_the_outline(house: House) -> None:
    text = "---\nt: 1\n---\n# A\ntext ^id1\n## B\n- [ ] todo\n# C\n[[x]] ![[y]]\n"
    house.fill(a=text)
    answer = house.call("note_outline", path="a.md")
    assert [(h["level"], h["text"], h["line"], h["chars"]) for h in answer["headings"]] == [
        (1, "A", 4, len("# A\ntext ^id1\n## B\n- [ ] todo\n")),
        (2, "B", 6, len("## B\n- [ ] todo\n")),
        (1, "C", 8, len("# C\n[[x]] ![[y]]\n")),
    ]
    assert answer["blocks"] == ["id1"]
    assert [task["line"] for task in answer["tasks"]] == [7]
    assert (answer["links"], answer["embeds"], answer["chars"]) == (1, 1, len(text))
    assert house.refused("note_outline", path="b.md").code == "not_found"


def test_the_facts_follow_the_links_of_others(house: House) -> None:
    house.fill(a="---\ntags: t\n---\none two\nthree\n[[b]] [[nowhere]]\n- [x] d\n- [ ] o", b="b")
    facts = house.call("note_info", path="a.md")
    assert (facts["words"], facts["lines"], facts["tasks"], facts["open_tasks"]) == (12, 8, 2, 1)
    assert (facts["inlinks"], facts["outlinks"], facts["tags"]) == (0, 2, ["t"])
    assert house.call("note_info", path="b.md")["inlinks"] == 1
    house.call("note_upsert", path="c.md", content="[[b]] and [[b|again]]")
    assert house.call("note_info", path="b.md")["inlinks"] == 3
    house.write("a.md", "nothing")
    house.scan()
    assert house.call("note_info", path="b.md")["inlinks"] == 2
    error = house.refused("note_info", path="bb.md")
    assert error.code == "not_found"
    assert house.refused("note_info", path="sub/b.md").details["did_you_mean"] == ["b.md"]


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\n\nb", 3)])
def test_lines_are_counted_as_editors_do(house: House, text: str, lines: int) -> None:
    house.fill(a=text)
    assert house.call("note_info", path="a.md")["lines"] == lines


def test_a_broken_frontmatter_is_told_whoever_has_read_it_before(house: House) -> None:
    house.fill(
        bad="---\ntags: [a\n---\nbody", open="---\nnever closed", good="---\na: 1\n---\nbody"
    )
    house.write("new.md", "---\ntags: [a\n---\nnot seen by a scan yet")
    for _ in range(2):
        for name in ("bad", "open", "new"):
            (warning,) = house.call("note_read", path=f"{name}.md")["warnings"]
            assert warning.startswith("frontmatter, line ")
        assert "warnings" not in house.call("note_read", path="good.md")
