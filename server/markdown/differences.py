"""What an edit changed, as a unified diff that is small enough to be read. Pure."""

import re
from collections.abc import Iterator, Sequence

from server.markdown.line_breaks import plain
from server.markdown.matching import Hunk, find_hunks, split_lines
from server.markdown.overlap import shared_end, shared_start

_WIDTH = 240  # characters of a line that are shown
_LEAD = 60  # of them, before the change
_SMALLEST = 200  # characters of a file's diff that are worth showing
_NO_BREAK = "\\ No newline at end of file"
_UNPRINTABLE = re.compile("[\ud800-\udfff]")


def unified(
    before: str | None, after: str | None, path: str, *, context: int = 2, max_chars: int = 4000
) -> str:
    """The diff of a file, empty when nothing changed; None is a file that isn't there.

    Longer diffs are cut at a line's end and say how many lines are missing.
    """
    if before == after:
        return ""
    head = [
        "--- /dev/null" if before is None else f"--- a/{path}",
        "+++ /dev/null" if after is None else f"+++ b/{path}",
    ]
    old, new = before or "", after or ""
    if plain(old) == plain(new):
        old, new = _with_visible_breaks(old), _with_visible_breaks(new)
    else:
        old, new = plain(old), plain(new)
    old, new, above = _around(old, new, context)
    body = _body(split_lines(old), split_lines(new), context, above)
    return _UNPRINTABLE.sub("\ufffd", "\n".join([*head, *_cut(body, head, max_chars)]))


def unified_all(changes: Sequence[tuple[str, str | None, str | None]], max_chars: int) -> str:
    """The diffs of several files (path, before, after), which share the room between them."""
    changed = [change for change in changes if change[1] != change[2]]
    shown = changed[: max(1, max_chars // _SMALLEST)]
    rest = len(changed) - len(shown)
    last = [f"… {rest} more files"] if rest else []
    room = max_chars - len(shown) - sum(map(len, last))
    diffs = [unified(before, after, path, max_chars=room) for path, before, after in shown]
    left, shares = room, dict.fromkeys(range(len(diffs)), 0)
    for waiting, n in enumerate(sorted(shares, key=lambda n: len(diffs[n]))):
        shares[n] = min(len(diffs[n]), left // (len(diffs) - waiting))
        left -= shares[n]
    for n, (path, before, after) in enumerate(shown):
        if shares[n] < len(diffs[n]):
            diffs[n] = unified(before, after, path, max_chars=shares[n])
    return "\n".join([*diffs, *last])


def _with_visible_breaks(text: str) -> str:
    return text.replace("\r\n", "␍\n")


def _around(old: str, new: str, context: int) -> tuple[str, str, int]:
    """Both texts without most of what they share at both ends, and how many lines that is above.

    Splitting a long note into lines takes longer than all the rest of its diff.
    """
    start = old.rfind("\n", 0, shared_start(old, new)) + 1
    end = len(old) - shared_end(old, new, start)
    for _ in range(context + 1):
        start = old.rfind("\n", 0, max(start - 1, 0)) + 1
        end = old.find("\n", end) + 1 or len(old)
    return old[start:end], new[start : len(new) - len(old) + end], old.count("\n", 0, start)


def _body(old: Sequence[str], new: Sequence[str], context: int, above: int) -> list[str]:
    lines: list[str] = []
    for group in _groups(find_hunks(old, new), context):
        first, last = group[0], group[-1]
        start = max(first.start - context, 0)
        end = min(last.end + context, len(old))
        new_start = first.new_start - (first.start - start)
        new_end = last.new_end + (end - last.end)
        ranges = _range(above + start, above + end), _range(above + new_start, above + new_end)
        lines.append("@@ -{} +{} @@".format(*ranges))
        for hunk in group:
            lines += _shown(" ", old[start : hunk.start])
            removed, added = old[hunk.start : hunk.end], new[hunk.new_start : hunk.new_end]
            cuts = [shared_start(a, b) for a, b in zip(removed, added, strict=False)]
            lines += _shown("-", removed, cuts)
            lines += _shown("+", added, cuts)
            start = hunk.end
        lines += _shown(" ", old[start:end])
    return lines


def _groups(hunks: Sequence[Hunk], context: int) -> Iterator[list[Hunk]]:
    """Hunks whose surroundings overlap, together."""
    group: list[Hunk] = []
    for hunk in hunks:
        if group and hunk.start - group[-1].end > 2 * context:
            yield group
            group = []
        group.append(hunk)
    if group:
        yield group


def _range(start: int, end: int) -> str:
    size = end - start
    if size == 1:
        return str(start + 1)
    return f"{start + 1 if size else start},{size}"


def _shown(mark: str, lines: Sequence[str], cuts: Sequence[int] = ()) -> Iterator[str]:
    for n, line in enumerate(lines):
        text = line.removesuffix("\n")
        yield mark + _window(text, cuts[n] if n < len(cuts) else 0)
        if text == line:
            yield _NO_BREAK


def _window(line: str, change: int) -> str:
    """The part of a line around the offset where it changed."""
    if len(line) <= _WIDTH:
        return line
    start = max(change - _LEAD, 0)
    end = start + _WIDTH
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def _cut(body: Sequence[str], head: Sequence[str], max_chars: int) -> Sequence[str]:
    left = max_chars - sum(len(line) + 1 for line in head)
    if sum(len(line) + 1 for line in body) - 1 <= left:
        return body
    left -= len(f"… {len(body)} more lines")
    kept = 0
    while kept < len(body) and len(body[kept]) + 1 <= left:
        left -= len(body[kept]) + 1
        kept += 1
    return [*body[:kept], f"… {len(body) - kept} more lines"]
