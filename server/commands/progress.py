"""How far long work is: a bar that grows on a terminal, a line for every tenth elsewhere."""

import sys
import time
from collections.abc import Callable

_WIDTH = 40


class Bar:
    """Shows nothing before `after` seconds, so that short work says nothing."""

    def __init__(
        self, title: str, *, after: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title = title
        self._clock = clock
        self._from = clock() + after
        self._is_terminal = sys.stdout.isatty()
        self._shown = ""

    def show(self, done: int, total: int) -> None:
        """So much of the whole is done."""
        if self._clock() < self._from:
            return
        percent = 100 * done // total if total else 0
        said = f"{percent if self._is_terminal else percent // 10 * 10:3d} %"
        if said != self._shown and self._is_terminal:
            width = _WIDTH * percent // 100
            print(f"\r[{'#' * width}{' ' * (_WIDTH - width)}] {said}", end="", flush=True)
        elif said != self._shown:
            print(f"{self._title} {said}", flush=True)
        self._shown = said

    def complete(self) -> None:
        """All of it is done."""
        if self._shown:
            self.show(1, 1)
            self.end()

    def end(self) -> None:
        """What is printed next begins a line."""
        if self._shown and self._is_terminal:
            print()
