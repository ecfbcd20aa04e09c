"""How the connections are opened."""

from pathlib import Path

from server.index.schema import connect_reader, connect_writer

MB = 1024 * 1024


def test_connections_are_what_they_are_told_to_be(tmp_path: Path) -> None:
    """SQLite takes any of these in silence, and a script of them ends at the first that answers."""
    writer = connect_writer(tmp_path / "index.db", budget=64 * MB)
    reader = connect_reader(tmp_path / "index.db", budget=64 * MB)
    told = {
        name: writer.pragma(name)
        for name in (
            "page_size", "journal_mode", "synchronous", "wal_autocheckpoint", "journal_size_limit",
            "cache_size",
        )
    }  # fmt: skip
    normal = 1
    assert told == {
        "page_size": 8192,
        "journal_mode": "wal",
        "synchronous": normal,
        "wal_autocheckpoint": 0,
        "journal_size_limit": 64 * MB,
        "cache_size": -8192,
    }
    assert reader.pragma("cache_size") == -8192
    in_memory = 2
    for db in (writer, reader):
        assert (db.pragma("mmap_size"), db.pragma("temp_store")) == (16 * MB, in_memory)
        db.close()
