"""Putting a content in place: all of it or nothing, never over somebody else's work."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.errors import Timeout, Unavailable, VaultError
from server.models import Content
from server.vault import files, writers
from server.vault.drive import DriveWriter
from server.vault.guard import Guard
from server.vault.locks import folder_lock
from server.vault.mounts import MountPoint
from server.vault.replacement import BaseChanged, Replacement
from server.vault.writers import LocalWriter, MountWriter, stage
from server.workers import Deadline

TEMP = ".x.vault-mcp.tmp"


@contextmanager
def replacement(
    guard: Guard, data: bytes, base: bytes | None, path: str = "a.md"
) -> Iterator[Replacement]:
    pin = guard.pin()
    with files.spot(pin.root, path) as at:
        was = Content(base, files.stat_of(os.stat(guard._path))) if base is not None else None
        yield Replacement(pin, at, was, data, TEMP)


@pytest.fixture(params=[LocalWriter, MountWriter])
def writer(request: pytest.FixtureRequest) -> Any:
    return request.param()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name != ".vault-mcp")


def commit(guard: Guard, writer: Any, data: bytes, base: bytes | None, path: str = "a.md") -> Any:
    with replacement(guard, data, base, path) as what:
        return writer.commit(what, Deadline.after(30))


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 3_000_000])
def test_a_new_file_and_its_replacement(
    guard: Guard, vault_folder: Path, writer: Any, data: bytes
) -> None:
    stat = commit(guard, writer, data, None)
    file = vault_folder / "a.md"
    assert file.read_bytes() == data
    assert (stat.size, stat.mtime_ns) == (len(data), file.stat().st_mtime_ns)
    commit(guard, writer, b"next", data)
    assert file.read_bytes() == b"next"
    assert names(vault_folder) == ["a.md"]
    assert file.stat().st_nlink == 1


@pytest.mark.parametrize(
    ("there", "base"),
    [(b"theirs", b"base"), (b"bas", b"base"), (b"base and more", b"base"), (b"BASE", b"base"),
     (None, b"base"), (b"theirs", None), (b"", None)],
)  # fmt: skip
def test_a_base_that_changed_is_kept(
    guard: Guard, vault_folder: Path, writer: Any, there: bytes | None, base: bytes | None
) -> None:
    if there is not None:
        (vault_folder / "a.md").write_bytes(there)
    with pytest.raises(BaseChanged):
        commit(guard, writer, b"ours", base)
    assert names(vault_folder) == (["a.md"] if there is not None else [])
    if there is not None:
        assert (vault_folder / "a.md").read_bytes() == there


@pytest.mark.parametrize(("touched", "opened"), [(False, False), (True, True)])
def test_on_a_mount_a_base_that_looks_the_same_is_not_opened(
    guard: Guard, vault_folder: Path, monkeypatch: pytest.MonkeyPatch, touched: bool, opened: bool
) -> None:
    """rclone would hear of the close amid the rename."""
    note, names, real = vault_folder / "a.md", list[object](), os.open
    note.write_bytes(b"base")
    with replacement(guard, b"ours", b"base") as what:
        seen = replace(what, base=Content(b"base", files.stat_of(note.stat())))
        if touched:
            os.utime(note, (1e9, 1e9))

        def named(path: Any, *rest: Any, **more: Any) -> int:
            names.append(path)
            return real(path, *rest, **more)

        monkeypatch.setattr(os, "open", named)
        MountWriter().commit(seen, Deadline.after(30))
    assert note.read_bytes() == b"ours"
    assert ("a.md" in names) is opened


@pytest.mark.parametrize("base", [None, b"base"])
def test_on_a_mount_every_close_has_time_to_come_before_a_note_is_replaced(
    guard: Guard, vault_folder: Path, monkeypatch: pytest.MonkeyPatch, base: bytes | None
) -> None:
    """Closed after the rename, it would be queued beside an earlier write: two files on Drive."""
    note, calls = vault_folder / "a.md", list[str]()
    if base is not None:
        note.write_bytes(base)

    def tell(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def told(first: Any, *rest: Any, **more: Any) -> Any:
            known = isinstance(first, str) and not os.path.lexists(vault_folder / first)
            calls.append("ask" if name == "lstat" and known else name)
            return real(first, *rest, **more)

        return told

    with replacement(guard, b"ours", base) as what:
        for name in ("write", "lstat", "replace"):
            monkeypatch.setattr(os, name, tell(name, getattr(os, name)))
        MountWriter().commit(what, Deadline.after(30))
    assert note.read_bytes() == b"ours"
    between = calls[calls.index("write") + 1 : calls.index("replace")]
    # One look is for the target itself.
    assert between.count("ask") == (1 if base is None else 5)


def test_a_stranger_who_creates_the_file_between_check_and_link_wins(
    guard: Guard, vault_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Obsidian knows no locks: only a link that refuses to clobber is safe against it."""
    checked = writers.check_base

    def check_then_lose(what: Replacement) -> None:
        checked(what)
        (vault_folder / "a.md").write_bytes(b"theirs")

    monkeypatch.setattr(writers, "check_base", check_then_lose)
    with pytest.raises(BaseChanged):
        commit(guard, LocalWriter(), b"ours", None)
    assert (vault_folder / "a.md").read_bytes() == b"theirs"
    assert names(vault_folder) == ["a.md"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK])
