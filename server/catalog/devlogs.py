"""Operations on devlogs."""

from dataclasses import asdict

from pydantic import Field

from server.catalog.changes import ChangeOutput
from server.catalog.operation import IndexOutput, Input, Operation, Output
from server.markdown.devlogs import EntryType
from server.models import Caller
from server.service import Service
from server.service.devlogs import NewEntry


class DevlogEntry(Input):
    type: EntryType
    text: str
    resolution: str | None = None


class DevlogAppendInput(Input):
    topic: str
    project: str | None = None
    entries: list[DevlogEntry] = Field(min_length=1, max_length=100)
    idempotency_key: str | None = None


class DevlogAppendOutput(ChangeOutput):
    path: str
    created: bool | None = None
    lines: int | None = None
    etag: str | None = None
    uploaded: bool | None = None
    replayed: bool | None = None
    diff: str | None = None
    obsidian_url: str | None = None


async def _devlog_append(
    service: Service, caller: Caller, args: DevlogAppendInput
) -> DevlogAppendOutput:
    entries = [NewEntry(entry.type, entry.text, entry.resolution) for entry in args.entries]
    return DevlogAppendOutput.model_validate(
        await service.devlogs.append(
            caller, args.topic, args.project, entries, args.idempotency_key
        )
    )


DEVLOG_APPEND = Operation(
    name="devlog_append",
    title="Add to a devlog",
    description="Add dated one-line entries to a topic's devlog; makes the file if needed.",
    toolset="devlog",
    access="write",
    input=DevlogAppendInput,
    output=DevlogAppendOutput,
    run=_devlog_append,
    subject="topic",
)


class DevlogTailInput(Input):
    topic: str | None = None
    project: str | None = None
    limit: int = Field(20, ge=1, le=200)


class DevlogLine(Output):
    path: str
    date: str
    type: str
    text: str
    resolution: str | None = None


class DevlogTailOutput(IndexOutput):
    entries: list[DevlogLine]
    total: int
    truncated: bool


async def _devlog_tail(service: Service, caller: Caller, args: DevlogTailInput) -> DevlogTailOutput:
    tail = await service.devlogs.tail(caller, args.topic, args.project, args.limit)
    return DevlogTailOutput(
        entries=[DevlogLine(path=one.path, **asdict(one.entry)) for one in tail.entries],
        total=tail.total,
        truncated=len(tail.entries) < tail.total,
        **asdict(tail.freshness),
    )


DEVLOG_TAIL = Operation(
    name="devlog_tail",
    title="Last devlog entries",
    description="The last devlog entries, of a topic, a project or all, newest first.",
    toolset="devlog",
    access="read",
    input=DevlogTailInput,
    output=DevlogTailOutput,
    run=_devlog_tail,
    idempotent=True,
    subject="topic",
)
