"""The operation that brings server, mount and remote in step."""

from dataclasses import asdict
from typing import Any

from pydantic import Field

from server.catalog.operation import Input, Operation, Output
from server.models import Caller
from server.service import Service


class VaultSyncInput(Input):
    path: str | None = Field(None, description="Only this folder")
    wait: float = Field(30, ge=0, le=300, description="Seconds to wait for uploads")


class VaultSyncOutput(Output):
    refreshed: bool
    uploads: dict[str, Any] | None = None
    changes: dict[str, int]
    paths: list[str]
    seconds: float
    hint: str | None = None


async def _vault_sync(service: Service, caller: Caller, args: VaultSyncInput) -> VaultSyncOutput:
    synced = await service.syncing.sync(caller, args.path, args.wait)
    uploads = synced.uploads and {
        "pending": synced.uploads.pending,
        "failing": synced.uploads.failing,
    }
    return VaultSyncOutput.model_validate(asdict(synced) | {"uploads": uploads})


VAULT_SYNC = Operation(
    name="vault_sync",
    title="Synchronise now",
    description=(
        "Finish uploads, have the mount look at the remote again and rescan: what other devices just "
        "changed can be read afterwards. Answers what changed."
    ),
    toolset="core",
    access="read",
    input=VaultSyncInput,
    output=VaultSyncOutput,
    run=_vault_sync,
    idempotent=True,
    subject="path",
)
