"""`python -m bench`: make a vault, serve it, measure, print. Exit status 1: a gap in the report."""

import argparse
import http.client
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import ALL, Bed
from bench.points import Point, save, table
from bench.server import Server, Unmeasured
from bench.vault import make_vault
from server.search.executable import find_rg


def main() -> int:
    arguments = _parser().parse_args()
    began = time.perf_counter()
    points: list[Point] = []
    gaps: list[str] = []
    with _bed(arguments.notes) as bed:
        size = bed.vault.bytes / 2**20
        print(f"{arguments.notes:,} notes, {size:.1f} MB", flush=True)
        for measure in ALL:
            try:
                points += measure(bed)
            except (Unmeasured, OSError, http.client.HTTPException) as error:
                gaps.append(f"{measure.__name__} could not be measured: {error}")
    print(table(points))
    print(f"{time.perf_counter() - began:.0f} s in all")
    if arguments.json:
        save(points, arguments.json)
    for gap in gaps:
        print(gap, file=sys.stderr)
    return 1 if gaps else 0


@contextmanager
def _bed(notes: int) -> Iterator[Bed]:
    with tempfile.TemporaryDirectory(prefix="vault-bench-") as name:
        folder = Path(name)
        vault = make_vault(folder / "vault", notes)
        server = Server(vault.folder, folder / "state")
        try:
            yield Bed(vault, server, find_rg(), random.Random(1))
        finally:
            server.stop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000, help="how many (default: 10,000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
