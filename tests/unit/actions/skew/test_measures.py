from hypothesis import given
from hypothesis import strategies as st

from penstock.actions.skew.measures import gini, max_over_mean


def test_even_loads_are_even() -> None:
    assert max_over_mean([5, 5, 5]) == 1
    assert abs(gini([5, 5, 5])) < 1e-9


def test_one_loaded_partition_raises_both_measures() -> None:
    assert max_over_mean([0, 0, 0, 8]) == 4
    assert gini([0, 0, 0, 8]) == 0.75


def test_a_topic_without_records_is_even() -> None:
    assert max_over_mean([0, 0]) == 1
    assert gini([0, 0]) == 0


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_both_stay_within_their_bounds(loads: list[int]) -> None:
    assert 1 <= max_over_mean(loads) <= len(loads) + 1e-9
    assert -1e-9 <= gini(loads) <= 1
