"""Between a write and its approval: into the queue, and out of it once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from server.approvals.store import Approvals, Claim
from server.errors import Conflict, NotFound, VaultError
from server.models import Caller
from server.service import holding
from server.service.batches import Batch, fingerprint
from server.vault.files import OutcomeOpen
from server.vault.vault import Vault


class Waiting:
    """What `Editing` needs of the queue. Blocks: it looks at the vault."""

    def __init__(self, approvals: Approvals, vault: Vault) -> None:
        self._approvals = approvals
        self._vault = vault

    def hold(self, caller: Caller, tool: str, batch: Batch) -> dict[str, Any]:
        """Let a batch wait for a person; what the caller is told of it."""
        approval = self._approvals.put(holding.request_of(caller, tool, batch, self._vault))
        return {
            "approval": approval.id,
            "expires": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(approval.expires)),
            "hint": "Nothing is written yet: a person must approve it with `vault-mcp approvals`. "
            "Tell the user, and don't send it again.",
        }

    @contextmanager
    def approved(self, caller: Caller, tool: str, batch: Batch) -> Iterator[None]:
        """What the block makes is made by the approval that the caller brings, and uses it up."""
        with self._approvals.claim(caller.approval or "") as claim:
            approval = claim.approval
            if (approval.caller, approval.tool) != (caller.name, tool):
                raise NotFound("There is no such approval.", "Ask for the write again.")
            if approval.state == "approved":
                raise Conflict("This write is being made already.", "Look at the note in a moment.")
            if approval.fingerprint != fingerprint(caller, tool, batch):
                claim.close("outdated")
                raise holding.outdated(approval.paths[:5])
            claim.approve(caller.name)
            with self.decided(claim):
                yield

    @contextmanager
    def decided(self, claim: Claim) -> Iterator[None]:
        """Tell the queue what became of an approved write."""
        try:
            yield
        except OutcomeOpen:
            # It stays approved: whether it was made is looked at when the vault answers.
            raise
        except Conflict as error:
            claim.close("outdated", reason=error.message)
            raise
        except VaultError:
            claim.reopen()
            raise
        claim.close("applied")
