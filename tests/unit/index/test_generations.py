"""An index that is built anew while the old one goes on answering."""

from pathlib import Path

import apsw
import pytest

from server.errors import Unavailable
from server.index.generations import request_mark
from server.index.store import Index

from .build import doc, text_of


def filled(folder: Path, count: int = 50) -> None:
    index = Index.open(folder)
    index.put([doc(f"{number}.md", f"# text {number} " * 200) for number in range(count)])
    index.set_complete()
    index.close()


def spoil(folder: Path, table: str) -> None:
    """Overwrite the root of a table."""
    file = folder / "index.db"
    db = apsw.Connection(str(file))
    root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name=?", (table,)).get
    db.close()
    data = bytearray(file.read_bytes())
    data[(root - 1) * 8192 : root * 8192] = b"\xa5" * 8192
    file.write_bytes(data)


def due(index: Index) -> bool:
    return index.needs_rebuild


def rebuild(index: Index, *paths: str) -> None:
    """What a scan does."""
    target = index.target()
    target.put([doc(path, f"new {path}") for path in paths])
    target.set_complete()
    index.promote()


def test_a_sound_index_is_its_own_target(tmp_path: Path) -> None:
    index = Index.open(tmp_path)
    assert not due(index)
    assert index.target() is index
    index.promote()
    index.close()


def test_the_old_one_serves_until_the_new_one_is_complete(tmp_path: Path) -> None:
    filled(tmp_path)
    index = Index.open(tmp_path)
    request_mark(tmp_path).touch()
    target = index.target()
    assert target is not index
    assert target is index.target(), "a second scan goes on with it"
    assert len(index.paths()) == 50
    index.put([doc("mine.md", "written meanwhile")])
    assert text_of(index, "mine.md") == b"written meanwhile"
    rebuild(index, "a.md")
    assert index.paths() == ["a.md", "mine.md"]
    assert text_of(index, "mine.md") == b"written meanwhile"
    assert not due(index)
    assert index.target() is index
    assert index.check() == []
    index.close()


def test_a_reader_of_the_old_one_is_not_disturbed(tmp_path: Path) -> None:
    filled(tmp_path)
    index = Index.open(tmp_path)
    request_mark(tmp_path).touch()
    with index.reading() as look:
        rebuild(index, "a.md")
        number, file = look.segments[0]
        found = look.locate(number, 0)
        assert found is not None
        assert found.path == "0.md"
        assert look.text(number, found) == file.read_bytes()[: found.length]
    index.close()


def test_what_was_replaced_is_deleted(tmp_path: Path) -> None:
    filled(tmp_path)
    index = Index.open(tmp_path)
    for turn in range(3):
        request_mark(tmp_path).touch()
        rebuild(index, f"{turn}.md")
        index.tend()
        assert index.paths() == [f"{turn}.md"]
        assert len(list(tmp_path.rglob("index.db"))) == 1
    index.close()
    again = Index.open(tmp_path)
    assert again.paths() == ["2.md"]
    assert again.is_complete
    assert text_of(again, "2.md") == b"new 2.md"
    assert (tmp_path / "index.db").exists()
    assert not (tmp_path / "next").exists()
    again.close()


def test_a_successor_that_was_never_completed_is_forgotten(tmp_path: Path) -> None:
    filled(tmp_path)
    index = Index.open(tmp_path)
    request_mark(tmp_path).touch()
    index.target().put([doc("a.md", "text")])
    index.close()
    again = Index.open(tmp_path)
    assert len(again.paths()) == 50
    assert due(again), "it is still wanted"
    again.close()


def test_a_move_that_was_cut_short_starts_empty(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "moving").mkdir()
    index = Index.open(tmp_path)
    assert index.paths() == []
    assert not index.is_complete
    assert not (tmp_path / "moving").exists()
    index.close()


def test_damage_found_while_running_is_mended_in_place(tmp_path: Path) -> None:
    filled(tmp_path)
    spoil(tmp_path, "headings")
    index = Index.open(tmp_path)
    with pytest.raises(Unavailable) as caught:
        index.put([doc("a.md", "# heading")])
    assert "built anew" in caught.value.message
    assert due(index)
    assert len(index.paths()) == 50, "what is sound is still read"
    index.target()
    index.put([doc("mine.md", "# written meanwhile")])
    assert index.tend() == 0
    rebuild(index, "a.md")
    assert index.paths() == ["a.md", "mine.md"]
    assert not due(index)
    assert index.check() == []
    index.close()


def test_a_successor_that_is_damaged_is_begun_again(tmp_path: Path) -> None:
    filled(tmp_path)
    index = Index.open(tmp_path)
    request_mark(tmp_path).touch()
    first = index.target()
    (tmp_path / "next" / "damaged").touch()
    assert index.target() is not first
    rebuild(index, "a.md")
    assert index.paths() == ["a.md"]
    index.close()


def test_an_older_version_serves_until_it_is_built_anew(tmp_path: Path) -> None:
    filled(tmp_path)
    db = apsw.Connection(str(tmp_path / "index.db"))
    db.execute("DROP TABLE fulltext; DROP TABLE fulltext_sum; PRAGMA user_version=4")
    db.close()
    index = Index.open(tmp_path)
    assert index.is_complete
    assert due(index)
    assert len(index.paths()) == 50
    assert index.find(None).total == 50
    assert text_of(index, "7.md") is not None
    assert index.usage().used == index.tend() == 0
    index.put([doc("mine.md", "written meanwhile")])
    index.touch("7.md", doc("7.md").stat, racy=False)
    rebuild(index, "a.md")
    assert index.paths() == ["a.md", "mine.md"]
    assert index.usage().used > 0
    index.close()
    again = Index.open(tmp_path)
    assert not due(again)
    assert again.paths() == ["a.md", "mine.md"]
    again.close()


def test_cached_sets_of_one_generation_are_not_used_for_another(tmp_path: Path) -> None:
    filled(tmp_path)
    index = Index.open(tmp_path)
    assert index.find(None).total == 50
    request_mark(tmp_path).touch()
    rebuild(index, "a.md")
    assert index.find(None).total == 1
    assert [hit.row.path for hit in index.find(None).hits] == ["a.md"]
    index.close()
