"""A server whose full text outgrows its budget: what agents see of that."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drive.processes import wait_for

from .house import House, opened

COUNT = 60
WORDS = "lorem ipsum dolor sit amet " * 1_100


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[House]:
    """Sixty notes of 30 KB for a budget of 1 MB; the lower the number, the older the note."""
    with opened(tmp_path / "vault", tmp_path / "state", INDEX_BUDGET_MB="1") as house:
        for number in range(COUNT):
            text = f"#all topic{number} {WORDS}"
            house.write(f"n{number}.md", text, age=1000 * (COUNT - number))
        house.scan()
        yield house


def by_text(house: House, word: str) -> list[str]:
    answer = house.call("search_notes", query=word, mode="full_text")
    return [item["path"] for item in answer["items"]]


def test_health_and_metrics_tell_the_budget(tight: House) -> None:
    index = tight.call("health_check")["index"]
    assert index["budget_mb"] == 1
    assert 0.9 <= index["used_mb"] <= 1
    assert 90 <= index["used_percent"] <= 100
    assert 0 < index["evicted_notes"] < COUNT
    assert tight.metric("vault_index_budget_bytes") == 1 << 20
    assert 0.9 * (1 << 20) < tight.metric("vault_index_used_bytes") <= 1 << 20
    assert tight.metric("vault_index_evicted_notes") == index["evicted_notes"]


def test_an_answer_says_that_it_may_miss_notes(tight: House) -> None:
    evicted = tight.call("health_check")["index"]["evicted_notes"]
    said = f"{evicted} notes are not in the full-text index"
    answer = tight.call("search_notes", query="lorem", mode="full_text")
    assert answer["total"] == COUNT - evicted
    assert answer["incomplete"] == said
    for tool, asked in (
        ("search_notes", {"query": "-lorem tag:#all"}),
        ("context_pack", {"question": "lorem ipsum"}),
        ("backlinks_search", {"path": "n0.md", "include_mentions": True}),
    ):
        assert tight.call(tool, **asked)["incomplete"].endswith("not in the full-text index")
    answer = tight.call("search_notes", mode="tags", tags=["all"])
    assert answer["total"] == COUNT
    assert "incomplete" not in answer
    answer = tight.call("vault_search", query="topic0 ")
    assert [match["path"] for match in answer["results"]] == ["n0.md"]
    assert "incomplete" not in answer


@pytest.mark.parametrize("use", ["read", "regex", "tags"])
def test_a_note_that_is_used_is_found_again(tight: House, use: str) -> None:
    assert by_text(tight, "topic3") == []
    if use == "read":
        assert tight.call("note_read", path="n3.md")["exists"]
    elif use == "regex":
        assert tight.call("vault_search", query="topic3 ")["total"] == 1
    else:
        tight.call("search_notes", mode="tags", tags=["all"], path_scope=["n3.md"])
    wait_for(lambda: by_text(tight, "topic3") == ["n3.md"])


def test_what_an_agent_writes_is_found_at_once(tight: House) -> None:
    tight.call("note_upsert", path="new.md", content="freshly written")
    assert by_text(tight, "freshly") == ["new.md"]
    tight.call("note_upsert", path="n0.md", content="appended")
    assert by_text(tight, "appended") == ["n0.md"]


def test_room_is_filled_without_being_asked(tight: House) -> None:
    for number in range(30, COUNT):
        (tight.folder / f"n{number}.md").unlink()
    tight.scan()
    wait_for(lambda: tight.call("health_check")["index"]["evicted_notes"] == 0)
    answer = tight.call("search_notes", query="lorem", mode="full_text")
    assert answer["total"] == 30
    assert "incomplete" not in answer
    wait_for(lambda: tight.metric("vault_index_evicted_notes") == 0)
