"""The measurements, each a function from the bed to its points; all at the tool, as an agent."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.bed import Bed
from bench.points import Beside, Point, Samples, time_together
from bench.questions import questions
from bench.server import Unmeasured, wait_until
from bench.vault import Vault

_INTERVAL = 2.0
_IMPORTS = "import server.cli, server.app, server.doors.http, server.doors.mcp, server.doors.serve"


def first_index(bed: Bed) -> Iterator[Point]:
    start = bed.server.start()
    index = bed.server.client.call("health_check")["index"]
    if index["notes"] != len(bed.vault.paths):
        raise Unmeasured(f"{index['notes']} notes are indexed, not {len(bed.vault.paths)}")
    (plain,) = time_together((1, partial(_read_all, bed.vault)))
    target = "< 15 s" if bed.notes <= 10_000 else "< 150 s"
    reading = Beside("reading every note", plain.p50 / 1000)
    yield Point("first index: start to ready", start.ready, "s", beside=[reading], target=target)
    yield Point("  the scan alone", index["scan_seconds"], "s", beside=[reading])
    yield _memory(bed, "RSS after the first index")


def restart(bed: Bed) -> Iterator[Point]:
    importing = partial(_run, [sys.executable, "-c", _IMPORTS])
    alive, ready, imports = [], [], []
    for _ in range(3):
        bed.server.stop()
        (import_,) = time_together((1, importing))
        imports.append(import_.p50 / 1000)
        start = bed.server.start()
        alive.append(start.alive)
        ready.append(start.ready)
    beside = [Beside("python with its imports", Samples(imports).p50)]
    yield Point("restart to ready", Samples(ready).p50, "s", beside=beside, target="< 1 s")
    yield Point("  to /healthz", Samples(alive).p50, "s")
    yield _memory(bed, "RSS idle after a restart")


def searches(bed: Bed) -> Iterator[Point]:
    for what, query, glob in _queries(bed.vault):
        yield _search(bed, what, query, glob)


def _queries(vault: Vault) -> Sequence[tuple[str, str, str | None]]:
    words = vault.words
    rare, often, everywhere = words[9_000], words[230], words[3]
    return (
        ("literal, rare", rare, None),
        ("literal, thousands", often, None),
        ("literal, everywhere", everywhere, None),
        ("CJK, two signs", vault.signs[40] + vault.signs[2], None),
        ("regex, rare", rf"\b{rare[:4]}\w+{rare[-2:]}\b", None),
        ("regex, thousands", rf"{often[:4]}\w+ \w+", None),
        ("regex, everywhere", rf"{everywhere}\w* \w+", None),
        ("regex, a date", r"\d{4}-\d\d-\d\d", None),
        ("alternation of 5", "|".join(words[300:305]), None),
        ("open tasks", r"- \[ \]", None),
        ("no match", "qxqxqx", None),
        ("in a folder", often, "devlog/**"),
        ("in most folders", often, "*-00[0-8]*.md"),
    )


def _search(bed: Bed, what: str, query: str, glob: str | None) -> Point:
    arguments = {"query": query} | ({"path_filter": glob} if glob else {})
    search = partial(bed.server.client.call, "vault_search", **arguments)
    found = search()
    plain = [bed.rg, "--no-config", "-n", "-S", "-e", query]
    folder = [*plain, *(("-g", glob) if glob else ()), str(bed.vault.folder)]
    segments = [*plain, "-a", *map(str, sorted(bed.server.state.glob("slot-*/index/mirror/*.seg")))]
    tool, over_folder, over_mirror = time_together(
        (30, search), (8, partial(_run, folder)), (8, partial(_run, segments))
    )
    return Point(
        f"search: {what}",
        tool.p50,
        "ms",
        p99=tool.p99,
        beside=[Beside("rg", over_folder.p50), Beside("rg on the mirror", over_mirror.p50)],
        target="< 40 ms",
        note=f"{found['total']:,}{'+' if found.get('capped') else ''} lines",
    )


def reads(bed: Bed) -> Iterator[Point]:
    call, paths = bed.server.client.call, iter(bed.some_paths(300))
    files = iter(bed.some_paths(60))
    tool, cat = time_together(
        (300, lambda: call("note_read", path=next(paths))),
        (60, lambda: _run(["cat", str(bed.vault.folder / next(files))])),
    )
    yield Point(
        "note_read", tool.p50, "ms", p99=tool.p99, beside=[Beside("cat", cat.p50)], target="small"
    )
    folder = os.path.dirname(bed.vault.paths[0])
    tool, scan = time_together(
        (100, lambda: call("vault_list", path=folder)),
        (100, lambda: _list(bed.vault.folder / folder)),
    )
    beside = [Beside("scandir and stat", scan.p50)]
    yield Point("vault_list, a folder", tool.p50, "ms", p99=tool.p99, beside=beside)
    (tool,) = time_together((50, lambda: call("vault_list", depth=20, glob="*-0001*.md")))
    yield Point("vault_list, all, by a glob", tool.p50, "ms", p99=tool.p99)
    listing = bed.server.client.post("tools/list")
    (tool,) = time_together((100, lambda: bed.server.client.post("tools/list")))
    note = f"{len(listing):,} B"
    yield Point("tools/list", tool.p50, "ms", p99=tool.p99, note=note)


def writes(bed: Bed) -> Iterator[Point]:
    call = bed.server.client.call
    addition = " ".join(bed.vault.words[50:60])
    paths, others = iter(bed.some_paths(200)), iter(bed.some_paths(200))
    tool, plain = time_together(
        (200, lambda: call("note_upsert", path=next(paths), content=addition)),
        (200, lambda: _replace(bed.vault.folder / next(others), addition)),
    )
    beside = [Beside("write, fsync, rename", plain.p50)]
    yield Point("note_upsert, append", tool.p50, "ms", p99=tool.p99, beside=beside)
    missed = 0
    for number, path in enumerate(bed.some_paths(100)):
        token = f"written{number:04d}qx"
        call("note_upsert", path=path, content=token)
        found = call("vault_search", query=token)["results"]
        missed += path not in [result["path"] for result in found]
    yield Point("write, then search at once", missed, "missed", note="of 100", target="0")


def external_edits(bed: Bed) -> Iterator[Point]:
    bed.server.stop()
    bed.server.start(SCAN_INTERVAL=str(_INTERVAL))
    waits = []
    for number, path in enumerate(bed.some_paths(6)):
        # Any phase of the scanner's pause must do.
        time.sleep(bed.rng.uniform(0, _INTERVAL))
        token = f"edited{number:04d}qx"
        _replace(bed.vault.folder / path, token)
        edited = time.perf_counter()
        seen = wait_until(partial(_finds, bed, token), 60, f"{path}: the edit was never seen", 0.05)
        waits.append((seen - edited) / _INTERVAL)
    scan = bed.server.client.call("health_check")["index"]["scan_seconds"]
    yield Point(
        f"external edit to search, slowest of {len(waits)}",
        max(waits),
        "intervals",
        note=f"SCAN_INTERVAL={_INTERVAL:g}, a scan takes {scan:.2g} s",
        target="1",
    )


def sizes(bed: Bed) -> Iterator[Point]:
    yield _memory(bed, "RSS after all of the above")
    disk = sum(
        512 * file.stat().st_blocks for file in bed.server.state.rglob("*") if file.is_file()
    )
    yield Point(
        "state on disk", disk / 2**20, "MB", beside=[Beside("the notes", bed.vault.bytes / 2**20)]
    )


def small_budget(bed: Bed) -> Iterator[Point]:
    """With little room for the index: what stays resident after every kind of question."""
    bed.server.stop()
    bed.server.start(INDEX_BUDGET_MB="64")
    for question in questions(bed.vault, bed.some_paths):
        bed.server.client.call(question.tool, **question.ask())
    now, most = bed.server.memory()
    note = f"{most:.0f} at most"
    yield Point("RSS with INDEX_BUDGET_MB=64", now, "MB", note=note, target="< 214 MB")


def _memory(bed: Bed, what: str) -> Point:
    target = "< 250 MB" if bed.notes <= 10_000 else "< 500 MB"
    now, most = bed.server.memory()
    return Point(what, now, "MB", note=f"{most:.0f} at most", target=target)


def _finds(bed: Bed, token: str) -> bool:
    return bool(bed.server.client.call("vault_search", query=token)["results"])


def _run(command: Sequence[str]) -> None:
    code = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
    if code not in (0, 1):
        raise Unmeasured(f"{command[0]} failed: {code}")


def _read_all(vault: Vault) -> None:
    for path in vault.paths:
        (vault.folder / path).read_bytes()


def _list(folder: Path) -> None:
    with os.scandir(folder) as entries:
        sorted((entry.name, entry.stat().st_size) for entry in entries)


def _replace(file: Path, addition: str) -> None:
    """Append by the book: a new file beside it, on disk, then in its place."""
    fresh = file.with_name(f".{file.name}.new")
    with fresh.open("wb") as out:
        out.write(file.read_bytes() + b"\n" + addition.encode())
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
