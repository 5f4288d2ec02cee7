"""The four offsets of a log keep their order."""

import pytest

from penstock.storage.log_offsets import LogOffsets


def state(offsets: LogOffsets) -> tuple[int, int, int, int]:
    return offsets.start, offsets.flushed, offsets.durable, offsets.end


def made(*, start: int = 0, flushed: int = 10, end: int = 10) -> LogOffsets:
    return LogOffsets(start=start, flushed=flushed, end=end)


def test_recovered_records_are_durable() -> None:
    assert state(made(start=2, flushed=4)) == (2, 4, 10, 10)


def test_a_sync_moves_flushed_and_durable_up_to_what_it_covered() -> None:
    offsets = made()
    offsets.extend(15)
    assert state(offsets) == (0, 10, 10, 15)
    assert offsets.flush_to(13)
    assert state(offsets) == (0, 13, 13, 15)
    assert not offsets.flush_to(12)
    assert state(offsets) == (0, 13, 13, 15)


def test_without_group_commit_the_end_is_durable_and_flushed_follows() -> None:
    offsets = made()
    offsets.extend_durably(15)
    assert state(offsets) == (0, 10, 15, 15)
    assert not offsets.flush_to(15)
    assert state(offsets) == (0, 15, 15, 15)


def test_no_request_waits_for_a_sync_without_group_commit() -> None:
    offsets = made()
    offsets.extend(15)
    assert offsets.count_all_durable()
    assert not offsets.count_all_durable()
    assert state(offsets) == (0, 10, 15, 15)


def test_truncation_lowers_only_the_offsets_above_it() -> None:
    offsets = made(start=8)
    flushed = offsets.flushed
    offsets.mark_unflushed_from(3)
    assert state(offsets) == (8, 3, 10, 10)
    offsets.truncate(9, flushed=flushed)
    assert state(offsets) == (8, 9, 9, 9)
    offsets.truncate(5, flushed=7)
    assert state(offsets) == (5, 5, 5, 5)


def test_an_empty_log_is_durable_where_it_begins() -> None:
    offsets = made()
    offsets.restart(500)
    assert state(offsets) == (500, 500, 500, 500)


def test_unflushed_records_may_be_deleted() -> None:
    offsets = made(flushed=3)
    offsets.advance_start(9)
    assert state(offsets) == (9, 3, 10, 10)


@pytest.mark.parametrize(
    "change",
    [
        lambda offsets: offsets.extend(10),
        lambda offsets: offsets.extend_durably(9),
        lambda offsets: offsets.flush_to(11),
        lambda offsets: offsets.advance_start(11),
        lambda offsets: offsets.advance_start(2),
        lambda offsets: offsets.truncate(11, flushed=10),
        lambda offsets: offsets.accept_loss(start=11, end=10),
        lambda offsets: LogOffsets(start=0, flushed=11, end=10),
        lambda offsets: LogOffsets(start=11, flushed=0, end=10),
    ],
)  # fmt: skip
def test_adding_a_segment_out_of_order_fails_an_assertion(change: object) -> None:
    assert callable(change)
    with pytest.raises(AssertionError):
        change(made(start=2))
