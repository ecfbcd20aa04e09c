"""While the vault can't be reached: old answers that say so, no writes, and back by itself."""

import asyncio
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from server.errors import Timeout
from server.models import Content, NotePath
from tests.drive.processes import wait_for

from .house import CALLER, House, opened

Lose = Callable[[House], Callable[[], None]]


def moved(house: House) -> Callable[[], None]:
    away = house.folder.with_name("away")
    house.folder.rename(away)
    return lambda: (away.rename(house.folder), None)[1]


def replaced(house: House) -> Callable[[], None]:
    back = moved(house)
    house.folder.mkdir()

    def restore() -> None:
        house.folder.rmdir()
        back()

    return restore


def emptied(house: House) -> Callable[[], None]:
    away = house.folder.with_name("away")
    shutil.copytree(house.folder, away)
    for file in house.folder.iterdir():
        if not file.name.startswith("."):
            file.unlink()

    def restore() -> None:
        shutil.copytree(away, house.folder, dirs_exist_ok=True)
        shutil.rmtree(away)

    return restore


WAYS: dict[str, tuple[Lose, str]] = {
    "moved": (moved, "missing"),
    "replaced": (replaced, "no_marker"),
    "emptied": (emptied, "empty"),
}


@pytest.mark.parametrize("way", WAYS)
def test_stale_answers_no_writes_and_back_again(house: House, way: str) -> None:
    lose, state = WAYS[way]
    house.fill(a="needle", b="[[a]]")
    restore = lose(house)
    house.app.guard.wake()
    wait_for(lambda: house.app.guard.health.state == state)

    read = house.call("note_read", path="a.md")
    assert (read["content"], read["stale"]) == ("needle", True)
    assert read["as_of"].endswith("Z")
    assert house.call("note_read", path="A.md")["content"] == "needle"
    for tool, arguments in (
        ("note_outline", {"path": "a.md"}),
        ("note_info", {"path": "a.md"}),
        ("vault_search", {"query": "needle"}),
        ("vault_list", {}),
    ):
        answer = house.call(tool, **arguments)
        assert answer["stale"] is True, tool
        assert answer["as_of"].endswith("Z")
    assert house.call("vault_search", query="needle")["total"] == 1
    assert house.call("note_read_many", paths=["a.md"])["notes"][0]["stale"] is True
    assert house.refused("note_read", path="unknown.md").code == "unavailable"

    before = sorted(str(file) for file in house.folder.parent.rglob("*.md"))
    for path in ("a.md", "new.md", "new/folder/x.md"):
        error = house.refused("note_upsert", path=path, content="lost")
        assert (error.code, bool(error.hint)) == ("unavailable", True)
    assert sorted(str(file) for file in house.folder.parent.rglob("*.md")) == before
    assert house.app.journal.items() == []
    assert house.app.scanner.scan_safely() is None

    health = house.call("health_check")
    assert (health["status"], health["mount"]["state"]) == ("degraded", state)
    assert health["mount"]["reason"]
    assert health["mount"]["hint"]
    assert health["mount"]["protocol"] == "none"
    assert house.app.service.status.ready()[0] is False

    restore()
    wait_for(lambda: house.app.guard.health.ok, what="the guard notices by itself")
    assert house.call("note_upsert", path="a.md", content="back")["created"] is False
    assert house.bytes("a.md") == b"needle\nback"
    assert "stale" not in house.call("note_read", path="a.md")
    assert "stale" not in house.call("vault_search", query="needle")
    assert house.call("health_check")["status"] == "ok"


def test_a_folder_put_in_the_vaults_place_is_not_written_beside(house: House) -> None:
    """A backup is restored by renaming: what was pinned is elsewhere now, the vault is the new one."""
    house.fill(a="one")
    old = house.folder.with_name("old")
    shutil.copytree(house.folder, house.folder.with_name("backup"))
    house.folder.rename(old)
    house.folder.with_name("backup").rename(house.folder)
    assert house.app.guard.probe().ok
    house.call("note_upsert", path="b.md", content="x")
    assert house.bytes("b.md") == b"x"
    assert not (old / "b.md").exists()


def test_a_restart_without_the_vault_still_answers(tmp_path: Path) -> None:
    folder, state = tmp_path / "vault", tmp_path / "state"
    with opened(folder, state) as house:
        house.fill(a="needle")
    shutil.rmtree(folder)
    folder.mkdir()
    with opened(folder, state) as house:
        wait_for(lambda: house.app.guard.health.state == "no_marker")
        assert house.call("note_read", path="a.md")["content"] == "needle"
        assert house.refused("note_upsert", path="a.md", content="x").code == "unavailable"
    assert list(folder.iterdir()) == []


# -- health ---------------------------------------------------------------------------------------


def test_health_of_a_good_server(house: House) -> None:
    house.write("pic.png", b"x")
    house.fill(a="one", b="two")
    health = house.call("health_check")
    assert health["status"] == "ok"
    assert (health["mount"]["state"], health["mount"]["protocol"]) == ("ok", "local")
    index = health["index"]
    assert (index["notes"], index["attachments"], index["budget_mb"]) == (2, 1, 512)
    assert index["last_scan"].endswith("Z")
    assert 0 <= index["used_percent"] <= 100
    assert index["memory_mb"] > 0
    assert "last_error" not in index
    assert health["queue"] == {"pending_writes": 0, "stuck_workers": 0}
    assert health["obsidian"]["reason"]
    assert {"server", "mcp"} <= health["versions"].keys()
    assert str(house.folder) not in str(health)


def test_health_tells_of_held_removals_and_failed_scans(house: House) -> None:
    house.fill(**{f"many/{n}": str(n) for n in range(30)}, left="x")
    shutil.rmtree(house.folder / "many")
    house.scan()
    assert house.call("health_check")["index"]["held_removals"] == 31
    (house.folder / ".vault-mcp").rename(house.folder / ".away")
    assert house.app.scanner.scan_safely() is None
    assert house.call("health_check")["index"]["last_error"] == "no_marker"


def test_an_answer_during_the_first_scan_says_so(tmp_path: Path) -> None:
    from server.scanner.scanner import Progress

    with opened(tmp_path / "vault", tmp_path / "state") as house:
        house.fill(a="x")
        house.app.scanner.progress = Progress("reading", 30, 120)
        assert "25 %" in house.call("vault_search", query="x")["incomplete"]
        assert house.call("health_check")["status"] == "degraded"
        house.app.scanner.progress = Progress("walking")
        assert "walking" in house.call("vault_list")["incomplete"]
        house.scan()
        assert "incomplete" not in house.call("vault_list")


def test_what_came_to_no_answer_is_not_queued_later(tmp_path: Path) -> None:
    environ = {"WRITE_WHEN_DOWN": "queue", "MOUNT_TIMEOUT": "0.5"}
    with opened(tmp_path / "vault", tmp_path / "state", **environ) as house:
        house.fill(a="first")
        restore = moved(house)
        house.app.guard.wake()
        wait_for(lambda: not house.app.guard.health.ok)
        told = threading.Event()

        def change(current: Content | None) -> bytes:
            told.wait(20)
            return (current.data if current else b"") + b" late"

        late = house.app.service.editing.edit(CALLER, "note_write", NotePath("a.md"), change)
        with pytest.raises(Timeout):
            asyncio.run(late)
        told.set()
        # Its turn comes when the late one has given up the note.
        assert house.call("note_upsert", path="a.md", content="second")["ack"] == "journal"
        restore()
        house.app.guard.wake()
        wait_for(lambda: house.bytes("a.md") == b"first\nsecond", 20)
