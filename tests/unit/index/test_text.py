import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.index.store import Index
from server.index.text import phrase, shadow

from .build import doc


def test_plain_text_is_its_own_shadow() -> None:
    assert shadow("Plain words, (c) 2026") == "Plain words, (c) 2026"
    assert shadow("naïve Ünïcode") == "naïve Ünïcode"


def test_a_run_becomes_overlapping_pairs_and_its_last_character() -> None:
    assert shadow("東京都").split() == ["東京", "京都", "都"]
    assert shadow("x東y").split() == ["x", "東", "y"]


@pytest.mark.parametrize(
    ("text", "asked", "found"),
    [
        ("私は東京都に住む", "東京", True),
        ("私は東京都に住む", "京都に", True),
        ("私は東京都に住む", "む", True),
        ("私は東京都に住む", "京東", False),
        ("東京 tower", "東京 tower", True),
        ("大東京 Tower", "京 tower", True),
        ("Python東京都", "python東京", True),
        ("東京\n都会", "東京都", False),
        ("한국어를 배운다", "한국어", True),
        ("naïve café", "NAIVE cafe", True),
        ('say "hello"', '"hello"', True),
        ("Ｔokyo カタカナ", unicodedata.normalize("NFD", "ガ"), False),
        ("ガラス", unicodedata.normalize("NFD", "ガラス"), True),
    ],
)
def test_a_phrase_finds_what_is_written(index: Index, text: str, asked: str, found: bool) -> None:
    index.put([doc("a.md", text)])
    assert index.fts_count(phrase(asked)) == int(found)


_CJK = "東京都市한국カナ"


@given(
    runs=st.lists(st.text(_CJK + "ab ", min_size=1, max_size=12), min_size=1, max_size=6),
    data=st.data(),
)
def test_every_part_of_a_run_is_found(
    tmp_path_factory: pytest.TempPathFactory, runs: list[str], data: st.DataObject
) -> None:
    text = "、".join(runs)
    parts = [
        part for part in text.replace("a", "、").replace("b", "、").split("、") if part.strip()
    ]
    index = Index.open(tmp_path_factory.mktemp("runs", numbered=True) / Path("state"))
    index.put([doc("n.md", text)])
    for part in parts:
        word = data.draw(st.sampled_from(part.split()))
        start = data.draw(st.integers(0, len(word) - 1))
        end = data.draw(st.integers(start + 1, len(word)))
        assert index.fts_count(phrase(word[start:end])) == 1
    index.close()
