"""Draws bars as SVG, on a logarithmic scale, readable on light and dark pages."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from bench.points import number

_WIDTH, _LABEL, _BAR, _GAP, _TITLE = 760, 190, 20, 6, 34
_SCALE = _WIDTH - _LABEL - 110


def bars(groups: Mapping[str, Sequence[tuple[str, float | str | None]]]) -> str:
    """A picture with one group of bars per title; the values are milliseconds."""
    values = [v for group in groups.values() for _, v in group if isinstance(v, float)]
    low, high = math.log10(min(values) / 2), math.log10(max(values))
    drawn: list[str] = []
    top = 0
    for title, group in groups.items():
        top += _TITLE
        drawn.append(f'<text x="0" y="{top - 10}" font-weight="bold">{escape(title)}</text>')
        for place, (name, value) in enumerate(group):
            drawn.append(_bar(top, name, value, (low, high), first=place == 0))
            top += _BAR + _GAP
    height = top + _TITLE
    drawn.append(
        f'<text x="{_LABEL}" y="{height - 8}">milliseconds, logarithmic; less is better</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="13" fill="#768390">\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


def _bar(
    top: int, name: str, value: float | str | None, span: tuple[float, float], *, first: bool
) -> str:
    base = top + _BAR - 5
    label = f'<text x="{_LABEL - 8}" y="{base}" text-anchor="end">{escape(name)}</text>'
    if not isinstance(value, float):
        return label + f'<text x="{_LABEL}" y="{base}">{escape(value or "—")}</text>'
    low, high = span
    width = max(2.0, _SCALE * (math.log10(value) - low) / max(high - low, 0.01))
    color = "#2f81f7" if first else "#9aa4af"
    return (
        f'{label}<rect x="{_LABEL}" y="{top}" width="{width:.0f}" height="{_BAR}" fill="{color}"/>'
        f'<text x="{_LABEL + width + 6:.0f}" y="{base}">{number(value)} ms</text>'
    )
