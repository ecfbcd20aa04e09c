"""The responses that are being sent, so that a stop can end them.

A client keeps a GET stream or a `subscriptions/listen` open for as long as it lives, and a call may
take its time. uvicorn would wait for all of them, then cut them off in the middle.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.doors.guards import Refusal
from server.errors import RateLimited, Unavailable

_AGAIN_SECONDS = 5
"""When to ask again for a stream: nobody knows when another one ends."""


def is_endless(scope: Scope, headers: Headers) -> bool:
    """Whether the response is a stream of whatever happens rather than an answer."""
    return scope["method"] == "GET" or headers.get("mcp-method") == "subscriptions/listen"


class Responses:
    """Knows every response in progress; `stop` ends the endless ones, `abandon` all the others."""

    def __init__(self, most_endless: int = 256, most_of_one_caller: int = 64) -> None:
        self._most_endless = most_endless
        self._most_of_one_caller = most_of_one_caller
        self._callers: Counter[str] = Counter()
        self._endless: set[asyncio.Task[None]] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._ended: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        self._end(self._endless)

    def abandon(self) -> None:
        self._end([*self._endless, *self._answers])

    def _end(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        for task in tasks:
            self._ended.add(task)
            task.cancel()

    async def run(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, endless: bool
    ) -> None:
        """Serve one request; when it is ended from here, its response still ends properly.

        Raises `Refusal` when there are too many endless ones already.
        """
        if endless:
            await self._run_endless(app, scope, receive, send)
        else:
            await self._run(app, scope, receive, send, self._answers)

    async def _run_endless(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope.get("state", {}).get("caller")
        name = caller.name if caller is not None else ""
        if self._callers[name] >= self._most_of_one_caller:
            raise Refusal(
                RateLimited(
                    f"You have {self._callers[name]} streams open.",
                    "Close one first.",
                    retry_after=_AGAIN_SECONDS,
                )
            )
        if len(self._endless) >= self._most_endless:
            raise Refusal(Unavailable("Too many streams are open.", "Try again in a moment."))
        self._callers[name] += 1
        try:
            await self._run(app, scope, receive, send, self._endless)
        finally:
            self._callers[name] -= 1
            if not self._callers[name]:
                del self._callers[name]

    async def _run(
        self,
        app: ASGIApp,
        scope: Scope,
        receive: Receive,
        send: Send,
        tasks: set[asyncio.Task[None]],
    ) -> None:
        last: Message | None = None

        async def watched(message: Message) -> None:
            nonlocal last
            last = message
            await send(message)

        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs has one
        tasks.add(task)
        try:
            await app(scope, receive, watched)
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            task.uncancel()
            if last is None:
                raise Refusal(
                    Unavailable("The server is stopping.", "Try again when it is back.")
                ) from None
            if last["type"] == "http.response.start" or last.get("more_body", False):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            tasks.discard(task)
            self._ended.discard(task)
