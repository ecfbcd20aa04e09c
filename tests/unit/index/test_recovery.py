import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from server.errors import Unavailable
from server.index.store import Index
from server.models import etag_of

from .build import doc, text_of


def filled(folder: Path) -> None:
    index = Index.open(folder)
    index.put([doc(f"{number}.md", f"text {number} " * 200) for number in range(50)])
    index.close()


@pytest.mark.parametrize("damage", ["garbage", "truncated", "version", "other tables", "marked"])
def test_a_database_that_is_no_sound_index_is_built_anew(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    file = tmp_path / "index.db"
    if damage == "garbage":
        file.write_bytes(b"not a database at all " * 1000)
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[: 8192 * 5])
    elif damage == "marked":
        (tmp_path / "damaged").touch()
    else:
        db = apsw.Connection(str(file))
        db.execute("PRAGMA user_version=999" if damage == "version" else "DROP TABLE notes")
        db.close()
    index = Index.open(tmp_path)
    assert index.snapshot() == []
    assert "built anew" in caplog.text
    index.put([doc("a.md", "text")])
    assert text_of(index, "a.md") == b"text"
    assert index.check() == []
    index.close()
    again = Index.open(tmp_path)
    assert again.paths() == ["a.md"]
    again.close()


def test_damage_found_while_running_is_mended_by_the_next_start(tmp_path: Path) -> None:
    filled(tmp_path)
    file = tmp_path / "index.db"
    db = apsw.Connection(str(file))
    root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name='headings'").get
    db.close()
    data = bytearray(file.read_bytes())
    data[(root - 1) * 8192 : root * 8192] = b"\xa5" * 8192
    file.write_bytes(data)
    index = Index.open(tmp_path)
    assert len(index.paths()) == 50
    with pytest.raises(Unavailable):
        index.put([doc("a.md", "# heading")])
    index.close()
    again = Index.open(tmp_path)
    assert again.paths() == []
    assert again.check() == []
    again.close()


def test_a_sound_index_is_opened_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    index = Index.open(tmp_path)
    assert len(index.paths()) == 50
    assert caplog.text == ""
    index.close()


_WRITER = """
import sys
from pathlib import Path
from server.index.store import Document, Index
from server.models import FileStat

index = Index.open(Path(sys.argv[1]), segment_bytes=20_000)
print("ready", flush=True)
for turn in range(10_000):
    items = []
    for number in range(turn % 7 + 1):
        path = f"{(turn * 5 + number) % 40}.md"
        data = f"# {turn}\\n[[{number}]] #tag{number} ".encode() * 20
        items.append(Document(path, path, data, FileStat(len(data), turn)))
    index.put(items)
    if turn % 5 == 0:
        index.remove([f"{turn % 40}.md"])
    if turn % 11 == 0:
        index.compact(0.4)
    if turn % 13 == 0:
        index.checkpoint()
    print(turn, flush=True)
"""


def test_killed_at_any_moment_it_reopens_whole(tmp_path: Path) -> None:
    dice = random.Random(7)
    for _ in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        # Between the lines of its report the writer is somewhere inside a write.
        for _ in range(dice.randint(2, 40)):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdout.close()
        index = Index.open(tmp_path, segment_bytes=20_000)
        assert index.check() == []
        rows = [row for path in index.paths() if (row := index.get(path))]
        assert rows
        for row in rows:
            text = index.text(row)
            assert text is None or etag_of(text) == row.etag
        assert all(index.text(row) is not None for row in rows if not row.racy)
        index.close()
