"""Notes and folders as MCP resources: lists in pages, templates, reads."""

from collections.abc import Callable, Iterator
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    Annotations,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from server.catalog.dispatch import Dispatcher
from server.catalog.resources import MARKDOWN, TEMPLATES, parse_uri, uri_of
from server.doors.refusals import answering, answering_about
from server.index.rows import Row
from server.models import Caller
from server.service import Service
from server.service.finding import Listing
from server.service.freshness import iso_ns
from server.service.resources import Whole
from server.service.room import short

Context = ServerRequestContext[Any, Any]

_TEMPLATES_MS = 300_000
_LIST_MS = 5_000
_READ_MS = 0
"""Who has just written a note must not get the old one out of a cache."""


def offer_resources(
    server: Server[Any],
    dispatcher: Dispatcher,
    service: Service,
    caller: Callable[[Context], Caller],
) -> None:
    """Serve `resources/list`, `resources/templates/list` and `resources/read`."""

    async def list_resources(ctx: Context, params: PaginatedRequestParams) -> ListResourcesResult:
        with answering():
            page = await service.resources.page(caller(ctx), params.cursor)
        listed = list(_listed(page.notes))
        if params.cursor is None:
            listed.insert(0, _root())
        return ListResourcesResult(
            resources=listed, next_cursor=page.cursor, ttl_ms=_LIST_MS, cache_scope="private"
        )

    async def list_templates(
        _ctx: Context, _params: PaginatedRequestParams
    ) -> ListResourceTemplatesResult:
        templates = [
            ResourceTemplate(
                name=one.name,
                title=one.title,
                uri_template=one.uri,
                description=one.description,
                mime_type=one.mime,
            )
            for one in TEMPLATES
        ]
        return ListResourceTemplatesResult(
            resource_templates=templates, ttl_ms=_TEMPLATES_MS, cache_scope="private"
        )

    async def read(ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        async def work(who: Caller) -> TextResourceContents | BlobResourceContents:
            kind, path = parse_uri(params.uri)
            if kind == "folder":
                return _folder(params.uri, await service.resources.folder(who, path))
            return _file(params.uri, await service.resources.file(who, path))

        with answering_about(params.uri, ctx.protocol_version):
            contents = await dispatcher.perform("resources/read", params.uri, caller(ctx), work)
        return ReadResourceResult(contents=[contents], ttl_ms=_READ_MS, cache_scope="private")

    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read)


def _root() -> Resource:
    return Resource(
        uri=uri_of("folder", ""), name="/", title="The vault's folders", mime_type=MARKDOWN
    )


def _listed(rows: "Iterator[Row] | Any") -> Iterator[Resource]:
    for row in rows:
        yield Resource(
            uri=uri_of("note", row.path),
            name=row.path,
            title=short(row.title) if row.title else None,
            mime_type=MARKDOWN,
            size=row.size,
            annotations=Annotations(last_modified=iso_ns(row.mtime_ns)),
        )


def _file(uri: str, whole: Whole) -> TextResourceContents | BlobResourceContents:
    if whole.text is not None:
        return TextResourceContents(uri=uri, mime_type=whole.type, text=whole.text)
    return BlobResourceContents(uri=uri, mime_type=whole.type, blob=whole.data or "")


def _folder(uri: str, listing: Listing) -> TextResourceContents:
    """Names and links alone: what else could change in a folder is told by its notes."""
    lines = [f"# {listing.path or '/'}", ""]
    for row in listing.entries:
        is_folder = row.kind == "folder"
        name = row.path.rpartition("/")[2] + ("/" if is_folder else "")
        label = name.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
        lines.append(f"- [{label}]({uri_of('folder' if is_folder else 'note', row.path)})")
    if listing.total > len(listing.entries):
        lines += ["", f"{listing.total - len(listing.entries)} more: see vault_list."]
    return TextResourceContents(uri=uri, mime_type=MARKDOWN, text="\n".join(lines) + "\n")
