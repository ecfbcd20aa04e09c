import hashlib
import threading
import unicodedata
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from server.errors import Unavailable
from server.index.store import Index
from server.models import FileStat, etag_of

from .build import doc, entry, hiding, text_of


def changes(index: Index) -> list[tuple[str, str, str | None]]:
    with index._read() as db:
        return [
            (str(kind), str(path), old and str(old))
            for kind, path, old in db.execute(
                "SELECT kind, path, old_path FROM changes ORDER BY seq"
            )
        ]


def test_a_note_is_stored_with_its_bytes_stat_and_etag(index: Index) -> None:
    data = b"\xef\xbb\xbf# Caf\xc3\xa9\r\nlast line, no newline \xff"
    index.put([doc("a/b.md", data, mtime_ns=77, racy=True)])
    row = index.get("a/b.md")
    assert row is not None
    assert (row.kind, row.size, row.mtime_ns, row.racy) == ("note", len(data), 77, True)
    assert row.etag == etag_of(data)
    assert row.md5 is not None and len(row.md5) == 32
    assert row.title == "Café"
    assert index.text(row) == data
    assert index.get("a/B.md") is None


def test_the_same_content_again_only_takes_the_new_stat(index: Index) -> None:
    index.put([doc("a.md", "same", mtime_ns=1, racy=True)])
    size = index.sizes()["mirror"]
    index.put([doc("a.md", "same", mtime_ns=2)])
    row = index.get("a.md")
    assert row is not None and (row.mtime_ns, row.racy) == (2, False)
    assert index.sizes()["mirror"] == size
    assert changes(index) == [("created", "a.md", None)]


def test_an_update_replaces_everything_the_note_said(index: Index) -> None:
    index.put([doc("a.md", "---\nkey: 1\n---\n#old [[b]] oldword\n")])
    index.put([doc("a.md", "#new [[c]] newword\n")])
    assert index.fts_count("oldword") == 0
    assert index.fts_count("newword") == 1
    assert [link.target for link in index.outbound("a.md")] == ["c"]
    with index._read() as db:
        assert db.execute("SELECT tag_lc FROM tags").fetchall() == [("new",)]
        assert db.execute("SELECT count(*) FROM props").get == 0
    assert index.check() == []


def test_of_one_path_twice_in_a_batch_the_last_counts(index: Index) -> None:
    index.put([doc("a.md", "one"), doc("b.md", "x"), doc("a.md", "two")])
    assert text_of(index, "a.md") == b"two"
    assert index.fts_count("one") == 0


@pytest.mark.parametrize("data", [b"bin\0ary", b"x" * 101])
def test_what_is_no_text_or_too_large_has_a_warning_and_no_text(index: Index, data: bytes) -> None:
    index.put([doc("odd.md", data)], max_bytes=100)
    row = index.get("odd.md")
    assert row is not None and row.warning
    assert row.etag == etag_of(data)
    assert index.text(row) is None
    assert index.sizes()["mirror"] == 0
    index.put([doc("odd.md", "fine")], max_bytes=100)
    assert text_of(index, "odd.md") == b"fine"


def test_a_note_that_became_too_large_to_read_says_nothing_any_more(index: Index) -> None:
    index.put([doc("a.md", "word #tag")])
    index.put_files([entry("a.md", "note", size=10**9)])
    row = index.get("a.md")
    assert row is not None and row.warning and row.etag is None
    assert index.text(row) is None
    assert index.fts_count("word") == 0


def test_what_was_read_before_the_index_learned_better_is_not_stored(tmp_path: Path) -> None:
    index = Index.open(tmp_path, clock=lambda: 100)
    index.put([doc("a.md", "newer")])
    late = replace(doc("a.md", "older"), looked_ns=99)
    index.put([late])
    assert text_of(index, "a.md") == b"newer"
    index.remove(["a.md"], before_ns=99)
    assert text_of(index, "a.md") == b"newer"
    index.put([replace(late, looked_ns=101)])
    assert text_of(index, "a.md") == b"older"
    index.remove(["a.md"], before_ns=101)
    assert index.get("a.md") is None
    index.close()


def test_a_clock_that_is_set_back_does_not_keep_what_is_gone(tmp_path: Path) -> None:
    now = [1000]
    index = Index.open(tmp_path / "index", clock=lambda: now[0])
    index.put([doc("gone.md", "x"), doc("a.md", "old")])
    now[0] = 100
    index.put([replace(doc("a.md", "new"), looked_ns=99)])
    assert text_of(index, "a.md") == b"new"
    index.remove(["gone.md"], before_ns=99)
    assert index.get("gone.md") is None
    index.close()


def test_changes_tell_created_modified_moved_and_deleted(index: Index) -> None:
    index.put([doc("a.md", "1"), doc("b.md", "1")])
    index.put([doc("a.md", "2")])
    index.put_files([entry("pic.png", size=1), entry("folder", "folder")])
    index.put_files([entry("pic.png", size=1), entry("folder", "folder")])
    index.put_files([entry("pic.png", size=2)])
    index.rename("b.md", "c.md", "c.md", FileStat(1, 1))
    index.remove(["a.md", "never.md"])
    assert changes(index) == [
        ("created", "a.md", None),
        ("created", "b.md", None),
        ("modified", "a.md", None),
        ("created", "pic.png", None),
        ("modified", "pic.png", None),
        ("moved", "c.md", "b.md"),
        ("deleted", "a.md", None),
    ]


