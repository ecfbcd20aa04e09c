"""The one path validator: what gets through is safe, whatever was sent."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from server.errors import InvalidPath, PathNotAllowed, VaultError
from server.models import path_key
from server.vault.paths import (
    MAX_NAME_BYTES,
    UNLINKABLE,
    parse_folder,
    parse_note_path,
    parse_path,
)


@pytest.mark.parametrize(
    "raw",
    [
        "", "/", "/etc/passwd", "../a.md", "a/../b.md", "a/..", "./a.md", "a/./b.md", "a//b.md", "a/",
        "a\\b.md", "..\\a.md", "C:/a.md", "c:a.md", "~/a.md", "~root/a.md", "a\0.md", "a\n.md", "a\x7f.md",
        "a\u2028.md", "\ud800.md", "x" * 241 + ".md", "/".join(["d" * 100] * 11) + ".md",
    ],
)  # fmt: skip
def test_malformed_paths_are_invalid(raw: str) -> None:
    with pytest.raises(InvalidPath) as caught:
        parse_path(raw)
    assert caught.value.hint


@pytest.mark.parametrize(
    "raw",
    [
        ".obsidian/app.json",
        ".git/config",
        ".trash/a.md",
        "a/.hidden.md",
        "..a",
        "...",
        ".vault-mcp",
    ],
)
def test_dot_names_are_not_allowed(raw: str) -> None:
    with pytest.raises(PathNotAllowed):
        parse_path(raw)


@pytest.mark.parametrize("char", list(UNLINKABLE))
def test_unlinkable_characters_are_refused_on_create_only(char: str) -> None:
    name = f"a{char}b.md"
    with pytest.raises(InvalidPath):
        parse_path(name, creating=True)
    if char not in "\\:":
        assert parse_path(name) == name


@pytest.mark.parametrize("name", [" a.md", "a .md ", "dir /a.md", "a.", "a.md."])
def test_names_that_other_systems_trim_are_refused_on_create(name: str) -> None:
    with pytest.raises(InvalidPath):
        parse_path(name, creating=True)


def test_paths_become_nfc() -> None:
    decomposed = unicodedata.normalize("NFD", "Café/Ünï.md")
    assert parse_path(decomposed) == "Café/Ünï.md"


def test_a_note_must_end_in_md() -> None:
    with pytest.raises(InvalidPath, match="not a note") as caught:
        parse_note_path("devlog/a")
    assert "devlog/a.md" in caught.value.hint
    assert parse_note_path("A.MD") == "A.MD"


def test_the_root_folder_has_several_spellings() -> None:
    assert parse_folder(None) == parse_folder("") == parse_folder("/") == ""
    assert parse_folder("a/b/") == "a/b"


@given(st.text(alphabet=st.characters(codec=None)) | st.text("./\\~:aA\0 é\u0301|"))
@example("a" * MAX_NAME_BYTES)
def test_what_passes_is_safe(raw: str) -> None:
    try:
        path = parse_path(raw, creating=True)
    except VaultError:
        return
    parts = path.split("/")
    assert not path.startswith("/")
    assert all(part and not part.startswith(".") for part in parts)
    assert "\\" not in path
    assert "\0" not in path
    assert unicodedata.is_normalized("NFC", path)
    assert parse_path(path, creating=True) == path


@given(st.text(st.characters(codec="utf-8")))
def test_the_key_of_a_path_ignores_form_and_case(text: str) -> None:
    assert path_key(unicodedata.normalize("NFD", text)) == path_key(
        unicodedata.normalize("NFC", text)
    )
    assert path_key(path_key(text)) == path_key(text)
