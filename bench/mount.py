"""`python -m bench.mount`: the server on a slow Drive (an emulated one behind a real rclone mount).

Every figure has its yardstick in the same run: a plain walk of the same mount, the same vault on local
disk, ripgrep on the mount itself.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.server import Server
from bench.vault import Vault, make_vault
from server.search.ripgrep import find_rg
from tests.drive.lab import DriveMount, FakeDrive

_QUIET_SECONDS = 60.0
_RG_PATIENCE = 300.0
_LATENCIES = ("list", "get", "media", "upload", "patch", "changes")


def main() -> int:
    """Measure and print; 1 when a ratio is not what it should be."""
    parser = argparse.ArgumentParser(prog="python -m bench.mount", description=__doc__)
    parser.add_argument("--notes", type=int, default=2_000)
    parser.add_argument("--latency", type=float, default=100.0, help="ms of each call to the Drive")
    parser.add_argument("--sample", type=int, default=200, help="notes read one by one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-mount-") as name:
        work = Path(name)
        vault = make_vault(work / "vault", arguments.notes)
        print(f"{arguments.notes:,} notes, {arguments.latency:.0f} ms for each call to the Drive")
        (work / "drive").mkdir()
        latency = dict.fromkeys(_LATENCIES, arguments.latency)
        with FakeDrive(work / "drive", lifetime=7200) as drive:
            drive.admin("/load", dir=vault.folder, path="vault/claude")
            drive.admin("/latency", **latency)
            return _measure(drive, vault, work, arguments.sample)


def _measure(drive: FakeDrive, vault: Vault, work: Path, sample: int) -> int:
    wrong = list[str]()

    def tell(what: str, value: float, limit: float, above: bool) -> None:
        fits = value >= limit if above else value <= limit
        print(f"  {what}: {value:.3g} ({'at least' if above else 'at most'} {limit:g})", flush=True)
        if not fits:
            wrong.append(what)

    with _mounted(drive, work / "walk") as mount:
        walked = _walk_and_read(mount.root / "claude", sample, len(vault.paths))
        print(f"walk and read one by one: {walked:.0f} s ({sample} notes, scaled)")
    with _mounted(drive, work / "rg") as mount:
        searched = _rg(mount.root / "claude", vault.words[3])
        print(f"ripgrep on the cold mount: {searched:.1f} s")
    local = Server(vault.folder, work / "local-state")
    local.start(**_UNLIMITED)
    with _mounted(drive, work / "serve") as mount:
        server = Server(mount.root / "claude", work / "state")
        try:
            first = server.start(RCLONE_RC=mount.address, **_UNLIMITED).ready
            print(f"first scan: {first:.1f} s")
            tell("faster than a walk", walked / first, 8, above=True)
            _quiet(server, drive, tell)
            for name, call in _searches(vault):
                own, there = _median(call, local), _median(call, server)
                tell(f"{name}, on the mount against local disk", there / own, 1.3, above=False)
                if name == "regex":
                    tell("ripgrep on the mount against a search", searched / there, 100, above=True)
            tell("round trips of a note_read", _round_trips(server, drive, vault), 1, above=False)
        finally:
            server.stop()
            local.stop()
    print(f"not as they should be: {', '.join(wrong)}" if wrong else "all as they should be")
    return 1 if wrong else 0


_UNLIMITED = {"CALLS_PER_SECOND": "0", "CONCURRENT_CALLS": "0"}


@contextmanager
def _mounted(drive: FakeDrive, work: Path) -> Iterator[DriveMount]:
    work.mkdir()
    with DriveMount(drive, work, lifetime=3600) as mount:
        yield mount


def _walk_and_read(folder: Path, sample: int, notes: int) -> float:
    """Seconds for all notes one after the other, the reads of a sample scaled up."""
    started = time.perf_counter()
    found = [Path(at) / name for at, _, names in os.walk(folder) for name in names]
    walked = time.perf_counter() - started
    started = time.perf_counter()
    for path in found[:sample]:
        path.read_bytes()
    return walked + (time.perf_counter() - started) * notes / sample


def _rg(folder: Path, word: str) -> float:
    """Seconds that ripgrep takes on the mount, at most its patience."""
    started = time.perf_counter()
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [find_rg(), "--count", word, str(folder)],
            stdout=subprocess.DEVNULL,
            timeout=_RG_PATIENCE,
            check=False,
        )
    return time.perf_counter() - started


def _quiet(
    server: Server, drive: FakeDrive, tell: Callable[[str, float, float, bool], None]
) -> None:
    """What the server costs while nothing happens: scans go on, contents are not read."""
    time.sleep(5)
    drive.admin("/stats", zero=1)
    before = server.cpu()
    time.sleep(_QUIET_SECONDS)
    spent = (server.cpu() - before) / _QUIET_SECONDS
    tell("per cent of a core while quiet", 100 * spent, 5, False)
    tell("contents read while quiet", drive.admin("/stats").get("media", 0), 0, False)


def _searches(vault: Vault) -> list[tuple[str, Callable[[Server], None]]]:
    def regex(server: Server) -> None:
        server.client.call("vault_search", query=vault.words[3], limit=20)

    def words(server: Server) -> None:
        server.client.call("search_notes", mode="full_text", query=vault.words[40], limit=20)

    return [("regex", regex), ("full text", words)]


def _median(call: Callable[[Server], None], server: Server, times: int = 40) -> float:
    call(server)
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        call(server)
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def _round_trips(server: Server, drive: FakeDrive, vault: Vault) -> float:
    """Calls to the Drive for each read of a known note, the mount's own polling left out."""
    drive.admin("/stats", zero=1)
    paths = vault.paths[:50]
    for path in paths:
        server.client.call("note_read", path=path)
    counted = drive.admin("/stats")
    return float(sum(counted.get(kind, 0) for kind in ("list", "get", "media"))) / len(paths)


if __name__ == "__main__":
    sys.exit(main())
