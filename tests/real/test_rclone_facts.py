"""What the vault's design stands on, asked of a real rclone.

A test that fails here after an update of rclone says which assumption has to be thought over;
it says nothing about our own code.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from server.vault.rc import Rc, RcError
from tests.drive.fixtures import DriveMounter, LocalMounter
from tests.drive.lab import FakeDrive, Mount, whole
from tests.drive.processes import wait_for

BASE = b"what was there before\n"
OURS = b"what we wrote, and it is longer than what was there before\n"


@dataclass(frozen=True, slots=True)
class Vault:
    """A mount whose folder `claude` is the vault, and the backend behind it."""

    mount: Mount
    root: Path
    get: Callable[[str], bytes | None]
    """The backend's content of a note."""

    def rc(self) -> tuple[Rc, str]:
        rc = Rc(self.mount.address)
        return rc, rc.vfs_list()[0]

    def is_dirty(self, name: str) -> bool:
        """Whether rclone's cache holds the note as not uploaded yet."""
        (meta,) = (self.mount.cache / "vfsMeta").glob(f"**/claude/{name}")
        # rclone rewrites the file in place: it may be empty for a moment.
        return '"Dirty": false' not in meta.read_text()

    def replace(self, name: str, content: bytes) -> None:
        (self.root / f".tmp-{name}").write_bytes(content)
        os.replace(self.root / f".tmp-{name}", self.root / name)


@pytest.fixture
def drive_vault(drive: FakeDrive, drive_mount: DriveMounter) -> Callable[..., Vault]:
    def make(*flags: str, rc: bool = True) -> Vault:
        drive.put("vault/claude/a.md", BASE, mtime="2025-01-02T03:04:05.678Z")
        mount = drive_mount(rc=rc, flags=flags)
        return Vault(mount, mount.root / "claude", lambda name: drive.get(f"vault/claude/{name}"))

    return make


@pytest.fixture
def local_vault(tmp_path: Path, local_mount: LocalMounter) -> Callable[..., Vault]:
    folder = tmp_path / "folder"

    def get(name: str) -> bytes | None:
        path = folder / "claude" / name
        return path.read_bytes() if path.exists() else None

    def make(*flags: str, rc: bool = True) -> Vault:
        (folder / "claude").mkdir(parents=True)
        (folder / "claude" / "a.md").write_bytes(BASE)
        mount = local_mount(folder, rc=rc, flags=flags)
        return Vault(mount, mount.root / "claude", get)

    return make


@pytest.fixture(params=["drive", "local"])
def make_vault(request: pytest.FixtureRequest) -> Callable[..., Vault]:
    maker: Callable[..., Vault] = request.getfixturevalue(f"{request.param}_vault")
    return maker


def stage(tmp_path: Path, content: bytes) -> tuple[str, str]:
    folder = tmp_path / "stage"
    folder.mkdir(exist_ok=True)
    (folder / "s1").write_bytes(content)
    return str(folder), "s1"


def code_of(call: Callable[[], object]) -> int:
    """The errno that a call fails with, 0 when it does not fail."""
    try:
        call()
    except OSError as error:
        return error.errno or -1
    return 0


# --- names ---------------------------------------------------------------------------------------


def test_the_mount_table_and_rc_name_the_same_remote(make_vault: Callable[..., Vault]) -> None:
    vault = make_vault()
    rc, fs = vault.rc()
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    (line,) = [line for line in lines if line.split()[4] == str(vault.mount.root)]
    fstype, source = line.split(" - ")[1].split()[:2]
    assert (fstype, re.sub(r"\{\w+\}", "", source)) == ("fuse.rclone", fs)
    found = rc.stat(fs, "claude/a.md")
    assert found is not None
    assert found.md5 == hashlib.md5(BASE).hexdigest()
    assert rc.stat(fs, "claude") is None, "a folder is not a file"
    assert rc.has_folder(fs, "claude")


# --- writing through rc --------------------------------------------------------------------------


def test_rc_creates_with_parents_and_a_known_ancestor_shows_them(
    make_vault: Callable[..., Vault], tmp_path: Path
) -> None:
    vault = make_vault()
    rc, fs = vault.rc()
    assert os.listdir(vault.root) == ["a.md"]
    rc.copy_file(*stage(tmp_path, OURS), fs, "claude/x/y/new.md")
    assert vault.get("x/y/new.md") == OURS
    assert rc.refresh(fs, "claude/x/y") is False, "the mount does not know the folder yet"
    assert rc.refresh(fs, "claude") is True
    assert wait_for(lambda: whole(vault.root / "x" / "y" / "new.md")) == OURS


