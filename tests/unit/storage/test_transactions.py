"""Transactions in one log: verification of appends, the first unstable offset, and the state after a restart."""

import pytest

from penstock.model.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    StorageError,
    TransactionCoordinatorFenced,
)
from penstock.storage.log import Log
from penstock.wire.batch import BatchHeader
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import append, batch, end_transaction, idempotent, open_log, stored, transactional


def in_transaction() -> Log:
    """Return a log in which producer 7 has an open transaction from offset 1."""
    log = open_log(SimDisk())
    append(log, batch())
    append(log, transactional(2, sequence=0), transaction_verified=True)
    return log


# Appends


def test_a_transaction_begins_only_after_verification_by_the_coordinator() -> None:
    log = open_log(SimDisk())
    with pytest.raises(InvalidTxnState):
        append(log, transactional(sequence=0))
    assert (log.end_offset, len(log.producers()), log.first_unstable_offset) == (0, 0, None)


def test_an_open_transaction_continues_without_verification() -> None:
    log = in_transaction()
    assert append(log, transactional(sequence=2)).base_offset == 3
    with pytest.raises(InvalidTxnState):
        append(log, transactional(sequence=0, epoch=1))


def test_an_open_transaction_rejects_other_batches_of_its_producer() -> None:
    log = in_transaction()
    with pytest.raises(InvalidTxnState):
        append(log, idempotent(sequence=2))
    assert append(log, idempotent(sequence=0, producer_id=8)).base_offset == 3


def test_a_duplicate_is_recognized_after_its_transaction_has_ended() -> None:
    log = in_transaction()
    end_transaction(log, commit=True)
    appended = append(log, transactional(2, sequence=0))
    assert appended.duplicate and appended.base_offset == 1


def test_a_marker_between_verification_and_append_invalidates_the_verification() -> None:
    log = open_log(SimDisk())
    verification = log.producer_state.begin_verification(7, 0, 0, starts_at_zero=False)
    assert verification is not None
    end_transaction(log, commit=False)
    with pytest.raises(InvalidTxnState):
        append(log, transactional(sequence=0), transaction_verified=verification)
    again = log.producer_state.begin_verification(7, 0, 0, starts_at_zero=False)
    assert again is not None
    assert append(log, transactional(sequence=0), transaction_verified=again).base_offset == 1
    assert log.producer_state.begin_verification(7, 0, 1, starts_at_zero=False) is None


def test_the_marker_of_the_previous_transaction_does_not_invalidate_a_verification() -> None:
    log = in_transaction()
    verification = log.producer_state.begin_verification(7, 1, 0, starts_at_zero=True)
    assert verification is not None
    end_transaction(log, commit=True, epoch=1, version=2)
    end_transaction(log, commit=True, epoch=1, version=2)  # told twice
    late = transactional(sequence=2)
    with pytest.raises(InvalidProducerEpoch):
        append(log, late, transaction_verified=verification)
    following = batch(producer_id=7, producer_epoch=1, base_sequence=0, is_transactional=True)
    assert append(log, following, transaction_verified=verification).base_offset == 5


def test_the_marker_of_the_same_transaction_invalidates_a_verification_of_version_2() -> None:
    log = open_log(SimDisk())
    verification = log.producer_state.begin_verification(7, 0, 0, starts_at_zero=True)
    assert verification is not None
    end_transaction(log, commit=False, epoch=1, version=2)
    with pytest.raises(InvalidTxnState):
        append(log, transactional(sequence=0), transaction_verified=verification)


def test_a_batch_is_rejected_while_an_earlier_one_waits_for_the_coordinator() -> None:
    log = open_log(SimDisk())
    first = log.producer_state.begin_verification(7, 0, 5, starts_at_zero=False)
    second = log.producer_state.begin_verification(7, 0, 6, starts_at_zero=False)
    assert first is second and second is not None
    with pytest.raises(OutOfOrderSequence):
        append(log, transactional(sequence=6), transaction_verified=second)
    assert append(log, transactional(sequence=5), transaction_verified=second).base_offset == 0


def test_a_rejected_late_batch_does_not_block_the_next_transaction() -> None:
    log = in_transaction()
    end_transaction(log, commit=True)
    assert log.producer_state.begin_verification(7, 0, 0, starts_at_zero=False) is not None
    verification = log.producer_state.begin_verification(7, 0, 2, starts_at_zero=False)
    assert verification is not None
    assert append(log, transactional(sequence=2), transaction_verified=verification).base_offset == 4