def test_a_removed_note_leaves_nothing(index: Index) -> None:
    index.put([doc("a.md", "---\naliases: [x]\n---\n# h\n#t [[b]] word ^id\n- [ ] do\n")])
    index.remove(["a.md"])
    assert index.get("a.md") is None
    assert index.snapshot() == []
    tables = ("tags", "props", "aliases", "headings", "blocks", "tasks", "links", "notes")
    with index._read() as db:
        assert {table: db.execute(f"SELECT count(*) FROM {table}").get for table in tables} == (
            dict.fromkeys(tables, 0)
        )
    assert index.fts_count("word") == 0


def test_a_renamed_note_keeps_its_content_and_gets_its_new_name(index: Index) -> None:
    index.put([doc("old.md", "body #tag [[other]]"), doc("dir/other.md", "")])
    before = index.get("old.md")
    assert index.rename("old.md", "dir/new.md", "dir/new.md", FileStat(18, 9))
    row = index.get("dir/new.md")
    assert before is not None and row is not None
    assert index.get("old.md") is None
    assert (row.id, row.etag, row.title, row.mtime_ns) == (before.id, before.etag, "new", 9)
    assert text_of(index, "dir/new.md") == b"body #tag [[other]]"
    assert index.fts_count("title:new") == 1
    assert index.fts_count("title:old") == 0
    assert index.rename("old.md", "x.md", "x.md", FileStat(1, 1)) is False


@pytest.mark.parametrize("more", [0, 5])
def test_a_note_that_is_another_after_its_move_is_looked_at_again(index: Index, more: int) -> None:
    index.put([doc("a.md", "text")])
    before = index.get("a.md")
    assert before is not None and not before.racy
    index.rename("a.md", "b.md", "b.md", FileStat(before.size + more, before.mtime_ns))
    after = index.get("b.md")
    assert after is not None and after.racy == (more > 0)


def test_a_rename_onto_another_note_replaces_it(index: Index) -> None:
    index.put([doc("a.md", "first"), doc("b.md", "second")])
    index.rename("a.md", "b.md", "b.md", FileStat(5, 1))
    assert text_of(index, "b.md") == b"first"
    assert index.fts_count("second") == 0
    assert index.counts().notes == 1


def test_a_renamed_folder_takes_along_what_is_in_it(index: Index) -> None:
    index.put_files([entry("a", "folder"), entry("a/s", "folder"), entry("a/p.png")])
    index.put([doc("a/s/n.md", "text"), doc("ab/other.md", "")])
    index.rename("a", "z", "z", FileStat(0, 1))
    assert [(row.path, row.disk) for row in index.snapshot()] == [
        ("ab/other.md", "ab/other.md"),
        ("z", "z"),
        ("z/p.png", "z/p.png"),
        ("z/s", "z/s"),
        ("z/s/n.md", "z/s/n.md"),
    ]
    assert text_of(index, "z/s/n.md") == b"text"


def test_a_rename_to_another_kind_leaves_the_reading_to_a_scan(index: Index) -> None:
    index.put([doc("a.md", "word")])
    index.rename("a.md", "a.txt", "a.txt", FileStat(4, 1))
    row = index.get("a.txt")
    assert row is not None and (row.kind, row.racy) == ("attachment", True)
    assert index.fts_count("word") == 0


def test_a_file_that_became_a_folder_is_a_folder(index: Index) -> None:
    index.put([doc("x.md", "word")])
    index.put_files([entry("x.md", "folder")])
    row = index.get("x.md")
    assert row is not None and row.kind == "folder"
    assert index.fts_count("word") == 0
    index.put([doc("x.md", "again")])
    assert text_of(index, "x.md") == b"again"


def test_match_finds_a_path_whatever_its_case_and_unicode_form(index: Index) -> None:
    path = unicodedata.normalize("NFC", "Straße/Café.md")
    index.put([doc(path), doc("straße/café.MD")])
    asked = unicodedata.normalize("NFD", "STRASSE/CAFÉ.md")
    assert [row.path for row in index.match(asked)] == [path, "straße/café.MD"]


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("Projects/Roadmap", "Projects/Roadmap.md"),
        ("projects/roadmap.md", "Projects/Roadmap.md"),
        ("Roadmap.md", "Projects/Roadmap.md"),
        ("Projects/Raodmap.md", "Projects/Roadmap.md"),
        ("Projects/Roadmaps.md", "Projects/Roadmap.md"),
        ("Elsewhere/Meeting notse.md", "Archive/Meeting notes.md"),
        ("pic.pgn", "img/pic.png"),
    ],
)
def test_suggest_offers_what_was_probably_meant(index: Index, asked: str, first: str) -> None:
    index.put([doc("Projects/Roadmap.md"), doc("Archive/Meeting notes.md"), doc("Zebra.md")])
    index.put_files([entry("img/pic.png")])
    assert index.suggest(asked)[:1] == [first]
    assert index.suggest(asked, sight=hiding(first))[:1] != [first]


