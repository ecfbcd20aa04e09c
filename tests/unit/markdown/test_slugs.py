"""File names from what people call things, in any language."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from server.markdown.slugs import MOST_CHARS, one_line, slugify
from server.vault.paths import parse_note_path


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Vault Server", "vault-server"),
        ("note_upsert never overwrites!", "note-upsert-never-overwrites"),
        ("  C++ / Rust: FFI?  ", "c-rust-ffi"),
        ("Größe der Änderung", "größe-der-änderung"),
        ("Grüße".replace("ü", "u\u0308"), "grüße"),
        ("Новая тема", "новая-тема"),
        ("数据库 迁移", "数据库-迁移"),
        ("हिन्दी भाषा", "हिन्दी-भाषा"),
        ("ภาษาไทย", "ภาษาไทย"),
        ("ADR 7 — v2.0", "adr-7-v2-0"),
        ("soft\u00adhyphen", "softhyphen"),
    ],
)
def test_a_name_becomes_a_slug(name: str, slug: str) -> None:
    assert slugify(name) == slug


def test_a_long_name_ends_at_a_word() -> None:
    slug = slugify("word " * 40)
    assert slug == "-".join(["word"] * 12)
    assert len(slugify("x" * 500)) == MOST_CHARS


def test_names_without_letters_stay_apart() -> None:
    assert slugify("🚀") != slugify("🎉")
    assert slugify("🚀") == slugify("🚀")
    assert slugify("🚀").startswith("untitled-")


@given(st.text(max_size=150))
@example("a" * 59 + "e\u0301\u0302\u0303")
@example("𝔘" * 100)
@settings(max_examples=200)
def test_any_text_becomes_a_name_that_a_file_can_have(text: str) -> None:
    slug = slugify(text)
    assert 0 < len(slug) <= MOST_CHARS
    assert slug == unicodedata.normalize("NFC", slug)
    assert slug == slug.strip("-")
    assert "--" not in slug
    assert slugify(slug) == slug
    parse_note_path(f"adr/ADR-999999-{slug}.md", creating=True)


@given(st.text(max_size=100))
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1
    assert "".join(one_line(text).split()) == "".join(text.split())
