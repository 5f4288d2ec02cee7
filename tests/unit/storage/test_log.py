import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordListTooLarge,
    StorageError,
)
from penstock.storage.log import Log
from penstock.storage.log_reader import KEPT_SIZE_MAX
from penstock.wire.batch import BatchHeader, iter_batches
from penstock.wire.records import decode_batch
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import FOLDER, NOW_MS, append, batch, fill, idempotent, open_log, small_settings, stored


def offsets_read(log: Log, offset: int, *, max_bytes: int, end: int, at_least_one: bool = True) -> list[int]:
    piece = log.read(offset, max_bytes=max_bytes, end=end, at_least_one=at_least_one)
    if piece is None:
        return []
    return [BatchHeader.at(view).base_offset for view in iter_batches(piece.file.read(piece.size, piece.position))]


def test_offsets_and_epoch_are_assigned_in_place() -> None:
    log = open_log(SimDisk())
    first = append(log, batch(3), epoch=4)
    second = append(log, batch(2), epoch=4)
    assert (first.base_offset, first.last_offset, first.duplicate) == (0, 2, False)
    assert (second.base_offset, second.last_offset) == (3, 4)
    assert [(header.base_offset, header.leader_epoch) for header in stored(log)] == [(0, 4), (3, 4)]
    assert log.end_offset == 5


def test_the_stored_bytes_are_those_of_the_producer_except_for_offset_and_epoch() -> None:
    log = open_log(SimDisk())
    sealed = batch(2, value=b"x" * 50)
    append(log, batch())
    append(log, sealed, epoch=3)
    piece = log.read(1, max_bytes=1000, end=3)
    assert piece is not None
    content = piece.file.read(piece.size, piece.position)
    assert content[16:] == sealed[16:]
    assert [record.offset for record in decode_batch(content)] == [1, 2]


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=40),
    st.integers(1, 3000),
    st.integers(0, 160),
    st.integers(0, 160),
    st.booleans(),
    st.booleans(),
)
def test_a_read_returns_what_a_search_from_the_start_would(
    counts: list[int], max_bytes: int, offset: int, end: int, at_least_one: bool, reopened: bool
) -> None:
    disk = SimDisk()
    log = open_log(disk)
    bases = fill(log, counts)
    if reopened:
        log.close()
        log = open_log(disk, clean=True, recovery_point=log.end_offset)
    offset, end = offset % log.end_offset, min(end, log.end_offset)
    found = offsets_read(log, offset, max_bytes=max_bytes, end=end, at_least_one=at_least_one)
    holding = max(base for base in bases if base <= offset)
    behind = dict(zip(bases, [*bases[1:], log.end_offset], strict=True))
    if behind[holding] > end or offset >= end:
        assert found == []
        return
    size = {header.base_offset: header.size for header in stored(log)}
    if size[holding] > max_bytes:
        assert found == ([holding] if at_least_one else [])
        return
    # Reads may end early, but they return at least one complete batch, in order and within both bounds.
    assert found == bases[bases.index(holding) : bases.index(holding) + len(found)]
    assert found and behind[found[-1]] <= end
    assert sum(size[base] for base in found) <= max_bytes


@settings(max_examples=30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=40), st.integers(1, 1500), st.booleans())
def test_sequential_reads_find_every_batch(counts: list[int], max_bytes: int, reopened: bool) -> None:
    disk = SimDisk()
    log = open_log(disk)
    bases = fill(log, counts)
    if reopened:
        log.close()
        log = open_log(disk, clean=True)
    assert [header.base_offset for header in stored(log, max_bytes=max_bytes)] == bases


def test_a_read_at_the_end_is_empty_and_beyond_it_out_of_range() -> None:
    log = open_log(SimDisk())
    fill(log, [2])
    assert log.read(2, max_bytes=100, end=2) is None
    with pytest.raises(OffsetOutOfRange):
        log.read(3, max_bytes=100, end=2)


def test_a_read_before_the_start_is_out_of_range() -> None:
    log = open_log(SimDisk())
    fill(log, [2, 2])
    log.advance_start(1)
    with pytest.raises(OffsetOutOfRange):
        log.read(0, max_bytes=100, end=4)
    assert offsets_read(log, 1, max_bytes=1, end=4) == [0]


def test_a_slice_stays_readable_after_its_segment_is_gone() -> None:
    log = open_log(SimDisk(), retention_bytes=0, file_delete_delay_ms=0)
    fill(log, [3] * 30)
    piece = log.read(0, max_bytes=300, end=3)
    assert piece is not None
    content = piece.file.read(piece.size, piece.position)
    assert log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS) > 0
    log.deletes.remove_due(NOW_MS)
    assert piece.file.read(piece.size, piece.position) == content


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    log = open_log(SimDisk())
    append(log, idempotent(2, sequence=0))
    append(log, idempotent(3, sequence=2))
    again = append(log, idempotent(2, sequence=0))
    assert (again.base_offset, again.last_offset, again.duplicate) == (0, 1, True)
    assert log.end_offset == 5


