"""Records in flight: one test for each transition and rule."""

from math import inf

import pytest

from penstock.model.errors import InvalidRequest
from penstock.shares.errors import InvalidRecordState
from penstock.shares.flight import SPAN_FACTOR, Flight
from penstock.shares.flight_ranges import StateWrite
from penstock.shares.settings import ShareSettings
from penstock.shares.states import AcknowledgementBatch, LogBatch, RecordState, StateRange
from tests.unit.shares.flights import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    accept,
    acknowledge,
    acquire,
    done,
    flight,
)

AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4


def test_a_fetch_locks_whole_batches() -> None:
    records = flight()
    assert acquire(records, (0, 4), (5, 9), (10, 14), most=7) == [(0, 9, 1)]
    assert acquire(records, (0, 4), (5, 9), (10, 14), member="other") == [(10, 14, 1)]
    assert records.next_fetch_offset(0) == 15


def test_a_strict_limit_splits_a_batch() -> None:
    records = flight()
    assert acquire(records, (0, 9), most=4, strict=True) == [(0, 3, 1)]
    assert acquire(records, (0, 9), most=4, strict=True, member="other") == [(4, 7, 1)]
    assert acquire(records, (0, 9), most=4, strict=True) == [(8, 9, 1)]


def test_ranges_are_cut_at_batches_of_the_preferred_size() -> None:
    records = flight()
    assert acquire(records, (0, 2), (3, 5), (6, 8), (9, 11), size=5) == [(0, 5, 1), (6, 11, 1)]


def test_nothing_below_the_start_offset_is_acquired() -> None:
    records = flight(start=7)
    assert acquire(records, (0, 9)) == [(7, 9, 1)]


def test_accepted_records_move_the_start_offset_when_the_write_succeeds() -> None:
    records = flight()
    acquire(records, (0, 9))
    write = acknowledge(records, 0, 4, ACCEPT)
    assert write is not None
    assert (write.start_offset, write.ranges, write.complete_count) == (5, [StateRange(0, 4, ACKNOWLEDGED, 1)], 0)
    assert records.start == 0, "nothing changes before the write succeeds"
    done(records, write)
    assert records.start == 5


def test_accepted_records_behind_others_are_kept_as_finished() -> None:
    records = flight()
    acquire(records, (0, 9))
    write = acknowledge(records, 5, 9, ACCEPT)
    assert write is not None
    assert (write.start_offset, write.complete_count) == (0, 5)
    done(records, write)
    assert (records.start, records.finished) == (0, 5)
    accept(records, 0, 4)
    assert (records.start, records.end, records.ranges) == (10, 10, [])


def test_two_writes_at_a_time_leave_a_start_offset_to_write() -> None:
    records = flight()
    acquire(records, (0, 9))
    behind = acknowledge(records, 5, 9, ACCEPT)
    ahead = acknowledge(records, 0, 4, ACCEPT)
    assert behind is not None and ahead is not None
    assert (behind.start_offset, ahead.start_offset) == (0, 5)
    assert records.unwritten() is None, "while a change is pending, the next one takes it along"
    done(records, behind)
    done(records, ahead)
    rest = records.unwritten()
    assert rest is not None and (rest.start_offset, rest.ranges, rest.complete_count) == (10, [], 0)
    assert records.unwritten() is None


def test_each_type_of_acknowledgement_has_its_state() -> None:
    records = flight()
    acquire(records, (0, 4))
    write = acknowledge(records, 0, 4, ACCEPT, GAP, RELEASE, REJECT, RENEW)
    assert write is not None
    assert write.ranges == [(0, 0, ACKNOWLEDGED, 1), (1, 1, ARCHIVED, 1), (2, 2, AVAILABLE, 1), (3, 3, ARCHIVED, 1)]
    done(records, write)
    assert (records.start, records.finished) == (2, 1)
    assert acquire(records, (0, 4)) == [(2, 2, 2)], "the renewed record is still locked"


def test_a_released_record_is_delivered_again_with_a_higher_count() -> None:
    records = flight()
    acquire(records, (0, 9))
    done(records, acknowledge(records, 3, 4, RELEASE))
    assert records.next_fetch_offset(0) == 3
    assert acquire(records, (0, 9), (10, 12), member="other") == [(3, 4, 2), (10, 12, 1)]