def test_rc_replaces_in_place_on_drive(drive_vault: Callable[..., Vault], tmp_path: Path) -> None:
    vault = drive_vault()
    rc, fs = vault.rc()
    before = rc.stat(fs, "claude/a.md")
    rc.copy_file(*stage(tmp_path, OURS), fs, "claude/a.md")
    after = rc.stat(fs, "claude/a.md")
    assert before is not None
    assert after is not None
    assert after.id == before.id
    assert after.md5 == hashlib.md5(OURS).hexdigest()
    rc.refresh(fs, "claude")
    assert (vault.root / "a.md").stat().st_mtime_ns == after.mtime_ns


def test_a_refused_upload_leaves_the_note_alone(
    drive: FakeDrive, drive_vault: Callable[..., Vault], tmp_path: Path
) -> None:
    vault = drive_vault()
    rc, fs = vault.rc()
    drive.admin("/fault", kind="upload", do="err", code=403, reason="storageQuotaExceeded")
    with pytest.raises(RcError) as caught:
        rc.copy_file(*stage(tmp_path, OURS), fs, "claude/a.md")
    assert "storageQuotaExceeded" in caught.value.reason
    assert vault.get("a.md") == BASE


def test_a_note_as_parent_becomes_a_folder_of_the_same_name_on_drive(
    drive: FakeDrive, drive_vault: Callable[..., Vault], tmp_path: Path
) -> None:
    vault = drive_vault()
    rc, fs = vault.rc()
    rc.copy_file(*stage(tmp_path, OURS), fs, "claude/a.md/b.md")
    assert drive.names("vault/claude").count("a.md") == 2


def test_a_trashed_folder_is_written_to_until_rclone_forgets_it(
    drive: FakeDrive, drive_vault: Callable[..., Vault], tmp_path: Path
) -> None:
    drive.put("vault/claude/sub/n.md", BASE)
    vault = drive_vault()
    rc, fs = vault.rc()
    assert rc.stat(fs, "claude/sub/n.md") is not None
    drive.admin("/trash", path="vault/claude/sub")
    assert not rc.has_folder(fs, "claude/sub")
    rc.copy_file(*stage(tmp_path, OURS), fs, "claude/sub/new.md")
    assert rc.stat(fs, "claude/sub/new.md") is None
    rc.call("fscache/clear")
    rc.copy_file(*stage(tmp_path, OURS), fs, "claude/sub/new.md")
    assert vault.get("sub/new.md") == OURS


def test_pending_uploads_are_queued_and_can_be_hurried(make_vault: Callable[..., Vault]) -> None:
    vault = make_vault("--vfs-write-back=60s")
    rc, fs = vault.rc()
    vault.replace("a.md", OURS)
    (waiting,) = wait_for(lambda: rc.queue(fs))
    assert (waiting.name, waiting.uploading) == ("claude/a.md", False)
    assert vault.get("a.md") == BASE
    rc.set_expiry(fs, waiting.id)
    wait_for(lambda: not rc.queue(fs))
    assert vault.get("a.md") == OURS
    assert rc.delete_file(fs, "claude/a.md") is True
    assert rc.delete_file(fs, "claude/a.md") is False


# --- reading -------------------------------------------------------------------------------------


def test_a_read_is_cut_at_the_size_the_kernel_remembers(
    make_vault: Callable[..., Vault], tmp_path: Path
) -> None:
    vault = make_vault("--attr-timeout=60s", "--poll-interval=0", "--vfs-refresh=false")
    rc, fs = vault.rc()
    assert (vault.root / "a.md").stat().st_size == len(BASE)
    rc.copy_file(*stage(tmp_path, OURS), fs, "claude/a.md")
    rc.refresh(fs, "claude")
    fd = os.open(vault.root / "a.md", os.O_RDONLY)
    try:
        assert os.pread(fd, 1000, 0) == OURS[: len(BASE)], "no error, and not the note"
        assert os.fstat(fd).st_size == len(OURS), "only a stat after the read tells"
        assert os.pread(fd, 1000, 0) == OURS
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("content", "fails_at"), [(OURS, "read"), (BASE[:5], "read"), (BASE.upper(), "close")]
)
def test_a_note_changed_behind_the_mount_is_an_error_to_its_readers_on_drive(
    drive_vault: Callable[..., Vault], tmp_path: Path, content: bytes, fails_at: str
) -> None:
    # Without the listing in the background that might see the change in time.
    vault = drive_vault("--poll-interval=0", "--vfs-refresh=false")
    rc, fs = vault.rc()
    assert (vault.root / "a.md").read_bytes() == BASE
    rc.copy_file(*stage(tmp_path, content), fs, "claude/a.md")
    fd = os.open(vault.root / "a.md", os.O_RDONLY)
    codes = {"read": code_of(lambda: os.read(fd, 1000)), "close": code_of(lambda: os.close(fd))}
    assert codes == {"read": 0, "close": 0} | {fails_at: errno.EIO}


