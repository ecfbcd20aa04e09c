from collections.abc import Iterator
from pathlib import Path

import pytest

from server.index.store import Index


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """An empty index with small segments, so that a few notes fill several."""
    opened = Index.open(tmp_path / "state", segment_bytes=4096)
    yield opened
    opened.close()
