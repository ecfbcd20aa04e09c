"""The state folder: one slot per process, none lost, none shared."""

import gc
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from server.app import open_app
from server.errors import Unavailable
from server.models import etag_of
from server.settings import Settings, load
from server.state import abandoned_slots, claim_slot, disk_room
from server.vault.journal import Journal, Record
from tests.drive.processes import wait_for


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def settings_of(tmp_path: Path) -> Settings:
    (tmp_path / "vault").mkdir(exist_ok=True)
    return load(
        {
            "VAULT_PATH": str(tmp_path / "vault"),
            "STATE_DIR": str(tmp_path / "state"),
            "SCAN_INTERVAL": "3600",
        }
    )


def record(number: int, data: bytes, path: str = "a.md", base: bytes | None = None) -> Record:
    return Record(
        id=f"{number:016x}", path=path, disk=path, base=etag_of(base) if base is not None else None,
        etag=etag_of(data), md5="", size=len(data), protocol="mount", temp=None,
        created=time.time() - 1000 + number,
    )  # fmt: skip


def test_every_claim_gets_a_slot_of_its_own(tmp_path: Path) -> None:
    slots = [claim_slot(tmp_path / "deep" / "state") for _ in range(3)]
    assert [slot.folder.name for slot in slots] == ["slot-0", "slot-1", "slot-2"]
    slots[1].release()
    slots[1].release()
    assert claim_slot(tmp_path / "deep" / "state").folder.name == "slot-1"


def test_the_state_folder_is_private(tmp_path: Path) -> None:
    slot = claim_slot(tmp_path / "state")
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    assert slot.folder.stat().st_mode & 0o077 == 0


def test_a_slot_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from server.state import claim_slot\n"
        "slot = claim_slot(pathlib.Path(sys.argv[1])); print(slot.folder.name, flush=True)\n"
        "sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "slot-0"
        mine = claim_slot(tmp_path)
        assert mine.folder.name == "slot-1"
        assert abandoned_slots(tmp_path, mine) == []
    finally:
        process.kill()
        process.communicate()
    (found,) = abandoned_slots(tmp_path, mine)
    assert found.folder.name == "slot-0"
    assert claim_slot(tmp_path).folder.name == "slot-2", "it is held until it is released"
    found.release()


def test_a_child_process_does_not_keep_the_slot(tmp_path: Path) -> None:
    slot = claim_slot(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        slot.release()
        again = claim_slot(tmp_path)
        assert again.folder == slot.folder
    finally:
        child.communicate(b"\n")


def test_the_room_on_the_disk(tmp_path: Path) -> None:
    room, told = disk_room(tmp_path), shutil.disk_usage(tmp_path)
    assert room.total == told.total
    assert room.free == pytest.approx(told.free, rel=0.2)
    assert math.isnan(disk_room(tmp_path / "gone").free)


def test_the_room_is_in_the_metrics(tmp_path: Path) -> None:
    with open_app(settings_of(tmp_path)) as app:
        value = app.telemetry.registry.get_sample_value
        assert value("vault_state_disk_bytes") == shutil.disk_usage(tmp_path).total
        assert 0 < (value("vault_state_free_bytes") or 0) < (value("vault_state_disk_bytes") or 0)


def test_more_servers_than_slots(tmp_path: Path) -> None:
    slots = [claim_slot(tmp_path) for _ in range(64)]
    with pytest.raises(Unavailable, match="Too many"):
        claim_slot(tmp_path)
    for slot in slots:
        slot.release()


def test_a_state_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unavailable, match="STATE_DIR") as caught:
        claim_slot(tmp_path / "file")
    assert str(tmp_path) not in caught.value.message


def test_two_servers_share_a_state_folder_and_a_vault(tmp_path: Path) -> None:
    import asyncio

    from server.models import Caller

    settings = settings_of(tmp_path)
    (tmp_path / "vault" / "a.md").write_text("one")
    with open_app(settings) as first, open_app(settings) as second:
        assert {"slot-0", "slot-1"} <= set(names(tmp_path / "state"))
        for app, text in ((first, "first"), (second, "second"), (first, "third")):
            wait_for(lambda app=app: app.scanner.progress.first_done)  # type: ignore[misc]
            asyncio.run(
                app.dispatcher.call("note_upsert", {"path": "a.md", "content": text}, Caller("x"))
            )
        for app in (first, second):
            read = asyncio.run(app.dispatcher.call("note_read", {"path": "a.md"}, Caller("x")))
            assert getattr(read, "content", None) == "one\nfirst\nsecond\nthird"
    with open_app(settings):
        assert "slot-2" not in names(tmp_path / "state")


def test_a_journal_left_behind_in_another_slot_is_taken_over(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    vault = tmp_path / "vault"
    (vault / "lost.md").write_bytes(b"base")
    (vault / "theirs.md").write_bytes(b"changed by somebody else")
    for number, slot in enumerate(("slot-3", "slot-7"), 1):
        journal = Journal(tmp_path / "state" / slot / "journal")
        lost = record(number, b"base\nours", f"{'lost' if number == 1 else 'theirs'}.md", b"base")
        journal.prepare(lost, b"base\nours")
        journal.applied(lost)
    half = record(9, b"never acknowledged", "half.md")
    journal.prepare(half, b"never acknowledged")
    with open_app(settings) as app:
        wait_for(lambda: (vault / "lost.md").read_bytes() == b"base\nours")
        wait_for(lambda: list(vault.glob("theirs.conflict-*.md")))
        wait_for(lambda: len(app.journal) == 0)
        assert [item.state for item in app.journal.items()] == ["aside"]
        assert (vault / "theirs.md").read_bytes() == b"changed by somebody else"
        assert not (vault / "half.md").exists()
    assert names(tmp_path / "state" / "slot-3" / "journal") == []


def test_the_journal_of_a_living_server_is_left_alone(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    living = claim_slot(tmp_path / "state")
    journal = Journal(living.folder / "journal")
    journal.prepare(record(1, b"x"), b"x")
    with open_app(settings) as app:
        assert len(app.journal) == 0
    assert [item.state for item in journal.items()] == ["prepared"]
    living.release()


def test_closing_gives_everything_back(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)

    def use() -> None:
        with open_app(settings) as app:
            wait_for(lambda: app.scanner.progress.last_success)

    use()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(4):
        use()

    def freed() -> bool:
        gc.collect()
        return len(os.listdir("/proc/self/fd")) <= before + 1

    wait_for(freed, what="descriptors")
    assert claim_slot(tmp_path / "state").folder.name == "slot-0"
