"""Buckets: what passes in any span, and how long a debt lasts."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.quotas.bucket import Bucket

RATE = 1000.0
SPAN_S = 10.0


def test_what_was_saved_up_passes_at_once_and_the_rest_is_waited_for() -> None:
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
def test_no_span_sees_more_than_1_1_of_the_quota(requests: list[tuple[float, float]]) -> None:
    """A client that waits as it is told, idle for a while now and then, with requests up to half a second's worth."""
    bucket = Bucket(RATE, capacity=RATE * SPAN_S * 0.05, now=0)
    now = 0.0
    passed: list[tuple[float, float]] = []
    for size, idle_s in requests:
        now += bucket.debt_s(now) + (idle_s if idle_s > 2 else 0)
        bucket.take(size, now)
        passed.append((now, size))
        in_span = sum(amount for when, amount in passed if when > now - SPAN_S)
        assert in_span <= 1.1 * RATE * SPAN_S + 1e-6
