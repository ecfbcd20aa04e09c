"""`python -m tests.faults`: many seeds on several workers; the end tells how many, and what was done to them.

A failure prints its seed and its steps. One seed again: `python -m tests.faults --seed 17`. Without
FAULT_SEEDS it is a slice that ends after some minutes.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor, as_completed

from tests.drive.processes import which
from tests.faults.driver import BEDS
from tests.faults.worker import Outcome, run_seed

_MIX = ("plain",) * 6 + BEDS[1:]
"""The bed of a seed: most on a plain folder, where steps are cheap."""


def main() -> int:
    """Run the seeds; 1 when one of them found something."""
    options = _options()
    beds = [bed for bed in options.beds.split(",") if _can(bed)]
    mix = [bed for bed in _MIX if bed in beds] or beds
    seeds = (
        [options.seed]
        if options.seed is not None
        else range(options.first, options.first + options.seeds)
    )
    end = time.monotonic() + 60 * options.minutes if options.minutes else None
    done: list[Outcome] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
        waiting = iter(seeds)
        running: set[Future[Outcome]] = set()
        while True:
            while len(running) < options.workers and (end is None or time.monotonic() < end):
                seed = next(waiting, None)
                if seed is None:
                    break
                bed = mix[seed % len(mix)]
                running.add(pool.submit(run_seed, seed, bed, options.steps, options.keep))
            if not running:
                break
            ended = next(as_completed(running))
            running.discard(ended)
            done.append(ended.result())
            _tell(done[-1], len(done))
    return _sum_up(done, len(seeds), options.steps)


def _options() -> argparse.Namespace:
    environ = os.environ
    minutes = environ.get("FAULT_MINUTES", "0" if "FAULT_SEEDS" in environ else "4")
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=int(environ.get("FAULT_SEEDS", "40")))
    parser.add_argument("--steps", type=int, default=int(environ.get("FAULT_STEPS", "40")))
    parser.add_argument("--workers", type=int, default=int(environ.get("FAULT_WORKERS", "4")))
    parser.add_argument(
        "--minutes",
        type=float,
        default=float(minutes),
        help="begin no seed after that; 0: no limit",
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--beds", default=",".join(BEDS))
    parser.add_argument("--keep", metavar="FOLDER", help="keep what a failed seed leaves behind")
    return parser.parse_args()


def _can(bed: str) -> bool:
    """Whether a bed can be made here; in CI it must."""
    needed = () if bed == "plain" else ("rclone", "fusermount3", "/dev/fuse", "openssl")
    absent = [tool for tool in needed if not (os.path.exists(tool) or which(tool))]
    if absent and os.environ.get("CI") == "true":
        raise SystemExit(f"{bed} needs {', '.join(absent)}")
    if absent:
        print(f"left out: {bed} needs {', '.join(absent)}")
    return not absent


def _tell(outcome: Outcome, number: int) -> None:
    if outcome.failure:
        print(f"VIOLATION, seed {outcome.seed} on {outcome.bed}: {outcome.failure}", flush=True)
    elif number % 10 == 0:
        print(f"{number} seeds", flush=True)


def _sum_up(done: list[Outcome], wanted: int, steps: int) -> int:
    failed = [outcome for outcome in done if outcome.failure]
    beds = Counter(outcome.bed for outcome in done)
    calls: Counter[str] = sum((outcome.calls for outcome in done), Counter())
    faults: Counter[str] = sum((outcome.faults for outcome in done), Counter())
    print(f"{len(done)} of {wanted} seeds, {steps} steps each: {_counted(beds)}")
    print(f"calls: {_counted(calls)}")
    print(f"faults: {_counted(faults)}")
    print(
        f"{len(failed)} with a violation: {sorted(o.seed for o in failed)}"
        if failed
        else "no violation"
    )
    return 1 if failed else 0


def _counted(what: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(what.items()))


if __name__ == "__main__":
    sys.exit(main())
