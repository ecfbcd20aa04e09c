"""What `vault-mcp history` says and does. Looking makes nothing and needs no server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from server.errors import NotFound, Unavailable
from server.history.database import FILE
from server.history.store import Entry, History
from server.history.telling import told
from server.models import Caller
from server.settings import Settings
from server.vault.paths import parse_path

_ALL = 1 << 30
_OWNER = Caller("owner", door="cli")


def rows(
    settings: Settings, path: str | None, caller: str | None, limit: int
) -> list[dict[str, Any]]:
    """The last changes, newest first: of all notes or of one, wherever that was before."""
    with _opened(settings) as history:
        if history is None:
            return []
        if path is None:
            return [_row(entry) for entry in history.recent(limit, caller=caller)]
        found, _ = history.of(parse_path(path), limit=_ALL)
        return [_row(entry) for entry in found if caller in (None, entry.caller)][:limit]


def content(settings: Settings, version: int) -> bytes:
    """What a file held before a change. Raises `NotFound`."""
    with _opened(settings) as history:
        entry = history.entry(version) if history else None
        if history is None or entry is None:
            raise NotFound(f"There is no version {version}.", "`vault-mcp history` lists them.")
        data = history.content(entry.before) if entry.before is not None else None
        if data is None:
            raise NotFound(
                f"Nothing is kept of {entry.path!r} before version {version}.",
                "It was created then, or moved without its content.",
            )
        return data


def restore(settings: Settings, path: str, version: int) -> str:
    """Put back what a note held before a change, as note_restore does; a sentence about it."""
    # Most of the server comes with it, and looking does without.
    from server.app import open_app  # noqa: PLC0415

    with open_app(settings) as app:
        app.guard.looked.wait(settings.mount_timeout)
        health = app.guard.health
        if not health.ok:
            raise Unavailable(health.reason, health.hint)
        restored = asyncio.run(app.service.past.restore(_OWNER, path, version, None))
    if not restored.changed:
        return f"{restored.path} says that already."
    if restored.dry_run:
        return f"{restored.path} would become\n{restored.diff}"
    return f"{restored.path} is what it was before version {version}."


@contextmanager
def _opened(settings: Settings) -> Iterator[History | None]:
    folder = settings.state_dir / "history"
    if not (folder / FILE).exists():
        yield None
        return
    history = History.open(
        folder,
        max_bytes=settings.history_mb * 1024 * 1024,
        max_age_days=settings.history_days,
    )
    try:
        yield history
    finally:
        history.close()


def _row(entry: Entry) -> dict[str, Any]:
    shown = {name: value for name, value in told(entry).items() if value is not None}
    return {**shown, "path": entry.path}
