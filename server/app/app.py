"""What runs."""

from dataclasses import dataclass

from server.access.callers import Callers
from server.access.decision import Access
from server.audit.audit import Audit
from server.catalog.dispatch import Dispatcher
from server.history.store import History
from server.index.store import Index
from server.models import Caller
from server.scanner.scanner import Scanner
from server.service import Service
from server.settings import Settings
from server.telemetry import Telemetry
from server.vault.guard import Guard
from server.vault.journal import Journal
from server.vault.plans import Plans
from server.vault.recovery import Recovery
from server.vault.uploads import UploadWatch
from server.vault.vault import Vault


@dataclass(frozen=True, slots=True)
class App:
    """Everything that runs, built once by `open_app`."""

    settings: Settings
    telemetry: Telemetry
    guard: Guard
    vault: Vault
    index: Index
    journal: Journal
    recovery: Recovery
    plans: Plans
    history: History
    scanner: Scanner
    service: Service
    dispatcher: Dispatcher
    audit: Audit
    access: Access
    callers: Callers
    uploads: UploadWatch

    def authenticate(self, token: str | None, door: str = "mcp") -> Caller:
        """Who a bearer token belongs to. Raises `Unauthorized`."""
        return self.callers.authenticate(token, door)
