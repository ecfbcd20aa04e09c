"""How an entry is told to people and agents."""

import time
from typing import Any

from server.history.rows import Entry


def told(entry: Entry) -> dict[str, Any]:
    """A change as plain data; `size` and `etag` are those of what was there before."""
    return {
        "version": entry.id,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.at_ns // 10**9)),
        "by": entry.caller,
        "tool": entry.tool,
        "change": _change(entry),
        "size": entry.size,
        "etag": entry.before,
        "moved_from": entry.other,
    }


def _change(entry: Entry) -> str:
    if entry.other is not None:
        return "move"
    if entry.before is None:
        return "create"
    return entry.kind if entry.after is not None else "delete"
