"""What stays in memory when nobody asks for anything: no note."""

import weakref

from server.workers import Deadline, Workers
from tests.drive.processes import wait_for


class Answer:
    """Something as large as a note may be."""


def test_an_idle_worker_forgets_its_last_answer() -> None:
    workers = Workers("t", 1)
    answer = workers.run(Deadline.after(30), Answer)
    gone = weakref.ref(answer)
    del answer
    wait_for(lambda: gone() is None)
    workers.close()
