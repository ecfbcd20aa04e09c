"""What goes and what stays: the oldest goes first, and the disk gets its room back."""

import random
import threading
from pathlib import Path

import apsw

from server.history.store import History, Tidied
from server.models import etag_of

from .build import AUTHOR, change, make

DAY = 24 * 3600 * 10**9


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1_000 * DAY

    def __call__(self) -> int:
        return self.now


def noise(number: int, size: int = 10_000) -> bytes:
    return random.Random(number).randbytes(size)


def test_entries_go_when_they_are_too_old(tmp_path: Path) -> None:
    clock = Clock()
    history = History.open(tmp_path, max_bytes=1 << 30, max_age_days=2.5, clock=clock)
    for day in range(5):
        make(history, change("a.md", b"shared" if day in (0, 4) else b"%d" % day, b"new"))
        clock.now += DAY
    clock.now -= DAY // 2
    assert history.tidy() == Tidied(2, 1)
    assert [entry.before for entry in history.since(0, limit=9)] == [
        etag_of(data) for data in (b"2", b"3", b"shared")
    ]
    assert history.content(etag_of(b"1")) is None
    assert history.content(etag_of(b"shared")) == b"shared"
    assert history.tidy() == Tidied(0, 0)
    history.close()


def test_the_oldest_go_until_the_rest_fits(tmp_path: Path) -> None:
    history = History.open(tmp_path, max_bytes=35_000, max_age_days=30)
    for number in range(6):
        make(history, change(f"{number}.md", noise(number), b"new"))
    assert history.usage().bytes == 60_000
    assert history.tidy() == Tidied(3, 30_000)
    assert [entry.path for entry in history.since(0, limit=9)] == ["3.md", "4.md", "5.md"]
    usage = history.usage()
    assert (usage.entries, usage.bytes, usage.max_bytes) == (3, 30_000, 35_000)
    history.close()


def test_a_content_that_a_newer_entry_has_too_frees_no_room(tmp_path: Path) -> None:
    history = History.open(tmp_path, max_bytes=25_000, max_age_days=30)
    for number in (0, 1, 0, 2):
        make(history, change("a.md", noise(number), b"new"))
    assert history.tidy() == Tidied(2, 10_000)
    assert [entry.before for entry in history.since(0, limit=9)] == [
        etag_of(noise(0)), etag_of(noise(2)),
    ]  # fmt: skip
    history.close()


def test_a_change_at_work_is_kept_whatever_it_takes(tmp_path: Path) -> None:
    history = History.open(tmp_path, max_bytes=0, max_age_days=0)
    begun = history.begin(AUTHOR, [change("a.md", noise(1), b"new")])
    assert history.tidy() == Tidied(0, 0)
    history.finish(begun)
    assert history.tidy() == Tidied(1, 10_000)
    history.close()


def test_the_file_shrinks(tmp_path: Path) -> None:
    history = History.open(tmp_path, max_bytes=100_000, max_age_days=30)
    for number in range(100):
        make(history, change("a.md", noise(number, 100_000), b"new"))
    file = tmp_path / "history.db"
    history.tidy()
    assert file.stat().st_size < 1_000_000
    assert history.content(etag_of(noise(99, 100_000))) == noise(99, 100_000)
    history.close()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 1_000_000
    db = apsw.Connection(str(file))
    assert db.execute("PRAGMA integrity_check").get == "ok"
    db.close()


def test_contents_that_nobody_names_go(tmp_path: Path) -> None:
    history = History.open(tmp_path, max_bytes=1 << 30, max_age_days=30)
    make(history, change("a.md", b"named", b"new"))
    db = apsw.Connection(str(tmp_path / "history.db"))
    db.execute("INSERT INTO blobs VALUES(?, 5, ?)", (etag_of(b"stray"), b"stray"))
    db.close()
    assert history.tidy() == Tidied(0, 5)
    assert history.content(etag_of(b"stray")) is None
    assert history.content(etag_of(b"named")) == b"named"
    history.close()


def test_writers_go_on_while_it_is_tidied(tmp_path: Path) -> None:
    history = History.open(tmp_path, max_bytes=200_000, max_age_days=30)
    for number in range(50):
        make(history, change("a.md", noise(number, 100_000), b"new"))
    tidying = threading.Thread(target=history.tidy)
    tidying.start()
    made = [make(history, change("b.md", noise(900 + n, 100), b"new"))[0] for n in range(20)]
    tidying.join(30)
    history.tidy()
    kept = [entry.id for entry in history.of("b.md", limit=99)[0]]
    assert kept == made[::-1]
    assert history.usage().bytes <= 200_000
    history.close()


def test_a_long_content_is_compressed_when_the_history_is_tidied(tmp_path: Path) -> None:
    history = History.open(tmp_path, max_bytes=1 << 30, max_age_days=30)
    text, short = b"word " * 20_000, b"word " * 200
    make(history, change("a.md", text, b"new"), change("b.md", noise(1, 50_000), b"new"))
    make(history, change("c.md", short, b"new"))
    before = history.usage().bytes
    assert before >= 150_000
    for _ in range(2):
        assert history.tidy() == Tidied(0, 0)
        assert 50_000 < history.usage().bytes < 53_000
        assert [history.content(etag_of(data)) for data in (text, noise(1, 50_000), short)] == [
            text, noise(1, 50_000), short,
        ]  # fmt: skip
    history.close()
    db = apsw.Connection(str(tmp_path / "history.db"))
    assert db.execute("SELECT sum(length(data)) - (SELECT bytes FROM totals) FROM blobs").get == 0
    db.close()


def test_what_fits_once_it_is_compressed_does_not_go(tmp_path: Path) -> None:
    history = History.open(tmp_path, max_bytes=50_000, max_age_days=30)
    for number in range(5):
        make(history, change("a.md", b"%d word " % number * 10_000, b"new"))
    assert history.tidy() == Tidied(0, 0)
    assert len(history.since(0, limit=9)) == 5
    history.close()


def test_a_content_that_was_stored_while_it_was_compressed_stays_whole(tmp_path: Path) -> None:
    history = History.open(tmp_path, max_bytes=1 << 30, max_age_days=30)
    texts = [b"%d word " % number * 10_000 for number in range(40)]
    for text in texts:
        make(history, change("a.md", text, b"new"))
    tidying = threading.Thread(target=history.tidy)
    tidying.start()
    for text in reversed(texts):
        make(history, change("b.md", text, b"new"))
    tidying.join(30)
    history.tidy()
    assert all(history.content(etag_of(text)) == text for text in texts)
    history.close()
    db = apsw.Connection(str(tmp_path / "history.db"))
    assert db.execute("SELECT sum(length(data)) - (SELECT bytes FROM totals) FROM blobs").get == 0
    db.close()
