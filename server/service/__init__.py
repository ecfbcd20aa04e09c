"""The use cases: what a caller can ask of the vault, whatever door it came through.

The edge between coroutines and the synchronous rooms below: every touch of the mount runs in a pool
of its own with a deadline, so that a mount that hangs never hangs the server.
"""

from dataclasses import dataclass

from server.service.attachments import Attachments
from server.service.deleting import Deleting
from server.service.editing import Editing
from server.service.finding import Finding
from server.service.graph import Graph
from server.service.moving import Moving
from server.service.notes import Notes
from server.service.packing import Packing
from server.service.past import Past
from server.service.searching import Searching
from server.service.status import Status
from server.service.vocabulary import Vocabulary
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
