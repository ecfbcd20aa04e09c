"""What every operation that changes something answers, besides what it did."""

from typing import Any

from server.catalog.operation import Output


class ChangeOutput(Output):
    """A change that was made, unless it says otherwise."""

    dry_run: bool | None = None
    pending: dict[str, Any] | None = None
    """The approval that it waits for: nothing is written yet."""
