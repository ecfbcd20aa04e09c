"""The history's promise: what a change replaced is kept before it is replaced, or nothing happens."""

import random
import stat
import threading
from pathlib import Path

import apsw
import pytest

from server.errors import Unavailable
from server.history.store import Author, Change, History
from server.models import etag_of

from .build import AUTHOR, change, etag, heard, kill, make, opened, say, server


def test_an_entry_tells_who_changed_what_and_what_was_there(history: History) -> None:
    (number,) = make(history, change("Devlog/a.md", b"old text", b"new text", "patch"))
    entry = history.entry(number)
    assert entry is not None
    assert (entry.caller, entry.session, entry.tool, entry.operation) == (
        "ana", "s1", "note_write", "op1",
    )  # fmt: skip
    assert (entry.kind, entry.path, entry.other) == ("patch", "Devlog/a.md", None)
    assert (entry.before, entry.after, entry.size) == (etag(b"old text"), etag(b"new text"), 8)
    assert history.content(etag_of(b"old text")) == b"old text"
    assert history.content(etag_of(b"new text")) is None
    assert history.entry(number + 1) is None


def test_no_file_and_an_empty_file_are_two_things(history: History) -> None:
    make(history, change("a.md", None, b""), change("b.md", b"", b"text"))
    ((a,), _), ((b,), _) = history.of("a.md", limit=9), history.of("b.md", limit=9)
    assert (a.before, a.size) == (None, None)
    assert (b.before, b.size) == (etag(b""), 0)
    assert history.content(etag_of(b"")) == b""


def test_a_content_is_kept_once_and_small(history: History) -> None:
    text, noise = b"the same words again " * 5000, random.Random(1).randbytes(50_000)
    make(history, change("a.md", text, b"1"), change("b.md", text, b"1"))
    assert history.usage().bytes == len(text)
    history.tidy()
    assert history.usage().bytes < len(text) / 20
    packed = history.usage().bytes
    make(history, change("a.md", noise, b"2"))
    assert history.usage().bytes == packed + len(noise)
    assert history.usage().entries == 3
    assert (history.content(etag_of(text)), history.content(etag_of(noise))) == (text, noise)


def test_what_is_only_begun_is_no_version_yet(history: History) -> None:
    (number,) = history.begin(AUTHOR, [change("a.md", b"old", b"new")])
    assert history.of("a.md", limit=9) == ([], 0)
    assert history.entry(number) is None
    assert history.recent(9) == history.since(0, limit=9) == []
    history.finish([number])
    assert [entry.id for entry in history.of("a.md", limit=9)[0]] == [number]


def test_a_dropped_change_takes_its_content_along_unless_another_has_it(history: History) -> None:
    make(history, change("a.md", b"shared", b"1"))
    ids = history.begin(AUTHOR, [change("a.md", b"shared", b"2"), change("b.md", b"own", b"2")])
    history.drop(ids)
    assert history.content(etag_of(b"shared")) == b"shared"
    assert history.content(etag_of(b"own")) is None
    assert history.usage().entries == 1


def test_what_was_made_can_not_be_dropped(history: History) -> None:
    ids = make(history, change("a.md", b"old", b"new"))
    history.drop(ids)
    assert history.of("a.md", limit=9)[1] == 1


def test_ids_are_never_used_again(history: History) -> None:
    first = history.begin(AUTHOR, [change("a.md", b"1", b"2")])
    history.drop(first)
    assert history.begin(AUTHOR, [change("a.md", b"1", b"2")]) > first
    assert history.begin(AUTHOR, []) == []


def test_all_of_it_is_there_after_a_restart(tmp_path: Path) -> None:
    history = opened(tmp_path)
    make(history, change("a.md", b"old" * 1000, b"new"))
    before, usage = history.of("a.md", limit=9), history.usage()
    history.close()
    again = opened(tmp_path)
    assert again.of("a.md", limit=9) == before
    assert again.usage() == usage
    assert again.content(etag_of(b"old" * 1000)) == b"old" * 1000
    again.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["history.db", "lock"]


def test_only_the_owner_may_look_into_it(tmp_path: Path) -> None:
    history = opened(tmp_path / "history")
    make(history, change("a.md", b"secret", b"new"))
    modes = {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "history").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o700
    history.close()


def test_a_closed_history_says_so(tmp_path: Path) -> None:
    history = opened(tmp_path)
    make(history, change("a.md", b"old", b"new"))
    history.close()
    history.close()
    with pytest.raises(Unavailable, match="closed"):
        history.begin(AUTHOR, [change("a.md", b"old", b"new")])
    with pytest.raises(Unavailable, match="closed"):
        history.of("a.md", limit=1)


def test_threads_lose_nothing(history: History) -> None:
    def work(name: str) -> None:
        for turn in range(20):
            old = f"{name} {turn}".encode()
            make(
                history,
                change(f"{name}.md", old, b"new"),
                author=Author(name, None, "t", old.hex()),
            )
            assert history.content(etag_of(old)) == old

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in range(8):
        entries, total = history.of(f"t{number}.md", limit=99)
        assert total == 20
        assert [entry.before for entry in entries] == [
            etag(f"t{number} {turn}".encode()) for turn in reversed(range(20))
        ]


_WRITER = """
sys.stdin.readline()
name = sys.argv[2]
for turn in range(40):
    old = f"{name} {turn} ".encode() * 500
    author = Author(name, None, "t", f"{name} {turn}")
    ids = history.begin(author, [Change("write", "shared.md", old, etag_of(b"new"))])
    history.finish(ids)
history.close()
print("done", flush=True)
"""


