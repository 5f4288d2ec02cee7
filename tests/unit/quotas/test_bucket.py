"""Buckets: how much passes in any span, and how long a debt lasts."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.quotas.bucket import Bucket

RATE = 1000.0
SPAN_S = 10.0


def test_the_saved_amount_passes_immediately_and_the_rest_must_wait() -> None:
    bucket = Bucket(RATE, capacity=500, now=0)
    assert bucket.take(500, now=0) == 0
    assert bucket.take(250, now=0) == 0.25
    assert bucket.debt_s(now=0.125) == 0.125
    assert bucket.debt_s(now=0.25) == 0


def test_nothing_is_saved_up_beyond_the_capacity() -> None:
    bucket = Bucket(RATE, capacity=500, now=0)
    assert bucket.take(501, now=1_000_000) == 0.001
    assert not bucket.is_full(now=1_000_000.5)
    assert bucket.is_full(now=1_000_001)


@given(st.lists(st.tuples(st.floats(0, 500), st.floats(0, 3)), max_size=80))
def test_no_span_exceeds_1_1_times_the_quota(requests: list[tuple[float, float]]) -> None:
    """Simulate a client that obeys its throttle times, sometimes pauses, and requests up to half a second's worth."""
    bucket = Bucket(RATE, capacity=RATE * SPAN_S * 0.05, now=0)
    now = 0.0
    passed: list[tuple[float, float]] = []
    for size, idle_s in requests:
        now += bucket.debt_s(now) + (idle_s if idle_s > 2 else 0)
        bucket.take(size, now)
        passed.append((now, size))
        in_span = sum(amount for when, amount in passed if when > now - SPAN_S)
        assert in_span <= 1.1 * RATE * SPAN_S + 1e-6
