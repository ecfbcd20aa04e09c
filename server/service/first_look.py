"""While the first scan runs: what a search asks for is indexed before its turn.

An index of many notes takes a while to build, and nobody wants to wait for it to find one of them. So
ripgrep looks for the words in the folder itself, and what it finds is indexed first. Only on a disk
of this machine: a search never waits for a mount. Its answer still says that it may be incomplete.
"""

import logging
import unicodedata

from server.errors import VaultError
from server.index.store import Index
from server.query.needles import needles
from server.query.tree import Node
from server.scanner.scanner import Scanner
from server.search.ripgrep import Ripgrep
from server.service.loading import Loader
from server.telemetry import log
from server.vault.guard import Guard

_MOST = 200
"""Notes that are worth it: beyond that the scan itself is nearly as fast."""
_SECONDS = 2.0


class FirstLook:
    """Looks at the vault's folder, not at the index. Blocks."""

    def __init__(
        self, guard: Guard, index: Index, loader: Loader, scanner: Scanner, ripgrep: Ripgrep
    ) -> None:
        self._guard = guard
        self._index = index
        self._loader = loader
        self._scanner = scanner
        self._ripgrep = ripgrep

    def take(self, node: Node | None) -> None:
        """Index the notes that may meet a query, if they are few; whatever fails is left to the scan."""
        if self._scanner.progress.first_done:
            return
        words = needles(node)
        try:
            # The first probe of the vault has begun with the server, and is short.
            self._guard.looked.wait(_SECONDS)
            pin = self._guard.pin()
            if not words or pin.may_hang:
                return
            found = self._ripgrep.files_with(
                words, pin.root.path, glob="*.md", limit=_MOST, timeout=_SECONDS
            )
            if len(found) < _MOST:
                self._loader.fetch([path for path in found if self._is_new(path)])
        except VaultError as error:
            log(logging.DEBUG, "nothing was indexed before its turn", why=error.code)

    def _is_new(self, path: str) -> bool:
        # A name that is no text has no path in the vault.
        return path.isprintable() and self._index.get(unicodedata.normalize("NFC", path)) is None
