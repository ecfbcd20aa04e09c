"""What each caller has used of what it may use: calls, calls at once, bytes written in an hour.

Every caller has a measure of its own, so one at its limit delays nobody else. All of it happens on
the event loop and waits for nothing: whoever is over a limit is told when to come back.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from server.access.policy import Limits
from server.errors import RateLimited, TooLarge
from server.models import Caller

_HOUR = 3600.0
_MINUTE = 60.0
_MB = 1024 * 1024
_MOST_CALLERS = 10_000
_BURST_SECONDS = 3
"""How much of its own rate a caller may use at once when the policy names no burst for it."""
_REQUESTS_PER_CALL = 2
"""HTTP requests that are let in for every call a caller has: openings, notifications and ends are
requests too."""


@dataclass(slots=True)
class _Bucket:
    """Tokens that come at a rate and are kept up to a number."""

    tokens: float
    since: float

    def take(self, rate: float, most: float, now: float) -> float:
        """Take one; returns 0, or the seconds until there is one."""
        self.tokens = min(most, self.tokens + (now - self.since) * rate)
        self.since = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / rate


@dataclass(slots=True)
class _Use:
    """What one caller has used."""

    calls: _Bucket
    requests: _Bucket
    running: int = 0
    written: deque[tuple[float, int]] = field(default_factory=deque)
    """Bytes by the minute in which they were written, the oldest first."""
    written_bytes: int = 0

    def forget_written(self, now: float) -> None:
        while self.written and self.written[0][0] <= now - _HOUR:
            self.written_bytes -= self.written.popleft()[1]

    def idle(self, now: float) -> bool:
        self.forget_written(now)
        return not self.running and not self.written and now - self.calls.since > _MINUTE


class Limiter:
    """Charges callers; the policy's limits go before the server's own, and 0 is no limit."""

    def __init__(
        self,
        defaults: Limits,
        own: Callable[[Caller], Limits] = lambda _caller: Limits(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`own` is what the policy says about a caller; None in it takes the default."""
        self._defaults = defaults
        self._own = own
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    @contextmanager
    def call(self, caller: Caller, written: int = 0) -> Iterator[None]:
        """Hold one call that means to write so many bytes. Raises `RateLimited`, `TooLarge`."""
        own = self._own(caller)
        use = self._use(caller, own)
        # Cheapest for the caller first: what is refused for its number of calls writes nothing.
        most = _chosen(own.concurrent_calls, self._defaults.concurrent_calls)
        if most and use.running >= most:
            raise _limited(f"You have {use.running} calls running.", 1.0, concurrent_calls=most)
        self._take(use.calls, own, 1)
        if written:
            self._write(use, own, written)
        use.running += 1
        try:
            yield
        finally:
            use.running -= 1

    def question(self, caller: Caller) -> None:
        """Charge a protocol request that calls no operation. Raises `RateLimited`."""
        own = self._own(caller)
        self._take(self._use(caller, own).calls, own, 1)

    def request(self, caller: Caller) -> None:
        """Charge an HTTP request as such, before anyone reads it. Raises `RateLimited`.

        It has room for more than the calls have: a caller a little over its limit is told so in
        the protocol, and only one that doesn't listen is stopped here, where that is cheap.
        """
        own = self._own(caller)
        self._take(self._use(caller, own).requests, own, _REQUESTS_PER_CALL)

    def answer_bytes(self, caller: Caller) -> int:
        """How long an answer may be; 0 for any length."""
        return 1024 * int(_chosen(self._own(caller).answer_kb, self._defaults.answer_kb))

    def _take(self, bucket: _Bucket, own: Limits, factor: int) -> None:
        rate, burst = self._pace(own)
        if not rate:
            return
        wait = bucket.take(factor * rate, factor * burst, self._clock())
        if wait:
            raise _limited("You call faster than you may.", wait, calls_per_second=rate)

    def _pace(self, own: Limits) -> tuple[float, float]:
        rate = _chosen(own.calls_per_second, self._defaults.calls_per_second)
        if own.burst is None and own.calls_per_second is not None:
            return rate, max(1.0, math.ceil(_BURST_SECONDS * rate))
        return rate, _chosen(own.burst, self._defaults.burst) or 1.0

    def _write(self, use: _Use, own: Limits, size: int) -> None:
        most = _MB * _chosen(own.write_mb_per_hour, self._defaults.write_mb_per_hour)
        if not most:
            return
        now = self._clock()
        if size > most:
            raise TooLarge(
                f"This is more than you may write in an hour, which is {int(most)} bytes.",
                "Write less at once.",
                limit=int(most),
            )
        use.forget_written(now)
        if use.written_bytes + size > most:
            raise _limited(
                "You have written as much as you may in an hour.",
                _until_room(use, most - size, now),
                write_bytes_per_hour=int(most),
                written=use.written_bytes,
            )
        minute = now - now % _MINUTE
        if use.written and use.written[-1][0] == minute:
            use.written[-1] = (minute, use.written[-1][1] + size)
        else:
            use.written.append((minute, size))
        use.written_bytes += size

    def _use(self, caller: Caller, own: Limits) -> _Use:
        use = self._uses.get(caller.name)
        if use is None:
            now = self._clock()
            if len(self._uses) >= _MOST_CALLERS:
                self._uses = {name: kept for name, kept in self._uses.items() if not kept.idle(now)}
            burst = self._pace(own)[1]
            use = _Use(_Bucket(burst, now), _Bucket(_REQUESTS_PER_CALL * burst, now))
            self._uses[caller.name] = use
        return use


def content_bytes(arguments: Mapping[str, Any]) -> int:
    """The bytes of all texts in the arguments of a write, however they are nested."""
    total = 0
    rest: list[Any] = [arguments]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            total += len(item) if item.isascii() else len(item.encode(errors="surrogatepass"))
        elif isinstance(item, Mapping):
            rest.extend(item.values())
        elif isinstance(item, list | tuple):
            rest.extend(item)
    return total


def _chosen(own: float | None, default: float | None) -> float:
    return (default or 0) if own is None else own


def _until_room(use: _Use, room: float, now: float) -> float:
    held = float(use.written_bytes)
    for minute, size in use.written:
        held -= size
        if held <= room:
            return minute + _HOUR - now
    return _HOUR


def _limited(message: str, wait: float, **details: Any) -> RateLimited:
    seconds = max(0.01, math.ceil(wait * 100) / 100)
    return RateLimited(
        message, f"Try again in {seconds:g} seconds.", retry_after=seconds, **details
    )
