"""`python -m bench.inside`: the same questions without HTTP and MCP, and the update of one note."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from bench.bed import Bed, lay_bed
from bench.points import Point, Samples, table, time_together
from bench.questions import Question, behind_rules, questions
from bench.server import wait_until
from server.app import App, open_app
from server.catalog.table import OPERATIONS
from server.cli import collect_seldom
from server.index.rows import Document
from server.models import Caller, FileStat
from server.settings import load

_CALLS = 200
_CALLER = Caller("bench", door="stdio")
_WALLED = Caller("walled", door="stdio")
_DENIED = ("people", "projects/alpha", "reading/books", "日記")
_TOOLS = {operation.name: operation for operation in OPERATIONS}


def inside(bed: Bed) -> Iterator[Point]:
    """Open the app in this very process, over the state that the server left."""
    bed.server.stop()
    names = {"VAULT_PATH": str(bed.vault.folder), "STATE_DIR": str(bed.server.state)}
    names["POLICY_FILE"] = str(_lay_policy(bed))
    names |= {"CALLS_PER_SECOND": "0", "CONCURRENT_CALLS": "0", "WRITE_MB_PER_HOUR": "0"}
    with open_app(load(names)) as app:
        # As a server does: looking through all that it built would be the slowest of many searches.
        collect_seldom()
        wait_until(lambda: app.service.status.ready()[0], 600, "the app was never ready", 0.01)
        target = "5 / 25 ms" if bed.notes <= 10_000 else "10 / 60 ms"
        asked = [(_CALLER, one) for one in questions(bed.vault, bed.some_paths)]
        asked += [(_WALLED, one) for one in behind_rules(bed.vault)]
        for caller, question in asked:
            taken = Samples(asyncio.run(_ask(app, caller, question)))
            goal = target if question.promised else ""
            yield Point(f"inside: {question.what}", taken.p50, "ms", p99=taken.p99, target=goal)
        yield _update(bed, app)


def _lay_policy(bed: Bed) -> Path:
    """Everybody may read everything but one, who is kept from folders, one within another, and notes."""
    hidden = [*_DENIED, *bed.some_paths(20)]
    rules = [{"path": path, "read_deny": True} for path in hidden]
    rules.append({"path": "projects/alpha/specs", "read_allow": True})
    everyone = [{"path": "/", "read_allow": True, "write_allow": True}]
    file = bed.folder / "policy.yaml"
    file.write_text(json.dumps({"rules": everyone, "callers": {_WALLED.name: {"rules": rules}}}))
    return file


async def _ask(app: App, caller: Caller, question: Question) -> Sequence[float]:
    """Milliseconds from a validated input to the output's fields."""
    operation = _TOOLS[question.tool]
    inputs = [operation.input.model_validate(question.ask()) for _ in range(_CALLS + 1)]
    taken = []
    for asked in inputs:
        began = perf_counter()
        await operation.run(app.service, caller, asked)
        taken.append(1000 * (perf_counter() - began))
    # The first one opens the connections of the threads.
    return taken[1:]


def _update(bed: Bed, app: App) -> Point:
    documents = iter(
        [_changed(bed, path, number) for number, path in enumerate(bed.some_paths(200))]
    )
    (taken,) = time_together((200, lambda: app.index.put([next(documents)])))
    return Point("inside: index update of one note", taken.p50, "ms", p99=taken.p99, target="5 ms")


def _changed(bed: Bed, path: str, number: int) -> Document:
    data = (bed.vault.folder / path).read_bytes() + f"\nanew{number:04d}qx [[{number}]]\n".encode()
    now = time.time_ns()
    return Document(path, path, data, FileStat(len(data), now), racy=True, looked_ns=now)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.inside", description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000, help="how many (default: 10,000)")
    with lay_bed(parser.parse_args().notes) as bed:
        print(table(list(inside(bed))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
