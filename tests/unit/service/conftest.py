from collections.abc import Iterator
from pathlib import Path

import pytest

from .house import House, opened


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with opened(tmp_path / "vault", tmp_path / "state", MAX_NOTE_MB="0.05") as made:
        yield made
