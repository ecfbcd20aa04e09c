"""How an approval is told to people and scripts."""

import time
from typing import Any

from server.approvals.records import Approval

_NAMED = 100


def summed(approval: Approval) -> dict[str, Any]:
    """What is known of it, without what it writes."""
    told = {
        "id": approval.id,
        "state": approval.state,
        "caller": approval.caller,
        "session": approval.session,
        "tool": approval.tool,
        "paths": list(approval.paths[:_NAMED]),
        "total_paths": len(approval.paths) if len(approval.paths) > _NAMED else None,
        "asked": _iso(approval.asked),
        "expires": _iso(approval.expires),
        "decided": None if approval.decided is None else _iso(approval.decided),
        "by": approval.by,
        "reason": approval.reason,
    }
    return {name: value for name, value in told.items() if value is not None}


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
