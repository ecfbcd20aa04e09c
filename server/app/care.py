"""The work of an idle moment: settle what waits, keep the index tidy, tell the metrics."""

import contextlib
import logging
import threading
import time

from server.app.app import App
from server.errors import VaultError
from server.telemetry import log

_CARE_SECONDS = 2.0
_COMPACT_SECONDS = 600.0
_WATCH_SECONDS = 10.0


def take_care(app: App, stopping: threading.Event) -> None:
    """Settle the journal and keep the index tidy, while nobody waits for it."""
    app.guard.looked.wait(_CARE_SECONDS)
    compacted = watched = time.monotonic()
    while not stopping.is_set():
        try:
            with contextlib.suppress(VaultError):
                app.recovery.settle()
                if not app.plans.settle():
                    app.service.editing.settle()
                    app.service.approving.settle()
            if app.index.needs_rebuild and not app.scanner.progress.rebuilding:
                app.scanner.wake()
            app.callers.tidy()
            if time.monotonic() - watched > _WATCH_SECONDS:
                app.uploads.look()
                watched = time.monotonic()
            app.index.tend()
            app.scanner.publish_usage()
            _publish_history(app)
            app.index.checkpoint()
            if time.monotonic() - compacted > _COMPACT_SECONDS:
                app.index.compact()
                app.history.tidy()
                compacted = time.monotonic()
        except Exception as error:  # noqa: BLE001 - tidying must never take the server down
            log(logging.ERROR, "what is left to tidy could not be", why=repr(error))
        app.vault.queued.wait(_CARE_SECONDS)
        app.vault.queued.clear()


def _publish_history(app: App) -> None:
    with contextlib.suppress(VaultError):
        usage = app.history.usage()
        app.telemetry.history_entries.set(usage.entries)
        app.telemetry.history_bytes.set(usage.bytes)
