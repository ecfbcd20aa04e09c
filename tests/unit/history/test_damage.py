"""A history that is damaged is set aside: never in the way, never deleted."""

import sqlite3
from pathlib import Path

import apsw
import pytest

from server.errors import Unavailable
from server.models import etag_of

from .build import AUTHOR, change, make, opened


def filled(folder: Path) -> list[int]:
    history = opened(folder)
    ids = [make(history, change(f"{n}.md", b"text %d " % n * 2000, b"new"))[0] for n in range(99)]
    history.close()
    return ids


def asides(folder: Path) -> list[Path]:
    return sorted(folder.glob("history.db.damaged-*"))


@pytest.mark.parametrize("damage", ["garbage", "truncated", "other tables", "folder"])
def test_a_file_that_is_no_history_is_set_aside(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids = filled(tmp_path)
    file = tmp_path / "history.db"
    if damage == "garbage":
        file.write_bytes(b"not a database at all " * 1000)
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[: 8192 * 5])
    elif damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        db = apsw.Connection(str(file))
        db.execute("DROP TABLE keys")
        db.close()
    content = file.read_bytes() if damage != "folder" else b""
    history = opened(tmp_path)
    assert "set aside" in caplog.text
    (aside,) = asides(tmp_path)
    assert aside.is_dir() if damage == "folder" else aside.read_bytes() == content
    assert history.usage().entries == 0
    (number,) = make(history, change("a.md", b"old", b"new"))
    assert number > max(ids)
    assert history.content(etag_of(b"old")) == b"old"
    history.close()
    again = opened(tmp_path)
    assert again.entry(number) is not None
    assert asides(tmp_path) == [aside]
    again.close()


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    db = apsw.Connection(str(tmp_path / "history.db"))
    db.execute("PRAGMA user_version=999; DROP TABLE keys")
    db.close()
    with pytest.raises(Unavailable, match="newer version") as caught:
        opened(tmp_path)
    assert caught.value.hint
    assert asides(tmp_path) == []
    assert (tmp_path / "history.db").exists()


def page_of(file: Path, table: str) -> int:
    db = sqlite3.connect(file)
    (page,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name=?", (table,)).fetchone()
    db.close()
    return int(page)


def test_damage_found_by_a_write_is_set_aside_at_once(tmp_path: Path) -> None:
    ids = filled(tmp_path)
    file = tmp_path / "history.db"
    page = page_of(file, "entries_operation")
    data = bytearray(file.read_bytes())
    data[(page - 1) * 8192 : page * 8192] = b"\xa5" * 8192
    file.write_bytes(data)
    one, two = opened(tmp_path), opened(tmp_path)
    assert two.of("5.md", limit=9)[1] == 1
    with pytest.raises(Unavailable, match="damaged"):
        one.begin(AUTHOR, [change("a.md", b"old", b"new")])
    (number,) = make(one, change("a.md", b"old", b"new"))
    assert number > max(ids)
    assert two.of("a.md", limit=9) == one.of("a.md", limit=9)
    make(two, change("a.md", b"new", b"newer"))
    assert one.of("a.md", limit=9)[1] == 2
    assert len([file for file in asides(tmp_path) if file.name[-4:] not in ("-wal", "-shm")]) == 1
    one.close()
    two.close()
    again = opened(tmp_path)
    assert again.of("a.md", limit=9)[1] == 2
    again.close()


def test_a_file_that_was_deleted_is_begun_anew(tmp_path: Path) -> None:
    history = opened(tmp_path / "history")
    make(history, change("a.md", b"old", b"new"))
    for file in (tmp_path / "history").iterdir():
        file.unlink()
    (tmp_path / "history").rmdir()
    assert history.recent(9) == []
    (number,) = history.begin(AUTHOR, [change("a.md", b"old", b"new")])
    other = opened(tmp_path / "history")
    other.settle(lambda _path: None)
    history.finish([number])
    assert other.entry(number) is not None
    other.close()
    history.close()


@pytest.mark.parametrize("as_stored", [b"\x78\x01 no zlib", b"x" * 3000, b""])
def test_a_content_that_is_not_what_it_was_is_not_given_out(
    tmp_path: Path, as_stored: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    history = opened(tmp_path)
    make(history, change("a.md", b"old" * 1000, b"new"), change("b.md", b"fine", b"new"))
    db = apsw.Connection(str(tmp_path / "history.db"))
    db.execute("UPDATE blobs SET data=? WHERE hash=?", (as_stored, etag_of(b"old" * 1000)))
    db.close()
    assert history.content(etag_of(b"old" * 1000)) is None
    assert "damaged" in caplog.text
    assert history.content(etag_of(b"fine")) == b"fine"
    assert history.of("a.md", limit=9)[1] == 1
    history.close()
