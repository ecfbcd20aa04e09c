"""Touches of the disk: found in any spelling, never outside, errors in the domain's words."""

import errno
import os
import unicodedata
from pathlib import Path

import pytest

from server import errors
from server.vault import files, folders


@pytest.fixture
def root(tmp_path: Path) -> files.Root:
    folder = tmp_path / "vault"
    folder.mkdir()
    (tmp_path / "secret.md").write_text("outside")
    return files.Root(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), str(folder))


def content(root: files.Root, path: str) -> bytes | None:
    with files.spot(root, path) as at:
        found = files.read(at, 1 << 20) if at.exists else None
    return found.data if found else None


def folder_of(root: files.Root) -> Path:
    return Path(root.path)


def test_a_name_stored_in_nfd_is_found_by_its_nfc_path(root: files.Root) -> None:
    disk = folder_of(root) / unicodedata.normalize("NFD", "Café")
    disk.mkdir()
    (disk / unicodedata.normalize("NFD", "Ünï.md")).write_text("found")
    assert content(root, "Café/Ünï.md") == b"found"


def test_case_is_forgiven_when_it_is_clear(root: files.Root) -> None:
    (folder_of(root) / "Devlog").mkdir()
    (folder_of(root) / "Devlog" / "API.md").write_text("found")
    assert content(root, "devlog/api.md") == b"found"


def test_two_names_that_differ_in_case_are_ambiguous_unless_spelled(root: files.Root) -> None:
    (folder_of(root) / "A.md").write_text("upper")
    (folder_of(root) / "a.md").write_text("lower")
    assert content(root, "a.md") == b"lower"
    (folder_of(root) / "B.md").write_text("1")
    (folder_of(root) / "b.MD").write_text("2")
    with pytest.raises(errors.Ambiguous) as caught:
        content(root, "b.md")
    assert caught.value.details["candidates"] == ["B.md", "b.MD"]


@pytest.mark.parametrize(
    "target", ["../secret.md", "/etc/hostname", "../../secret.md", "sub/../../secret.md"]
)
def test_links_that_leave_the_vault_are_refused(root: files.Root, target: str) -> None:
    (folder_of(root) / "sub").mkdir()
    (folder_of(root) / "link.md").symlink_to(target)
    with pytest.raises(errors.PathNotAllowed):
        content(root, "link.md")
    assert folders.list_folder(root, "") == [
        e for e in folders.list_folder(root, "") if e.path != "link.md"
    ]


def test_a_linked_folder_that_leaves_is_refused(root: files.Root, tmp_path: Path) -> None:
    (folder_of(root) / "out").symlink_to(tmp_path)
    with pytest.raises(errors.PathNotAllowed):
        content(root, "out/secret.md")


def test_links_that_stay_inside_work(root: files.Root) -> None:
    (folder_of(root) / "sub").mkdir()
    (folder_of(root) / "real.md").write_text("inside")
    (folder_of(root) / "sub" / "up.md").symlink_to("../real.md")
    (folder_of(root) / "absolute.md").symlink_to(folder_of(root) / "real.md")
    assert content(root, "sub/up.md") == b"inside"
    assert content(root, "absolute.md") == b"inside"
    assert "absolute.md" in [entry.path for entry in folders.list_folder(root, "")]


def test_a_loop_of_links_ends(root: files.Root) -> None:
    (folder_of(root) / "a.md").symlink_to("b.md")
    (folder_of(root) / "b.md").symlink_to("a.md")
    with pytest.raises(errors.PathNotAllowed):
        content(root, "a.md")


def test_a_link_into_a_hidden_folder_is_refused(root: files.Root) -> None:
    (folder_of(root) / ".obsidian").mkdir()
    (folder_of(root) / ".obsidian" / "a.md").write_text("hidden")
    (folder_of(root) / "a.md").symlink_to(".obsidian/a.md")
    with pytest.raises(errors.PathNotAllowed):
        content(root, "a.md")


def test_a_file_where_a_folder_is_meant(root: files.Root) -> None:
    (folder_of(root) / "a.md").write_text("x")
    with pytest.raises((errors.InvalidPath, errors.NotFound)):
        content(root, "a.md/b.md")


def test_a_missing_file_and_a_missing_folder(root: files.Root) -> None:
    assert content(root, "nothing.md") is None
    with pytest.raises(errors.NotFound):
        content(root, "no/thing.md")


def test_a_file_over_the_limit_is_too_large(root: files.Root) -> None:
    (folder_of(root) / "big.md").write_bytes(b"x" * 100)
    with files.spot(root, "big.md") as at, pytest.raises(errors.TooLarge):
        files.read(at, 99)


def test_pipes_and_folders_are_not_read(root: files.Root) -> None:
    os.mkfifo(folder_of(root) / "pipe.md")
    (folder_of(root) / "dir.md").mkdir()
    for name in ("pipe.md", "dir.md"):
        with files.spot(root, name) as at, pytest.raises(errors.InvalidPath):
            files.read(at, 99)
    assert [(e.path, e.kind) for e in folders.list_folder(root, "")] == [("dir.md", "folder")]


def test_hidden_and_undecodable_names_are_not_listed(root: files.Root) -> None:
    (folder_of(root) / ".hidden.md").write_text("x")
    with open(os.fsencode(root.path) + b"/bad\xff.md", "w") as file:
        file.write("x")
    (folder_of(root) / "good.md").write_text("x")
    assert [entry.path for entry in folders.list_folder(root, "")] == ["good.md"]


@pytest.mark.parametrize("code", sorted(errno.errorcode))
def test_every_errno_becomes_a_domain_error_without_a_path(code: int) -> None:
    error = files.translate(OSError(code, "boom", "/very/secret/host/path"))
    assert isinstance(error, errors.VaultError)
    assert "/" not in error.message
    assert error.hint


@pytest.mark.parametrize("code", [errno.ENOTCONN, errno.ECONNABORTED, errno.ESTALE])
def test_a_lost_mount_is_told_from_other_failures(code: int) -> None:
    assert isinstance(files.translate(OSError(code, "x")), files.VaultGone)


@pytest.mark.usefixtures("open_descriptors")
def test_no_descriptor_is_leaked(root: files.Root) -> None:
    (folder_of(root) / "a").mkdir()
    (folder_of(root) / "a" / "b.md").write_text("x")
    for _ in range(50):
        content(root, "a/b.md")
        content(root, "A/nothing.md")
        folders.list_folder(root, "a")
        with pytest.raises(errors.NotFound):
            content(root, "no/such/path.md")
