"""note_patch: what it names, and no other byte."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from server.models import etag_of

from .edits import etag, kept, patch, tree
from .house import House, opened

BOM = b"\xef\xbb\xbf"
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
    error = house.refused(
        "note_patch", path="a.md", **{"operation": "append", "content": "+"} | arguments
    )
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
    far = house.refused(
        "note_patch", path="q/z.md", target="text", selector="x", operation="delete"
    )
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


def test_patches_of_a_long_note_are_measured(tmp_path: Path) -> None:
    prose = "A sentence of some length that says what was done, and why it was done. " * 12
    sections = "".join(f"## Part {n}\n\n{prose}\nSee [[link {n}]], #tag.\n\n" for n in range(105))
    with opened(tmp_path / "vault", tmp_path / "state") as house:
        house.fill(long=f"---\ntags: [a]\n---\n# Long\n\n{sections}")
        seconds = []
        for number in range(50):
            begun = time.perf_counter()
            patch(house, "long.md", "heading", "Part 50", "append", f"line {number}")
            seconds.append(time.perf_counter() - begun)
        size = len(house.bytes("long.md"))
        found = house.call("vault_search", query="^line ")["total"]
    print(f"\none patch of a note of {size:,} bytes: p50 {sorted(seconds)[25] * 1e3:.1f} ms")
    assert found == 50
