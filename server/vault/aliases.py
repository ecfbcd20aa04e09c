"""Files that are symbolic links to other files of the vault: who may not read those may not read these.

Kept on local disk beside the index, which goes on answering while the vault can't be reached.
"""

import itertools
import json
import logging
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from server.models import Entry, path_key
from server.telemetry import log


class Aliases:
    """Where links lead, by the keys of their paths; learned whenever a folder is listed."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._turns = itertools.count()
        self._learned: dict[str, int] = {}
        self.current: Mapping[str, str] = MappingProxyType(_load(file))
        """Another object whenever something changed."""

    def turn(self) -> int:
        """What orders listings: to be taken before a folder is looked at."""
        return next(self._turns)

    def learn(self, folder: str, entries: Iterable[Entry], turn: int) -> None:
        """What was in a folder; an older look than that which found a link takes no link away."""
        found = {path_key(entry.path): entry.real for entry in entries if entry.real is not None}
        if not found and not self.current:
            return
        inside = path_key(folder)
        with self._lock:
            if self._learned.get(inside, -1) > turn:
                return
            if found:
                self._learned[inside] = turn
            others = {
                key: real for key, real in self.current.items() if key.rpartition("/")[0] != inside
            }
            changed = {**others, **found}
            if changed == self.current:
                return
            self.current = MappingProxyType(changed)
            self._save(changed)

    def _save(self, links: Mapping[str, str]) -> None:
        if self._file is None:
            return
        new = self._file.with_suffix(".new")
        try:
            new.write_text(json.dumps(dict(links), ensure_ascii=False), encoding="utf-8")
            new.replace(self._file)
        except OSError as error:
            log(logging.ERROR, "the symbolic links could not be noted down", why=repr(error))


def _load(file: Path | None) -> dict[str, str]:
    if file is None or not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return {str(key): str(real) for key, real in found.items()}
    except (OSError, ValueError, AttributeError) as error:
        log(logging.ERROR, "the symbolic links that were noted down can't be read", why=repr(error))
        return {}
