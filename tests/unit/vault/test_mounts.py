"""What the kernel's mount table says."""

import os
from pathlib import Path

import pytest

from server.vault.mounts import (
    MountPoint,
    MountWatch,
    hangs_below,
    inner_path,
    mount_id_of,
    mount_of,
)

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
36 22 0:39 / /mnt/my\\040vault rw,nosuid - fuse.rclone gd:vault rw,user_id=0
40 22 0:40 /claude /srv/bound rw - fuse.rclone gd{x1}:vault rw
41 40 0:41 / /srv/bound/deeper rw - tmpfs tmpfs rw
42 22 0:42 / /mnt/my\\040vault rw - fuse.rclone other: rw
"""


def test_the_deepest_mount_holds_a_path() -> None:
    found = mount_of("/srv/bound/deeper/a", TABLE)
    assert found is not None
    assert found.fstype == "tmpfs"
    assert mount_of("/srv/boundary", TABLE) == MountPoint(22, "/", "/", "ext4", "/dev/sda1")


def test_of_stacked_mounts_the_last_is_in_sight() -> None:
    found = mount_of("/mnt/my vault/claude", TABLE)
    assert found is not None
    assert (found.id, found.source, found.is_rclone) == (42, "other:", True)


@pytest.mark.parametrize(
    ("path", "hangs"),
    [
        ("/", True),
        ("/srv", True),
        ("/srv/bound", False),
        ("/srv/bo", False),
        ("/mnt", True),
        ("/mnt/my vault", False),
    ],
)
def test_what_may_hang_below_a_folder(path: str, hangs: bool) -> None:
    assert hangs_below(path, TABLE) is hangs


def test_what_nobody_gets_to_holds_nobody_up() -> None:
    hidden = "36 22 0:39 / /home/ana/.cache/doc rw - fuse.portal portal rw\n"
    assert not hangs_below("/home/ana", hidden)
    assert hangs_below("/home/ana/.cache", hidden)


def test_where_a_path_lies_inside_the_remote() -> None:
    plain = MountPoint(1, "/", "/mnt/v", "fuse.rclone", "gd:")
    bound = MountPoint(2, "/claude", "/srv/bound", "fuse.rclone", "gd:vault")
    assert inner_path("/mnt/v", plain) == ""
    assert inner_path("/mnt/v/claude/sub", plain) == "claude/sub"
    assert inner_path("/srv/bound", bound) == "claude"
    assert inner_path("/srv/bound/sub", bound) == "claude/sub"


def test_the_real_table_and_a_real_descriptor_agree(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        found = mount_of(os.path.realpath(tmp_path))
        assert found is not None
        assert mount_id_of(fd) == found.id
    finally:
        os.close(fd)


def test_a_watch_stays_calm_while_nothing_changes() -> None:
    watch = MountWatch()
    first = watch.changes()
    assert first is not None
    watch.close()
    assert watch.changes() is None
    watch.close()
