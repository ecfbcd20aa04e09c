"""Logs and metrics: what the server says about itself. Never note content, never secrets.

One `Telemetry` is built by `app` and passed down. It owns its Prometheus registry, so that
two of them (in tests) never collide.
"""

import json
import logging
import re
import sys
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

from server import __version__
from server.errors import VaultError

LOG = logging.getLogger("vault_mcp")

_SECRET = re.compile(
    r"(?i)(bearer\s+|(?:token|secret|password|api[_-]?key)[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]+"
)
_PLAIN = re.compile(r"[\w./-]+", re.ASCII)
"""Most of what is logged: neither a credential nor anything that has to be quoted."""
DENIALS = frozenset(("permission_denied", "path_not_allowed", "unauthorized"))
"""The outcomes that mean that somebody may not do what they asked for."""
_DURATIONS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


def redact(text: str) -> str:
    """Blank out what looks like a credential."""
    return _SECRET.sub(r"\1***", text)


class _Formatter(logging.Formatter):
    """One line per record: `key=value` pairs for people, JSON for machines."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._json = as_json

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, Any] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            **{k: _safe(v) for k, v in getattr(record, "fields", {}).items() if v is not None},
        }
        if record.exc_info:
            fields["traceback"] = redact(self.formatException(record.exc_info))
        if self._json:
            return _json(fields)
        head = f"{fields.pop('time')} {fields.pop('level'):<7} {_visible(fields.pop('message'))}"
        fields.pop("logger")
        trace = fields.pop("traceback", None)
        pairs = "".join(f" {k}={_quoted(v)}" for k, v in fields.items())
        return head + pairs + (f"\n{trace}" if trace else "")


def _safe(value: Any) -> Any:
    return redact(value) if isinstance(value, str) and not _PLAIN.fullmatch(value) else value


def _quoted(value: Any) -> str:
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    plain = text.isprintable() and not re.search(r"[\s\"=]", text)
    return text if text and plain else _json(text)


def _json(value: Any) -> str:
    return _visible(json.dumps(value, ensure_ascii=False, default=str))


def _visible(text: str) -> str:
    """Escape what can't be seen, or a caller's words could end a line and steer a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def configure_logging(level: str, log_format: str, stream: IO[str] | None = None) -> None:
    """Send every log record through one handler; called before any library configures its own."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter(log_format == "json"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOG.setLevel(level.upper())
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("mcp").setLevel(logging.ERROR)


def log(level: int, message: str, /, **fields: Any) -> None:
    """Write one structured line."""
    LOG.log(level, message, extra={"fields": fields})


@dataclass(slots=True)
class CallEnd:
    """What was called, how that ended and what it took."""

    tool: str = ""
    door: str = ""
    outcome: str = "internal_error"
    seconds: float = 0.0
    decision: str = "allow"


class Telemetry:
    """The metrics, by the names that dashboards use."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        Info("vault_server", "What runs here", registry=registry).info({"version": __version__})
        self.calls = Counter(
            "vault_calls", "Operation calls", ["tool", "outcome", "door"], registry=registry
        )
        self.call_seconds = Histogram(
            "vault_call_seconds",
            "Duration of calls",
            ["tool"],
            buckets=_DURATIONS,
            registry=registry,
        )
        self.denied = Counter(
            "vault_denied", "Calls that were refused something", ["tool"], registry=registry
        )
        self.logins_refused = Counter(
            "vault_logins_refused", "Requests whose token was no good", registry=registry
        )
        self.audit_lines = Counter("vault_audit_lines", "Lines of the audit", registry=registry)
        self.audit_errors = Counter(
            "vault_audit_errors", "Lines that the audit could not write", registry=registry
        )
        self.in_flight = Gauge("vault_calls_in_flight", "Calls being served", registry=registry)
        self.scan_seconds = Histogram(
            "vault_scan_seconds",
            "Duration of scans",
            buckets=(*_DURATIONS, 60, 300),
            registry=registry,
        )
        self.scans = Counter("vault_scans", "Scans by outcome", ["outcome"], registry=registry)
        self.scan_changes = Counter(
            "vault_scan_changes", "Changes that scans found", ["kind"], registry=registry
        )
        self.scan_progress = Gauge(
            "vault_scan_progress_ratio",
            "Progress of the running scan, 1 when idle",
            registry=registry,
        )
        self.scan_waiting = Gauge(
            "vault_index_waiting_notes",
            "Notes that a scan found and the index doesn't have yet",
            registry=registry,
        )
        self.scan_held = Gauge(
            "vault_scan_held_removals",
            "Notes that are gone from the vault and kept in the index, because they are so many",
            registry=registry,
        )
        self.scan_last = Gauge(
            "vault_scan_last_success_timestamp_seconds",
            "End of the last good scan",
            registry=registry,
        )
        self.notes = Gauge("vault_notes", "Notes in the index", registry=registry)
        self.index_bytes = Gauge("vault_index_bytes", "Size on disk", ["part"], registry=registry)
        self.index_budget = Gauge(
            "vault_index_budget_bytes", "What full text may take", registry=registry
        )
        self.index_used = Gauge(
            "vault_index_used_bytes", "What full text takes, estimated", registry=registry
        )
        self.index_evicted = Gauge(
            "vault_index_evicted_notes", "Notes whose full text was given up", registry=registry
        )
        self.mount_up = Gauge(
            "vault_mount_up", "1 when the vault is the real thing", registry=registry
        )
        self.mount_state = Gauge(
            "vault_mount_state", "1 for the current state", ["state"], registry=registry
        )
        self.mount_changes = Counter(
            "vault_mount_state_changes", "State changes of the mount", ["state"], registry=registry
        )
        self.sessions = Gauge("vault_mcp_sessions", "Open MCP sessions", registry=registry)
        self.connections_ended = Counter(
            "vault_connections_ended",
            "Connections that the server ended because of their clients",
            ["why"],
            registry=registry,
        )
        self.rg_runs = Counter(
            "vault_rg_runs", "ripgrep runs by outcome", ["outcome"], registry=registry
        )
        self.rg_seconds = Histogram(
            "vault_rg_seconds", "Duration of ripgrep runs", buckets=_DURATIONS, registry=registry
        )
        self.writes = Counter(
            "vault_writes",
            "Writes by protocol and outcome",
            ["protocol", "outcome"],
            registry=registry,
        )
        self.conflicts = Counter(
            "vault_write_conflicts", "Writes refused as conflicts", registry=registry
        )
        self.journal_entries = Gauge(
            "vault_journal_entries", "Writes the journal still watches", registry=registry
        )
        self.uploads_pending = Gauge(
            "vault_uploads_pending", "Files that rclone still has to upload", registry=registry
        )
        self.uploads_failing = Gauge(
            "vault_uploads_failing", "Uploads that were tried in vain", registry=registry
        )
        self.history_entries = Gauge(
            "vault_history_entries", "Changes that the history knows", registry=registry
        )
        self.history_bytes = Gauge(
            "vault_history_bytes", "What the history keeps of them, compressed", registry=registry
        )
        self.state_free = Gauge(
            "vault_state_free_bytes",
            "Room that is left on the disk of STATE_DIR",
            registry=registry,
        )
        self.state_size = Gauge(
            "vault_state_disk_bytes", "Size of the disk of STATE_DIR", registry=registry
        )
        self.policy_ok = Gauge(
            "vault_policy_ok", "0 while the policy file can't be used", registry=registry
        )
        self.approvals_waiting = Gauge(
            "vault_approvals_waiting", "Writes that wait for a person", registry=registry
        )
        self.approvals = Counter(
            "vault_approvals", "Writes that were decided about", ["outcome"], registry=registry
        )
        self.workers_stuck = Gauge(
            "vault_workers_stuck",
            "Threads stuck in a call past its deadline",
            ["pool"],
            registry=registry,
        )

    @contextmanager
    def call(
        self, tool: str, door: str, denied: Callable[[], bool] = lambda: False
    ) -> Iterator[CallEnd]:
        """Time one operation call; errors pass through.

        What it yields knows of the end when that has come, and has then to be told; `denied` is asked
        whether a part of the call was refused.
        """
        start = time.perf_counter()
        outcome = "internal_error"
        end = CallEnd(tool, door)
        self.in_flight.inc()
        try:
            yield end
            outcome = "ok"
        except CancelledError:
            outcome = "cancelled"
            raise
        except VaultError as error:
            outcome = error.code
            raise
        finally:
            seconds = time.perf_counter() - start
            end.outcome, end.seconds = outcome, seconds
            if outcome in DENIALS or denied():
                end.decision = "deny"
            self.in_flight.dec()

    def tell(self, end: CallEnd, caller: str, subject: str | None) -> None:
        """Count a call that is over, and write its line in the log."""
        if end.decision == "deny":
            self.denied.labels(end.tool).inc()
        if end.outcome == "conflict":
            self.conflicts.inc()
        self.calls.labels(end.tool, end.outcome, end.door).inc()
        self.call_seconds.labels(end.tool).observe(end.seconds)
        log(
            logging.INFO,
            "call",
            tool=end.tool,
            caller=caller,
            door=end.door,
            subject=subject,
            decision=end.decision,
            outcome=end.outcome,
            ms=round(end.seconds * 1000, 2),
        )
