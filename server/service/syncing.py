"""Bringing server, mount and remote in step now, instead of at the next scan."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from server.access.decision import Access
from server.index.store import Index
from server.models import Caller
from server.scanner.scanner import Scanner
from server.vault.paths import parse_folder
from server.vault.uploads import Uploads, UploadWatch
from server.vault.vault import Vault
from server.workers import Deadline, Workers

_SHOWN = 50
_SCAN_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did and found. Without remote control nothing is refreshed and uploads are unknown."""

    refreshed: bool
    uploads: Uploads | None
    changes: Mapping[str, int]
    paths: Sequence[str]
    hint: str | None = None


class Syncing:
    """The use case behind `vault_sync`. The caller comes first."""

    def __init__(
        self,
        vault: Vault,
        index: Index,
        scanner: Scanner,
        uploads: UploadWatch,
        access: Access,
        mount: Workers,
    ) -> None:
        self._vault = vault
        self._index = index
        self._scanner = scanner
        self._uploads = uploads
        self._access = access
        self._mount = mount

    async def sync(self, caller: Caller, raw_folder: str | None, wait: float) -> Synced:
        """Flush waiting uploads for up to `wait` seconds, refresh the mount, scan, tell what changed."""
        folder = parse_folder(raw_folder)
        sees = self._access.sees(caller)
        if not sees.reaches(folder):
            self._access.require(caller, "read", folder)
        deadline = Deadline.after(wait + _SCAN_SECONDS)

        def run() -> Synced:
            started_ns = time.time_ns()
            caller.tell(0, 3, "uploading")
            uploads = self._uploads.flush(Deadline.after(wait))
            caller.tell(1, 3, "refreshing")
            refreshed = self._refresh(folder, deadline)
            caller.tell(2, 3, "scanning")
            self._scanner.scan()
            found, _ = self._index.changes(started_ns, sees)
            caller.tell(3, 3, "done")
            return Synced(
                refreshed,
                self._uploads.look() if uploads is not None else None,
                dict(Counter(change.change for change in found)),
                [change.path for change in found[:_SHOWN]],
                None if refreshed else _no_remote(self._vault),
            )

        return await self._mount.run_async(deadline, run)

    def _refresh(self, folder: str, deadline: Deadline) -> bool:
        pin = self._vault.guard.pin()
        drive = self._vault.drive(pin)
        if drive is None:
            return False
        if folder:
            drive.look_again(pin, [folder], deadline.remaining)
        else:
            drive.refresh_all(pin, deadline.remaining)
        return True


def _no_remote(vault: Vault) -> str:
    if not vault.guard.pin().is_rclone:
        return "The vault is a plain folder: it was scanned, and there is nothing to upload."
    return "rclone can't be asked (RCLONE_RC): the mount was scanned as it is."
