"""Operations on links and the graph they make."""

from dataclasses import asdict
from typing import Any, Literal

from pydantic import ConfigDict, Field, create_model

from server.catalog.changes import ChangeOutput
from server.catalog.operation import IndexOutput, Input, Offset, Operation, Output
from server.index.backlinks import Form
from server.models import Caller
from server.service import Service
from server.service.graph import GraphView
from server.service.room import short


class BacklinksInput(Input):
    path: str
    include_mentions: bool = Field(False, description="Also unlinked mentions")
    limit: int = Field(20, ge=1, le=200)
    offset: Offset = 0


class BacklinkItem(Output):
    path: str
    line: int
    text: str
    kind: Form
    resolved: bool | Literal["by name only"]
    section: str | None = None
    alias: str | None = None
    obsidian_url: str | None = None


class BacklinksOutput(IndexOutput):
    path: str
    items: list[BacklinkItem]
    total: int
    truncated: bool
    capped: bool | None = None


async def _backlinks_search(
    service: Service, caller: Caller, args: BacklinksInput
) -> BacklinksOutput:
    page = await service.graph.backlinks(
        caller,
        args.path,
        mentions=args.include_mentions,
        limit=args.limit,
        offset=args.offset,
    )
    named: set[str] = set()
    items = []
    for item in page.items:
        url = None if item.path in named else service.graph.url(item.path)
        named.add(item.path)
        items.append(
            BacklinkItem(
                path=item.path,
                line=item.line,
                text=item.text,
                kind=item.kind,
                resolved="by name only" if item.by_name else item.kind != "mention",
                section=item.section and short(item.section),
                alias=item.alias and short(item.alias),
                obsidian_url=url,
            )
        )
    return BacklinksOutput(
        path=page.path,
        items=items,
        total=page.total,
        truncated=page.capped or args.offset + len(items) < page.total,
        capped=page.capped or None,
        **asdict(page.freshness),
    )


BACKLINKS_SEARCH = Operation(
    name="backlinks_search",
    title="Who links to a note",
    description="The lines that link to a note or file; 'by name only': they lead elsewhere.",
    toolset="find",
    access="read",
    input=BacklinksInput,
    output=BacklinksOutput,
    run=_backlinks_search,
    idempotent=True,
    subject="path",
)


class NeighborsInput(Input):
    path: str | None = Field(None, description="Where to start; not needed for the whole vault")
    depth: int = Field(1, ge=1, le=3, description="How many links away")
    direction: Literal["in", "out", "both"] = "both"
    include: list[Literal["orphans", "unresolved", "tags"]] = Field(
        default=[],
        description=(
            "orphans: notes without links (no path); unresolved: linked names that no file has; "
            "tags: tags of the nodes as '#tag' nodes"
        ),
    )
    limit: int = Field(20, ge=1, le=100)
    offset: Offset = Field(0, description="For orphans and unresolved")


class GraphNode(Output):
    path: str
    title: str | None = None
    distance: int
    obsidian_url: str | None = None


class GraphEdge(Output):
    model_config = ConfigDict(frozen=True, serialize_by_alias=True)

    from_: str = Field(serialization_alias="from")
    to: str
    count: int


class OrphanNote(Output):
    path: str
    title: str | None = None
    obsidian_url: str | None = None


class UnresolvedName(Output):
    name: str
    count: int
    examples: list[str]


class NeighborsOutput(IndexOutput):
    nodes: list[GraphNode] | None = None
    edges: list[GraphEdge] | None = None
    orphans: list[OrphanNote] | None = None
    orphans_total: int | None = None
    unresolved: list[UnresolvedName] | None = None
    unresolved_total: int | None = None
    truncated: bool


async def _graph_neighbors(
    service: Service, caller: Caller, args: NeighborsInput
) -> NeighborsOutput:
    view = await service.graph.neighbours(
        caller,
        args.path,
        depth=args.depth,
        direction=args.direction,
        include=args.include,
        limit=args.limit,
        offset=args.offset,
    )
    nodes, edges = _drawn(service, view)
    orphans, orphans_total = view.orphans or (None, None)
    missing, missing_total = view.unresolved or (None, None)
    lists = ((orphans or (), orphans_total or 0), (missing or (), missing_total or 0))
    return NeighborsOutput(
        nodes=nodes,
        edges=edges,
        orphans=None
        if orphans is None
        else [
            OrphanNote(
                path=row.path,
                title=row.title and short(row.title),
                obsidian_url=service.graph.url(row.path),
            )
            for row in orphans
        ],
        orphans_total=orphans_total,
        unresolved=None
        if missing is None
        else [
            UnresolvedName(name=short(one.name), count=one.count, examples=list(one.examples))
            for one in missing
        ],
        unresolved_total=missing_total,
        truncated=(view.near is not None and view.near.truncated)
        or any(args.offset + len(shown) < total for shown, total in lists),
        **asdict(view.freshness),
    )


def _drawn(
    service: Service, view: GraphView
) -> tuple[list[GraphNode] | None, list[GraphEdge] | None]:
    if view.near is None:
        return None, None
    nodes = [
        GraphNode(
            path=node.path,
            title=node.title and short(node.title),
            distance=node.distance,
            obsidian_url=None if node.path.startswith("#") else service.graph.url(node.path),
        )
        for node in view.near.nodes
    ]
    edges = [
        GraphEdge(from_=edge.source, to=edge.target, count=edge.count) for edge in view.near.edges
    ]
    return nodes, edges


GRAPH_NEIGHBORS = Operation(
    name="graph_neighbors",
    title="Notes near a note",
    description=(
        "The files up to depth links away from a note, nearest first, and the links among them."
    ),
    toolset="graph",
    access="read",
    input=NeighborsInput,
    output=NeighborsOutput,
    run=_graph_neighbors,
    idempotent=True,
    subject="path",
)


_LINK_ADD: dict[str, Any] = {
    "from": (str, ...),
    "to": (str, ...),
    "alias": (str | None, None),
    "section": (str | None, Field(None, description="Heading or '^block' of the target")),
}
# Made by a call, because `from` is a word of the language.
LinkAddInput = create_model("LinkAddInput", __base__=Input, **_LINK_ADD)


class LinkAddOutput(ChangeOutput):
    path: str
    changed: bool
    link: str
    etag: str
    uploaded: bool | None = None
    diff: str | None = None
    obsidian_url: str | None = None


async def _link_add(service: Service, caller: Caller, args: Any) -> LinkAddOutput:
    source = getattr(args, "from")
    added = await service.graph.link(caller, source, args.to, args.alias, args.section)
    return LinkAddOutput(
        path=added.path,
        changed=added.changed,
        link=added.link,
        etag=added.etag,
        uploaded=added.uploaded,
        dry_run=added.dry_run,
        pending=added.pending,
        diff=added.diff,
        obsidian_url=service.graph.url(added.path),
    )


LINK_ADD = Operation(
    name="link_add",
    title="Link one note to another",
    description=("Add a wikilink to a note, once: under Related or Links, or at its end."),
    toolset="edit",
    access="write",
    input=LinkAddInput,
    output=LinkAddOutput,
    run=_link_add,
    idempotent=True,
    subject="from",
)