def test_the_delivery_limit_archives() -> None:
    records = flight(delivery_count_limit=2)
    for count in (1, 2):
        assert acquire(records, (0, 0)) == [(0, 0, count)]
        write = done(records, acknowledge(records, 0, 0, RELEASE))
    assert write.ranges == [(0, 0, ARCHIVED, 2)]
    assert records.start == 1


@pytest.mark.parametrize("kind", [REJECT, RELEASE])
def test_with_dead_letters_a_record_is_archived_after_its_dead_letter_record(kind: int) -> None:
    records = flight(delivery_count_limit=2, dead_letter_topic="dlq.g")
    acquire(records, (0, 0))
    if kind == RELEASE:
        done(records, acknowledge(records, 0, 0, RELEASE))
        acquire(records, (0, 0))
    write = done(records, acknowledge(records, 0, 0, kind))
    assert write.ranges[0].state == ARCHIVING
    assert records.start == 0
    assert [(each.first, each.last) for each in records.archiving()] == [(0, 0)]
    restored = Flight.load(write.start_offset, write.ranges)
    restored.validate()
    assert [(each.first, each.last) for each in restored.archiving()] == [(0, 0)], "a new leader resumes there"
    assert done(records, records.archive(0, 0)).start_offset == 1
    assert records.start == 1


def test_gaps_need_no_dead_letter() -> None:
    records = flight(dead_letter_topic="dlq.g")
    acquire(records, (0, 0))
    assert done(records, acknowledge(records, 0, 0, GAP)).ranges[0].state == ARCHIVED


def test_offsets_below_the_start_offset_are_ignored() -> None:
    records = flight()
    acquire(records, (0, 9))
    accept(records, 0, 4)
    assert acknowledge(records, 0, 4, ACCEPT) is None
    assert done(records, acknowledge(records, 2, 6, RELEASE)).ranges == [(5, 6, AVAILABLE, 1)]


@pytest.mark.parametrize(("first", "last"), [(8, 10), (10, 12), (50, 51)])
def test_offsets_beyond_the_end_are_an_invalid_request(first: int, last: int) -> None:
    records = flight()
    acquire(records, (0, 9))
    with pytest.raises(InvalidRequest):
        acknowledge(records, first, last, ACCEPT)


def test_offsets_beyond_the_end_are_in_the_wrong_state_if_no_record_is_in_flight() -> None:
    records = flight()
    acquire(records, (0, 9))
    accept(records, 0, 9)
    with pytest.raises(InvalidRecordState):
        acknowledge(records, 10, 10, ACCEPT)


def test_only_the_holder_may_acknowledge() -> None:
    records = flight()
    acquire(records, (0, 4))
    acquire(records, (0, 4), (5, 9), member="other")
    with pytest.raises(InvalidRecordState):
        acknowledge(records, 3, 6, ACCEPT)
    with pytest.raises(InvalidRecordState):
        acknowledge(records, 0, 0, ACCEPT, member="other")
    accept(records, 0, 4)


def test_an_acknowledgement_fails_as_a_whole() -> None:
    records = flight()
    acquire(records, (0, 4))
    done(records, acknowledge(records, 4, 4, RELEASE))
    batches = [AcknowledgementBatch(0, 1, (ACCEPT,)), AcknowledgementBatch(3, 4, (RENEW, ACCEPT))]
    before = [(each.first, each.last, each.state, each.deadline) for each in records.ranges]
    with pytest.raises(InvalidRecordState):
        records.acknowledge("m", batches, 100)
    assert [(each.first, each.last, each.state, each.deadline) for each in records.ranges] == before


def test_a_record_cannot_be_acknowledged_twice() -> None:
    records = flight()
    acquire(records, (0, 4))
    with pytest.raises(InvalidRecordState):
        records.acknowledge("m", [AcknowledgementBatch(0, 2, (ACCEPT,)), AcknowledgementBatch(2, 4, (ACCEPT,))], 0)
    write = acknowledge(records, 0, 1, RELEASE)
    with pytest.raises(InvalidRecordState):
        acknowledge(records, 1, 2, ACCEPT)
    done(records, write)
    with pytest.raises(InvalidRecordState):
        acknowledge(records, 1, 2, ACCEPT)


