"""Devlogs over a whole server: found by any spelling, added to by many, read as they are."""

import asyncio
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from server.markdown.frontmatter import split
from server.models import Caller
from server.service.texts import decoded

from .edits import by
from .house import House, hiding, opened

NOTE = [{"type": "impl", "text": "done"}]


def append(house: House, topic: str, *texts: str, **more: Any) -> dict[str, Any]:
    entries = [{"type": "impl", "text": text} for text in texts]
    return house.call("devlog_append", topic=topic, entries=entries, **more)


def today(house: House) -> str:
    return house.app.settings.now().date().isoformat()


@pytest.mark.requirement("tool.devlog_append")
def test_a_topic_gets_a_file_and_then_lines(house: House) -> None:
    first = append(house, "API limits", "one\ntwo", project="vault")
    assert (first["path"], first["created"], first["lines"]) == ("devlog/api-limits.md", True, 1)
    again = append(house, "api LIMITS", "three")
    assert (again["path"], again["created"]) == (first["path"], False)
    text = house.bytes("devlog/api-limits.md").decode()
    day = house.app.settings.now().date()
    assert dict(split(text).properties) == {
        "tags": ["devlog"],
        "topic": "API limits",
        "project": "vault",
        "created": day,
        "updated": day,
    }
    assert text.endswith(f"# API limits\n\n[impl]    {day}  one two\n[impl]    {day}  three\n")


@pytest.mark.parametrize("name", ["API Limits", "api_limits", "Api-Limits"])
def test_a_file_that_people_named_is_used(house: House, name: str) -> None:
    house.write(f"Devlog/{name}.md", "# mine\n")
    house.scan()
    assert append(house, "api limits", "x")["path"] == f"Devlog/{name}.md"
    assert [file.name for file in (house.folder / "Devlog").iterdir()] == [f"{name}.md"]


def test_a_file_in_another_unicode_form_is_used(house: House) -> None:
    name = unicodedata.normalize("NFD", "größe")
    house.write(f"devlog/{name}.md", "# mine\n")
    assert append(house, "Größe", "x")["created"] is False
    assert len(list((house.folder / "devlog").iterdir())) == 1


def test_crlf_and_everything_else_stays(house: House) -> None:
    before = (
        b"---\r\ntags: [devlog]   # mine\r\nupdated: 2020-01-01\r\n---\r\n# x\r\n\xff\r\n\r\n"
        b"[impl] 2020-01-01 a"
    )
    house.write("devlog/x.md", before)
    append(house, "x", "b")
    day = today(house).encode()
    after = before.replace(b"updated: 2020-01-01", b"updated: " + day)
    assert house.bytes("devlog/x.md") == after + b"\r\n[impl]    " + day + b"  b\r\n"


@pytest.mark.requirement("tool.devlog_append.concurrent")
def test_many_at_once_lose_nothing(house: House) -> None:
    async def all_at_once() -> None:
        async def one(writer: int) -> None:
            entries = [{"type": "impl", "text": f"w{writer} n{n}"} for n in range(10)]
            await house.app.dispatcher.call(
                "devlog_append", {"topic": "busy", "entries": entries}, Caller(f"agent-{writer}")
            )

        await asyncio.gather(*map(one, range(16)))

    asyncio.run(all_at_once())
    text = house.bytes("devlog/busy.md").decode()
    lines = [line for line in text.splitlines() if line.startswith("[impl]")]
    expected = {f"w{writer} n{n}" for writer in range(16) for n in range(10)}
    assert len(lines) == 160
    assert {line.rpartition("  ")[2] for line in lines} == expected
    assert split(text).properties["updated"] == house.app.settings.now().date()
    for writer in range(16):
        at = [lines.index(line) for line in lines if f" w{writer} " in line]
        assert at == list(range(at[0], at[0] + 10)), "the lines of a call stay together"


def test_a_key_makes_a_retry_safe(house: House) -> None:
    first = append(house, "x", "once", idempotency_key="k")
    assert append(house, "x", "once", idempotency_key="k") == {**first, "replayed": True}
    assert house.bytes("devlog/x.md").count(b"once") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"topic": " ", "entries": NOTE},
        {"topic": "x", "entries": []},
        {"topic": "x", "entries": [{"type": "impl", "text": " \n"}]},
        {"topic": "x", "entries": [{"type": "other", "text": "x"}]},
        {"topic": "x", "entries": [{"type": "impl", "text": "a\0b"}]},
        {"topic": "x\0", "entries": NOTE},
    ],
)
def test_nonsense_is_refused(house: House, arguments: dict[str, Any]) -> None:
    assert house.refused("devlog_append", **arguments).code == "invalid_request"
    assert not (house.folder / "devlog").exists()


