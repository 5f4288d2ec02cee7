import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.actions.bench.measurement import LatencyHistogram, Meter, total


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_within_two_percent(latencies: list[int], share: float) -> None:
    histogram = LatencyHistogram()
    for latency in latencies:
        histogram.add(latency)
    rank = max(1, -int(-share * len(latencies) // 1))
    exact = sorted(latencies)[rank - 1]
    found = histogram.percentile_us(share)
    assert found is not None and exact * 0.98 <= found <= exact
    assert histogram.max_us == max(latencies)


def test_memory_does_not_grow_with_the_number_of_latencies() -> None:
    histogram = LatencyHistogram()
    for latency in range(0, 1_000_000, 7):
        histogram.add(latency)
    assert len(histogram._counts) < 1500


def test_totals_add_up_and_end_with_the_last_record() -> None:
    first, second = Meter(), Meter()
    for at in range(1, 11):
        first.count(1000, 2000, now=100.0 + at)
    second.count(500, 50_000, now=105.0)
    second.fail("refused")
    second.fail("again")
    found = total([first, second], started_at=100.0)
    assert (found.records, found.bytes, found.errors, found.seconds) == (11, 10_500, 2, 10.0)
    assert found.records_per_s == pytest.approx(1.1) and found.mb_per_s == pytest.approx(0.00105)
    assert found.p50_us == pytest.approx(2000, rel=0.02) and found.max_us == 50_000
    assert second.error == "refused"


def test_without_records_there_is_nothing_to_report() -> None:
    found = total([Meter()], started_at=100.0)
    assert (found.records_per_s, found.mb_per_s, found.p99_us, found.max_us) == (0, 0, None, None)
