"""`python -m bench`: make a vault, serve it, measure, print. Exit status 1: a gap in the report."""

import argparse
import http.client
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import measure, tools
from bench.bed import Bed, lay_bed
from bench.inside import inside
from bench.points import Point, save, table
from bench.report import Report, peer_table, write_docs
from bench.rivalry import Standing, compare
from bench.server import Unmeasured

_ALL: Sequence[Callable[[Bed], Iterator[Point]]] = (
    measure.first_index,
    measure.restart,
    tools.protocol,
    tools.asked_at_the_tool,
    measure.searches,
    measure.reads,
    measure.writes,
    tools.links_added,
    tools.written_and_found,
    measure.sizes,
    measure.external_edits,
    inside,
    measure.small_budget,
)


def main() -> int:
    arguments = _parser().parse_args()
    began, load = time.perf_counter(), os.getloadavg()[0]
    points: list[Point] = []
    gaps: list[str] = []
    standings: list[Standing] = []
    with lay_bed(arguments.notes) as bed:
        size = bed.vault.bytes / 2**20
        print(f"{arguments.notes:,} notes, {size:.1f} MB", flush=True)
        for job in _ALL:
            print(f"{job.__name__} …", file=sys.stderr, flush=True)
            try:
                points += job(bed)
            except (Unmeasured, OSError, http.client.HTTPException) as error:
                gaps.append(f"{job.__name__} could not be measured: {error}")
        if arguments.peers:
            standings = compare(bed)
            gaps += [f"{own.name}: {own.problem}" for own in standings[:1] if own.problem]
    report = Report(arguments.notes, size, points, standings, load, time.perf_counter() - began)
    print(table(points))
    if standings:
        print(f"\n{peer_table(standings)}")
    print(f"{report.seconds:.0f} s in all")
    if arguments.json:
        save(points, arguments.json)
    if arguments.write_docs:
        write_docs(report, Path("docs"))
    for gap in gaps:
        print(gap, file=sys.stderr)
    return 1 if gaps else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000, help="how many (default: 10,000)")
    parser.add_argument("--peers", action="store_true", help="install and measure other servers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, too")
    parser.add_argument("--write-docs", action="store_true", help="write docs/performance.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
