"""Where the served folder lies inside the user's Obsidian vault, for obsidian:// links."""

import os
from dataclasses import dataclass
from urllib.parse import quote

from server.vault.mounts import MountPoint


@dataclass(frozen=True, slots=True)
class ObsidianLinks:
    """Builds links; without a vault name there are none, and `reason` says why."""

    vault: str | None = None
    prefix: str = ""
    reason: str = ""

    def url(self, path: str) -> str | None:
        """`obsidian://open` for a vault-relative path."""
        if self.vault is None:
            return None
        file = f"{self.prefix}/{path}" if self.prefix else path
        return f"obsidian://open?vault={quote(self.vault, safe='')}&file={quote(file, safe='')}"


def find_obsidian(real: str, mount: MountPoint | None) -> tuple[str, str] | None:
    """(vault name, prefix) found by walking up to the folder that holds `.obsidian`."""
    folder = real
    while True:
        if os.path.isdir(os.path.join(folder, ".obsidian")):
            prefix = os.path.relpath(real, folder)
            return _name(folder, mount), "" if prefix == "." else prefix.replace(os.sep, "/")
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _name(folder: str, mount: MountPoint | None) -> str:
    # A vault that is a whole remote is called as on the remote, not as the local mount point.
    if mount is not None and mount.is_rclone and folder == mount.path:
        remote = os.path.basename(mount.source.partition(":")[2] or mount.source)
        if remote:
            return remote
    return os.path.basename(folder)
