"""The use cases: what a caller can ask of the vault, whatever door it came through.

The edge between coroutines and the synchronous rooms below: every touch of the mount runs in a pool
of its own with a deadline, so that a mount that hangs never hangs the server.
"""

from dataclasses import dataclass

from server.service.approving import Approving
from server.service.attachments import Attachments
from server.service.catching_up import CatchingUp
from server.service.completing import Completing
from server.service.decisions import Decisions
from server.service.deleting import Deleting
from server.service.devlogs import Devlogs
from server.service.editing import Editing
from server.service.finding import Finding
from server.service.graph import Graph
from server.service.moving import Moving
from server.service.notes import Notes
from server.service.packing import Packing
from server.service.past import Past
from server.service.publishing import Publishing
from server.service.resources import Resources
from server.service.searching import Searching
from server.service.status import Status
from server.service.syncing import Syncing
from server.service.vocabulary import Vocabulary
from server.service.watching import Watching
from server.service.writing import Writing


@dataclass(frozen=True, slots=True)
class Service:
    """All use cases, by what they are about."""

    notes: Notes
    finding: Finding
    searching: Searching
    packing: Packing
    graph: Graph
    vocabulary: Vocabulary
    status: Status
    editing: Editing
    writing: Writing
    deleting: Deleting
    attachments: Attachments
    moving: Moving
    past: Past
    syncing: Syncing
    approving: Approving
    resources: Resources
    completing: Completing
    catching_up: CatchingUp
    watching: Watching
    devlogs: Devlogs
    decisions: Decisions
    publishing: Publishing
