"""The mount of docs/google-drive.md, as it is written there, of a Drive on this machine."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import page
from tests.drive.lab import DriveMount, FakeDrive
from tests.drive.processes import require, wait_for, which
from tests.real.servers import Server

PAGE = page("docs/google-drive.md")
MOUNT, SERVE = [
    shlex.split(block.code.replace("\\\n", " ")) for block in PAGE.blocks() if block.mark == "mount"
]


class WrittenDown(DriveMount):
    """A mount by the command of the page; only its places are others."""

    def command(self) -> list[str]:
        rclone = which("rclone")
        assert rclone is not None
        places = {
            "rclone": rclone,
            "gd:Obsidian": self.remote,
            "/mnt/vault": str(self.root),
            "/etc/rclone/rclone.conf": self.env["RCLONE_CONFIG"],
            "/var/cache/rclone": str(self.cache),
            "unix:///run/rclone/rc.sock": self.address,
        }
        assert set(places) <= set(MOUNT)
        return [places.get(word, word) for word in MOUNT] + ["--log-file", str(self.log)]


@pytest.fixture
def obsidian(drive: FakeDrive) -> FakeDrive:
    """A Drive with an Obsidian vault in it, and a folder for agents in that."""
    require("rclone", "fusermount3", "/dev/fuse")
    drive.put("Obsidian/.obsidian/app.json", b"{}")
    drive.put("Obsidian/Private.md", b"not for agents\n")
    drive.put("Obsidian/claude/Welcome.md", b"# Welcome\n")
    return drive


@pytest.fixture
def mount(obsidian: FakeDrive, tmp_path: Path) -> Iterator[WrittenDown]:
    with WrittenDown(obsidian, tmp_path, "gd:Obsidian") as mount:
        yield mount


def settings(mount: WrittenDown) -> dict[str, str]:
    """Those of the page's line, for the places of this mount."""
    *assigned, program, command = SERVE
    assert (program, command) == ("vault-mcp", "serve")
    given = dict(word.split("=", 1) for word in assigned)
    assert set(given) == {"VAULT_PATH", "RCLONE_RC"}
    return {
        "VAULT_PATH": given["VAULT_PATH"].replace("/mnt/vault", str(mount.root)),
        "RCLONE_RC": given["RCLONE_RC"].replace("unix:///run/rclone/rc.sock", mount.address),
    }


@pytest.mark.requirement("docs.mount")
def test_a_note_goes_to_drive_and_the_rest_is_out_of_reach(
    mount: WrittenDown, obsidian: FakeDrive, tmp_path: Path
) -> None:
    given = settings(mount)
    with Server(Path(given.pop("VAULT_PATH")), tmp_path / "state", **given) as server:
        done = server.call("note_upsert", path="New.md", content="by an agent")
        assert (done["ack"], done["uploaded"]) == ("drive", True)
        assert b"by an agent" in (obsidian.get("Obsidian/claude/New.md") or b"")
        # The folder with .obsidian lies above; its name is that on Drive, not of the mount point.
        assert done["obsidian_url"] == "obsidian://open?vault=Obsidian&file=claude%2FNew.md"
        assert server.call("note_read", path="../Private.md")["code"] == "invalid_path"
        assert server.call("vault_search", query="not for agents")["results"] == []
        synced = server.call("vault_sync")
        assert synced["refreshed"] is True
        assert obsidian.get("Obsidian/claude/.vault-mcp") is not None


def test_without_rclone_reads_go_on_and_writes_say_so(mount: WrittenDown, tmp_path: Path) -> None:
    given = settings(mount)
    with Server(Path(given.pop("VAULT_PATH")), tmp_path / "state", **given) as server:
        mount.kill9()
        wait_for(lambda: server.call("note_read", path="Welcome.md").get("stale"), 60, "stale")
        assert server.call("vault_search", query="Welcome")["results"]
        assert server.call("note_upsert", path="a.md", content="x")["code"] == "unavailable"
        mount.start()
        wait_for(lambda: not server.call("note_read", path="Welcome.md").get("stale"), 60, "back")
        assert server.call("note_upsert", path="a.md", content="x")["created"] is True


def test_the_subfolder_alone(obsidian: FakeDrive, tmp_path: Path) -> None:
    """With the two settings that the page names the links are the same."""
    assert {"OBSIDIAN_VAULT=Obsidian", "OBSIDIAN_PREFIX=claude"} <= set(PAGE.words())
    with WrittenDown(obsidian, tmp_path, "gd:Obsidian/claude") as mount:
        links = {
            "OBSIDIAN_VAULT": "Obsidian",
            "OBSIDIAN_PREFIX": "claude",
            "RCLONE_RC": mount.address,
        }
        with Server(mount.root, tmp_path / "state", **links) as server:
            read = server.call("note_read", path="Welcome.md")
            assert read["obsidian_url"] == "obsidian://open?vault=Obsidian&file=claude%2FWelcome.md"
        assert not os.path.exists(mount.root / "Private.md")
