"""What the subcommands of `vault-mcp` do, one module each: `add` declares it, `run` is the command.

Light: whatever is heavy is imported by the commands that need it, so that the small ones answer at
once.
"""

import argparse
import json
from typing import Any, TypeAlias

from server.settings import Settings, load
from server.telemetry import configure_logging

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def configured() -> Settings:
    """The settings, with logging set up by them."""
    settings = load()
    configure_logging(settings.log_level, settings.log_format)
    return settings


def tell_audit(settings: Settings, event: str, **fields: Any) -> None:
    """A line in the audit about what the owner did."""
    from server.audit.audit import FOLDER, Audit  # noqa: PLC0415 - most commands do without

    audit = Audit.open(
        settings.state_dir / FOLDER, max_mb=settings.audit_mb, max_files=settings.audit_files
    )
    audit.record(event, by="owner", **fields)
    audit.close()


def print_json(value: Any) -> None:
    """For scripts, on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=2))