def test_a_pending_release_is_not_delivered() -> None:
    records = flight()
    acquire(records, (0, 4))
    write = acknowledge(records, 0, 4, RELEASE)
    assert acquire(records, (0, 4)) == []
    done(records, write)
    assert acquire(records, (0, 4)) == [(0, 4, 2)]


def test_a_failed_write_restores_the_lock() -> None:
    records = flight()
    acquire(records, (0, 4))
    write = acknowledge(records, 0, 4, ACCEPT)
    assert write is not None
    records.rollback(write)
    records.validate()
    assert records.start == 0
    assert records.expire(29_999) is None
    accept(records, 0, 4)
    assert records.start == 5


def test_a_lock_expires_and_that_is_written() -> None:
    records = flight(lock_duration_ms=100)
    acquire(records, (0, 4), now=0)
    assert records.next_event() == 100
    assert records.expire(99) is None
    write = records.expire(100)
    assert write is not None and write.ranges == [(0, 4, AVAILABLE, 1)]
    with pytest.raises(InvalidRecordState):
        acknowledge(records, 0, 0, ACCEPT)
    assert acquire(records, (0, 4), now=100, member="other") == [(0, 4, 2)]


def test_an_expired_lock_stays_released_if_the_write_fails() -> None:
    records = flight(lock_duration_ms=100)
    acquire(records, (0, 4))
    write = records.expire(100)
    assert write is not None
    records.rollback(write)
    assert records.next_fetch_offset(100) == 0
    again = records.unwritten()
    assert again is not None and again.ranges == [(0, 4, AVAILABLE, 1)], "it is written with the next change"


def test_a_failed_acknowledgement_keeps_what_was_released_before_for_the_next_write() -> None:
    records = flight()
    acquire(records, (0, 9))
    released = records.release("m")
    assert released is not None
    records.rollback(released)
    acquire(records, (0, 9))
    write = acknowledge(records, 0, 0, ACCEPT)
    assert write is not None
    records.rollback(write)
    again = records.unwritten()
    assert again is not None and again.ranges == [StateRange(0, 9, AVAILABLE, 1)]


def test_a_lock_that_is_being_acknowledged_does_not_expire() -> None:
    records = flight(lock_duration_ms=100)
    acquire(records, (0, 4))
    write = acknowledge(records, 0, 4, ACCEPT)
    assert records.expire(200) is None
    assert write is not None
    records.rollback(write)
    assert records.expire(200) is not None


def test_a_renewed_lock_lasts_the_full_duration_again() -> None:
    records = flight(lock_duration_ms=100)
    acquire(records, (0, 4), now=0)
    assert acknowledge(records, 1, 2, RENEW, now=90) is None, "nothing is written"
    write = records.expire(100)
    assert write is not None and write.ranges == [(0, 0, AVAILABLE, 1), (3, 4, AVAILABLE, 1)]
    assert records.next_event() == 190
    assert records.expire(190) is not None


def test_renewal_can_be_disabled() -> None:
    records = flight(is_renew_enabled=False)
    acquire(records, (0, 4))
    with pytest.raises(InvalidRecordState):
        acknowledge(records, 0, 0, RENEW)


def test_a_closed_session_releases_what_the_member_holds() -> None:
    records = flight()
    acquire(records, (0, 2), member="a")
    acquire(records, (0, 2), (3, 5), member="b")
    acquire(records, (0, 2), (3, 5), (6, 8), member="a")
    write = records.release("a")
    assert write is not None and write.ranges == [(0, 2, AVAILABLE, 1), (6, 8, AVAILABLE, 1)]
    assert records.release("a") is None
    assert acquire(records, (0, 2), (3, 5), (6, 8), member="c") == [(0, 2, 2), (6, 8, 2)]


def test_a_session_that_closes_during_a_write_releases_its_records_if_the_write_fails() -> None:
    records = flight()
    acquire(records, (0, 4))
    write = acknowledge(records, 0, 4, ACCEPT)
    assert write is not None
    assert records.release("m") is None
    records.rollback(write)
    released = records.expire(0)
    assert released is not None and released.ranges == [(0, 4, AVAILABLE, 1)]


