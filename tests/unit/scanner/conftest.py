from collections.abc import Iterator
from pathlib import Path

import pytest

from .scene import Scene, opened


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with opened(tmp_path) as made:
        yield made
