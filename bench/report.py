"""Writes the page about performance from one run: tables, the machine, what the figures are worth."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.chart import bars
from bench.points import Point, amount, number
from bench.rivalry import JOBS, Cell, Standing

_CHARTED = ("search: a rare word", "search: a word in half the notes")


@dataclass(frozen=True, slots=True)
class Report:
    """One run."""

    notes: int
    megabytes: float
    points: Sequence[Point]
    standings: Sequence[Standing]
    load: float
    """The machine's load average before the run."""
    seconds: float


def peer_table(standings: Sequence[Standing]) -> str:
    """Every server beside ours, as Markdown; the ratio is the peer's figure over ours."""
    heads = ["", *(f"{each.name} {each.release}".strip() for each in standings)]
    rows = [heads, ["---", *("---:" for _ in standings)]]
    for job, unit in JOBS.items():
        own = standings[0].cells.get(job)
        rows.append([job, *(_cell(each.cells.get(job), own, unit) for each in standings)])
    text = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    problems = [f"- {each.name}: {each.problem}" for each in standings if each.problem]
    return "\n".join([text, *([""] if problems else []), *problems])


def write_docs(report: Report, folder: Path) -> None:
    """`performance.md` and its charts."""
    folder.mkdir(exist_ok=True)
    parts = [_opening(report), *_peers(report, folder), *_own(report), _worth()]
    (folder / "performance.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _opening(report: Report) -> str:
    return f"""# Performance

Figures of one run over a made vault of {report.notes:,} notes ({report.megabytes:.0f} MB; word frequencies \
follow Zipf's law, 8 % of the notes are Chinese or Japanese in script, every paragraph links to \
another note). The vault is the same on every machine:

```sh
{_command(report)}
```

{_machine(report)}"""


def _command(report: Report) -> str:
    peers = " --peers" if report.standings else ""
    return f"python -m bench --notes {report.notes}{peers} --write-docs"


def _machine(report: Report) -> str:
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    cores = os.cpu_count() or 1
    busy = (
        f"Other work ran on the machine (load average {report.load:.1f} before the run), so compare "
        "the figures with each other rather than with those of another day."
        if report.load > 0.5
        else f"The machine was otherwise idle (load average {report.load:.1f} before the run)."
    )
    return (
        f"Machine: {cores} cores ({platform.machine()}), {pages * page / 2**30:.0f} GB of memory, "
        f"{platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}, "
        f"mcp {_version('mcp')}, apsw {_version('apsw')}. The run took {report.seconds / 60:.0f} minutes. "
        f"{busy}"
    )


def _peers(report: Report, folder: Path) -> list[str]:
    if not report.standings:
        return []
    named = [(each.name, each.cells) for each in report.standings]
    for file, jobs in (("search", _CHARTED), ("start", tuple(JOBS)[:2])):
        picture = bars({job: [(name, cells.get(job)) for name, cells in named] for job in jobs})
        (folder / f"performance-{file}.svg").write_text(picture, encoding="utf-8")
    return [
        "## Beside other servers",
        "All over stdio with the same client, over the same files, each with its own defaults. Starts are "
        "timed one after another, calls by turns, so that each server has been idle before it is asked, "
        "as it is between the calls of an agent. In brackets: how many times "
        "vault-mcp's figure. —: there is no such tool.",
        peer_table(report.standings),
        "![Search beside other servers](performance-search.svg)",
        "![Start beside other servers](performance-start.svg)",
        "The first right answer is a search that finds fifteen notes spread over the "
        "vault, timed from the start of the process. On a first start an index has to "
        "be built; servers without one need none, and read the files at each search. vault-mcp looks "
        "for the words in the folder, too, until its index is built (the row “first index” below), "
        "and says so in its answers: a frequent word is found in all of its notes only then. "
        "Before anything else is timed, a server may finish its work in the background. Times are "
        "medians; results are limited to 20; the servers don't rank or match alike, so the answers "
        "differ. markdown-vault-mcp was given a file for its index, and searches by keyword."
        " A write counts as seen when each of five appended words is found by the search that follows "
        "at once, with default arguments; markdown-vault-mcp can also be told to wait for its writes.",
    ]


def _own(report: Report) -> list[str]:
    inner = [point for point in report.points if point.what.startswith("inside: ")]
    outer = [point for point in report.points if not point.what.startswith("inside: ")]
    return [
        "## At the tool",
        "Over HTTP with one connection, as an agent calls. A ratio is the figure over the plain tool "
        "beside it: below 1, the server is faster. “rg” searches the vault's folder and starts a "
        "process each time, as an agent with a shell would; `search_notes` has no such neighbour.",
        _points(outer),
        "## Inside the service",
        "The same questions in one process, without HTTP and MCP: from a validated input to the "
        "output's fields. The difference to the table above is the cost of the protocol, the client "
        "included. Goals are for the median and p99.",
        _points(inner),
    ]


def _points(points: Sequence[Point]) -> str:
    rows = ["| what | median | p99 | beside it | ratio | goal |", "|---|---:|---:|---|---:|---|"]
    for point in points:
        beside = ", ".join(f"{each.what} {amount(each.value, point.unit)}" for each in point.beside)
        ratios = " / ".join(f"{point.value / each.value:.2f}" for each in point.beside)
        p99 = "" if point.p99 is None else number(point.p99)
        note = f" ({point.note})" if point.note else ""
        what = point.what.removeprefix("inside: ")
        what = f"… {what.strip()}" if what.startswith(" ") else what
        value = amount(point.value, point.unit)
        rows.append(f"| {what}{note} | {value} | {p99} | {beside} | {ratios} | {point.target} |")
    return "\n".join(rows)


def _worth() -> str:
    return """## What the figures are worth

- A p99 of 60 calls is nearly the slowest of them; inside the service there are 200 calls each.
- Where something stands beside a figure, both ran by turns, so that a busy moment slows both; the
  ratio is steadier than either.
- The vault lies on a local disk, and its files are in the page cache. A mount over a network is
  slower to write to and to scan; searches don't touch it.
- Not measured here: several callers at once, path rules per caller, attachments, notes far larger
  than a few kilobytes, Windows and macOS, how good the answers are."""


def _cell(value: Cell, own: Cell, unit: str) -> str:
    if value is None:
        return "—"
    if isinstance(value, str):
        return value
    text = (
        amount(value / 1000, "s") if unit == "ms" and value >= 1000 else f"{number(value)} {unit}"
    )
    compared = isinstance(own, float) and own is not value
    return f"{text} ({value / own:.3g}×)" if compared and isinstance(own, float) else text


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
