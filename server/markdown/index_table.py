"""The table of decisions in an index note: rows are added, a cell is changed, the rest stays. Pure.

People edit that note: the table is found by its ADR column wherever it is, with whatever columns in
whatever order, and without one a new table is put at the end.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from server.markdown.decisions import label
from server.markdown.line_breaks import line_break
from server.markdown.slugs import one_line

COLUMNS = ("ADR", "Title", "Status", "Date")
HEADING = "Decisions"

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_RULE = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_LEAD = re.compile(r"[ \t>]*")
_PIECE = re.compile(r"\\.|\[\[[^\[\]\r\n]*\]\]|\|")
_NUMBER = re.compile(r"(?:adr[-_ ]?)?0*([0-9]{1,6})(?![0-9])", re.IGNORECASE)
_ADR = re.compile(r"adrs?(?:[ \t]*(?:#|no\.?|nr\.?|number))?", re.IGNORECASE)
_MEANT = {
    "title": "title", "decision": "title", "name": "title", "subject": "title",
    "status": "status", "state": "status", "date": "date", "decided": "date", "project": "project",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A decision as the table has it; `name` is that of its file, without its ending."""

    number: int
    name: str
    title: str
    status: str
    date: str
    project: str | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    start: int
    end: int
    """Before its line break."""


@dataclass(frozen=True, slots=True)
class _Table:
    columns: tuple[str, ...]
    """What each column is for; '' where nobody here knows."""
    lead: str
    rows: tuple[_Line, ...]
    end: int


def new_index() -> str:
    """An index note without decisions."""
    return "---\ntags:\n  - index\n---\n# Index\n"


def numbers_in(text: str) -> set[int]:
    """The numbers of all rows."""
    table = _find(text)
    return set() if table is None else {number for number, _ in _numbered(table)}


def with_rows(text: str, rows: Sequence[Row]) -> str:
    """The text with rows below those that are there."""
    if not rows:
        return text
    eol = line_break(text)
    table = _find(text)
    if table is None:
        text = _with_table(text, eol)
        table = _find(text)
        if table is None:
            raise AssertionError("the table was just written")
    lines = [f"{table.lead}| {' | '.join(_cells(table.columns, row))} |" for row in rows]
    added = "".join(eol + line for line in lines)
    return text[: table.end] + added + text[table.end :]


def with_status(text: str, number: int, status: str) -> str:
    """The text with the status cell of a decision's rows changed, where there is one."""
    table = _find(text)
    if table is None or "status" not in table.columns:
        return text
    column = table.columns.index("status")
    for found, line in reversed(list(_numbered(table))):
        if found == number:
            text = text[: line.start] + _changed(line.text, column, status) + text[line.end :]
    return text


def _changed(line: str, column: int, value: str) -> str:
    spans = list(_spans(line))
    if column >= len(spans):
        bare = line.rstrip().removesuffix("|").rstrip()
        gaps = " | " * (column - len(spans) + 1)
        return f"{bare}{gaps}{value} |"
    start, end = spans[column]
    inner = line[start:end]
    kept = inner.strip()
    if not kept:
        return f"{line[:start]} {value} {line[end:]}"
    at = start + inner.index(kept)
    return line[:at] + value + line[at + len(kept) :]


def _numbered(table: _Table) -> Iterator[tuple[int, _Line]]:
    column = table.columns.index("adr")
    for line in table.rows:
        spans = list(_spans(line.text))
        cell = line.text[slice(*spans[column])] if column < len(spans) else ""
        named = re.search(r"adr[-_ ]?0*([0-9]{1,6})(?![0-9])", cell, re.IGNORECASE)
        found = named or _NUMBER.search(cell)
        if found:
            yield int(found[1]), line


def _find(text: str) -> _Table | None:
    """The first table with an ADR column."""
    lines = list(_lines(text))
    for n in range(len(lines) - 1):
        head, rule = lines[n], lines[n + 1]
        if "|" not in head.text or "|" not in rule.text or not _RULE.fullmatch(rule.text):
            continue
        names = [_name(head.text[start:end]) for start, end in _spans(head.text)]
        if "adr" not in names:
            continue
        last = n + 2
        while last < len(lines) and _is_row(lines[last], lines[last - 1]):
            last += 1
        lead = _LEAD.match(head.text)
        columns = tuple("" if name in names[:at] else name for at, name in enumerate(names))
        rows = tuple(lines[n + 2 : last])
        return _Table(columns, lead[0] if lead else "", rows, lines[last - 1].end)
    return None


def _is_row(line: _Line, above: _Line) -> bool:
    # Lines that were left out for being code stand between two that are no neighbours.
    return "|" in line.text and line.start - above.end <= 2


def _lines(text: str) -> Iterator[_Line]:
    """The lines that are no code."""
    fence, at = "", 0
    for whole in re.findall(r"[^\n]*\n|[^\n]+", text):
        line = whole.rstrip("\r\n")
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and not line[found.end() :].strip():
            fence = ""
        elif not fence:
            yield _Line(line, at, at + len(line))
        at += len(whole)


def _spans(line: str) -> Iterator[tuple[int, int]]:
    """Where the cells of a row stand; a bar in a link, or behind a backslash, divides none."""
    start = len(_LEAD.match(line)[0])  # type: ignore[index]
    stop = len(line.rstrip())
    if line[start : start + 1] == "|":
        start += 1
    for piece in _PIECE.finditer(line, start, stop):
        if piece[0] == "|":
            yield start, piece.start()
            start = piece.end()
    if start < stop:
        yield start, stop


def _name(cell: str) -> str:
    name = cell.strip(" \t*_`:").lower()
    return "adr" if _ADR.fullmatch(name) else _MEANT.get(name, "")


def _cells(columns: Sequence[str], row: Row) -> list[str]:
    values: Mapping[str, str] = {
        "adr": f"[[{row.name}\\|{label(row.number)}]]",
        "title": _escaped(row.title),
        "status": row.status,
        "date": row.date,
        "project": _escaped(row.project or ""),
    }
    return [values.get(column, "") for column in columns]


def _escaped(text: str) -> str:
    # Behind a backslash of its own a bar can't be escaped.
    return one_line(text).replace("\\|", "\\&#124;").replace("|", "\\|")


def _with_table(text: str, eol: str) -> str:
    """The text with an empty table: below its heading for decisions, or at the end."""
    table = f"| {' | '.join(COLUMNS)} |{eol}|{'---|' * len(COLUMNS)}"
    for line in _lines(text):
        if re.fullmatch(rf"#{{1,6}}[ \t]+{HEADING}[ \t#]*", line.text, re.IGNORECASE):
            rest = text[line.end :]
            below = rest.split("\n", 2)[1:2]
            # A line right below would be a row of the table.
            gap = eol if below and below[0].strip() else ""
            return f"{text[: line.end]}{eol}{eol}{table}{gap}{rest or eol}"
    gap = "" if not text.strip("\ufeff") else eol if text.endswith("\n") else eol + eol
    return f"{text}{gap}## {HEADING}{eol}{eol}{table}{eol}"