def test_the_delivery_limit_counts_for_expired_locks_and_closed_sessions() -> None:
    records = flight(delivery_count_limit=2, lock_duration_ms=100)
    acquire(records, (0, 0), now=0)
    records.expire(100)
    acquire(records, (0, 0), now=100)
    write = records.release("m")
    assert write is not None and write.ranges == [] and write.start_offset == 1, "archived, and the start has moved"


def test_a_released_record_waits_for_its_delay() -> None:
    records = flight(retry_delay_ms=100, retry_delay_factor=3.0, retry_delay_ms_max=250)
    acquire(records, (0, 0))
    done(records, acknowledge(records, 0, 0, RELEASE, now=0))
    assert acquire(records, (0, 0), now=99) == []
    assert records.next_event() == 100
    assert acquire(records, (0, 0), (1, 1), now=50) == [(1, 1, 1)], "others are not held up"
    assert acquire(records, (0, 0), now=100) == [(0, 0, 2)]
    done(records, acknowledge(records, 0, 0, RELEASE, now=100))
    assert records.next_event() == 350, "at most retry_delay_ms_max"
    assert records.next_fetch_offset(349) == 2
    assert records.next_fetch_offset(350) == 0


def test_a_delay_that_has_ended_is_no_event() -> None:
    records = flight(retry_delay_ms=100)
    acquire(records, (0, 0))
    done(records, acknowledge(records, 0, 0, RELEASE, now=0))
    assert records.expire(100) is None
    assert records.next_event() == inf
    assert records.next_fetch_offset(100) == 0


def test_a_lock_that_expired_is_not_delayed() -> None:
    records = flight(retry_delay_ms=100, lock_duration_ms=50)
    acquire(records, (0, 0))
    records.expire(50)
    assert records.next_fetch_offset(50) == 0


def test_the_window_limits_new_records_and_not_released_ones() -> None:
    records = flight(record_locks_max=10)
    assert acquire(records, (0, 3), (4, 7), (8, 11), (12, 15)) == [(0, 11, 1)], "the limit and the rest of a batch"
    assert records.next_fetch_offset(0) is None
    done(records, acknowledge(records, 4, 7, ACCEPT))
    assert records.next_fetch_offset(0) is None, "finished records behind an unfinished one count"
    done(records, acknowledge(records, 8, 11, RELEASE))
    assert acquire(records, (8, 11), (12, 15)) == [(8, 11, 2)]
    accept(records, 0, 3)
    assert records.next_fetch_offset(0) == 12


def test_a_window_of_unfinished_records_passes_a_stuck_one() -> None:
    records = flight(record_locks_max=10, counts_unfinished=True)
    acquire(records, (0, 0), member="stuck")
    for offset in range(1, SPAN_FACTOR * 10):
        assert acquire(records, (0, offset - 1), (offset, offset)) == [(offset, offset, 1)]
        accept(records, offset, offset)
    assert records.start == 0
    assert len(records.ranges) == 2
    assert records.next_fetch_offset(0) is None, "the span is limited too"
    accept(records, 0, 0, member="stuck")
    assert (records.start, records.next_fetch_offset(0)) == (500, 500)


def test_poison_records_are_isolated() -> None:
    records = flight(delivery_count_limit=5)
    sizes = []
    for _ in range(5):
        got = acquire(records, (0, 15))
        sizes.append(sum(last - first + 1 for first, last, _ in got))
        records.release("m")
        records.validate()
        records.unwritten()
    assert sizes == [16, 16, 16, 8, 1]


def test_a_record_in_its_last_attempt_is_not_delivered_with_others() -> None:
    records = Flight.load(0, [StateRange(0, 2, AVAILABLE, 1), StateRange(3, 3, AVAILABLE, 4)])
    assert acquire(records, (0, 3)) == [(0, 2, 2)]
    assert acquire(records, (0, 3), (4, 9)) == [(3, 3, 5)]


def test_with_a_limit_of_two_nothing_is_isolated() -> None:
    records = flight(delivery_count_limit=2)
    acquire(records, (0, 9))
    records.release("m")
    assert acquire(records, (0, 9)) == [(0, 9, 2)]