def test_a_new_producer_with_transaction_version_2_starts_at_sequence_0() -> None:
    log = open_log(SimDisk())
    verification = log.producer_state.begin_verification(7, 0, 4, starts_at_zero=True)
    assert verification is not None
    with pytest.raises(OutOfOrderSequence):
        append(log, transactional(sequence=4), transaction_verified=verification)
    verification.add(1, 0)
    assert verification.lowest_sequence == 0


def test_abandoned_verifications_are_dropped() -> None:
    log = open_log(SimDisk())
    log.producer_state.begin_verification(7, 0, 0, starts_at_zero=False)
    log.producer_state.expire(1, 1)
    log.producer_state.begin_verification(7, 0, 0, starts_at_zero=False)
    log.producer_state.begin_verification(8, 0, 0, starts_at_zero=False)
    log.producer_state.expire(1, 1)
    assert list(log.producer_state.verifications) == [7, 8]
    log.producer_state.expire(1, 1)
    assert not log.producer_state.verifications


def test_a_batch_of_a_coordinator_needs_no_sequence() -> None:
    log = open_log(SimDisk())
    offsets = batch(2, producer_id=7, producer_epoch=1, base_sequence=-1, is_transactional=True)
    append(log, offsets, trusted=True, transaction_verified=True)
    append(log, offsets, trusted=True)
    assert (log.end_offset, log.first_unstable_offset) == (4, 0)
    stale = batch(producer_id=7, producer_epoch=0, base_sequence=-1, is_transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        append(log, stale, trusted=True, transaction_verified=True)
    assert [(each.epoch, each.last_sequence, each.next_sequence) for each in log.producers()] == [(1, -1, 0)]


# Markers


def test_a_marker_takes_an_offset_and_ends_the_transaction() -> None:
    log = in_transaction()
    appended = end_transaction(log, commit=True, coordinator_epoch=4)
    assert (appended.base_offset, appended.last_offset, log.end_offset) == (3, 3, 4)
    assert stored(log)[-1].is_control
    (producer,) = log.producers()
    assert (producer.txn_first_offset, producer.coordinator_epoch, producer.last_sequence) == (-1, 4, 1)
    with pytest.raises(InvalidTxnState):
        append(log, transactional(sequence=2))
    assert append(log, idempotent(sequence=2)).base_offset == 4


def test_a_marker_without_a_transaction_is_written_and_aborts_nothing() -> None:
    log = open_log(SimDisk())
    assert end_transaction(log, commit=False, epoch=3).base_offset == 0
    assert log.aborted_transactions(0, 10) == []
    assert log.first_unstable_offset is None
    with pytest.raises(InvalidProducerEpoch):
        append(log, transactional(sequence=0, epoch=2), transaction_verified=True)
    with pytest.raises(OutOfOrderSequence):
        append(log, transactional(sequence=1, epoch=3), transaction_verified=True)


def test_markers_of_fenced_producers_and_coordinators_are_rejected() -> None:
    log = open_log(SimDisk())
    append(log, transactional(sequence=0, epoch=2), transaction_verified=True)
    with pytest.raises(InvalidProducerEpoch):
        end_transaction(log, commit=True, epoch=1)
    end_transaction(log, commit=True, epoch=2, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced):
        end_transaction(log, commit=True, epoch=2, coordinator_epoch=4)
    assert log.end_offset == 2


def test_transaction_version_2_ends_a_transaction_only_with_the_next_epoch() -> None:
    log = in_transaction()
    with pytest.raises(InvalidProducerEpoch):
        end_transaction(log, commit=True, epoch=0, version=2)
    end_transaction(log, commit=True, epoch=1, version=2)
    # A coordinator that received no response repeats the marker.
    end_transaction(log, commit=True, epoch=1, version=2)
    with pytest.raises(InvalidProducerEpoch):
        append(log, transactional(sequence=2), transaction_verified=True)
    assert append(log, transactional(sequence=0, epoch=1), transaction_verified=True).base_offset == 5


def test_a_transaction_of_the_highest_epoch_ends_with_the_same_epoch() -> None:
    log = open_log(SimDisk())
    append(log, transactional(sequence=0, epoch=32767), transaction_verified=True)
    assert end_transaction(log, commit=True, epoch=32767, version=2).base_offset == 1


def test_a_failed_write_of_a_marker_leaves_the_transaction_open() -> None:
    disk = SimDisk()
    log = open_log(disk)
    append(log, transactional(sequence=0), transaction_verified=True)
    disk.fail_at[disk.calls + 1] = 28
    with pytest.raises(StorageError):
        end_transaction(log, commit=True)
    assert log.first_unstable_offset == 0 and log.producers()[0].txn_first_offset == 0
    log.directory.accept_writes()
    assert end_transaction(log, commit=True).base_offset == 1


# Stability


def test_the_oldest_open_transaction_is_unstable_until_its_marker_is_below_the_high_watermark() -> None:
    log = open_log(SimDisk())
    append(log, transactional(sequence=0), transaction_verified=True)
    append(log, transactional(sequence=0, producer_id=8), transaction_verified=True)
    end_transaction(log, commit=True)
    assert log.first_unstable_offset == 0
    log.high_watermark_moved(2)
    assert log.first_unstable_offset == 0
    log.high_watermark_moved(3)
    assert log.first_unstable_offset == 1
    end_transaction(log, commit=False, producer_id=8)
    log.high_watermark_moved(4)
    assert log.first_unstable_offset is None


def test_deleted_records_of_an_open_transaction_do_not_hold_readers_back() -> None:
    log = in_transaction()
    log.advance_start(2)
    assert log.first_unstable_offset == 2


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    log = in_transaction()
    assert log.producer_state.expire(10**15, 1) == 0
    end_transaction(log, commit=True)
    assert log.producer_state.expire(10**15, 1) == 1


# Restarts


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_restart_knows_open_and_ended_transactions(clean: bool) -> None:
    disk = SimDisk()
    log = open_log(disk)
    append(log, transactional(2, sequence=0), transaction_verified=True)
    append(log, transactional(sequence=0, producer_id=8, epoch=4), transaction_verified=True)
    end_transaction(log, commit=False, coordinator_epoch=3)
    end_transaction(log, commit=True, producer_id=9, epoch=6, coordinator_epoch=2)
    if clean:
        log.close()
    again = open_log(disk, clean=clean, recovery_point=5 if clean else 0)
    assert described(again) == described(log)
    assert again.first_unstable_offset == 2
    assert again.aborted_transactions(0, 5) == [(7, 0)]
    with pytest.raises(TransactionCoordinatorFenced):
        end_transaction(again, commit=True, producer_id=9, epoch=6, coordinator_epoch=1)
    assert append(again, transactional(sequence=1, producer_id=8, epoch=4)).base_offset == 5


def described(log: Log) -> list[tuple[int, ...]]:
    """Return the values that DescribeProducers reports."""
    return sorted(
        (
            each.producer_id,
            each.epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.txn_first_offset,
        )
        for each in log.producers()
    )


def test_truncation_reopens_transactions_whose_markers_it_removes() -> None:
    log = in_transaction()
    end_transaction(log, commit=False)
    assert log.aborted_transactions(0, 9) == [(7, 1)]
    log.truncate_to(3)
    assert log.aborted_transactions(0, 9) == []
    assert log.first_unstable_offset == 1
    end_transaction(log, commit=True)
    assert log.aborted_transactions(0, 9) == []


def test_a_follower_learns_transactions_from_replicated_batches() -> None:
    leader = in_transaction()
    end_transaction(leader, commit=False, coordinator_epoch=2)
    append(leader, transactional(sequence=2), transaction_verified=True)
    follower = open_log(SimDisk())
    piece = leader.read(0, max_bytes=1 << 20, end=leader.end_offset)
    assert piece is not None
    copied = piece.file.read(piece.size, piece.position)
    follower.append_replicated(memoryview(bytearray(copied)), now_ms=5)
    assert described(follower) == described(leader)
    assert follower.aborted_transactions(0, 9) == [(7, 1)]
    assert follower.first_unstable_offset == 1
    follower.high_watermark_moved(follower.end_offset)
    assert follower.first_unstable_offset == 4
    assert BatchHeader.at(copied).base_offset == 0
