"""What a measurement is, and how a list of them is printed."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Literal

Unit = Literal["s", "ms", "MB", "B", "x", "intervals", "missed"]


@dataclass(frozen=True, slots=True)
class Beside:
    """The same job done by something plain in the same run."""

    what: str
    value: float


@dataclass(frozen=True, slots=True)
class Point:
    """One line of the report; `value` is the median where there is a `p99`."""

    what: str
    value: float
    unit: Unit
    p99: float | None = None
    beside: Sequence[Beside] = ()
    target: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Samples:
    """Milliseconds of many runs."""

    values: Sequence[float]

    @property
    def p50(self) -> float:
        return self._quantile(50)

    @property
    def p99(self) -> float:
        return self._quantile(99)

    def _quantile(self, percent: int) -> float:
        if len(self.values) == 1:
            return self.values[0]
        return quantiles(self.values, n=100, method="inclusive")[percent - 1]


def time_together(*jobs: tuple[int, Callable[[], object]]) -> list[Samples]:
    """Run each job as often as it says, by turns, so that a busy moment slows all of them."""
    rounds = max(count for count, _ in jobs)
    taken: list[list[float]] = [[] for _ in jobs]
    for turn in range(rounds):
        for values, (count, job) in zip(taken, jobs, strict=True):
            if turn * count // rounds != (turn - 1) * count // rounds:
                started = perf_counter()
                job()
                values.append(1000 * (perf_counter() - started))
    return [Samples(values) for values in taken]


def table(points: Sequence[Point]) -> str:
    """The report as text."""
    rows = [("what", "value", "beside it", "ratio", "target"), *map(_row, points)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    rows.insert(1, ("-" * widths[0], *("-" * width for width in widths[1:])))  # type: ignore[arg-type]
    return "\n".join(
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def save(points: Sequence[Point], file: Path) -> None:
    """The report as JSON, with every ratio."""
    rows = [
        asdict(point) | {"ratios": [point.value / beside.value for beside in point.beside]}
        for point in points
    ]
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _row(point: Point) -> tuple[str, str, str, str, str]:
    value = amount(point.value, point.unit)
    if point.p99 is not None:
        value += f" (p99 {number(point.p99)})"
    if point.note:
        value += f", {point.note}"
    return (
        point.what,
        value,
        ", ".join(f"{beside.what} {amount(beside.value, point.unit)}" for beside in point.beside),
        " / ".join(f"{point.value / beside.value:.2f}" for beside in point.beside),
        point.target,
    )


def amount(value: float, unit: Unit) -> str:
    """A figure with its unit."""
    return f"{number(value)} {unit}"


def number(value: float) -> str:
    """Three figures that count."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
