from collections.abc import Iterator
from pathlib import Path

import pytest

from server.history.store import History

from .build import opened


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """An empty history."""
    history = opened(tmp_path / "history")
    yield history
    history.close()
