"""Decision records over a whole server: numbered once, listed, read, superseded, all or nothing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from server.markdown.frontmatter import split
from server.models import Caller

from .edits import tree
from .house import House, hiding, opened

TEXTS = {"context": "why", "decision": "what", "consequences": "so"}
INDEX = """---
tags: [index]
---
# Mine

| ADR | Title | Status | Date |
|---|---|---|---|
| [[ADR-001-old\\|ADR-001]] | Old | accepted | 2026-01-01 |

A person's words.
"""
OLD = """---
tags: [adr, accepted]
adr: 1
date: 2026-01-01
status: accepted # yes
---
# ADR-001: Old

## Context

long ago
"""


def create(house: House, title: str, **more: Any) -> dict[str, Any]:
    return house.call("adr_create", title=title, **(TEXTS | more))


def properties(house: House, path: str) -> dict[str, Any]:
    return dict(split(house.bytes(path).decode()).properties)


@pytest.mark.requirement("tool.adr_create")
def test_a_record_takes_the_next_number_and_a_row(house: House) -> None:
    house.write("_index.md", INDEX)
    house.write("adr/ADR-001-old.md", OLD)
    house.scan()
    said = create(house, "Use | bars", project="vault", related=["1", "notes/a.md"], options=["x"])
    assert (said["path"], said["adr"]) == ("adr/ADR-002-use-bars.md", 2)
    day = house.app.settings.now().date()
    assert properties(house, said["path"]) == {
        "tags": ["adr", "accepted"],
        "adr": 2,
        "date": day,
        "status": "accepted",
        "project": "vault",
        "related": ["[[ADR-001-old]]", "[[notes/a]]"],
    }
    row = rf"| [[ADR-002-use-bars\|ADR-002]] | Use \| bars | accepted | {day} |"
    expected = INDEX.replace("2026-01-01 |\n", f"2026-01-01 |\n{row}\n")
    assert house.bytes("_index.md").decode() == expected


def test_the_first_record_makes_its_index(house: House) -> None:
    assert create(house, "First", status="proposed")["path"] == "adr/ADR-001-first.md"
    text = house.bytes("_index.md").decode()
    assert "## Decisions\n\n| ADR | Title | Status | Date |\n" in text
    assert r"| [[ADR-001-first\|ADR-001]] | First | proposed |" in text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("adr/ADR-7 seen by nobody yet.md", ""),
        ("adr/0007-x.md", ""),
        ("ADR/adr-0007-x.md", ""),
        ("_index.md", "| ADR | x |\n|---|---|\n| ADR-007 | a file that is gone |\n"),
    ],
)
def test_numbers_that_are_anywhere_are_taken(house: House, path: str, text: str) -> None:
    """Even of files that no scan has seen."""
    house.write(path, text)
    said = create(house, "Next")
    assert said["adr"] == 8
    assert said["path"].startswith(path.partition("/")[0] if "/" in path else "adr")


def test_a_number_in_a_property_is_taken(house: House) -> None:
    house.fill(**{"adr/named-otherwise": "---\nadr: 7\n---\n"})
    assert create(house, "Next")["adr"] == 8


def test_rows_that_people_lost_come_back(house: House) -> None:
    house.write("adr/ADR-001-old.md", OLD)
    house.scan()
    create(house, "New")
    text = house.bytes("_index.md").decode()
    assert text.index("| Old | accepted | 2026-01-01 |") < text.index("| New | accepted |")


@pytest.mark.requirement("tool.adr_create.concurrent")
def test_many_at_once_get_numbers_of_their_own(house: House) -> None:
    async def all_at_once() -> list[Any]:
        calls = (
            house.app.dispatcher.call(
                "adr_create", {"title": f"Title {n}", **TEXTS}, Caller(f"agent-{n}")
            )
            for n in range(16)
        )
        return await asyncio.gather(*calls)

    numbers = [said.adr for said in asyncio.run(all_at_once())]
    assert sorted(numbers) == list(range(1, 17))
    assert len(list((house.folder / "adr").iterdir())) == 16
    assert house.bytes("_index.md").count(b"\n| [[ADR-") == 16


@pytest.mark.requirement("tool.adr_set_status")
def test_a_record_is_superseded_in_every_place_at_once(house: House) -> None:
    house.write("_index.md", INDEX)
    house.write("adr/ADR-001-old.md", OLD)
    house.scan()
    create(house, "New")
    before = house.bytes("adr/ADR-002-new.md").decode()
    said = house.call("adr_set_status", adr=1, status="superseded", superseded_by=2)
    assert said["notes_changed"] == ["_index.md", "adr/ADR-001-old.md", "adr/ADR-002-new.md"]
    assert house.bytes("adr/ADR-001-old.md").decode() == OLD.replace(
        "[adr, accepted]", "[adr, superseded]"
    ).replace("status: accepted #", "status: superseded #").replace(
        "yes\n---", 'yes\nrelated:\n  - "[[ADR-002-new]]"\n---'
    )
    assert house.bytes("adr/ADR-002-new.md").decode() == before.replace(
        "related: []", 'related: ["[[ADR-001-old]]"]'
    )
    text = house.bytes("_index.md").decode()
    assert "| Old | superseded | 2026-01-01 |" in text
    assert text.endswith("\nA person's words.\n")
    again = house.call("adr_set_status", adr=1, status="superseded", superseded_by=2)
    assert (again["changed"], again["notes_changed"]) == (False, [])


def test_a_row_that_is_missing_is_added_with_the_new_status(house: House) -> None:
    house.write("adr/ADR-001-old.md", OLD)
    house.scan()
    house.call("adr_set_status", adr=1, status="deprecated")
    assert b"| Old | deprecated | 2026-01-01 |" in house.bytes("_index.md")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"adr": 1, "status": "superseded"}, "invalid_request"),
        ({"adr": 1, "status": "accepted", "superseded_by": 2}, "invalid_request"),
        ({"adr": 1, "status": "superseded", "superseded_by": 1}, "invalid_request"),
        ({"adr": 1, "status": "superseded", "superseded_by": 9}, "not_found"),
        ({"adr": 9, "status": "accepted"}, "not_found"),
        ({"adr": 1, "status": "fine"}, "invalid_request"),
    ],
)
def test_a_refused_status_changes_nothing(
    house: House, arguments: dict[str, Any], code: str
) -> None:
    create(house, "One")
    before = tree(house)
    assert house.refused("adr_set_status", **arguments).code == code
    assert tree(house) == before


@pytest.mark.requirement("tool.adr_list")
def test_records_are_listed_with_filters(house: House) -> None:
    house.write("adr/ADR-7 by hand.md", "# Seven\n\n#rejected\n")
    house.write("adr/README.md", "no record\n")
    house.scan()
    create(house, "Eight", project="vault", status="proposed")
    items = house.call("adr_list")["items"]
    assert [(item["adr"], item["title"], item.get("status")) for item in items] == [
        (8, "Eight", "proposed"),
        (7, "Seven", "rejected"),
    ]
    assert [i["adr"] for i in house.call("adr_list", status="proposed")["items"]] == [8]
    assert [i["adr"] for i in house.call("adr_list", project="Vault")["items"]] == [8]
    page = house.call("adr_list", limit=1, offset=1)
    assert ([i["adr"] for i in page["items"]], page["total"], page["truncated"]) == ([7], 2, False)


@pytest.mark.requirement("tool.adr_read")
@pytest.mark.parametrize("name", ["ADR-7 x", "0007-x", "adr-0007-x", "ADR-007-x"])
def test_a_record_is_read_by_its_number(house: House, name: str) -> None:
    house.fill(
        **{
            f"adr/{name}": f"---\nstatus: accepted\nrelated: one\n---\n# 7. X\n\n## Context\n\n{'y' * 300}\n"
        }
    )
    said = house.call("adr_read", adr=7, max_chars=100)
    assert (said["title"], said["status"], said["related"]) == ("X", "accepted", ["one"])
    assert said["sections"] == [{"heading": "Context", "text": "y" * 100, "chars": 300}]
    assert said["truncated"] is True
    assert house.call("adr_read", adr=7)["truncated"] is False


def test_two_files_of_one_number_are_ambiguous(house: House) -> None:
    house.fill(**{"adr/ADR-007-a": "", "adr/0007-b": ""})
    error = house.refused("adr_read", adr=7)
    assert (error.code, error.details["candidates"]) == (
        "ambiguous",
        ["adr/0007-b.md", "adr/ADR-007-a.md"],
    )


def test_a_project_has_numbers_of_its_own_where_that_is_wanted(tmp_path: Path) -> None:
    with opened(tmp_path / "v", tmp_path / "s", PROJECT_LAYOUT="per-project") as house:
        for project in ("alpha", "beta", None):
            said = create(house, "One", **({"project": project} if project else {}))
            root = f"{project}/" if project else ""
            assert said["path"] == f"{root}adr/ADR-001-one.md"
            assert b"ADR-001-one" in house.bytes(f"{root}_index.md")
        assert house.refused("adr_read", adr=1).code == "ambiguous"
        house.call("adr_set_status", adr=1, status="rejected", project="beta")
        assert b"| rejected |" in house.bytes("beta/_index.md")
        assert b"| rejected |" not in house.bytes("alpha/_index.md")
        assert house.call("adr_read", adr=1, project="beta")["status"] == "rejected"


def test_a_dry_run_shows_both_files(tmp_path: Path) -> None:
    with opened(tmp_path / "v", tmp_path / "s", WRITE_MODE="dry-run") as house:
        said = create(house, "One")
        assert (said["dry_run"], said["adr"]) == (True, 1)
        assert "+++ b/_index.md" in said["diff"]
        assert not (house.folder / "adr").exists()


@pytest.mark.requirement("access.filtered")
def test_what_may_not_be_seen_is_not_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    create(house, "Open")
    create(house, "Closed")
    house.write("_index.md", "# lost\n")
    monkeypatch.setattr(house.app.service.decisions, "_access", hiding("adr/ADR-002-closed.md"))
    assert [(i["adr"], 1) for i in house.call("adr_list")["items"]] == [(1, 1)]
    assert house.call("adr_list")["total"] == 1
    absent, hidden = house.refused("adr_read", adr=99), house.refused("adr_read", adr=2)
    assert hidden.message.replace("002", "099") == absent.message
    assert hidden.hint == absent.hint
    assert create(house, "Next")["adr"] == 3, "its number is taken all the same"
    assert b"closed" not in house.bytes("_index.md")


@pytest.mark.parametrize("closed", ["_index.md", "adr"])
def test_who_may_not_write_all_of_it_writes_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    monkeypatch.setattr(house.app.service.decisions, "_access", hiding(closed))
    error = house.refused("adr_create", title="One", **TEXTS)
    assert error.code == "permission_denied"
    assert [name for name in tree(house) if name != ".vault-mcp"] == []