def test_a_file_system_without_hard_links(
    guard: Guard, vault_folder: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    commit(guard, LocalWriter(), b"ours", None)
    assert (vault_folder / "a.md").read_bytes() == b"ours"
    assert names(vault_folder) == ["a.md"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640, 0o664])
def test_the_permissions_stay(guard: Guard, vault_folder: Path, mode: int) -> None:
    file = vault_folder / "a.md"
    file.write_bytes(b"base")
    file.chmod(mode)
    commit(guard, LocalWriter(), b"ours", b"base")
    assert file.stat().st_mode & 0o7777 == mode


def test_a_new_file_has_the_permissions_of_the_process(guard: Guard, vault_folder: Path) -> None:
    before = os.umask(0o027)
    try:
        commit(guard, LocalWriter(), b"ours", None)
    finally:
        os.umask(before)
    assert (vault_folder / "a.md").stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "link"])
def test_a_disk_that_fails_leaves_the_old_content_alone(
    guard: Guard, vault_folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    base = None if call == "link" else b"base"
    if base is not None:
        (vault_folder / "a.md").write_bytes(base)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as broken, pytest.raises(Unavailable, match="no space"):
        broken.setattr(os, call, fail)
        commit(guard, LocalWriter(), b"ours", base)
    assert names(vault_folder) == (["a.md"] if base is not None else [])
    if base is not None:
        assert (vault_folder / "a.md").read_bytes() == base


@pytest.mark.parametrize(("base", "put"), [(None, "link"), (b"base", "replace")])
def test_a_content_is_on_disk_before_it_is_seen_and_the_folder_after(
    guard: Guard,
    vault_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    base: bytes | None,
    put: str,
) -> None:
    if base is not None:
        (vault_folder / "a.md").write_bytes(base)
    done: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **more: Any) -> Any:
            done.append(name)
            return real(*args, **more)

        return call

    for name in ("fsync", "link", "replace"):
        monkeypatch.setattr(os, name, noted(name))
    commit(guard, LocalWriter(), b"ours", base)
    assert done == ["fsync", put, "fsync"]


def test_short_writes_are_continued(
    guard: Guard, vault_folder: Path, monkeypatch: pytest.MonkeyPatch, writer: Any
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:3])))
    commit(guard, writer, b"0123456789", None)
    assert (vault_folder / "a.md").read_bytes() == b"0123456789"


def test_a_temp_file_that_is_too_short_is_noticed(
    guard: Guard, vault_folder: Path, monkeypatch: pytest.MonkeyPatch, writer: Any
) -> None:
    monkeypatch.setattr(os, "write", lambda _fd, data: len(data))
    with pytest.raises(Unavailable, match="no space"):
        commit(guard, writer, b"lost", None)
    assert names(vault_folder) == []


