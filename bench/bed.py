"""What every measurement stands on."""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.server import Server
from bench.vault import Vault, make_vault
from server.search.executable import find_rg


@dataclass(frozen=True, slots=True)
class Bed:
    """A made vault, a server over it, and the plain tool beside it."""

    folder: Path
    vault: Vault
    server: Server
    rg: str
    rng: random.Random

    @property
    def notes(self) -> int:
        return len(self.vault.paths)

    def some_paths(self, count: int) -> list[str]:
        return self.rng.choices(self.vault.paths, k=count)


@contextmanager
def lay_bed(notes: int) -> Iterator[Bed]:
    """A vault of this many notes in a temporary folder, gone with its server at the end."""
    with tempfile.TemporaryDirectory(prefix="vault-bench-") as name:
        folder = Path(name)
        vault = make_vault(folder / "vault", notes)
        server = Server(vault.folder, folder / "state")
        try:
            yield Bed(folder, vault, server, find_rg(), random.Random(1))
        finally:
            server.stop()
