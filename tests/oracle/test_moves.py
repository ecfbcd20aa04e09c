"""After any move every link leads to the file it led to, as a slow reading of the raw files sees it.

ORACLE_MOVES sets how many small vaults are tried.
"""

import os
import posixpath
import random
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from server.index.store import Document, Index
from server.markdown.forms import Ends, destination
from server.markdown.rewriting import read, relink
from server.models import Entry, FileStat

from .links import (
    Files,
    Led,
    Places,
    lead,
    make_box,
    make_moves,
    make_vault,
    places,
    read_links,
    without_md,
)

VAULTS = int(os.environ.get("ORACLE_MOVES", "60"))
_CODE = re.compile(rb"```.*", re.DOTALL)


def fill(index: Index, files: Mapping[str, bytes]) -> None:
    notes = [path for path in files if path.endswith(".md")]
    index.put([Document(path, path, files[path], FileStat(1, 1)) for path in notes])
    others = sorted(set(files) - set(notes))
    index.put_files([Entry(path, path, "attachment", FileStat(1, 1)) for path in others])


def move(index: Index, files: Files, moves: Mapping[str, str]) -> Files:
    """The vault after the moves, its links rewritten."""
    after = index.after(moves)
    wanted: dict[str, dict[int, str]] = {}
    for doubt in index.links_in_doubt(moves):
        source = moves.get(doubt.source, doubt.source)
        ends = Ends(doubt.source, source, doubt.now, doubt.wanted)
        new = destination(doubt.target, doubt.kind, ends, lambda t, s=source: after(t, s))  # type: ignore[misc]
        if new is not None:
            wanted.setdefault(doubt.source, {})[doubt.n] = new
    changed = {}
    for path, data in files.items():
        text = data.decode("utf-8", "surrogateescape")
        if path in wanted:
            text = relink(text, read(text), wanted[path])
        changed[moves.get(path, path)] = text.encode("utf-8", "surrogateescape")
        assert (changed[moves.get(path, path)] == data) is (path not in wanted)
    return changed


def agree(index: Index, files: Files) -> None:
    """The index sees every link lead where the files say."""
    found = read_links(files)
    for source in files:
        links = [link.path or None for link in found if link.source == source]
        assert [link.dst for link in index.outbound(source)] == links, source


def check(before: Files, after: Files, moves: Mapping[str, str]) -> None:
    links = {(link.source, link.place): link for link in read_links(before)}
    found = {(link.source, link.place): link for link in read_links(after)}
    assert len(found) == len(links)
    there = places(after)
    for (source, place), old in links.items():
        new = found[moves.get(source, source), place]
        assert (new.rest, new.kind) == (old.rest, old.kind)
        if old.path:
            assert new.path == moves.get(old.path, old.path), (old, new)
            check_form(there, old, new)
        else:
            # A name that nobody had may have been given to a file; the link itself stays.
            assert new.path == "" or new.path in moves.values(), (old, new)
            assert new.target == old.target or old.target.startswith("../"), (old, new)
    for path, data in before.items():
        assert _CODE.findall(after[moves.get(path, path)]) == _CODE.findall(data)


def check_form(there: Places, old: Led, new: Led) -> None:
    """A link changes no more than it has to."""
    leads = lead(there, old.target, new.source) == new.path
    if leads and (old.source, old.path) == (new.source, new.path):
        assert new.target == old.target
    has_md = old.target.lower().endswith(".md")
    assert new.target.lower().endswith(".md") == has_md
    assert not old.target.startswith("/") or new.target.startswith("/")
    name = posixpath.basename(new.path)
    name = name if has_md else without_md(name)
    if "/" not in old.target and (old.kind == "wiki" or folder(old.source) != folder(old.path)):
        # A name stays one wherever it is enough.
        enough = lead(there, name, new.source) == new.path
        assert enough == ("/" not in new.target), (old, new)
    if "/" in old.target and not old.target.startswith((".", "/")) and old.target != new.target:
        place = posixpath.normpath(posixpath.join(folder(new.source), new.target))
        spelled = (place, new.target.lstrip("/"))
        assert any(f"/{without_md(new.path)}".endswith(f"/{without_md(way)}") for way in spelled)


def folder(path: str) -> str:
    return posixpath.dirname(path)


@pytest.mark.parametrize("batch", range(6))
def test_links_lead_to_the_same_files_after_a_move(batch: int, tmp_path: Path) -> None:
    for number in range(VAULTS // 6):
        rng = random.Random(f"{batch}-{number}")
        files = make_vault(rng, rng.randint(5, 30), rng.randint(10, 60))
        moves = make_moves(rng, files)
        with closing(Index.open(tmp_path / f"before-{number}")) as index:
            fill(index, files)
            changed = move(index, files, moves)
        check(files, changed, moves)
        with closing(Index.open(tmp_path / f"after-{number}")) as index:
            fill(index, changed)
            agree(index, changed)


@pytest.mark.parametrize("place", ["Shelf", "a b/Box 2", "Crate"])
def test_a_folder_of_500_notes_moves_with_2000_links_to_them(place: str, tmp_path: Path) -> None:
    files = make_box(random.Random(place), "Crate", 500, 2_000)
    with closing(Index.open(tmp_path / "state")) as index:
        fill(index, files)
        below = [row.path for row in index.files_below("Crate")]
        assert len(below) == 500
        moves = {path: place + path.removeprefix("Crate") for path in below}
        changed = move(index, files, moves)
    check(files, changed, moves)
    assert (changed == files) is (place == "Crate")
