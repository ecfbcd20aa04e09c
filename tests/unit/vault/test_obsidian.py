"""Links into Obsidian: found by walking up, spelled so that Obsidian understands them."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from server.vault.mounts import MountPoint
from server.vault.obsidian import ObsidianLinks, find_obsidian


def mount(path: Path, source: str, fstype: str = "fuse.rclone") -> MountPoint:
    return MountPoint(1, "/", str(path), fstype, source)


@pytest.mark.parametrize(
    ("vault", "prefix", "path"),
    [
        ("Vault", "", "a.md"),
        ("My Vault", "claude", "devlog/a b.md"),
        ("A&B=C?#", "x/y", "50% + 1.md"),
        ("Café", "日本", "é/🎉.md"),
        ("V", "", "a&file=evil.md"),
        ("V", "", "-_.~!*'().md"),
    ],
)
def test_a_link_says_vault_and_file(vault: str, prefix: str, path: str) -> None:
    url = ObsidianLinks(vault, prefix).url(path)
    assert url is not None
    assert url.isascii()
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc) == ("obsidian", "open")
    assert parse_qs(parts.query, strict_parsing=True) == {
        "vault": [vault],
        "file": [f"{prefix}/{path}" if prefix else path],
    }
    assert "+" not in parts.query, "Obsidian takes a plus for itself, not for a space"


def test_no_vault_no_link() -> None:
    assert ObsidianLinks(reason="unknown").url("a.md") is None


def test_the_vault_itself_is_served(tmp_path: Path) -> None:
    (tmp_path / "My Vault" / ".obsidian").mkdir(parents=True)
    assert find_obsidian(str(tmp_path / "My Vault"), None) == ("My Vault", "")


def test_a_folder_deep_in_the_vault_is_served(tmp_path: Path) -> None:
    (tmp_path / "V" / ".obsidian").mkdir(parents=True)
    (tmp_path / "V" / "a" / "b c").mkdir(parents=True)
    assert find_obsidian(str(tmp_path / "V" / "a" / "b c"), None) == ("V", "a/b c")


def test_the_nearest_vault_counts(tmp_path: Path) -> None:
    (tmp_path / ".obsidian").mkdir()
    (tmp_path / "inner" / ".obsidian").mkdir(parents=True)
    assert find_obsidian(str(tmp_path / "inner"), None) == ("inner", "")


def test_no_vault_above(tmp_path: Path) -> None:
    (tmp_path / ".obsidian").write_text("a file is no settings folder")
    assert find_obsidian(str(tmp_path), None) is None
    assert find_obsidian("/", None) is None


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("gdrive:Notes/My Vault", "My Vault"),
        ("gdrive:Vault", "Vault"),
        ("gdrive{x1}:Vault", "Vault"),
        ("gdrive:", "mnt"),
        ("/srv/notes", "notes"),
    ],
)
def test_a_vault_that_is_a_whole_remote_is_called_as_there(
    tmp_path: Path, source: str, name: str
) -> None:
    (tmp_path / "mnt" / ".obsidian").mkdir(parents=True)
    found = find_obsidian(str(tmp_path / "mnt"), mount(tmp_path / "mnt", source))
    if source != "gdrive:":
        assert found == (name, "")
    else:
        assert found is not None
        assert found[1] == ""


def test_a_vault_inside_a_mount_or_on_another_kind_of_mount_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "mnt" / "V" / ".obsidian").mkdir(parents=True)
    (tmp_path / "mnt" / ".obsidian").mkdir()
    rclone = mount(tmp_path / "mnt", "gdrive:Remote")
    assert find_obsidian(str(tmp_path / "mnt" / "V"), rclone) == ("V", "")
    ext4 = mount(tmp_path / "mnt", "/dev/sda1", "ext4")
    assert find_obsidian(str(tmp_path / "mnt"), ext4) == ("mnt", "")