def test_suggest_offers_nothing_for_nonsense(index: Index) -> None:
    index.put([doc("Projects/Roadmap.md")])
    assert index.suggest("qqqq.md") == []
    assert index.suggest("") == []


def test_children_lists_below_a_folder_in_order_with_the_exact_total(index: Index) -> None:
    index.put([doc(path) for path in ("a/1.md", "a/b/2.md", "a/b/c/3.md", "a!.md", "ab/4.md")])
    index.put_files([entry("a", "folder"), entry("a/b", "folder"), entry("a/p.png")])

    def listed(*args: object, **kwargs: object) -> tuple[list[str], int]:
        rows, total = index.children(*args, **kwargs)  # type: ignore[arg-type]
        return [row.path for row in rows], total

    assert listed("", 1) == (["a", "a!.md"], 2)
    assert listed("a", 1) == (["a/1.md", "a/b", "a/p.png"], 3)
    assert listed("a", 2, "note") == (["a/1.md", "a/b/2.md"], 2)
    assert listed("a", None, None, None, limit=2, offset=1) == (["a/b", "a/b/2.md"], 5)
    odd = lambda path: path.endswith(("1.md", "3.md"))  # noqa: E731
    assert listed("a", None, "note", odd, limit=1) == (["a/1.md"], 2)
    assert listed("a", None, "note", odd, limit=1, offset=1) == (["a/b/c/3.md"], 2)


def test_paths_snapshot_and_counts(index: Index) -> None:
    index.put([doc("b.md", "two words"), doc("a.md", "x", mtime_ns=5, racy=True)])
    index.put_files([entry("é.png", size=3), entry("f", "folder")])
    assert index.paths() == ["a.md", "b.md"]
    assert index.paths(lambda path: path > "a.md", 1) == ["b.md"]
    snapshot = index.snapshot()
    assert [row.path for row in snapshot] == sorted(row.path for row in snapshot)
    assert (snapshot[0].mtime_ns, snapshot[0].racy, snapshot[0].etag) == (5, True, etag_of(b"x"))
    assert snapshot[0].md5 == hashlib.md5(b"x", usedforsecurity=False).hexdigest()
    assert index.snapshot(md5=False) == [replace(row, md5=None) for row in snapshot]
    counts = index.counts()
    assert (counts.notes, counts.attachments, counts.folders, counts.words) == (2, 1, 1, 3)
    assert set(index.sizes()) == {"db", "wal", "mirror"}


def test_notes_of_one_folder_share_its_id(index: Index) -> None:
    index.put([doc("a/1.md"), doc("a/2.md"), doc("b/1.md"), doc("top.md")])
    ids = {path: row.folder_id for path in index.paths() if (row := index.get(path))}
    assert ids["a/1.md"] == ids["a/2.md"] != ids["b/1.md"] != ids["top.md"]


def test_a_failed_write_changes_nothing(index: Index) -> None:
    index.put([doc("a.md", "before")])
    with pytest.raises(UnicodeEncodeError):
        index.put([doc("a.md", "after"), doc("bad\ud800.md", "x")])
    assert text_of(index, "a.md") == b"before"
    assert index.fts_count("after") == 0
    index.put([doc("b.md", "next")])
    assert text_of(index, "b.md") == b"next"


def test_readers_never_see_half_of_a_write(index: Index) -> None:
    index.put([doc("a.md", "0"), doc("b.md", "0")])
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            with index._read() as db:
                etags = db.execute("SELECT DISTINCT etag FROM notes").fetchall()
            if len(etags) != 1:
                wrong.append(etags)
            row = index.get("a.md")
            if row is None or (index.text(row) is None and row == index.get("a.md")):
                wrong.append(row)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for version in range(60):
        index.put([doc("a.md", str(version) * 50), doc("b.md", str(version) * 50)])
        index.compact(0.3)
    done.set()
    for thread in threads:
        thread.join(30)
    assert wrong == []


def test_a_reader_cannot_write(index: Index) -> None:
    with index._pool.connection() as db, pytest.raises(apsw.ReadOnlyError):
        db.execute("DELETE FROM notes")


def test_what_was_stored_is_there_after_reopening(tmp_path: Path) -> None:
    index = Index.open(tmp_path)
    index.put([doc("a.md", "[[b]]"), doc("b.md", "word")])
    index.checkpoint()
    index.put([doc("c.md", "later")])
    index.close()
    with pytest.raises(Unavailable):
        index.get("a.md")
    again = Index.open(tmp_path)
    assert again.paths() == ["a.md", "b.md", "c.md"]
    assert text_of(again, "c.md") == b"later"
    assert again.link_counts("b.md") == (1, 0)
    again.put([doc("d.md", "more")])
    assert text_of(again, "d.md") == b"more"
    again.close()
    assert (tmp_path / "index.db").stat().st_mode & 0o077 == 0
