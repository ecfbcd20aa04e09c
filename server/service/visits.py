"""When each caller caught up last: one small file in the state folder, shared by its servers."""

from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from server.access.files import SharedFile

_MOST = 1_000
_LONGEST = 200
_TIMES = TypeAdapter(dict[str, int])


class Visits:
    """At best effort: what can't be read or written is forgotten, never an error."""

    def __init__(self, path: Path) -> None:
        self._file = SharedFile(path)

    def last(self, caller: str) -> int | None:
        """The moment of a caller's last visit in nanoseconds."""
        return self._read().get(caller[:_LONGEST])

    def record(self, caller: str, at_ns: int) -> None:
        """A caller was here; the longest gone are forgotten when there are too many."""
        with suppress(OSError), self._file.locked():
            known = {**self._read(), caller[:_LONGEST]: at_ns}
            latest = sorted(known.items(), key=lambda item: -item[1])[:_MOST]
            self._file.replace(_TIMES.dump_json(dict(latest)), durable=False)

    def _read(self) -> dict[str, int]:
        try:
            data = self._file.read()
            return _TIMES.validate_json(data) if data is not None else {}
        except (OSError, ValidationError):
            return {}
