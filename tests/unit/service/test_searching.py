"""vault_search against the obvious way: read every note, split it into lines, match each."""

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from server.service import finding

from .house import House

WORDS = (
    "alpha",
    "Beta",
    "gamma",
    "ALPHA",
    "été",
    "日本語",
    "x1",
    "foo.bar",
    "[[link]]",
    "",
    "a" * 40,
)
PATTERNS = (
    "alpha", "(?i)alpha", "^alpha", "gamma$", "^$", "^Beta gamma", r"\[\[link\]\]", "[bB]eta", "日本",
    r"a{3,}", r"foo\.bar", "x1|été", "^.*gamma.*$", "nothing here",
)  # fmt: skip


def make(house: House, seed: int) -> dict[str, bytes]:
    chance = random.Random(seed)
    notes: dict[str, bytes] = {}
    for n in range(chance.randint(1, 40)):
        ending = chance.choice(("\n", "\r\n", "\n"))
        lines = [
            " ".join(chance.choices(WORDS, k=chance.randint(0, 4)))
            for _ in range(chance.randint(0, 12))
        ]
        text = ending.join(lines) + (ending if chance.random() < 0.5 and lines else "")
        notes[f"{chance.choice(('', 'a/', 'a/b/', 'Ordner é/'))}{n}.md"] = text.encode()
    for path, data in notes.items():
        house.write(path, data)
    house.scan()
    return notes


def lines_of(data: bytes) -> list[str]:
    parts = data.decode().split("\n")
    return [part.rstrip("\r") for part in (parts[:-1] if parts[-1] == "" else parts)]


def naive(
    notes: dict[str, bytes], pattern: str, flags: int = 0, wanted: Callable[[str], bool] = bool
) -> list[tuple[str, int, str]]:
    return [
        (path, number, line)
        for path in sorted(notes)
        if wanted(path)
        for number, line in enumerate(lines_of(notes[path]), 1)
        if re.search(pattern, line, flags)
    ]


def rows(answer: dict[str, Any]) -> list[tuple[str, int, str]]:
    return [(row["path"], row["line"], row["text"]) for row in answer["results"]]