def test_no_error_and_the_size_of_a_later_stat_mean_a_whole_note(
    make_vault: Callable[..., Vault], tmp_path: Path
) -> None:
    # A local remote does not always report the change, but a cut note never passes both checks.
    vault = make_vault("--poll-interval=0", "--vfs-refresh=false")
    rc, fs = vault.rc()
    content = BASE
    for round_number in range(20):
        assert whole(vault.root / "a.md") in (None, content)
        content = OURS * (round_number + 2)
        rc.copy_file(*stage(tmp_path, content), fs, "claude/a.md")
        assert whole(vault.root / "a.md") in (None, content)
        rc.refresh(fs, "claude")
    assert wait_for(lambda: whole(vault.root / "a.md")) == content


# --- writing through the mount, and a crash ------------------------------------------------------


def test_a_crash_before_the_upload_loses_nothing_that_nobody_read(
    make_vault: Callable[..., Vault],
) -> None:
    # Long enough for a slow machine to come to the kill before the upload.
    vault = make_vault("--vfs-write-back=4s")
    rc, fs = vault.rc()
    (vault.root / ".tmp-left").write_bytes(OURS)
    wait_for(lambda: rc.queue(fs), what="rclone has seen the end of the write")
    vault.replace("new.md", OURS)
    vault.replace("a.md", OURS)
    vault.mount.kill9()
    assert vault.get("a.md") == BASE
    vault.mount.start()
    wait_for(lambda: whole(vault.root / "a.md") == OURS)
    wait_for(lambda: vault.get("a.md") == OURS and vault.get("new.md") == OURS)
    wait_for(lambda: vault.get(".tmp-left") == OURS, what="the leftover becomes a file too")


def test_a_reader_across_the_replace_loses_the_note_and_a_rewrite_brings_it_back(
    make_vault: Callable[..., Vault],
) -> None:
    vault = make_vault(rc=False)
    vault.replace("a.md", BASE + b"2")
    wait_for(lambda: vault.get("a.md") == BASE + b"2")
    wait_for(lambda: not vault.is_dirty("a.md"))
    reader = os.open(vault.root / "a.md", os.O_RDONLY)
    os.read(reader, 1000)
    vault.replace("a.md", OURS)
    assert vault.is_dirty("a.md")
    os.close(reader)
    wait_for(lambda: not vault.is_dirty("a.md"), what="the old item's close marks the new clean")
    vault.mount.kill9()
    vault.mount.start()
    vault.replace("later", OURS)
    wait_for(lambda: vault.get("later") == OURS, what="an upload later than ours would be")
    assert vault.get("a.md") == BASE + b"2", "rclone took the new content for uploaded"
    assert (vault.root / "a.md").read_bytes() == OURS[: len(BASE) + 1], "neither ours nor theirs"

    vault.replace("a.md", OURS)
    wait_for(lambda: vault.get("a.md") == OURS)
    wait_for(lambda: whole(vault.root / "a.md") == OURS)


@pytest.mark.parametrize("held", ["the new content", "the old content", "nothing"])
def test_what_is_closed_after_a_replace_makes_two_files_of_a_new_note_on_drive(
    drive: FakeDrive, drive_vault: Callable[..., Vault], held: str
) -> None:
    """rclone queues what is closed: the upload that the rename took out of its queue comes back, or stays."""
    vault = drive_vault("--vfs-write-back=4s", rc=False)
    # The one upload goes on when the other begins.
    drive.admin("/latency", upload=1500)
    vault.replace("new.md", BASE)
    temp, note = vault.root / ".tmp", vault.root / "new.md"
    writer = os.open(temp, os.O_WRONLY | os.O_CREAT)
    os.write(writer, OURS)
    reader = os.open(note, os.O_RDONLY)
    os.read(reader, 1000)
    late = {"the new content": writer, "the old content": reader}.get(held)
    for one in {writer, reader} - {late}:
        os.close(one)
    # The kernel tells rclone of a close without waiting.
    time.sleep(0.5)
    os.replace(temp, note)
    if late is not None:
        os.close(late)
    wait_for(lambda: vault.get("new.md") == OURS)
    vault.replace("later", OURS)
    wait_for(lambda: vault.get("later") == OURS, what="an upload later than both would be")
    names = [name for name, _ in drive.files("vault/claude")]
    assert names.count("new.md") == (1 if held == "nothing" else 2)


