"""Puts the same few jobs to every server over stdio, on the same vault, one server after another."""

import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from time import monotonic, perf_counter, sleep

from bench.bed import Bed
from bench.peers import OURS, PEERS, Call, Peer
from bench.points import Samples
from bench.questions import HALF
from bench.server import Unmeasured
from bench.stdio import Child, TooSlow

_CALL_SECONDS = 20.0
_READY_SECONDS = 180.0
_JOB_SECONDS = 6.0
_LANDMARKS = 15
_CALLS = 30
_WRITES = 5
_SETTLE_SECONDS = 40.0

Cell = float | str | None
"""Milliseconds or megabytes; words where there is no figure; None: it has no such tool."""

JOBS = {
    "first start to the first right answer": "ms",
    "restart to the first right answer": "ms",
    "search: a rare word": "ms",
    "search: two words": "ms",
    "search: a word in half the notes": "ms",
    "read a note": "ms",
    "backlinks of a note": "ms",
    "append to a note": "ms",
    "own write in the next search": "",
    "memory after all of this": "MB",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """What one server did: a cell for each of `JOBS`, or why there are none."""

    name: str
    cells: Mapping[str, Cell]
    problem: str = ""
    release: str = ""


def compare(bed: Bed) -> list[Standing]:
    """Ours first. A peer that cannot be installed or started only says so."""
    bed.server.stop()
    # Spread over the vault, with their old times: no order of reading finds them all early.
    plain = [path for path in bed.vault.paths if path.isascii()]
    marked = plain[:: max(1, len(plain) // _LANDMARKS)][:_LANDMARKS]
    for path in marked:
        _mark(bed.vault.folder / path)
    return [_stand(bed, peer, marked) for peer in (OURS, *PEERS)]


def _mark(file: Path) -> None:
    times = file.stat()
    file.write_bytes(file.read_bytes() + b"\nlandmarkqx\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _stand(bed: Bed, peer: Peer, marked: Sequence[str]) -> Standing:
    cells: dict[str, Cell] = {}
    state = bed.folder / f"peer-{peer.name.replace('/', '-')}"
    state.mkdir()
    try:
        command = peer.command(bed.vault.folder)
        for job in tuple(JOBS)[:2]:
            began = perf_counter()
            environ = peer.environ(bed.vault.folder, state)
            child = Child(command, environ, state / "log", _CALL_SECONDS)
            try:
                child.open()
                cells[job] = _until_right(child, peer, marked, began)
                child.settle(_SETTLE_SECONDS)
                if job == tuple(JOBS)[1]:
                    cells |= _jobs(bed, child, peer)
            finally:
                child.close()
    except (Unmeasured, OSError) as error:
        return Standing(peer.name, cells, str(error).replace(str(Path.home()), "~"))
    return Standing(peer.name, cells, release=peer.release())


def _until_right(child: Child, peer: Peer, marked: Sequence[str], began: float) -> float:
    while True:
        try:
            text = child.call(*peer.search("landmarkqx"))
        except TooSlow:
            text = ""
        except Unmeasured as error:
            # Some refuse to search until they are ready.
            text = str(error)
        taken = perf_counter() - began
        if all(path in text for path in marked):
            return 1000 * taken
        if taken > _READY_SECONDS:
            raise Unmeasured(f"no right answer within {_READY_SECONDS:g} s: {text[:200]}")
        sleep(0.02)


def _jobs(bed: Bed, child: Child, peer: Peer) -> dict[str, Cell]:
    words, rng = bed.vault.words, random.Random(2)
    paths = [path for path in rng.choices(bed.vault.paths, k=200) if path.isascii()]
    searches = (words[9_000], f"{words[230]} {words[180]}", words[HALF])
    reads, asked = cycle(paths), cycle(paths)
    figures: list[Cell] = [_timed(child, partial(peer.search, query)) for query in searches]
    figures.append(_timed(child, lambda: peer.read(next(reads))))
    backlinks = peer.backlinks
    figures.append(_timed(child, lambda: backlinks(next(asked))) if backlinks else None)
    figures += _writes(child, peer, paths[:_WRITES])
    figures.append(child.memory())
    return dict(zip(tuple(JOBS)[2:], figures, strict=True))


def _timed(child: Child, call: Callable[[], Call]) -> Cell:
    """The median of a few calls, or the limit that it broke."""
    taken: list[float] = []
    end = monotonic() + _JOB_SECONDS
    try:
        child.call(*call())
        while len(taken) < _CALLS and (len(taken) < 3 or monotonic() < end):
            tool, arguments = call()
            began = perf_counter()
            child.call(tool, arguments)
            taken.append(1000 * (perf_counter() - began))
    except TooSlow:
        return f"> {_CALL_SECONDS:g} s"
    except Unmeasured as error:
        return f"failed: {str(error)[:60]}"
    return Samples(taken).p50


def _writes(child: Child, peer: Peer, paths: Iterable[str]) -> list[Cell]:
    taken, seen = [], 0
    try:
        for number, path in enumerate(paths):
            token = f"own{peer.name.strip('@')[:3]}{number}qx"
            tool, arguments = peer.append(path, token)
            began = perf_counter()
            child.call(tool, arguments)
            taken.append(1000 * (perf_counter() - began))
            seen += path in child.call(*peer.search(token))
    except Unmeasured as error:
        return [f"failed: {str(error)[:60]}", None]
    return [Samples(taken).p50, "yes" if seen == len(taken) else f"{seen} of {len(taken)}"]
