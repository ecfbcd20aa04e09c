"""A server whose index is built anew while agents go on asking."""

from pathlib import Path

import apsw

from server.index.generations import request_mark
from tests.drive.processes import wait_for

from .house import House, opened


def index_of(state: Path) -> Path:
    return state / "slot-0" / "index"


def spoil(folder: Path, table: str) -> None:
    """Overwrite the root of a table."""
    db = apsw.Connection(str(folder / "index.db"))
    root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name=?", (table,)).get
    db.close()
    with (folder / "index.db").open("r+b") as file:
        file.seek((root - 1) * 8192)
        file.write(b"\xa5" * 8192)


def found(house: House, word: str) -> list[str]:
    answer = house.call("search_notes", query=word, mode="full_text")
    return [item["path"] for item in answer["items"]]


def fill(folder: Path) -> None:
    folder.mkdir()
    for number in range(300):
        (folder / f"n{number}.md").write_text(f"# Heading\n\nword{number} lorem")


def test_damage_is_mended_without_a_restart(tmp_path: Path) -> None:
    vault, state = tmp_path / "vault", tmp_path / "state"
    fill(vault)
    with opened(vault, state):
        pass
    spoil(index_of(state), "headings")
    with opened(vault, state) as house:
        # The vault has the note whatever the index says, and full text is not what is damaged.
        house.call("note_upsert", path="new.md", content="# Heading\n\nfreshly written")
        assert found(house, "word7") == ["n7.md"]
        wait_for(lambda: found(house, "freshly") == ["new.md"])
        wait_for(lambda: not house.app.index.needs_rebuild)
        assert found(house, "word7") == ["n7.md"]
        answer = house.call("search_notes", query="lorem", mode="full_text")
        assert answer["total"] == 300
        assert "incomplete" not in answer
        assert house.app.index.check() == []
        house.call("note_upsert", path="n7.md", content="appended")
        assert found(house, "appended") == ["n7.md"]
    with opened(vault, state) as house:
        assert found(house, "freshly") == ["new.md"]


def test_somebody_wants_the_index_to_be_built_anew(tmp_path: Path) -> None:
    vault, state = tmp_path / "vault", tmp_path / "state"
    fill(vault)
    with opened(vault, state) as house:
        request_mark(index_of(state)).touch()
        # Every answer on the way is whole: the old index serves until the new one does.
        wait_for(lambda: found(house, "word7") == ["n7.md"] and not house.app.index.needs_rebuild)
        assert house.call("search_notes", query="lorem", mode="full_text")["total"] == 300
        wait_for(lambda: len(list(index_of(state).rglob("index.db"))) == 1)
