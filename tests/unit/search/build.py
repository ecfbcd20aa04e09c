"""A ripgrep to test with, and its hits as a list."""

from collections.abc import Sequence
from pathlib import Path

from server.search.ripgrep import Case, Hit, Ripgrep, find_rg


def ripgrep(max_concurrent: int = 2) -> Ripgrep:
    return Ripgrep(find_rg(), max_concurrent)


def hits_of(
    pattern: str, files: Sequence[Path], case: Case = "sensitive", timeout: float = 30
) -> list[Hit]:
    found: list[Hit] = []

    def keep(hit: Hit) -> bool:
        found.append(hit)
        return True

    ripgrep().search(pattern, files, case=case, timeout=timeout, on_hit=keep)
    return found
