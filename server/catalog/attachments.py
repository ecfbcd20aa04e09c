"""Operations on files that are no notes."""

from pydantic import Field, PrivateAttr

from server.catalog.changes import ChangeOutput
from server.catalog.operation import Input, Media, Offset, Operation, Output
from server.models import Caller
from server.service import Service
from server.service.attachments import MOST_CHARS, AttachmentView


class AttachmentReadInput(Input):
    path: str
    offset: Offset = 0
    max_chars: int = Field(20_000, ge=1, le=MOST_CHARS)


class AttachmentReadOutput(Output):
    path: str
    type: str
    size: int
    etag: str
    modified: str
    text: str | None = None
    data: str | None = None
    next_offset: int | None = None
    obsidian_url: str | None = None
    _image: Media | None = PrivateAttr(None)

    @property
    def media(self) -> Media | None:
        return self._image


def _read_output(view: AttachmentView) -> AttachmentReadOutput:
    output = AttachmentReadOutput.model_validate(
        {name: getattr(view, name) for name in AttachmentReadOutput.model_fields}
    )
    if view.image is not None:
        output._image = Media(view.image, view.type)
    return output


async def _attachment_read(
    service: Service, caller: Caller, args: AttachmentReadInput
) -> AttachmentReadOutput:
    return _read_output(
        await service.attachments.read(
            caller, args.path, offset=args.offset, max_chars=args.max_chars
        )
    )


ATTACHMENT_READ = Operation(
    name="attachment_read",
    title="Read an attachment",
    description="Read a file that is no note: an image, text, or base64.",
    toolset="edit",
    access="read",
    input=AttachmentReadInput,
    output=AttachmentReadOutput,
    run=_attachment_read,
    idempotent=True,
    subject="path",
)


class AttachmentWriteInput(Input):
    path: str
    data: str = Field(description="base64")
    if_match: str | None = None
    overwrite: bool = False


class AttachmentWriteOutput(ChangeOutput):
    path: str
    type: str
    changed: bool
    created: bool
    etag: str
    bytes: int
    uploaded: bool
    version: int | None = None
    diff: str | None = None
    obsidian_url: str | None = None


async def _attachment_write(
    service: Service, caller: Caller, args: AttachmentWriteInput
) -> AttachmentWriteOutput:
    return AttachmentWriteOutput.model_validate(
        await service.attachments.write(
            caller, args.path, args.data, if_match=args.if_match, overwrite=args.overwrite
        )
    )


ATTACHMENT_WRITE = Operation(
    name="attachment_write",
    title="Store an attachment",
    description="Store a file that is no note; replace one only with overwrite or if_match.",
    toolset="edit",
    access="write",
    input=AttachmentWriteInput,
    output=AttachmentWriteOutput,
    run=_attachment_write,
    destructive=True,
    idempotent=True,
    subject="path",
)