def test_unreadable_batches_are_archived_on_acquisition() -> None:
    records = flight()
    aborted, marker = LogBatch(3, 5, is_readable=False), LogBatch(6, 6, is_readable=False)
    assert acquire(records, (0, 2), aborted, marker, (7, 8)) == [(0, 2, 1), (7, 8, 1)]
    accept(records, 0, 2)
    assert records.start == 7
    assert records.next_fetch_offset(0) == 9


def test_a_log_of_unreadable_batches_moves_the_start_offset() -> None:
    records = flight()
    assert acquire(records, LogBatch(0, 5, is_readable=False)) == []
    assert (records.start, records.end) == (6, 6)
    write = records.unwritten()
    assert write is not None and write.start_offset == 6


def test_released_records_of_an_aborted_transaction_are_archived() -> None:
    records = Flight.load(0, [StateRange(0, 3, AVAILABLE, 1)])
    assert acquire(records, LogBatch(0, 3, is_readable=False), (4, 5)) == [(4, 5, 1)]
    assert records.start == 4


def test_gaps_of_a_compacted_log_are_archived() -> None:
    records = flight()
    assert acquire(records, (5, 6), (10, 11)) == [(5, 6, 1), (10, 11, 1)]
    assert records.start == 5
    records.release("m")
    assert acquire(records, (11, 11)) == [(11, 11, 2)], "released records that were compacted away since"
    assert records.start == 11


def test_the_log_start_offset_trims() -> None:
    records = flight()
    acquire(records, (0, 4), member="a")
    acquire(records, (0, 4), (5, 9), member="b")
    write = acknowledge(records, 0, 4, ACCEPT, member="a")
    records.trim(7)
    records.validate()
    assert (records.start, records.end) == (7, 10)
    done(records, write)
    assert acknowledge(records, 5, 6, ACCEPT, member="b") is None, "the record is gone; its holder need not know"
    records.trim(50)
    records.validate()
    assert (records.start, records.end, records.ranges) == (50, 50, [])
    rest = records.unwritten()
    assert rest is not None and rest.start_offset == 50


def test_acknowledged_records_that_are_trimmed_before_their_write_do_not_count_as_finished() -> None:
    records = flight()
    acquire(records, (0, 9))
    write = StateWrite(records.start, 0, [])
    assert records.add_acknowledgement(write, "m", [AcknowledgementBatch(0, 4, (ACCEPT,))], 0)
    assert records.add_acknowledgement(write, "m", [AcknowledgementBatch(8, 9, (ACCEPT,))], 0)
    records.trim(3)
    records.complete(write)
    assert (write.start_offset, write.complete_count) == (5, 2)
    assert write.ranges == [StateRange(3, 4, ACKNOWLEDGED, 1), StateRange(8, 9, ACKNOWLEDGED, 1)]
    done(records, write)
    assert (records.start, records.finished) == (5, 2)


def test_loaded_state_has_unknown_outcomes_between_finished_ranges() -> None:
    written = [StateRange(3, 4, ACKNOWLEDGED, 1), StateRange(7, 7, AVAILABLE, 2), StateRange(9, 9, ARCHIVED, 1)]
    records = Flight.load(1, written)
    records.validate()
    assert (records.start, records.end, records.finished) == (1, 10, 3)
    assert acquire(records, (0, 9), (10, 12)) == [(1, 2, 1), (5, 6, 1), (7, 7, 3), (8, 8, 1), (10, 12, 1)]
    assert records.unwritten() is None


def test_loaded_state_starts_behind_finished_records() -> None:
    records = Flight.load(2, [StateRange(0, 5, ACKNOWLEDGED, 1)])
    assert (records.start, records.end, records.finished) == (6, 6, 0)
    assert records.unwritten() is not None


def test_an_initial_start_offset_is_written() -> None:
    write = flight(start=42).unwritten()
    assert write is not None and (write.start_offset, write.ranges) == (42, [])


def test_without_locks_there_is_no_event() -> None:
    assert flight().next_event() == inf


def test_the_delay_of_many_deliveries_does_not_overflow() -> None:
    assert ShareSettings(retry_delay_ms=1_000, retry_delay_factor=10.0).retry_delay(10_000) == 15 * 60_000


def test_states_have_kafkas_numbers() -> None:
    assert [state.value for state in RecordState] == [0, 1, 2, 3, 4]