def test_a_rejected_batch_leaves_the_producer_state_unchanged() -> None:
    log = open_log(SimDisk())
    append(log, idempotent(2, sequence=0, epoch=1))
    for refused, sealed in (
        (OutOfOrderSequence, idempotent(1, sequence=5, epoch=1)),
        (InvalidProducerEpoch, idempotent(1, sequence=0, epoch=0)),
    ):
        with pytest.raises(refused):
            append(log, sealed)
    assert append(log, idempotent(1, sequence=2, epoch=1)).base_offset == 2


def test_a_failed_write_leaves_the_producer_state_unchanged() -> None:
    disk = SimDisk()
    log = open_log(disk)
    append(log, idempotent(2, sequence=0))
    disk.failing["write"] = errno.ENOSPC
    with pytest.raises(StorageError):
        append(log, idempotent(1, sequence=2))
    disk.failing.clear()
    log.directory.accept_writes()
    assert append(log, idempotent(1, sequence=2)).base_offset == 2
    assert [header.base_offset for header in stored(log)] == [0, 2]


def test_a_full_disk_leaves_no_partial_batch_and_appends_work_again_with_free_space() -> None:
    disk = SimDisk(capacity=3000)
    log = open_log(disk, flush_mode="os")
    with pytest.raises(StorageError):
        fill(log, [3] * 40)
    end = log.end_offset
    assert end > 0
    assert stored(log)[-1].next_offset == end
    disk.capacity = None
    log.directory.accept_writes()
    assert append(log, batch()).base_offset == end
    assert stored(log)[-1].next_offset == end + 1
    reopened = open_log(disk, flush_mode="os")
    assert (reopened.end_offset, reopened.damage) == (end + 1, None)


def test_a_torn_tail_that_cannot_be_truncated_now_is_truncated_before_the_next_write() -> None:
    disk = SimDisk()
    log = open_log(disk)
    append(log, batch())
    disk.failing.update({"write": errno.EIO, "truncate": errno.EIO})
    with pytest.raises(StorageError):
        append(log, batch(5, value=b"x" * 300))
    del disk.failing["write"]
    log.directory.accept_writes()
    with pytest.raises(StorageError):
        append(log, batch())
    disk.failing.clear()
    assert append(log, batch()).base_offset == 1
    assert open_log(disk).end_offset == 2


def test_a_segment_rolls_when_the_next_batch_does_not_fit() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [3] * 30)
    assert len(log.segments) > 2
    assert all(segment.size <= 2000 for segment in log.segments)
    for base in log.segments.bases:
        for suffix in (".log", ".index", ".timeindex"):
            assert disk.exists(f"{FOLDER}/{base:020d}{suffix}")
    assert disk.exists(f"{FOLDER}/{log.segments.bases[-1]:020d}.snapshot")


def test_a_segment_rolls_by_the_time_between_its_records() -> None:
    log = open_log(SimDisk(), segment_ms=1000)
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 1000))
    assert log.segments.bases == [0]
    append(log, batch(timestamp=NOW_MS + 1001))
    assert log.segments.bases == [0, 2]


def test_a_segment_without_timestamps_rolls_by_the_clock() -> None:
    log = open_log(SimDisk(), segment_ms=1000)
    append(log, batch(timestamp=-1), now_ms=NOW_MS)
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1000)
    assert log.segments.bases == [0]
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1001)
    assert log.segments.bases == [0, 2]


def test_a_segment_rolls_when_its_index_is_full() -> None:
    log = open_log(SimDisk(), segment_bytes=1 << 20, segment_index_bytes=80, index_interval_bytes=0)
    fill(log, [1] * 30)
    assert len(log.segments) == 3
    assert all(len(segment.offset_index) * 8 <= 80 for segment in log.segments)


def test_a_segment_rolls_when_offsets_no_longer_fit_its_index() -> None:
    log = open_log(SimDisk())
    append(log, batch())
    log.append_replicated(memoryview(batch(base_offset=1 << 31)), now_ms=NOW_MS)
    assert log.segments.bases == [0, 1]
    log.append_replicated(memoryview(batch(base_offset=1 << 32)), now_ms=NOW_MS)
    assert log.end_offset == (1 << 32) + 1


def test_an_empty_segment_does_not_roll() -> None:
    log = open_log(SimDisk())
    log.roll()
    assert log.segments.bases == [0]


def test_a_roll_that_fails_leaves_the_old_segment_active() -> None:
    disk = SimDisk()
    log = open_log(disk)
    append(log, batch())
    disk.failing["open"] = errno.EMFILE
    with pytest.raises(StorageError):
        log.roll()
    assert append(log, batch()).base_offset == 1
    disk.failing.clear()
    log.roll()
    assert (append(log, batch()).base_offset, log.segments.bases) == (2, [0, 2])


