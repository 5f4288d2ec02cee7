from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.actions.skew.heavy_hitters import SpaceSaving


def test_few_keys_are_counted_exactly() -> None:
    sketch = SpaceSaving[str](4)
    for key in "aababc":
        sketch.add(key)
    assert [(heavy.key, heavy.count, heavy.overcount) for heavy in sketch.heaviest(2)] == [("a", 3, 0), ("b", 2, 0)]


def test_a_weight_counts_several_times() -> None:
    sketch = SpaceSaving[str](2)
    sketch.add("small", 1)
    sketch.add("large", 1000)
    assert sketch.heaviest(1)[0].key == "large"
    assert sketch.total == 1001


@given(st.lists(st.integers(0, 40), max_size=400), st.integers(1, 12))
def test_no_heavy_key_is_missed_and_no_count_is_too_low(keys: list[int], capacity: int) -> None:
    sketch = SpaceSaving[int](capacity)
    for key in keys:
        sketch.add(key)
    truth = Counter(keys)
    found = {heavy.key: heavy for heavy in sketch.heaviest(capacity)}
    assert all(key in found for key, count in truth.items() if count > len(keys) / capacity)
    assert all(heavy.guaranteed <= truth[key] <= heavy.count for key, heavy in found.items())
    assert sketch.total == len(keys)
