"""What this server knows about its vault from earlier: enough to tell it from an impostor.

A small JSON file in STATE_DIR. Losing it costs nothing but that memory.
"""

import json
import os
import threading
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Identity:
    """`id` is the marker's content; `populated` means that notes were seen, so it binds.

    `emptied` means that the last of them was removed through this server.
    """

    id: str | None = None
    mounted: bool = False
    populated: bool = False
    obsidian_vault: str | None = None
    obsidian_prefix: str | None = None
    emptied: bool = False


class IdentityFile:
    """Loads and saves an `Identity`; saving is atomic and durable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.current = self._load()

    def update(self, **changes: Any) -> None:
        """Change some fields and save, if that changes anything."""
        with self._lock:
            new = replace(self.current, **changes)
            if new != self.current:
                self._save(new)
                self.current = new

    def _save(self, new: Identity) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temp = self._path.with_suffix(f".{os.getpid()}.tmp")
        with temp.open("w", encoding="utf-8") as file:
            json.dump(asdict(new), file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        temp.replace(self._path)

    def _load(self) -> Identity:
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return Identity()
        names = {field.name for field in fields(Identity)}
        return (
            Identity(**{k: v for k, v in data.items() if k in names})
            if isinstance(data, dict)
            else Identity()
        )
