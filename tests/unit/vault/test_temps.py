"""Temp files: what a dead writer left is cleared away, what a living one holds is not."""

import os
from pathlib import Path

import pytest

from server.vault import folders, temps
from server.vault.guard import Guard
from server.vault.hands import ExpendableHands
from server.vault.paths import is_hidden


def made(folder: Path) -> tuple[str, int]:
    name = temps.new_name()
    return name, os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def test_names_are_hidden_and_known_again() -> None:
    name = temps.new_name()
    assert is_hidden(name)
    assert temps.is_temp(name)
    assert temps.new_name() != name
    for other in ("a.md", "x.vault-mcp.tmp", ".vault-mcp", ".x.tmp"):
        assert not temps.is_temp(other)


def test_a_listing_clears_away_what_a_dead_writer_left(guard: Guard, vault_folder: Path) -> None:
    (vault_folder / "sub").mkdir()
    for folder in (vault_folder, vault_folder / "sub"):
        (folder / "a.md").write_bytes(b"a")
        os.close(made(folder)[1])
    root = guard.pin().root
    assert {entry.path for entry in folders.list_folder(root, "")} == {"a.md", "sub"}
    assert {entry.path for entry in folders.list_folder(root, "sub")} == {"sub/a.md"}
    assert sorted(os.listdir(vault_folder)) == [".vault-mcp", "a.md", "sub"]
    assert os.listdir(vault_folder / "sub") == ["a.md"]


def test_a_listing_leaves_what_a_living_writer_holds(guard: Guard, vault_folder: Path) -> None:
    name, fd = made(vault_folder)
    temps.claim(fd)
    folders.list_folder(guard.pin().root, "")
    assert (vault_folder / name).exists()
    os.close(fd)
    folders.list_folder(guard.pin().root, "")
    assert not (vault_folder / name).exists()


def test_what_others_left_is_none_of_our_business(guard: Guard, vault_folder: Path) -> None:
    for name in (".x.tmp", ".obsidian.vault-mcp.tmp.md", ".a.md.swp"):
        (vault_folder / name).write_bytes(b"theirs")
    (vault_folder / ".folder.vault-mcp.tmp").mkdir()
    before = sorted(os.listdir(vault_folder))
    folders.list_folder(guard.pin().root, "")
    assert sorted(os.listdir(vault_folder)) == before


def test_a_writer_whose_temp_file_was_cleared_away_is_told(vault_folder: Path) -> None:
    name, fd = made(vault_folder)
    folder = os.open(vault_folder, os.O_RDONLY)
    temps.clear(folder, name)
    assert not (vault_folder / name).exists()
    with pytest.raises(FileNotFoundError):
        temps.claim(fd)
    os.close(fd)
    os.close(folder)


def test_on_a_mount_a_listing_clears_nothing_away(guard: Guard, vault_folder: Path) -> None:
    """There a lock says nothing about other machines; the journal knows what is left."""
    name, fd = made(vault_folder)
    os.close(fd)
    hands = ExpendableHands()
    try:
        root = hands.run(os.open, str(vault_folder), os.O_RDONLY)
        hands.run(folders._list_folder, root, str(vault_folder), "", False)
        assert (vault_folder / name).exists()
    finally:
        hands.abandon()