def test_a_deadline_that_passes_before_the_turn_writes_nothing(
    guard: Guard, vault_folder: Path, writer: Any
) -> None:
    (vault_folder / "a.md").write_bytes(b"base")
    with (
        replacement(guard, b"ours", b"base") as what,
        folder_lock(what.at.folder, Deadline.after(1)),
        pytest.raises(Timeout),
    ):
        writer.commit(what, Deadline.after(0.01))
    gone = Deadline.after(30)
    gone.cancelled = True
    with replacement(guard, b"ours", b"base") as what, pytest.raises(Timeout):
        writer.commit(what, gone)
    assert (vault_folder / "a.md").read_bytes() == b"base"
    assert names(vault_folder) == ["a.md"]


def test_a_note_that_became_a_folder_is_refused(
    guard: Guard, vault_folder: Path, writer: Any
) -> None:
    with replacement(guard, b"ours", None) as what:
        (vault_folder / "a.md").mkdir()
        with pytest.raises((VaultError, BaseChanged)):
            writer.commit(what, Deadline.after(30))
    assert (vault_folder / "a.md").is_dir()
    assert names(vault_folder) == ["a.md"]


def test_a_note_that_became_a_link_is_never_written_through(
    guard: Guard, vault_folder: Path, tmp_path: Path, writer: Any
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_bytes(b"base")
    with replacement(guard, b"ours", b"base") as what:
        (vault_folder / "a.md").symlink_to(outside)
        with pytest.raises((VaultError, BaseChanged)):
            writer.commit(what, Deadline.after(30))
    assert outside.read_bytes() == b"base"
    assert (vault_folder / "a.md").is_symlink()


def test_a_temp_name_that_is_taken_is_not_followed(
    guard: Guard, vault_folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    (vault_folder / TEMP).symlink_to(outside)
    with replacement(guard, b"ours", None) as what, pytest.raises(FileExistsError):
        stage(what)
    assert outside.read_bytes() == b"theirs"


@pytest.mark.usefixtures("open_descriptors")
def test_no_descriptor_is_left_open(guard: Guard, vault_folder: Path, writer: Any) -> None:
    (vault_folder / "a.md").write_bytes(b"theirs")
    for _ in range(20):
        with pytest.raises(BaseChanged):
            commit(guard, writer, b"ours", b"base")
        commit(guard, writer, b"theirs", b"theirs")


def test_what_each_writer_promises() -> None:
    local, mount = LocalWriter(), MountWriter()
    assert (local.name, local.on_remote) == ("local", True)
    assert (mount.name, mount.on_remote) == ("mount", False)
    assert DriveWriter.on_remote


@pytest.mark.parametrize(
    ("kind", "needed"), [("ext4", False), ("nfs4", True), ("fuse.sshfs", True)]
)
def test_only_a_disk_of_this_machine_needs_no_journal(
    guard: Guard, kind: str, needed: bool
) -> None:
    pin = replace(guard.pin(), mount=MountPoint(1, "/vault", "/", kind, "somewhere"))
    assert LocalWriter().needs_journal(pin) is needed
    assert MountWriter().needs_journal(pin)


@pytest.mark.parametrize("kind", [LocalWriter, MountWriter])
def test_nothing_is_in_place_before_what_it_replaces_is_kept(
    guard: Guard, vault_folder: Path, kind: Callable[[], Any]
) -> None:
    (vault_folder / "a.md").write_bytes(b"base")
    seen: list[bytes] = []

    def fail(_beside: Callable[[], None]) -> None:
        seen.append((vault_folder / "a.md").read_bytes())
        raise Unavailable("The history can't be written.")

    with replacement(guard, b"ours", b"base") as what, pytest.raises(Unavailable):
        kind().commit(replace(what, ready=fail), Deadline.after(30))
    assert seen == [b"base"]
    assert (vault_folder / "a.md").read_bytes() == b"base"
    assert names(vault_folder) == ["a.md"]


def test_nobody_can_tell_a_plain_folder_to_look_again(guard: Guard, writer: Any) -> None:
    refresh: Callable[..., bool] = writer.refresh
    assert refresh(guard.pin(), "a.md") is False
