"""The only constructor: builds every part from the settings, starts the background work, ends it."""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from server.app.admission import Admission, open_admission
from server.app.app import App
from server.app.care import take_care
from server.app.entrances import http_connections, http_door, stdio_door
from server.app.services import build_service
from server.app.storage import Storage, open_storage
from server.catalog.dispatch import Dispatcher
from server.catalog.table import LISTED, in_toolsets
from server.service import Service
from server.settings import Settings
from server.state import Slot, abandoned_slots, claim_slot
from server.telemetry import log

__all__ = ["App", "http_connections", "http_door", "open_app", "stdio_door"]

_STOP_SECONDS = 1.0
_TURN_SECONDS = 0.0005
"""For how long a thread keeps the interpreter from others that want it. By default that is ten times
longer, and a search, which gives it away at every step, waits so long each time while a scan runs.
"""


@contextmanager
def open_app(settings: Settings) -> Iterator[App]:
    """Build the app and run its background work until the block ends."""
    sys.setswitchinterval(_TURN_SECONDS)
    slot = claim_slot(settings.state_dir)
    with contextlib.ExitStack() as stack:
        stack.callback(slot.release)
        app = _build(settings, slot, stack)
        _take_over(settings, slot, app)
        stopping = threading.Event()
        threads = [
            threading.Thread(target=run, name=name, daemon=True, args=(stopping,))
            for name, run in (
                ("guard", app.guard.watch),
                ("scanner", app.scanner.run),
                ("caretaker", lambda stop: take_care(app, stop)),
            )
        ]
        for thread in threads:
            thread.start()
        # A healthy vault answers at once; the first callers then need no stale answers.
        app.guard.looked.wait(0.5)
        try:
            yield app
        finally:
            stopping.set()
            app.guard.wake()
            app.scanner.wake()
            app.vault.queued.set()
            # Bounded: a thread that hangs with the mount must not hold up the stop.
            end = time.monotonic() + _STOP_SECONDS
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))


def _build(settings: Settings, slot: Slot, stack: contextlib.ExitStack) -> App:
    storage = open_storage(settings, slot, stack)
    admission = open_admission(settings, storage, stack)
    service = build_service(settings, storage, admission, stack)
    return App(
        settings=settings,
        telemetry=storage.telemetry,
        guard=storage.guard,
        vault=storage.vault,
        index=storage.index,
        journal=storage.journal,
        recovery=storage.recovery,
        plans=storage.plans,
        history=storage.history,
        scanner=storage.scanner,
        service=service,
        dispatcher=_dispatcher(settings, storage, admission, service),
        audit=storage.audit,
        access=admission.access,
        callers=admission.callers,
        uploads=storage.uploads,
    )


def _dispatcher(
    settings: Settings, storage: Storage, admission: Admission, service: Service
) -> Dispatcher:
    chosen = settings.toolsets
    return Dispatcher(
        in_toolsets(chosen),
        service,
        storage.telemetry,
        in_toolsets(LISTED if chosen is None else chosen),
        limiter=admission.limiter,
        audit=storage.audit,
        toolsets=admission.access.toolsets,
    )


def _take_over(settings: Settings, slot: Slot, app: App) -> None:
    for other in abandoned_slots(settings.state_dir, slot):
        try:
            taken = app.journal.take_over(other.folder / "journal")
            taken += app.plans.take_over(other.folder / "plans")
            if taken:
                log(logging.WARNING, "took over the journal of a server that died", entries=taken)
        finally:
            other.release()
