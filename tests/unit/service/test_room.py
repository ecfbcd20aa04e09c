"""What an answer may carry."""

import pytest

from server.service.room import cut, weight

TEXTS = {
    "plain": "x",
    "quotes": '"',
    "backslashes": "\\",
    "control": "\x01",
    "signs": "\u4e2d",
    "emoji": "\U0001f600",
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("room", [1_000, 50_000])
def test_a_text_is_cut_to_what_has_room_and_not_much_shorter(kind: str, room: int) -> None:
    text = TEXTS[kind] * room
    kept = cut(text, room)
    assert text.startswith(kept)
    assert room // 2 < weight(kept) <= room


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_that_has_room_stays_whole(kind: str) -> None:
    text = TEXTS[kind] * 1_000
    assert cut(text, weight(text)) == text
