"""One worker's seeds: what they share, and what became of each."""

import resource
import shutil
import tempfile
import traceback
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from pathlib import Path

from tests.drive.lab import FakeDrive
from tests.faults.driver import Run
from tests.faults.servers import Nursery

_MOST_MEMORY = 4 << 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a seed."""

    seed: int
    bed: str
    steps: int
    faults: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    failure: str = ""


class Lab:
    """What the seeds of one worker share."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.work = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        self.nursery = self._stack.enter_context(Nursery(self.work))
        self._drive: FakeDrive | None = None

    def drive(self) -> FakeDrive:
        """The Drive emulator, started when the first seed needs it."""
        if self._drive is None:
            self._drive = self._stack.enter_context(FakeDrive(self.work / "drive", lifetime=86_400))
        return self._drive

    def close(self) -> None:
        self._stack.close()


_lab: Lab | None = None


def run_seed(seed: int, bed: str, steps: int, keep: str | None) -> Outcome:
    """One seed in this process."""
    global _lab  # noqa: PLW0603 - what a worker process keeps between its seeds
    if _lab is None:
        _lab = Lab()
        # A worker of a pool ends without what other processes do at their end.
        Finalize(_lab, _lab.close, exitpriority=10)
        # Should the model ever grow beyond all bounds, this process fails and nothing else does.
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    work = _lab.work / f"seed{seed}"
    work.mkdir()
    run = Run(seed, bed, work, _lab.nursery, _lab.drive, Path(keep) if keep else None)
    failure = ""
    try:
        run.go(steps)
    except Exception as error:
        story = "\n".join(f"  {number:3d} {step}" for number, step in enumerate(run.steps))
        trace = "" if type(error).__name__ == "Violation" else traceback.format_exc()
        failure = f"{type(error).__name__}: {error}\n{story}\n{trace}"
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Outcome(seed, bed, len(run.steps), run.faults, run.calls, failure)
