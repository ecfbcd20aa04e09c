"""The operations that answer from the index, and the protocol's own cost, at the tool."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from time import perf_counter

from bench.bed import Bed
from bench.points import Point, Samples, time_together
from bench.questions import Question, questions

_CALLS = 60


def protocol(bed: Bed) -> Iterator[Point]:
    """What a call costs when there is next to nothing to do: HTTP, JSON-RPC, validation, dispatch."""
    client = bed.server.client
    discover, health = time_together(
        (300, partial(client.post, "server/discover")),
        (300, partial(client.call, "health_check")),
    )
    yield Point("MCP: server/discover", discover.p50, "ms", p99=discover.p99)
    yield Point("MCP: health_check", health.p50, "ms", p99=health.p99)


def asked_at_the_tool(bed: Bed) -> Iterator[Point]:
    for question in questions(bed.vault, bed.some_paths):
        yield _asked(bed, question)


def _asked(bed: Bed, question: Question) -> Point:
    call = bed.server.client.call
    answer = call(question.tool, **question.ask())
    size = len(json.dumps(answer, ensure_ascii=False).encode()) / 1024
    (taken,) = time_together((_CALLS, lambda: call(question.tool, **question.ask())))
    found = answer.get("total", answer.get("matched"))
    note = f"{size:.1f} KB" if found is None else f"{found:,} found, {size:.1f} KB"
    return Point(question.what, taken.p50, "ms", p99=taken.p99, note=note)


def links_added(bed: Bed) -> Iterator[Point]:
    paths = sorted(set(bed.some_paths(200)))
    pairs = iter([{"from": one, "to": other} for one, other in pairwise(paths)])
    call = bed.server.client.call
    (taken,) = time_together((min(80, len(paths) - 1), lambda: call("link_add", **next(pairs))))
    yield Point("link_add", taken.p50, "ms", p99=taken.p99)


def written_and_found(bed: Bed) -> Iterator[Point]:
    """From the call that writes to the answer of the search that finds it."""
    call, taken, missed = bed.server.client.call, [], 0
    for number, path in enumerate(bed.some_paths(60)):
        token = f"renewed{number:04d}qx"
        began = perf_counter()
        call("note_upsert", path=path, content=token)
        found = call("search_notes", mode="full_text", query=token)["items"]
        taken.append(1000 * (perf_counter() - began))
        missed += path not in [item["path"] for item in found]
    both = Samples(taken)
    yield Point("note_upsert and search_notes", both.p50, "ms", p99=both.p99)
    yield Point("  not found at once", missed, "missed", note=f"of {len(taken)}", target="0")
