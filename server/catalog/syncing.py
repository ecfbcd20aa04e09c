"""The operation that brings server, mount and remote in step."""

from dataclasses import asdict
from typing import Any

from server.catalog.operation import Input, Operation, Output, Patience
from server.models import Caller
from server.service import Service


class VaultSyncInput(Input):
    path: str | None = None
    wait: Patience = 30


class VaultSyncOutput(Output):
    refreshed: bool
    uploads: dict[str, Any] | None = None
    changes: dict[str, int]
    paths: list[str]
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
    description="Finish uploads, refresh from the remote and rescan; tells what changed.",
    toolset="core",
    access="read",
    input=VaultSyncInput,
    output=VaultSyncOutput,
    run=_vault_sync,
    idempotent=True,
    subject="path",
)
