"""Puts the same few jobs to every server over stdio, on the same vault, by turns."""

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

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
_READS = 100
_WRITES = 15
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
    """Ours first. A peer that cannot be installed or started only says so.

    Starts are timed one after another, calls by turns: a busy moment slows all servers alike.
    """
    bed.server.stop()
    # Spread over the vault, with their old times: no order of reading finds them all early.
    plain = [path for path in bed.vault.paths if path.isascii()]
    marked = plain[:: max(1, len(plain) // _LANDMARKS)][:_LANDMARKS]
    for path in marked:
        _mark(bed.vault.folder / path)
    with ExitStack() as stack:
        racers = [_started(bed, peer, marked, stack) for peer in (OURS, *PEERS)]
        _race(bed, [racer for racer in racers if racer.child is not None])
        return [racer.standing() for racer in racers]


def _mark(file: Path) -> None:
    times = file.stat()
    file.write_bytes(file.read_bytes() + b"\nlandmarkqx\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


@dataclass(slots=True)
class _Racer:
    """One server, what it did so far, and its process while it takes part."""

    peer: Peer
    cells: dict[str, Cell] = field(default_factory=dict)
    child: Child | None = None
    problem: str = ""

    def standing(self) -> Standing:
        release = self.peer.release() if not self.problem else ""
        return Standing(self.peer.name, self.cells, self.problem, release)


def _started(bed: Bed, peer: Peer, marked: Sequence[str], stack: ExitStack) -> _Racer:
    """Time a first start and a restart; the second process stays."""
    racer = _Racer(peer)
    state = bed.folder / f"peer-{peer.name.replace('/', '-')}"
    state.mkdir()
    first, again = tuple(JOBS)[:2]
    try:
        command = peer.command(bed.vault.folder)
        for job in (first, again):
            began = perf_counter()
            environ = peer.environ(bed.vault.folder, state)
            child = Child(command, environ, state / "log", _CALL_SECONDS)
            closing = stack.enter_context(ExitStack())
            closing.callback(child.close)
            child.open()
            racer.cells[job] = _until_right(child, peer, marked, began)
            child.settle(_SETTLE_SECONDS)
            if job == first:
                closing.close()
        racer.child = child
    except (Unmeasured, OSError) as error:
        racer.problem = str(error).replace(str(Path.home()), "~")
    return racer


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


def _race(bed: Bed, racers: Sequence[_Racer]) -> None:
    words, rng = bed.vault.words, random.Random(2)
    paths = [path for path in rng.choices(bed.vault.paths, k=400) if path.isascii()]
    searches = (words[9_000], f"{words[230]} {words[180]}", words[HALF])
    rare, two, half, read, backlinks, append, own, memory = tuple(JOBS)[2:]
    for job, query in zip((rare, two, half), searches, strict=True):
        _by_turns(job, racers, partial(_search, query), _CALLS)
    _by_turns(read, racers, lambda peer, turn: peer.read(paths[turn]), _READS)
    _by_turns(backlinks, racers, lambda peer, turn: _backlinks(peer, paths[turn]), _CALLS)
    _writes(append, own, racers, paths)
    for racer in racers:
        assert racer.child is not None
        racer.cells[memory] = racer.child.memory()


def _search(query: str, peer: Peer, _turn: int) -> Call:
    return peer.search(query)


def _backlinks(peer: Peer, path: str) -> Call | None:
    return peer.backlinks(path) if peer.backlinks else None


def _by_turns(
    job: str, racers: Sequence[_Racer], ask: Callable[[Peer, int], Call | None], calls: int
) -> None:
    """The median of each server's calls, or the limit that it broke. Who is slow makes fewer."""
    taken: dict[str, list[float]] = {racer.peer.name: [] for racer in racers}
    out: set[str] = set()
    for turn in range(calls + 1):
        for racer in racers:
            name = racer.peer.name
            own = taken[name]
            if name in out or (len(own) > 3 and sum(own) > 1000 * _JOB_SECONDS):
                continue
            call = ask(racer.peer, turn)
            if call is None:
                racer.cells[job] = None
                out.add(name)
                continue
            assert racer.child is not None
            try:
                began = perf_counter()
                racer.child.call(*call)
                own.append(1000 * (perf_counter() - began))
                # The first one of a kind is nobody's measure.
                racer.cells[job] = Samples(own[1:] or own).p50
            except TooSlow:
                racer.cells[job] = f"> {_CALL_SECONDS:g} s"
                out.add(name)
            except Unmeasured as error:
                racer.cells[job] = f"failed: {str(error)[:60]}"
                out.add(name)


def _writes(append: str, own: str, racers: Sequence[_Racer], paths: Sequence[str]) -> None:
    """Each appends to notes of its own, by turns, and searches for what it wrote."""
    taken: dict[str, list[float]] = {racer.peer.name: [] for racer in racers}
    seen: Counter[str] = Counter()
    out: set[str] = set()
    for number in range(_WRITES):
        for place, racer in enumerate(racers):
            peer, child = racer.peer, racer.child
            if peer.name in out:
                continue
            assert child is not None
            token = f"own{peer.name.strip('@')[:3]}{number}qx"
            path = paths[number * len(racers) + place]
            try:
                began = perf_counter()
                child.call(*peer.append(path, token))
                taken[peer.name].append(1000 * (perf_counter() - began))
                seen[peer.name] += path in child.call(*peer.search(token))
            except Unmeasured as error:
                racer.cells |= {append: f"failed: {str(error)[:60]}", own: None}
                out.add(peer.name)
                continue
            done, found = taken[peer.name], seen[peer.name]
            racer.cells[append] = Samples(done).p50
            racer.cells[own] = "yes" if found == len(done) else f"{found} of {len(done)}"
