"""`search_notes` finds exactly what a slow and obvious reading of the raw files finds.

ORACLE_QUERIES sets how many questions are asked of each vault.
"""

import asyncio
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from server.access.decision import Access
from server.models import Caller
from server.service.freshness import Clock
from server.service.searching import Item, Page, Searching
from server.vault.obsidian import ObsidianLinks
from server.workers import Workers
from tests.unit.service.house import opened

from .notes import RawNote, read_vault
from .queries import Question, question
from .vaults import kept_by_people, made_by_chance

QUERIES = int(os.environ.get("ORACLE_QUERIES", "300"))
BATCHES = 6


@dataclass(frozen=True)
class Bed:
    searching: Searching
    notes: list[RawNote]

    def page(self, asked: Question, offset: int, limit: int) -> Page:
        return asyncio.run(
            self.searching.search(Caller("tester"), **asked.arguments, limit=limit, offset=offset)
        )

    def all(self, asked: Question) -> tuple[int, list[Item]]:
        """Every hit, page by page."""
        items: list[Item] = []
        while True:
            page = self.page(asked, len(items), asked.page)
            items += page.items
            assert page.truncated is (len(items) < page.total)
            if not page.truncated:
                return page.total, items
            assert len(page.items) == asked.page


@pytest.fixture(
    scope="module", params=[made_by_chance, kept_by_people], ids=lambda make: make.__name__
)
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    make: Callable[[Path], None] = request.param
    folder, state = tmp_path_factory.mktemp("vault"), tmp_path_factory.mktemp("state")
    make(folder)
    with opened(folder, state) as house:
        app, local = house.app, Workers("oracle", size=1)
        clock = Clock(app.guard, app.scanner)
        searching = Searching(app.index, Access(), clock, lambda: ObsidianLinks("v"), local)
        yield Bed(searching, read_vault(folder))
        local.close()


@pytest.mark.parametrize("batch", range(BATCHES))
def test_what_is_found_is_what_is_there(bed: Bed, batch: int) -> None:
    rng = random.Random(batch)
    found_some = 0
    for _ in range(-(-QUERIES // BATCHES)):
        asked = question(rng)
        expected = {note.path for note in bed.notes if asked.meaning(note)}
        total, items = bed.all(asked)
        paths = [item.path for item in items]
        assert len(paths) == len(set(paths)) == total, asked.arguments
        assert set(paths) == expected, asked.arguments
        _check_order(bed, asked, items)
        found_some += bool(expected)
    assert found_some > QUERIES // BATCHES // 6


def _check_order(bed: Bed, asked: Question, items: list[Item]) -> None:
    notes = {note.path: note for note in bed.notes}
    found = [notes[item.path] for item in items]
    keys: dict[str, Callable[[RawNote], tuple[object, ...]]] = {
        "modified_desc": lambda note: (-note.mtime_ns, note.path),
        "path_asc": lambda note: (note.path,),
        "created": lambda note: (-note.created_ns, note.path),
        "title": lambda note: (_small(note.title), note.path),
    }
    if asked.sort == "relevance":
        scores = [item.score for item in items if item.score is not None]
        assert len(scores) == len(items)
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
    else:
        assert found == sorted(found, key=keys[asked.sort]), asked.arguments


def _small(title: str) -> str:
    """SQLite's NOCASE knows the case of ASCII letters only."""
    return "".join(char.lower() if char.isascii() else char for char in title)


def test_every_page_size_gives_the_same_order(bed: Bed) -> None:
    rng = random.Random(99)
    for _ in range(10):
        asked = question(rng)
        whole = [item.path for item in bed.page(asked, 0, 100).items]
        for size in (1, 2, 7):
            paged = [
                item.path
                for offset in range(0, len(whole), size)
                for item in bed.page(asked, offset, size).items
            ]
            assert paged[: len(whole)] == whole, (asked.arguments, size)