# --- a mount that is gone, or hangs --------------------------------------------------------------


def test_a_pinned_folder_dies_with_its_rclone(make_vault: Callable[..., Vault]) -> None:
    vault = make_vault(rc=False)
    pinned = os.open(vault.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        vault.mount.kill9()
        vault.mount.start()
        calls: list[Callable[[], object]] = [
            lambda: os.fstatvfs(pinned),
            lambda: os.stat("a.md", dir_fd=pinned),
            lambda: os.listdir(pinned),
            lambda: os.open("shadow.md", os.O_WRONLY | os.O_CREAT, dir_fd=pinned),
        ]
        assert [code_of(call) for call in calls] == [errno.ENOTCONN] * 4
        assert (vault.root / "a.md").read_bytes() == BASE
    finally:
        os.close(pinned)


def test_a_detached_mount_lives_on_in_a_pinned_folder(make_vault: Callable[..., Vault]) -> None:
    vault = make_vault(rc=False)
    pinned = os.open(vault.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        vault.mount.detach()
        assert os.listdir(pinned) == ["a.md"]
        assert os.listdir(vault.mount.root) == []
    finally:
        os.close(pinned)


def test_what_still_answers_while_rclone_hangs(local_vault: Callable[..., Vault]) -> None:
    vault = local_vault("--attr-timeout=0s", rc=False)
    held = os.open(vault.root / "a.md", os.O_RDONLY)
    hanging: list[Callable[[], object]] = [
        lambda: os.statvfs(vault.root),
        lambda: os.stat(vault.root / "a.md"),
        lambda: os.listdir(vault.root),
        # The child closes the inherited file on exec, which asks rclone; the parent waits for that.
        lambda: subprocess.run(["true"], check=True),
    ]
    threads = [threading.Thread(target=code_of, args=(call,), daemon=True) for call in hanging]
    vault.mount.pause()
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(0.3)
        assert all(thread.is_alive() for thread in threads)
        os.close(os.open(vault.mount.root, os.O_PATH))
    finally:
        vault.mount.resume()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    os.close(held)


# --- system calls --------------------------------------------------------------------------------


def test_flock_on_the_root_excludes_another_process(make_vault: Callable[..., Vault]) -> None:
    vault = make_vault("--dir-cache-time=1ms", "--poll-interval=0", rc=False)
    attempt = (
        "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDONLY);"
        "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    )

    def taken() -> bool:
        command = [sys.executable, "-c", attempt, str(vault.root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or "BlockingIOError" in done.stderr, done.stderr
        return done.returncode != 0

    fd = os.open(vault.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        assert taken()
        os.listdir(vault.root)
        assert taken()
        fcntl.flock(fd, fcntl.LOCK_UN)
        assert not taken()
    finally:
        os.close(fd)


def test_which_calls_a_mount_has(make_vault: Callable[..., Vault]) -> None:
    vault = make_vault(rc=False)
    root = vault.root
    libc = ctypes.CDLL(None, use_errno=True)

    def noreplace() -> None:
        if libc.renameat2(-100, bytes(root / "a.md"), -100, bytes(root / "b.md"), 1):
            raise OSError(ctypes.get_errno(), "renameat2")

    assert code_of(lambda: os.link(root / "a.md", root / "b.md")) == errno.EPERM
    assert code_of(noreplace) == errno.EINVAL
    exclusive = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    assert code_of(lambda: os.open(root / "a.md", exclusive)) == errno.EEXIST

    pinned = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        os.close(os.open("t.md", exclusive | os.O_NOFOLLOW, dir_fd=pinned))
        os.replace("t.md", "u.md", src_dir_fd=pinned, dst_dir_fd=pinned)
        os.mkdir("sub", dir_fd=pinned)
        assert os.stat("u.md", dir_fd=pinned).st_size == 0
    finally:
        os.close(pinned)


def test_renaming_a_folder_onto_another_merges_them(make_vault: Callable[..., Vault]) -> None:
    vault = make_vault(rc=False)
    for folder in ("one", "two"):
        (vault.root / folder).mkdir()
        (vault.root / folder / f"{folder}.md").write_bytes(OURS)
        wait_for(lambda folder=folder: vault.get(f"{folder}/{folder}.md"))  # type: ignore[misc]
    os.rename(vault.root / "one", vault.root / "two")
    assert sorted(os.listdir(vault.root / "two")) == ["one.md", "two.md"]
