"""context_pack: the right excerpts, once each, under the cap."""

from typing import Any

import pytest

from server.errors import InvalidRequest
from server.service.packing import question_words

from .house import House

POLLING = (
    "# Polling\n\nThe scanner polls because inotify is silent on mounts.\n\n"
    "## Cost\n\nA walk takes seconds.\n"
)


def pack(house: House, question: str, **arguments: Any) -> dict[str, Any]:
    return house.call("context_pack", question=question, **arguments)


def test_the_passage_that_answers_comes_first(house: House) -> None:
    house.fill(
        polling=POLLING,
        cooking="# Cooking\n\nSoup takes hours.\n",
        other="# Other\n\nSeconds matter in sports.\n",
    )
    answer = pack(house, "Why does the scanner poll instead of using inotify?")
    first = answer["excerpts"][0]
    assert first["path"] == "polling.md"
    assert first["heading"] == "Polling"
    assert first["text"] == "The scanner polls because inotify is silent on mounts."
    assert first["line"] == 3
    assert first["etag"] == house.call("note_read", path="polling.md")["etag"]
    assert "cooking.md" not in {one["path"] for one in answer["excerpts"]}


@pytest.mark.parametrize("cap", [500, 1_000, 3_000])
def test_the_cap_holds_and_says_what_stayed_out(house: House, cap: int) -> None:
    house.fill(
        **{
            f"note{n}": f"# Needle {n}\n\n" + f"needle {n} and unlike words {n * 7} " * 20
            for n in range(12)
        }
    )
    answer = pack(house, "needle", max_chars=cap)
    assert answer["excerpts"]
    assert answer["chars"] == sum(len(one["text"]) for one in answer["excerpts"]) <= cap
    assert answer["truncated"] is True
    assert answer["matched"] == 12


def test_nothing_is_said_twice(house: House) -> None:
    same = "The needle is in the haystack behind the old barn at the river."
    house.fill(a=f"# A\n\n{same}\n", b=f"# B\n\n{same}\n", c=f"# C\n\n{same} \n")
    assert len(pack(house, "where is the needle")["excerpts"]) == 1


def test_a_linked_note_that_fits_is_brought_along(house: House) -> None:
    # Many notes about the word keep the neighbour itself off the list of hits.
    many = {f"filler{n:02}": "# Filler\n\nzebra zebra zebra " + f"word{n} " * 30 for n in range(30)}
    house.fill(
        **many,
        zebra="---\naliases: [zebra]\n---\n# zebra zebra\n\nzebra facts. See [[habits]].\n",
        habits="# Habits\n\n"
        + "Long prose about other things entirely. " * 60
        + "\n\nOnce a zebra.\n",
    )
    answer = pack(house, "zebra", max_chars=20_000)
    linked = [one for one in answer["excerpts"] if one.get("linked_from")]
    assert [(one["path"], one["linked_from"]) for one in linked] == [("habits.md", "zebra.md")]


def test_chinese_is_asked_in_pairs(house: House) -> None:
    house.fill(中文="# 会议\n\n项目的会议记录在这里。\n", other="# Other\n\nnothing\n")
    assert [one["path"] for one in pack(house, "会议记录")["excerpts"]] == ["中文.md"]


def test_words_of_a_question() -> None:
    assert question_words("Why is the scanner slow?") == ["scanner", "slow"]
    assert question_words("what is it") == ["what", "is", "it"]
    assert question_words("会议记录") == ["会议", "议记", "记录"]
    assert question_words("?!") == []


def test_a_question_without_words_is_refused(house: House) -> None:
    with pytest.raises(InvalidRequest):
        pack(house, "?!")


def test_a_scope_narrows(house: House) -> None:
    house.fill(**{"in/a": "needle here", "out/b": "needle there"})
    answer = pack(house, "needle", path_scope=["in"])
    assert [one["path"] for one in answer["excerpts"]] == ["in/a.md"]
