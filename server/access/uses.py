"""When each token was used last: to the minute, in a file of its own, at best effort.

Apart from the tokens themselves, so that writing it down can never undo a change of theirs.
"""

from collections.abc import Container, Mapping

from pydantic import TypeAdapter, ValidationError

from server.access.files import SharedFile

_COARSE = 60.0
_TIMES = TypeAdapter(dict[str, float])


class Uses:
    """Seen in memory, written by whoever tidies up."""

    def __init__(self, file: SharedFile) -> None:
        self._file = file
        self._seen: dict[str, float] = {}
        self._saved: dict[str, float] = {}

    def saw(self, token_id: str, at: float) -> None:
        """A token was used; costs nothing."""
        self._seen[token_id] = at

    def read(self) -> Mapping[str, float]:
        """What is known, by token id; what was seen since the last writing is not."""
        try:
            data = self._file.read()
            return _TIMES.validate_json(data) if data is not None else {}
        except (OSError, ValidationError):
            return {}

    def save(self, live: Container[str]) -> None:
        """Write what has become a minute newer, if anything has; forget tokens that are gone."""
        new = {
            token_id: at
            for token_id, at in list(self._seen.items())
            if at - self._saved.get(token_id, 0.0) >= _COARSE
        }
        if not new:
            return
        with self._file.locked():
            known = dict(self.read())
            for token_id, at in new.items():
                known[token_id] = max(at, known.get(token_id, 0.0))
            kept = {token_id: at for token_id, at in known.items() if token_id in live}
            self._file.replace(_TIMES.dump_json(kept), durable=False)
        self._saved |= new
