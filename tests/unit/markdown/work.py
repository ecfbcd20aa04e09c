"""How much work a call is: CPU time that is only ever compared with that of another call.

So a slow or busy machine changes nothing: for eight times the input, linear work gives a ratio
around 8, quadratic work one around 64.
"""

import time
from collections.abc import Callable

TIMES = 8


def cost(call: Callable[[], object]) -> float:
    """CPU seconds of a call, the least of three."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return min(spent)


def assert_linear(small: Callable[[], object], large: Callable[[], object]) -> None:
    """`large` is the same as `small` with an input that is `TIMES` as long."""
    for _ in range(5):
        # A moment in which the machine is crowded costs caches; more work is more every time.
        before, after = cost(small), cost(large)
        if after <= 3 * TIMES * before + 0.03:
            return
    raise AssertionError(f"{after:.3f} s for {TIMES} times what took {before:.3f} s")
