"""What an answer to a write means is the owner's choice, and the answer says which it was."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.beds import Bed
from tests.contract.conftest import make_bed
from tests.drive.lab import FakeDrive
from tests.drive.processes import wait_for
from tests.real.servers import Server


@pytest.fixture
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    bed = make_bed(request, tmp_path, "drive+rc")
    bed.elsewhere("known.md", b"first")
    assert bed.mount is not None
    bed.mount.start()
    return bed


@pytest.fixture
def served(bed: Bed, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(
        bed.folder, tmp_path / "state", RCLONE_RC=bed.rc_address or "", REQUIRE_MOUNT="true",
        **request.param,
    )  # fmt: skip
    with server:
        yield server


def settled(bed: Bed, path: str, wanted: bytes) -> None:
    wait_for(lambda: bed.remote(path) == wanted, 40, f"{wanted!r} in {path}")


@pytest.mark.requirement("mount.ack")
@pytest.mark.parametrize("served", [{"WRITE_ACK": "journal"}], indirect=True)
def test_an_answer_from_the_journal_comes_true(served: Server, bed: Bed) -> None:
    told = served.call("note_upsert", path="known.md", content="second")
    assert (told["ack"], told["uploaded"], told["created"]) == ("journal", False, False)
    assert served.call("note_read", path="known.md")["content"] == "first\nsecond"
    told = served.call("note_upsert", path="known.md", content="third")
    assert served.call("note_read", path="known.md")["content"] == "first\nsecond\nthird"
    assert served.call("note_upsert", path="sub/new.md", content="new")["created"] is True
    assert served.call("vault_search", query="^third$")["total"] == 1
    settled(bed, "known.md", b"first\nsecond\nthird")
    settled(bed, "sub/new.md", b"new")


@pytest.mark.requirement("mount.ack")
@pytest.mark.parametrize("served", [{"WRITE_ACK": "journal"}], indirect=True)
def test_it_comes_true_after_a_crash_of_everything(served: Server, bed: Bed) -> None:
    mount = bed.mount
    assert mount is not None
    mount.pause()
    try:
        told = served.call("note_upsert", path="known.md", content="second")
        assert told["ack"] == "journal"
        served.kill9()
    finally:
        mount.resume()
    mount.kill9()
    mount.detach()
    mount.start()
    served.start()
    settled(bed, "known.md", b"first\nsecond")


@pytest.mark.requirement("mount.queue")
@pytest.mark.parametrize("served", [{"WRITE_WHEN_DOWN": "queue"}], indirect=True)
def test_while_the_vault_is_away_writes_wait(served: Server, bed: Bed, drive: FakeDrive) -> None:
    mount = bed.mount
    assert mount is not None
    assert served.call("note_upsert", path="known.md", content="second")["ack"] == "drive"
    mount.kill9()
    mount.detach()
    wait_for(lambda: served.get("/readyz")[0] == 503, 20, "the loss to be noticed")
    for word in ("third", "fourth"):
        assert served.call("note_upsert", path="known.md", content=word)["ack"] == "journal"
    assert served.call("note_upsert", path="other.md", content="made")["created"] is True
    assert served.call("note_delete", path="known.md")["code"] == "unavailable"
    assert served.call("note_read", path="known.md")["content"] == "first\nsecond\nthird\nfourth"
    drive.put("vault/claude/other.md", b"somebody else was quicker")
    mount.start()
    settled(bed, "known.md", b"first\nsecond\nthird\nfourth")
    assert bed.remote("other.md") == b"somebody else was quicker"

    def told() -> list[str] | None:
        copies: list[str] | None = served.call("note_read", path="other.md").get("conflict_copies")
        return copies

    copies = wait_for(told, 40, "the next reader to be told")
    assert copies
    assert bed.remote(copies[0]) == b"made"


@pytest.mark.parametrize("served", [{"WRITE_ACK": "mount"}], indirect=True)
def test_an_upload_can_be_waited_for(served: Server, bed: Bed) -> None:
    told = served.call("note_upsert", path="known.md", content="second")
    assert (told["ack"], told["uploaded"]) == ("mount", False)
    told = served.call("note_upsert", path="known.md", content="third", wait_uploaded=30)
    assert (told["ack"], told["uploaded"]) == ("drive", True)
    assert bed.remote("known.md") == b"first\nsecond\nthird"


@pytest.mark.requirement("mount.ack")
@pytest.mark.parametrize(
    "served",
    [{"WRITE_ACK": ack, "SCAN_INTERVAL": "600"} for ack in ("mount", "journal")],
    indirect=True,
)
def test_what_the_mount_has_not_seen_yet_is_not_overwritten(
    served: Server, bed: Bed, drive: FakeDrive
) -> None:
    drive.put("vault/claude/known.md", b"theirs")
    drive.put("vault/claude/new.md", b"made elsewhere")
    served.call("note_upsert", path="known.md", content="ours")
    served.call("note_upsert", path="new.md", content="ours, too")
    wait_for(lambda: served.call("vault_sync")["uploads"]["pending"] == 0, 40, "the uploads")

    def kept(path: str) -> bytes:
        copies = served.call("note_read", path=path).get("conflict_copies", ())
        return b"\n".join(text for one in (path, *copies) if (text := bed.remote(one)))

    wait_for(
        lambda: b"theirs" in kept("known.md") and b"ours" in kept("known.md"), 40, "both edits"
    )
    wait_for(lambda: b"elsewhere" in kept("new.md") and b"ours" in kept("new.md"), 40, "both notes")


@pytest.mark.requirement("mount.sync")
@pytest.mark.parametrize("served", [{"SCAN_INTERVAL": "600"}], indirect=True)
def test_a_sync_shows_what_others_did(served: Server, bed: Bed, drive: FakeDrive) -> None:
    drive.put("vault/claude/deep/er/added.md", b"made elsewhere")
    assert served.call("note_read", path="deep/er/added.md")["exists"] is False
    told = served.call("vault_sync")
    assert told.get("refreshed") is True, told
    assert told["changes"] == {"created": 1}
    assert told["paths"] == ["deep/er/added.md"]
    assert told["uploads"] == {"pending": 0, "failing": 0}
    assert served.call("note_read", path="deep/er/added.md")["content"] == "made elsewhere"


@pytest.mark.parametrize("served", [{"WRITE_ACK": "mount"}], indirect=True)
def test_uploads_that_fail_are_told(served: Server, bed: Bed, drive: FakeDrive) -> None:
    drive.admin("/fault", kind="upload", do="error", code=403, reason="storageQuotaExceeded")
    served.call("note_upsert", path="known.md", content="second")
    told = served.call("vault_sync", wait=3)
    assert told["uploads"]["pending"] >= 1, "the marker file may wait as well"
    wait_for(lambda: served.call("health_check").get("uploads", {}).get("failing"), 40, "failing")
    assert served.metric("vault_uploads_failing") >= 1
    drive.admin("/fault", clear=1)
    assert served.call("vault_sync", wait=30)["uploads"] == {"pending": 0, "failing": 0}
    assert bed.remote("known.md") == b"first\nsecond"


def test_writes_that_wait_build_on_each_other(tmp_path: Path) -> None:
    """Agents append to one note while the vault is away; the server is killed in between."""
    vault, away = tmp_path / "vault", tmp_path / "away"
    vault.mkdir()
    (vault / "note.md").write_text("first")
    with Server(vault, tmp_path / "state", WRITE_WHEN_DOWN="queue") as server:
        vault.rename(away)
        wait_for(lambda: server.get("/readyz")[0] == 503, 30, "the loss to be noticed")
        for round_ in range(2):
            with ThreadPoolExecutor(8) as agents:
                told = agents.map(
                    lambda n: server.call("note_upsert", path="note.md", content=f"line {n}"),
                    range(8 * round_, 8 * round_ + 8),
                )
                assert {answer["ack"] for answer in told} == {"journal"}
            server.kill9()
            server.start(ready=False)
            read = server.call("note_read", path="note.md")["content"]
            assert len(read.splitlines()) == 9 + 8 * round_
        away.rename(vault)
        wanted = {"first", *(f"line {number}" for number in range(16))}
        wait_for(lambda: set((vault / "note.md").read_text().splitlines()) == wanted, 40, "all")
        assert list(vault.glob("*conflict*")) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("served", [{"SCAN_INTERVAL": "600"}], indirect=True)
def test_a_note_of_nine_megabytes(served: Server, bed: Bed, drive: FakeDrive) -> None:
    """It goes up in chunks and is verified; one that nobody has read yet comes in pages."""
    ours = "".join(f"line {number} {'x' * 90}\n" for number in range(95_000))
    assert len(ours) > 9 << 20
    told = served.call("note_write", path="big.md", content=ours, mode="create", timeout=120)
    assert told["ack"] == "drive", told
    assert bed.remote("big.md") == ours.encode()
    assert drive.admin("/stats")["chunks"] >= 2
    drive.put("vault/claude/cold.md", ours.encode())
    served.call("vault_sync")
    pages, offset = [], 0
    for _ in range(3):
        page = served.call("note_read", path="cold.md", offset=offset, max_chars=100_000)
        pages.append(page["content"])
        offset = page["next_offset"]
    assert "".join(pages) == ours[:300_000]
