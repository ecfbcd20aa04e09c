"""What a caller may use: its own measure, refilled by time, refused with the time to come back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.access.limits import Limiter, content_bytes
from server.access.policy import Limits
from server.errors import RateLimited, TooLarge
from server.models import Caller

ALICE, BOB = Caller("alice"), Caller("bob")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def limiter(clock: Clock, own: dict[str, Limits] | None = None, **defaults: Any) -> Limiter:
    def of(caller: Caller) -> Limits:
        return (own or {}).get(caller.name, Limits())

    return Limiter(Limits(**defaults), of, clock)


def called(made: Limiter, caller: Caller = ALICE, written: int = 0) -> float:
    """0 for a call that was let through, else the seconds to wait."""
    try:
        with made.call(caller, written):
            return 0.0
    except RateLimited as error:
        wait: float = error.details["retry_after"]
        return wait


def passed(made: Limiter, caller: Caller = ALICE, most: int = 1000) -> int:
    """How many calls go through in a row."""
    return next(number for number in range(most + 1) if called(made, caller))


def test_a_burst_passes_and_the_next_call_is_told_when_to_come_back() -> None:
    clock = Clock()
    made = limiter(clock, calls_per_second=10, burst=5)
    assert passed(made) == 5
    wait = called(made)
    assert 0 < wait <= 0.1
    clock.now += wait
    assert called(made) == 0
    assert called(made) > 0


def test_a_rest_brings_back_the_burst_and_no_more() -> None:
    clock = Clock()
    made = limiter(clock, calls_per_second=10, burst=5)
    passed(made)
    clock.now += 3600
    assert passed(made) == 5


def test_one_caller_at_its_limit_costs_another_nothing() -> None:
    made = limiter(Clock(), calls_per_second=1, burst=3, concurrent_calls=1)
    assert passed(made, ALICE) == 3
    assert passed(made, BOB) == 3


@settings(max_examples=100)
@given(
    st.lists(st.floats(0, 2), max_size=60),
    st.integers(1, 20),
    st.integers(1, 20),
)
def test_never_more_than_the_burst_and_the_rate_allow(
    pauses: list[float], rate: int, burst: int
) -> None:
    clock = Clock()
    made = limiter(clock, calls_per_second=rate, burst=burst)
    let_in = 0
    for pause in pauses:
        clock.now += pause
        let_in += called(made) == 0
        assert let_in <= burst + rate * (clock.now - 1000) + 1e-6


def test_calls_at_once_end_and_make_room() -> None:
    made = limiter(Clock(), concurrent_calls=2)
    with made.call(ALICE):
        with made.call(ALICE):
            with pytest.raises(RateLimited, match="2 calls running"), made.call(ALICE):
                raise AssertionError
            assert called(made, BOB) == 0
        assert called(made) == 0
    with pytest.raises(ValueError, match="inside"), made.call(ALICE):
        raise ValueError("inside")
    with made.call(ALICE), made.call(ALICE):
        pass


def test_written_bytes_are_those_of_the_last_hour() -> None:
    clock = Clock()
    made = limiter(clock, write_mb_per_hour=1)
    half = 512 * 1024
    assert called(made, written=half) == 0
    clock.now += 1800
    assert called(made, written=half) == 0
    assert called(made) == 0, "a call that writes nothing passes"
    wait = called(made, written=1)
    assert 1740 <= wait <= 1800
    assert called(made, BOB, written=half) == 0
    clock.now += wait
    assert called(made, written=half) == 0, "the first half has left the hour"
    assert called(made, written=1) > 1700


def test_what_could_never_be_written_is_too_large() -> None:
    made = limiter(Clock(), write_mb_per_hour=1)
    with pytest.raises(TooLarge) as caught, made.call(ALICE, 1024 * 1024 + 1):
        raise AssertionError
    assert caught.value.details["limit"] == 1024 * 1024
    assert called(made, written=1024 * 1024) == 0, "and it was not charged"


def test_zero_is_no_limit() -> None:
    made = limiter(
        Clock(),
        calls_per_second=0, burst=1, concurrent_calls=0, write_mb_per_hour=0, answer_kb=0,
    )  # fmt: skip
    assert all(called(made, written=1 << 30) == 0 for _ in range(1000))
    assert made.answer_bytes(ALICE) == 0


def test_the_policy_goes_before_the_settings() -> None:
    own = {
        "alice": Limits(calls_per_second=1, concurrent_calls=0, answer_kb=3),
        "bob": Limits(calls_per_second=0, burst=7),
        "carol": Limits(burst=9),
    }
    made = limiter(Clock(), own, calls_per_second=100, burst=50, concurrent_calls=1, answer_kb=9)
    assert passed(made, ALICE) == 3, "three seconds of its own rate"
    assert passed(made, Caller("carol")) == 9
    assert passed(made, Caller("dave")) == 50
    assert not any(called(made, BOB) for _ in range(1000))
    assert (made.answer_bytes(ALICE), made.answer_bytes(BOB)) == (3 * 1024, 9 * 1024)


def test_questions_are_charged_like_calls() -> None:
    made = limiter(Clock(), calls_per_second=1, burst=4)
    for _ in range(3):
        made.question(ALICE)
    assert called(made) == 0
    with pytest.raises(RateLimited):
        made.question(ALICE)


def test_requests_have_room_for_twice_the_calls() -> None:
    clock = Clock()
    made = limiter(clock, calls_per_second=1, burst=4)
    for _ in range(8):
        made.request(ALICE)
    with pytest.raises(RateLimited) as caught:
        made.request(ALICE)
    assert caught.value.details["retry_after"] == 0.5
    assert passed(made) == 4, "the calls are counted by themselves"


def test_callers_that_rest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.access.limits._MOST_CALLERS", 10)
    clock = Clock()
    made = limiter(clock, calls_per_second=1, burst=1, write_mb_per_hour=1)
    assert called(made, BOB, written=1024 * 1024) == 0
    for number in range(1000):
        clock.now += 7
        assert called(made, Caller(f"caller {number}")) == 0
        assert len(made._uses) <= 11
        if clock.now < 1000 + 3000:
            assert called(made, BOB, written=1) > 0, "what is still owed is kept"


@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.text(max_size=20)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_the_content_of_a_write_is_all_of_its_text(value: Any) -> None:
    def texts(item: Any) -> list[str]:
        if isinstance(item, str):
            return [item]
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        return [text for part in inner for text in texts(part)]

    expected = sum(len(text.encode()) for text in texts(value))
    assert content_bytes({"content": value}) == expected


def test_content_that_is_nested_without_end_or_no_text_has_a_size() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert content_bytes({"deep": deep, "half": "\ud800"}) == 3
