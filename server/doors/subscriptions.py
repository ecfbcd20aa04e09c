"""Telling clients what changed, in the way of each protocol era.

In the session era a client subscribes and is told on its session's own stream; in the modern one the
answer to `subscriptions/listen` is the stream. Each has a task of its own that sends what it has not
been told yet: one that doesn't read keeps nobody else waiting, and what it misses meanwhile is told
once when it reads again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types import (
    INVALID_REQUEST,
    EmptyResult,
    NotificationParams,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from server.catalog.resources import parse_uri
from server.doors.refusals import answering
from server.errors import VaultError
from server.models import Caller
from server.service.watching import News, Subject, Watch, Watching, subject

Context = ServerRequestContext[Any, Any]

_PAUSE_SECONDS = 0.1
"""Between two rounds of news to one client: what happens in between is told once."""


class Subscriptions:
    """Registers what each era has for it on an MCP server."""

    def __init__(self, watching: Watching, caller: Callable[[Context], Caller]) -> None:
        self._watching = watching
        self._caller = caller
        self._sessions: WeakKeyDictionary[Connection, _Pump] = WeakKeyDictionary()

    def offer(self, server: Server[Any]) -> None:
        """Serve subscriptions of both eras."""
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        server.add_request_handler(
            "resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe
        )
        server.add_request_handler(
            "subscriptions/listen", SubscriptionsListenRequestParams, self._listen
        )
        server.add_notification_handler(
            "notifications/initialized", NotificationParams, self._initialized
        )

    async def _initialized(self, ctx: Context, _params: NotificationParams) -> None:
        """Every session is told when notes come and go, as its capabilities say."""
        if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            with suppress(VaultError):
                self._session(ctx)

    async def _subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        with answering():
            what = _subject(params.uri)
            if what is not None:
                self._watching.add(self._session(ctx).watch, what, params.uri)
        return EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        with answering():
            what, pump = _subject(params.uri), self._sessions.get(_connection(ctx))
            if what is not None and pump is not None:
                self._watching.remove(pump.watch, what, params.uri)
        return EmptyResult()

    def _session(self, ctx: Context) -> "_Pump":
        connection = _connection(ctx)
        pump = self._sessions.get(connection)
        if pump is None:
            pump = _Pump(self._watching, partial(self._caller, ctx), lists=True)
            self._sessions[connection] = pump
            telling = asyncio.create_task(_tell_session(connection, pump))
            connection.exit_stack.callback(telling.cancel)
            connection.exit_stack.callback(pump.close)
        return pump

    async def _listen(
        self, ctx: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        if ctx.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen needs an id.")
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        uris = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        lists = params.notifications.resources_list_changed is True
        with answering():
            pump = _Pump(self._watching, partial(self._caller, ctx), lists=lists)
        try:
            with answering():
                for uri in uris:
                    if (what := _subject(uri)) is not None:
                        self._watching.add(pump.watch, what, uri)
            honoured = SubscriptionFilter(
                resources_list_changed=lists or None, resource_subscriptions=uris or None
            )
            await ctx.session.send_notification(
                SubscriptionsAcknowledgedNotification(
                    params=SubscriptionsAcknowledgedNotificationParams(
                        notifications=honoured, _meta=meta
                    )
                ),
                ctx.request_id,
            )
            async for news in pump.news():
                for notification in _told(news, meta):
                    await ctx.session.send_notification(notification, ctx.request_id)
        finally:
            pump.close()
        return SubscriptionsListenResult(_meta=meta)


class _Pump:
    """One client's watch, and the news of it for a task of the event loop."""

    def __init__(self, watching: Watching, caller: Callable[[], Caller], *, lists: bool) -> None:
        self._watching = watching
        self._loop = asyncio.get_running_loop()
        self._awake = asyncio.Event()
        self.watch: Watch = watching.open(caller, self._wake, lists=lists)

    def close(self) -> None:
        self._watching.close(self.watch)

    def _wake(self) -> None:
        # It comes from another thread, and the loop may have ended since.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._awake.set)

    async def news(self) -> AsyncIterator[News]:
        while True:
            await self._awake.wait()
            self._awake.clear()
            yield self.watch.take()
            await asyncio.sleep(_PAUSE_SECONDS)


async def _tell_session(connection: Connection, pump: _Pump) -> None:
    async for news in pump.news():
        for notification in _told(news, None):
            data = notification.model_dump(by_alias=True, mode="json", exclude_none=True)
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await connection.notify(data["method"], data.get("params"))


def _told(
    news: News, meta: dict[str, Any] | None
) -> list[ResourceUpdatedNotification | ResourceListChangedNotification]:
    told: list[ResourceUpdatedNotification | ResourceListChangedNotification] = [
        ResourceUpdatedNotification(params=ResourceUpdatedNotificationParams(uri=uri, _meta=meta))
        for uri in news.names
    ]
    if news.listed:
        params = NotificationParams(_meta=meta) if meta else None
        told.append(ResourceListChangedNotification(params=params))
    return told


def _subject(uri: str) -> Subject | None:
    """What a URI names; None for one that can never name anything, like one that isn't there."""
    try:
        return subject(*parse_uri(uri))
    except VaultError:
        return None


def _connection(ctx: Context) -> Connection:
    # The SDK has no public way from a request to the connection that outlives it.
    return ctx.session._connection
