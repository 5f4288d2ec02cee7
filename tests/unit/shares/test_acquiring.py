"""The shortcut for records of one batch, compared with the general acquisition. test_flight.py has its rules."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.shares.acquiring import AcquireLimits, acquire_new
from penstock.shares.states import LogBatch
from tests.unit.shares.flights import acquire, flight


@given(
    end=st.integers(0, 6),
    first=st.integers(0, 6),
    size=st.integers(1, 6),
    most=st.integers(0, 6),
    strict=st.booleans(),
)
def test_new_records_of_one_batch_are_acquired_like_by_the_general_way(
    end: int, first: int, size: int, most: int, strict: bool
) -> None:
    batch = LogBatch(first, first + size - 1)
    records, general = flight(), flight()
    for each in (records, general):
        if end:
            acquire(each, (0, end - 1), member="other")
    found = acquire_new(records, "m", AcquireLimits(most, 0, strict), 5, batch)
    records.validate()
    if found is None:
        assert records.end == end, "nothing has changed"
    else:
        assert [found] == acquire(general, batch, most=most, strict=strict, now=5)
        assert (records.end, records.next_fetch_offset(5)) == (general.end, general.next_fetch_offset(5))
        fields = ("first", "last", "state", "count", "member", "deadline", "span")
        pairs = zip(records.ranges, general.ranges, strict=True)
        assert all(getattr(a, name) == getattr(b, name) for a, b in pairs for name in fields)


def test_a_batch_with_fewer_records_than_wanted_is_left_to_the_general_way() -> None:
    records = flight()
    assert acquire_new(records, "m", AcquireLimits(3), 0, LogBatch(0, 1)) is None
    assert acquire_new(records, "m", AcquireLimits(2), 0, LogBatch(1, 5)) is None, "the log has no record at 0"
    assert acquire_new(records, "m", AcquireLimits(2), 0, LogBatch(0, 1)) == (0, 1, 1)