@pytest.fixture(params=["hits", "piped", "segments"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Few notes are piped to ripgrep, many are searched where they lie: both must say the same."""
    if request.param != "hits":
        # What lies elsewhere is in the way at once.
        monkeypatch.setattr(finding, "_STRAYS", 0)
    if request.param == "segments":
        monkeypatch.setattr(finding, "_PIPE_BYTES", 0)
    return str(request.param)


@pytest.mark.parametrize("seed", range(4))
def test_the_whole_vault(house: House, seed: int) -> None:
    notes = make(house, seed)
    for pattern in PATTERNS:
        answer = house.call("vault_search", query=pattern, case="sensitive", limit=500)
        assert rows(answer) == naive(notes, pattern), pattern
        assert answer["total"] == len(answer["results"])
        assert answer["truncated"] is False


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("seed", range(4, 7))
def test_a_part_of_the_vault(house: House, seed: int) -> None:
    notes = make(house, seed)
    filters: dict[str, Callable[[str], bool]] = {
        "a/*.md": lambda p: p.startswith("a/") and p.count("/") == 1,
        "a/": lambda p: p.startswith("a/"),
        "*1.md": lambda p: p.endswith("1.md"),
        "Ordner é/**": lambda p: p.startswith("Ordner é/"),
        "nothing/": lambda _p: False,
    }
    for glob, wanted in filters.items():
        for pattern in ("alpha", "^$", "gamma$", "été"):
            answer = house.call(
                "vault_search", query=pattern, path_filter=glob, case="sensitive", limit=500
            )
            assert rows(answer) == naive(notes, pattern, wanted=wanted), (glob, pattern)


@pytest.mark.usefixtures("way")
def test_a_part_too_large_to_be_piped(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_PIPE_BYTES", 10)
    house.fill(a="one two\nthree", b="one\n", c="no")
    assert rows(house.call("vault_search", query="one", path_filter="*.md")) == [
        ("a.md", 1, "one two"),
        ("b.md", 1, "one"),
    ]


@pytest.mark.parametrize(
    ("query", "case", "found"),
    [
        ("needle", "smart", 3),
        ("Needle", "smart", 1),
        ("needle", "sensitive", 1),
        ("NeEdLe", "insensitive", 3),
        (r"\bneedle\B|needle", "smart", 3),
        (r"n\Seedle|needle", "smart", 3),
        ("ÉTÉ", "insensitive", 2),
    ],
)
def test_case(house: House, query: str, case: str, found: int) -> None:
    house.fill(a="needle\nNeedle\nNEEDLE\nété\nÉTÉ")
    assert house.call("vault_search", query=query, case=case)["total"] == found


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["ends", "open"])
def test_context_at_the_edges_of_a_note(house: House, ending: str, last: bool) -> None:
    lines = ["one", "two", "", "four", "five"]
    house.fill(
        a="before" + ending, b=ending.join(lines) + (ending if last else ""), c="after" + ending
    )

    def around(query: str, context: int) -> tuple[list[str], list[str]]:
        answer = house.call("vault_search", query=query, context=context, path_filter="*.md")
        assert len(answer["results"]) == 1
        return answer["results"][0]["before"], answer["results"][0]["after"]

    assert around("one", 2) == ([], ["two", ""])
    assert around("five", 2) == (["", "four"], [])
    assert around("four", 1) == ([""], ["five"])
    assert around("four", 10) == (["one", "two", ""], ["five"])
    assert around("before", 10) == ([], [])
    assert "before" not in house.call("vault_search", query="one")["results"][0]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("at", [0, 10, 150, 5_000, 19_990, 20_000])
def test_a_long_line_is_cut_around_its_match(house: House, at: int) -> None:
    filler = "äöü日本語🎉x"
    text = (filler * 4000)[:at] + "NEEDLE" + (filler * 4000)[: 20_000 - at]
    house.fill(a=text[:12_000] if at <= 5000 else text[-12_000:])
    (row,) = house.call("vault_search", query="NEEDLE", path_filter="*.md")["results"]
    assert "NEEDLE" in row["text"]
    assert len(row["text"]) <= finding.LINE_CHARS + 2
    assert "\ufffd" not in row["text"]
    inner = row["text"].strip("…")
    assert inner in text


def test_a_line_of_exactly_the_limit_is_whole(house: House) -> None:
    house.fill(a="n" + "x" * (finding.LINE_CHARS - 1), b="n" + "x" * finding.LINE_CHARS)
    first, second = house.call("vault_search", query="^n")["results"]
    assert first["text"] == "n" + "x" * (finding.LINE_CHARS - 1)
    assert second["text"] == "n" + "x" * (finding.LINE_CHARS - 1) + "…"


@pytest.mark.usefixtures("way")
def test_pages_are_stable(house: House) -> None:
    house.fill(**{f"n{n}": "hit\nmiss\nhit\n" * 5 for n in range(9)})
    whole = rows(house.call("vault_search", query="hit", path_filter="n*", limit=500))
    assert len(whole) == 90
    pages: list[tuple[str, int, str]] = []
    while True:
        answer = house.call(
            "vault_search", query="hit", path_filter="n*", limit=7, offset=len(pages)
        )
        assert (answer["total"], "capped" in answer) == (90, False)
        pages += rows(answer)
        if not answer["truncated"]:
            break
    assert pages == whole
    behind = house.call("vault_search", query="hit", offset=90)
    assert (behind["results"], behind["truncated"]) == ([], False)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("lines", "capped"), [(30, False), (31, True)])
def test_too_many_matches_are_counted_no_further(
    house: House, monkeypatch: pytest.MonkeyPatch, lines: int, capped: bool
) -> None:
    monkeypatch.setattr(finding, "COUNT_CAP", 30)
    house.fill(a="hit\n" * 20, b="hit\n" * (lines - 20))
    answer = house.call("vault_search", query="hit", path_filter="*.md", limit=500)
    assert (answer["total"], len(answer["results"])) == (30, 30)
    assert (answer.get("capped", False), answer["truncated"]) == (capped, capped)


def test_the_cap_is_what_it_says(house: House) -> None:
    house.fill(a="h\n" * 6_000)
    answer = house.call("vault_search", query="h", limit=1)
    assert (answer["total"], answer["capped"], answer["truncated"]) == (2_000, True, True)


def test_no_match_is_an_empty_list(house: House) -> None:
    house.fill(a="x")
    for query in ("nothing", "^$", r"\z\z\z.", "x{2}"):
        answer = house.call("vault_search", query=query)
        assert answer == {"results": [], "total": 0, "truncated": False}


def test_an_empty_vault_can_be_searched(house: House) -> None:
    assert house.call("vault_search", query=".")["results"] == []
    assert house.call("vault_search", query=".", path_filter="a/*")["results"] == []


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "query", ["(", "[a", "*", "a{2,1}", r"\p{nope}", "(?=a)", r"(a)\1", "a\nb", "a\0"]
)
def test_a_bad_regex_is_explained(house: House, query: str) -> None:
    house.fill(a="x")
    error = house.refused("vault_search", query=query, path_filter="*.md")
    assert (error.code, bool(error.hint)) == ("invalid_request", True)
    assert "/" not in error.message.replace(query, "") or "look-around" in error.message
    assert house.metric("vault_rg_runs_total", outcome="invalid_request") == 1


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "query", ["--pre=cat", "-f/etc/passwd", "-e", "--", "--files", "-", "--regexp=a", "--version"]
)
def test_a_query_is_never_an_option(house: House, query: str) -> None:
    house.fill(a=f"one {query} two\nroot:x:0", b="no")
    answer = house.call("vault_search", query=query, path_filter="*.md", case="sensitive")
    if query == "-":
        assert ("a.md", 1, "one - two") in rows(answer)
    else:
        assert rows(answer) == [("a.md", 1, f"one {query} two")]


def test_only_the_first_match_of_a_note_carries_the_link(tmp_path: Any) -> None:
    from .house import opened

    (tmp_path / "V" / ".obsidian").mkdir(parents=True)
    with opened(tmp_path / "V", tmp_path / "state") as house:
        house.fill(a="x\nx\n", b="x\n")
        found = house.call("vault_search", query="x")["results"]
        assert ["obsidian_url" in row for row in found] == [True, False, True]
        second = house.call("vault_search", query="x", offset=1)["results"]
        assert ["obsidian_url" in row for row in second] == [True, True]


def test_what_is_not_text_is_not_searched(house: House) -> None:
    house.write("pic.png", b"needle")
    house.fill(a=b"needle \0", b=b"needle \xff end")
    assert rows(house.call("vault_search", query="needle")) == [("b.md", 1, "needle \ufffd end")]


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": ""}, {"query": "x", "context": 11}, {"query": "x", "context": -1},
        {"query": "x", "limit": 501}, {"query": "x", "limit": 0}, {"query": "x", "case": "odd"},
        {"query": "x" * 10_001}, {"query": None}, {},
    ],
)  # fmt: skip
def test_what_makes_no_sense(house: House, arguments: dict[str, Any]) -> None:
    assert house.refused("vault_search", **arguments).code == "invalid_request"


@pytest.mark.usefixtures("way")
def test_results_come_by_path_in_whatever_order_the_notes_were_stored(house: House) -> None:
    house.fill(b="x 1\nx 2", c="x")
    house.fill(a="x")
    house.call("note_upsert", path="B.md", content="x 3")
    assert rows(house.call("vault_search", query="x", path_filter="*.md")) == [
        ("a.md", 1, "x"),
        ("b.md", 1, "x 1"),
        ("b.md", 2, "x 2"),
        ("b.md", 3, "x 3"),
        ("c.md", 1, "x"),
    ]


def test_old_content_is_never_found(house: House) -> None:
    house.fill(a="old", b="old", c="old")
    house.write("a.md", "new")
    (house.folder / "b.md").unlink()
    (house.folder / "c.md").rename(house.folder / "d.md")
    house.scan()
    assert rows(house.call("vault_search", query="old")) == [("d.md", 1, "old")]