def test_what_a_dry_run_shows_is_not_written(tmp_path: Path) -> None:
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE="dry-run") as house:
        said = append(house, "x", "one")
        assert said["dry_run"] is True
        assert "one" in said["diff"]
        assert not (house.folder / "devlog").exists()


def test_dates_are_those_of_the_zone(tmp_path: Path) -> None:
    days = set()
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        with opened(tmp_path / zone, tmp_path / "state" / zone, TIME_ZONE=zone) as house:
            append(house, "x", "one")
            days.add(split(decoded(house.bytes("devlog/x.md"))).properties["created"])
    assert len(days) == 2, "they are 25 hours apart"


@pytest.mark.requirement("tool.devlog_tail")
def test_the_tail_has_the_newest_first(house: House) -> None:
    house.write(
        "devlog/a.md",
        "---\nproject: one\n---\n[impl] 2026-01-01 a1\n- [problem] 2026-01-03 a2 -> fixed\nother\n",
    )
    house.write(
        "devlog/B.md", "---\nproject: Two\n---\n[verify] 2026-01-02 b1\n[verify] 2026-01-02 b2\n"
    )
    house.write("notes/c.md", "[impl] 2026-01-09 not a devlog\n")
    house.scan()
    said = house.call("devlog_tail")
    assert [entry["text"] for entry in said["entries"]] == ["a2", "b2", "b1", "a1"]
    assert said["entries"][0] == {
        "path": "devlog/a.md", "date": "2026-01-03", "type": "problem", "text": "a2",
        "resolution": "fixed",
    }  # fmt: skip
    assert (said["total"], said["truncated"]) == (4, False)
    few = house.call("devlog_tail", limit=1)
    assert ([e["text"] for e in few["entries"]], few["total"], few["truncated"]) == (
        ["a2"],
        4,
        True,
    )
    assert [e["text"] for e in house.call("devlog_tail", topic="b")["entries"]] == ["b2", "b1"]
    assert [e["text"] for e in house.call("devlog_tail", project="two")["entries"]] == ["b2", "b1"]
    assert house.call("devlog_tail", project="three")["entries"] == []
    error = house.refused("devlog_tail", topic="c")
    assert (error.code, sorted(error.details["topics"])) == ("not_found", ["B", "a"])


def test_what_was_appended_is_in_the_tail_at_once(house: House) -> None:
    append(house, "x", "one", "two")
    assert [e["text"] for e in house.call("devlog_tail")["entries"]] == ["two", "one"]


def test_a_project_has_a_folder_of_its_own_where_that_is_wanted(tmp_path: Path) -> None:
    with opened(tmp_path / "v", tmp_path / "s", PROJECT_LAYOUT="per-project") as house:
        assert append(house, "x", "1", project="Alpha")["path"] == "Alpha/devlog/x.md"
        assert append(house, "x", "2", project="beta")["path"] == "beta/devlog/x.md"
        assert append(house, "x", "3")["path"] == "devlog/x.md"
        texts = [e["text"] for e in house.call("devlog_tail", project="alpha")["entries"]]
        assert texts == ["1"]
        assert len(house.call("devlog_tail")["entries"]) == 3
        error = house.refused("devlog_append", topic="x", project="../out", entries=NOTE)
        assert error.code == "invalid_path"


@pytest.mark.requirement("access.filtered")
def test_what_may_not_be_seen_is_in_no_tail(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    append(house, "open", "seen")
    append(house, "closed", "hidden")
    monkeypatch.setattr(house.app.service.devlogs, "_access", hiding("devlog/closed.md"))
    said = house.call("devlog_tail")
    assert [(e["text"], said["total"]) for e in said["entries"]] == [("seen", 1)]
    assert "closed" not in str(house.refused("devlog_tail", topic="closed").details)
    assert house.refused("devlog_append", topic="closed", entries=NOTE).code == "permission_denied"


def test_somebody_elses_edit_is_kept(house: House) -> None:
    append(house, "x", "one")
    by(house, "other", "note_patch", path="devlog/x.md", target="text", selector="one",
       operation="replace", content="uno")  # fmt: skip
    append(house, "x", "two")
    text = house.bytes("devlog/x.md").decode()
    assert "  uno\n" in text
    assert text.endswith("  two\n")
