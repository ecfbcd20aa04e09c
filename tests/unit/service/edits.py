"""Edits as agents ask for them, over a house."""

import asyncio
from typing import Any

from server.models import Caller

from .house import House


def by(house: House, name: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """A call of somebody else than the usual caller."""
    output = asyncio.run(house.app.dispatcher.call(tool, arguments, Caller(name)))
    return output.model_dump(exclude_none=True)


def write(house: House, path: str, content: str, mode: str, **more: Any) -> dict[str, Any]:
    return house.call("note_write", path=path, content=content, mode=mode, **more)


def patch(
    house: House,
    path: str,
    target: str,
    selector: str,
    operation: str,
    content: str = "",
    **more: Any,
) -> dict[str, Any]:
    return house.call(
        "note_patch", path=path, target=target, selector=selector, operation=operation,
        content=content, **more,
    )  # fmt: skip


def etag(house: House, path: str) -> str:
    return str(house.call("note_read", path=path)["etag"])


def kept(house: House) -> int:
    """How many entries the history has, open ones included."""
    return house.app.history.usage().entries


def tree(house: House) -> dict[str, tuple[bytes, int] | None]:
    """Every file of the vault with its content and time; folders have none."""
    return {
        str(file.relative_to(house.folder)): (file.read_bytes(), file.stat().st_mtime_ns)
        if file.is_file()
        else None
        for file in sorted(house.folder.rglob("*"))
    }