def test_servers_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    servers = [server(_WRITER, tmp_path, name) for name in ("one", "two")]
    for process in servers:
        say(process)
    assert [heard(process) for process in servers] == ["done", "done"]
    for process in servers:
        process.communicate(timeout=30)
    history = opened(tmp_path)
    entries, total = history.of("shared.md", limit=99)
    assert total == 80
    for name in ("one", "two"):
        own = [entry.before for entry in entries if entry.caller == name]
        old = [f"{name} {turn} ".encode() * 500 for turn in reversed(range(40))]
        assert own == [etag_of(data) for data in old]
        assert [history.content(etag_of(data)) for data in old] == old
    history.close()


_FULL = """
import os
import resource
from server.errors import Unavailable

resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
author = Author("ana", None, "t", "op")
kept = 0
try:
    while True:
        data = os.urandom(20_000)
        history.finish(history.begin(author, [Change("write", "a.md", data, None)]))
        kept += 1
except Unavailable as error:
    print(kept, history.of("a.md", limit=1)[1], "|", error.message, "|", error.hint, flush=True)
"""


def test_a_full_disk_is_told_before_anything_is_written(tmp_path: Path) -> None:
    process = server(_FULL, tmp_path)
    counts, message, hint = heard(process).split(" | ")
    process.communicate(timeout=30)
    kept, found = map(int, counts.split())
    assert kept == found > 3
    assert "nothing was written" in message
    assert "STATE_DIR" in hint
    history = opened(tmp_path)
    assert history.of("a.md", limit=1)[1] == kept
    make(history, change("a.md", b"room again", None))
    history.close()


def test_a_folder_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="can't be opened") as caught:
        opened(tmp_path / "file" / "history")
    assert "STATE_DIR" in caught.value.hint
    assert str(tmp_path) not in caught.value.message


_COUNTER = """
import apsw

synced = []


class File(apsw.VFSFile):
    def xSync(self, flags):
        synced.append(flags)
        return super().xSync(flags)


class Disk(apsw.VFS):
    def __init__(self):
        super().__init__("counting", "unix", makedefault=True)

    def xOpen(self, name, flags):
        return File("unix", name, flags)


history.close()
disk = Disk()
history = History.open(Path(sys.argv[1]), max_bytes=1 << 30, max_age_days=30)
counts = []
# A log that is begun anew is synced whatever is written to it.
history.claim("ana", "first", "t", "r")
for step in ("begin", "finish", "claim", "expect", "fulfil"):
    synced.clear()
    if step == "begin":
        change = Change("write", "a.md", b"old", None)
        ids = history.begin(Author("ana", None, "t", "op"), [change])
    elif step == "finish":
        history.finish(ids)
    elif step == "claim":
        history.claim("ana", "k", "t", "r")
    elif step == "expect":
        history.expect("ana", "k", "a.md", None)
    else:
        history.fulfil("ana", "k", {})
    counts.append(len(synced))
print(*counts, flush=True)
history.close()
"""


def test_the_disk_has_it_before_the_vault_is_touched_and_is_not_asked_again(tmp_path: Path) -> None:
    process = server(_COUNTER, tmp_path)
    begin, finish, claim, expect, fulfil = map(int, heard(process).split())
    process.communicate(timeout=30)
    assert (begin, claim, expect) == (1, 1, 1)
    assert (finish, fulfil) == (0, 0)


def test_what_begin_returns_survives_the_death_of_its_server(tmp_path: Path) -> None:
    script = """
author = Author("ana", None, "t", "op")
ids = history.begin(author, [Change("write", "a.md", b"old", etag_of(b"new"))])
print(*ids, flush=True)
sys.stdin.readline()
"""
    process = server(script, tmp_path)
    number = int(heard(process))
    kill(process)
    (left,) = tmp_path.glob("open-*")
    history = opened(tmp_path)
    assert not left.exists()
    assert history.content(etag_of(b"old")) == b"old"
    history.settle(lambda _path: etag_of(b"new"))
    assert history.entry(number) is not None
    history.close()


def test_a_batch_is_stored_as_one(history: History) -> None:
    batch = [change("a.md", b"a", b"1"), Change("delete", "b.md", b"b", "x" * 32)]
    broken = Change("write", "c\ud800.md", b"c", None)
    with pytest.raises(UnicodeEncodeError):
        history.begin(AUTHOR, [*batch, broken])
    assert history.usage().entries == history.usage().bytes == 0
    assert len(history.begin(AUTHOR, batch)) == 2


_RESTLESS = """
for turn in range(10_000):
    old = f"{turn} ".encode() * 2000
    author = Author("ana", None, "t", str(turn))
    ids = history.begin(author, [Change("write", f"{turn % 5}.md", old, etag_of(b"new"))])
    history.finish(ids)
    if turn % 7 == 6:
        history.drop(history.begin(author, [Change("write", "b.md", b"never", None)]))
        history.tidy()
    print(*ids, flush=True)
"""


def test_killed_at_any_moment_it_reopens_whole(tmp_path: Path) -> None:
    dice, made = random.Random(7), []
    for _ in range(4):
        process = server(_RESTLESS, tmp_path)
        # Between the lines of its report the server is somewhere inside a change.
        made += [int(heard(process)) for _ in range(dice.randint(5, 60))]
        kill(process)
        history = opened(tmp_path)
        history.settle(lambda _path: etag_of(b"new"))
        entries = history.recent(999)
        assert {entry.id for entry in entries} >= set(made)
        assert all(history.content(entry.before or "") is not None for entry in entries)
        assert history.tidy().entries == 0
        history.close()
    db = apsw.Connection(str(tmp_path / "history.db"))
    assert db.execute("PRAGMA integrity_check").get == "ok"
    sums = "SELECT (SELECT count(*) FROM entries), (SELECT sum(length(data)) FROM blobs)"
    assert db.execute(sums).fetchall() == db.execute("SELECT entries, bytes FROM totals").fetchall()
    db.close()
