"""Progress of a call, from whatever thread works on it to the client that asked for it.

The work never waits: it leaves the latest state, and a task of the event loop sends that as often as
a person could read it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp.server.context import ServerRequestContext

Tell = Callable[[float, float, str], None]

_PAUSE_SECONDS = 0.1


@asynccontextmanager
async def reporting(ctx: ServerRequestContext[Any, Any]) -> AsyncIterator[Tell | None]:
    """How the work inside the block can tell its progress; None when the client didn't ask."""
    if ctx.meta is None or ctx.meta.get("progress_token") is None:
        yield None
        return
    report = _Report()
    sending = asyncio.create_task(report.send(ctx))
    try:
        yield report.tell
    finally:
        sending.cancel()


class _Report:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._latest: tuple[float, float, str] | None = None

    def tell(self, done: float, total: float, what: str) -> None:
        """Any thread may call it, at any rate."""
        is_known = self._latest is not None
        self._latest = done, total, what
        if not is_known:
            with suppress(RuntimeError):  # the loop may have ended while a thread was stuck
                self._loop.call_soon_threadsafe(self._news.set)

    async def send(self, ctx: ServerRequestContext[Any, Any]) -> None:
        sent = -1.0
        while True:
            await self._news.wait()
            self._news.clear()
            latest, self._latest = self._latest, None
            # The protocol has progress only ever rise; work that begins anew says nothing.
            if latest is not None and latest[0] > sent:
                sent = latest[0]
                await ctx.session.report_progress(*latest)
            await asyncio.sleep(_PAUSE_SECONDS)