def test_changed_settings_apply_from_the_next_append() -> None:
    log = open_log(SimDisk())
    append(log, batch(value=b"x" * 400))
    log.apply_settings(small_settings(max_message_bytes=300))
    with pytest.raises(MessageTooLarge):
        append(log, batch(value=b"x" * 400))


def test_a_batch_larger_than_a_segment_is_rejected() -> None:
    log = open_log(SimDisk())
    with pytest.raises(RecordListTooLarge):
        append(log, batch(value=b"x" * 2100))


def test_too_few_bytes_are_corrupt() -> None:
    log = open_log(SimDisk())
    with pytest.raises(CorruptMessage):
        append(log, b"\x00" * 60)


def test_control_batches_are_accepted_only_from_this_node() -> None:
    log = open_log(SimDisk())
    sealed = batch(is_control=True)
    with pytest.raises(InvalidRecord):
        append(log, sealed)
    assert append(log, sealed, trusted=True).base_offset == 0


def test_batches_of_this_node_are_checked_for_damage() -> None:
    log = open_log(SimDisk())
    sealed = bytearray(batch(is_control=True))
    sealed[-1] ^= 1
    with pytest.raises(CorruptMessage):
        append(log, bytes(sealed), trusted=True)


def test_a_log_is_unchanged_after_a_clean_close_and_opens_without_a_scan() -> None:
    disk = SimDisk()
    log = open_log(disk)
    for sequence in range(0, 40, 2):
        append(log, idempotent(2, sequence=sequence, value=b"v" * 50), epoch=sequence // 20)
    before = stored(log)
    log.close()
    again = open_log(disk, clean=True, recovery_point=log.end_offset)
    assert [header.base_offset for header in stored(again)] == [header.base_offset for header in before]
    assert (again.end_offset, again.epochs.latest, again.epochs.entries()) == (40, 1, [(0, 0), (1, 20)])
    assert append(again, idempotent(2, sequence=30)).duplicate
    assert append(again, idempotent(2, sequence=40)).base_offset == 40


def test_the_log_of_a_deleted_partition_rejects_appends() -> None:
    log = open_log(SimDisk())
    append(log, batch())
    log.abandon()
    with pytest.raises(StorageError):
        append(log, batch())


def test_the_newest_small_batch_is_kept_until_the_next_append_or_a_truncation() -> None:
    log = open_log(SimDisk())
    append(log, batch(2))
    assert log.reader.read_last(0) is None, "nobody has asked for that"
    log.reader.keep_last(True)
    append(log, batch(3), epoch=4)
    kept = log.reader.read_last(2)
    piece = log.read(2, max_bytes=1, end=log.end_offset)
    assert piece is not None and kept == piece.file.read(piece.size, piece.position)
    assert (log.reader.read_last(0), log.reader.read_last(3)) == (None, None)
    log.append_replicated(memoryview(batch(base_offset=5, leader_epoch=4)), now_ms=NOW_MS)
    assert log.reader.read_last(2) is None
    log.truncate_to(2)
    log.append_replicated(memoryview(batch(3, base_offset=2, leader_epoch=9)), now_ms=NOW_MS)
    assert log.reader.read_last(2) is None


def test_a_large_batch_and_one_that_is_rechecked_are_read_from_the_disk() -> None:
    log = open_log(SimDisk(), segment_bytes=1 << 20)
    log.reader.keep_last(True)
    append(log, batch(1, value=b"v" * 100))
    log.reader.recheck(0)
    assert log.reader.read_last(0) is None
    append(log, batch(1, value=b"v" * 100))
    append(log, batch(1, value=b"v" * KEPT_SIZE_MAX))
    assert (log.reader.read_last(1), log.reader.read_last(2)) == (None, None)


def test_reads_after_a_damaged_batch_fail_with_the_same_error() -> None:
    """Otherwise an idempotent producer gets a sequence error, takes a new epoch and writes other batches twice."""
    disk = SimDisk()
    log = open_log(disk)
    append(log, idempotent(1, sequence=0))
    disk.failing["write"] = errno.ENOSPC
    for sequence in (1, 2, 3):
        with pytest.raises(StorageError, match="No space left"):
            append(log, idempotent(1, sequence=sequence))
        disk.failing.clear()
    log.directory.accept_writes()
    assert append(log, idempotent(1, sequence=1)).base_offset == 1


def test_a_log_with_a_reserve_is_written_in_a_read_only_folder_but_not_in_an_offline_one() -> None:
    log = open_log(SimDisk())
    log.quarantine.use_reserve()
    log.directory.refuse_writes(OSError(errno.ENOSPC, "No space left on device"))
    assert append(log, batch()).base_offset == 0
    log.directory.fail(OSError(errno.EIO, "Input/output error"))
    with pytest.raises(StorageError, match="offline"):
        append(log, batch())
