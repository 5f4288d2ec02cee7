import errno
from collections.abc import Callable
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import OffsetOutOfRange, StorageError
from penstock.model.job import finish
from penstock.storage.log import Log
from penstock.storage.log_checkpoints import LogCheckpoints
from penstock.storage.trim import may_delete
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import FOLDER, NOW_MS, append, batch, fill, idempotent, open_log, stored

OLD_MS = NOW_MS - 10_000


def test_segments_are_deleted_by_the_age_of_their_newest_record() -> None:
    log = open_log(SimDisk(), retention_ms=5000)
    fill(log, [3] * 10, timestamp=OLD_MS)
    log.roll()
    fill(log, [3] * 10, timestamp=NOW_MS)
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    assert log.start_offset == 30
    assert [header.base_offset for header in stored(log)] == list(range(30, 60, 3))


def test_segments_are_deleted_by_size_oldest_first() -> None:
    log = open_log(SimDisk(), retention_bytes=3000)
    fill(log, [3] * 40)
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    assert 3000 <= log.size < 3000 + 2000
    assert log.start_offset == log.segments.bases[0]


def test_a_deleted_segment_that_cannot_be_renamed_is_removed_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimDisk()
    log = open_log(disk, retention_bytes=3000)
    fill(log, [3] * 40)
    rename, first = disk.rename, f"{log.segments[0].path}"

    def fail_once(source: str, target: str) -> None:
        if source == first:
            raise OSError(5, "Input/output error", source)
        rename(source, target)

    monkeypatch.setattr(disk, "rename", fail_once)
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    start, left = log.start_offset, [header.base_offset for header in stored(log)]
    assert start == log.segments.bases[0] == left[0]
    assert "cannot rename a deleted segment" in caplog.text
    assert disk.exists(first)
    log.close()
    again = open_log(disk, retention_bytes=3000)
    assert again.damage is None
    assert (again.segments.bases[0], [header.base_offset for header in stored(again)]) == (start, left)
    assert not disk.exists(first)


def test_the_active_segment_is_never_deleted_by_size() -> None:
    log = open_log(SimDisk(), retention_ms=-1, retention_bytes=0)
    fill(log, [3] * 40, timestamp=OLD_MS)
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    assert len(log.segments) == 1
    assert log.start_offset == log.segments.bases[0] < log.end_offset


def test_an_active_segment_with_only_old_records_is_rolled_and_deleted() -> None:
    log = open_log(SimDisk(), retention_ms=1)
    fill(log, [3] * 40, timestamp=OLD_MS)
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    assert len(log.segments) == 1
    assert log.start_offset == log.segments.bases[0] == log.end_offset


@pytest.mark.parametrize("syncs_at_once", [True, False])
def test_the_files_of_deleted_segments_are_closed_although_nothing_more_is_written(syncs_at_once: bool) -> None:
    disk = SimDisk(syncs_at_once=syncs_at_once)
    log = open_log(disk, retention_ms=1)
    fill(log, [3] * 12, timestamp=OLD_MS)
    assert len(stored(log)) == 12
    files = [ref(segment.file) for segment in log.segments]
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    finish_syncs(disk)
    assert len(log.segments) == 1 and log.start_offset == log.durable_offset == log.end_offset
    assert [file() for file in files] == [None, None]


def test_an_active_segment_of_old_records_stays_above_the_high_watermark() -> None:
    log = open_log(SimDisk(), retention_ms=1)
    fill(log, [3] * 40, timestamp=OLD_MS)
    log.delete_old_segments(high_watermark=log.end_offset - 1, now_ms=NOW_MS)
    assert log.start_offset == log.segments.bases[0] < log.end_offset


def test_a_segment_without_timestamps_is_deleted_with_the_next_old_one() -> None:
    log = open_log(SimDisk(), retention_ms=1)
    for timestamp in (-1, OLD_MS, -1, NOW_MS):
        append(log, batch(1, timestamp=timestamp, value=b"v" * 60))
        log.roll()
    third = log.segments.bases[2]
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    assert log.start_offset == third


def test_nothing_at_or_above_the_high_watermark_is_deleted() -> None:
    log = open_log(SimDisk(), retention_ms=1)
    fill(log, [3] * 40, timestamp=OLD_MS)
    mark = log.segments.bases[2] + 1
    log.delete_old_segments(high_watermark=mark, now_ms=NOW_MS)
    assert log.start_offset == log.segments.bases[0] <= mark


def test_without_the_delete_policy_only_segments_before_the_start_are_deleted() -> None:
    log = open_log(SimDisk(), cleanup_policy=frozenset({"compact"}), retention_ms=1)
    fill(log, [3] * 40, timestamp=OLD_MS)
    bases = list(log.segments.bases)
    assert log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS) == 0
    log.advance_start(bases[2] + 1)
    assert log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS) == 2
    assert log.start_offset == bases[2] + 1


def test_only_young_logs_of_one_segment_are_skipped_by_retention() -> None:
    disk = SimDisk()
    log = open_log(disk, retention_ms=5000)
    assert not may_delete(log, NOW_MS), "it is empty"
    fill(log, [1], timestamp=OLD_MS)
    assert not may_delete(log, OLD_MS + 5000)
    assert may_delete(log, OLD_MS + 5001)
    log.roll()
    assert may_delete(log, OLD_MS), "it has two segments"


def test_retention_does_not_skip_a_log_whose_largest_timestamp_is_unknown() -> None:
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1_000_000)
    fill(log, [1] * 20, value=b"v" * 1000)
    log.close()
    assert may_delete(open_log(disk, clean=True), NOW_MS)
    assert not may_delete(open_log(disk, clean=True, retention_ms=-1), NOW_MS)


def test_unlimited_retention_keeps_everything() -> None:
    log = open_log(SimDisk(), retention_ms=-1, retention_bytes=-1)
    fill(log, [3] * 40, timestamp=5)
    assert log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS) == 0


def test_files_are_renamed_first_and_removed_after_the_delay() -> None:
    disk = SimDisk()
    log = open_log(disk, retention_bytes=0, file_delete_delay_ms=1000)
    fill(log, [3] * 20)
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    log.deletes.remove_due(NOW_MS + 999)
    assert f"{0:020d}.log.deleted" in disk.list(FOLDER)
    log.deletes.remove_due(NOW_MS + 1000)
    assert not any(name.endswith(".deleted") for name in disk.list(FOLDER))


def test_the_log_start_is_saved_before_files_are_removed() -> None:
    log = open_log(SimDisk(), retention_bytes=0)
    fill(log, [3] * 20)
    seen: list[tuple[int, bool]] = []
    disk = log.directory.disk
    log.use_checkpoints(
        LogCheckpoints(
            start_moved=lambda: seen.append((log.start_offset, disk.exists(f"{FOLDER}/{0:020d}.log"))),
        )
    )
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    assert seen == [(log.segments.bases[0], True)]


def test_the_start_never_moves_back_nor_beyond_the_end() -> None:
    log = open_log(SimDisk())
    fill(log, [3] * 5)
    log.advance_start(7)
    log.advance_start(3)
    assert log.start_offset == 7
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(16)
    log.advance_start(15)
    assert log.read(15, max_bytes=100, end=15) is None


@settings(max_examples=40)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=30), st.integers(0, 120), st.booleans())
def test_a_truncated_log_equals_one_that_was_never_longer(counts: list[int], offset: int, reopened: bool) -> None:
    disk = SimDisk()
    log = open_log(disk)
    bases = []
    for number, count in enumerate(counts):
        sealed = idempotent(count, sequence=sum(counts[:number]), value=b"v" * 60, timestamp=1000 - number)
        bases.append(append(log, sealed, epoch=number // 5).base_offset)
    offset = min(offset, log.end_offset)
    log.truncate_to(offset)
    kept = [base for base, count in zip(bases, counts, strict=True) if base + count <= offset]
    end = (kept[-1] + counts[len(kept) - 1]) if kept else 0
    if reopened:
        log = open_log(disk)
    assert [header.base_offset for header in stored(log)] == kept
    assert log.end_offset == (offset if offset in (end, 0) else end)
    assert log.epochs.entries() == [(epoch, bases[epoch * 5]) for epoch in range(len(counts)) if epoch * 5 < len(kept)]
    states = log.producers()
    assert [batch.base_offset for each in states for batch in each.batches] == kept[-5:]
    assert append(log, batch(), epoch=9).base_offset == log.end_offset - 1


def test_a_truncated_log_forgets_later_timestamps() -> None:
    log = open_log(SimDisk())
    for timestamp in (10, 30, 20, 50):
        append(log, batch(timestamp=timestamp))
    log.truncate_to(3)
    assert finish(log.max_timestamp())[:2] == (30, 1)


def test_the_recovery_point_is_lowered_before_a_truncation() -> None:
    log = open_log(SimDisk())
    fill(log, [3] * 20)
    seen: list[tuple[int, int]] = []
    log.use_checkpoints(LogCheckpoints(truncating=lambda *_: seen.append((log.recovery_point, log.size))))
    size = log.size
    log.truncate_to(6)
    assert seen == [(6, size)]


def test_a_log_can_be_emptied_and_restarted() -> None:
    disk = SimDisk()
    log = open_log(disk)
    for sequence in range(30):
        append(log, idempotent(sequence=sequence, value=b"v" * 60), epoch=2)
    log.truncate_fully_and_start_at(500)
    assert (log.start_offset, log.end_offset, log.producers(), log.epochs.latest) == (500, 500, [], -1)
    assert append(log, batch(), epoch=3).base_offset == 500
    again = open_log(disk)
    assert (again.start_offset, again.end_offset, again.epochs.entries()) == (500, 501, [(3, 500)])


def test_damage_found_by_a_truncation_is_reported_and_quarantined() -> None:
    disk = SimDisk()
    log = open_log(disk, segment_bytes=100_000)
    for sequence in range(6):
        append(log, idempotent(sequence=sequence))
    log.close()
    log = open_log(disk, clean=True, recovery_point=6, segment_bytes=100_000)
    path = log.segments.active.path
    second = len(disk.read_file(path)) // 6
    # Corrupt the offset delta of the second batch, so that its header is invalid. The truncation removes the snapshot.
    disk.flip(path, second + 23, 0xFF)
    with pytest.raises(StorageError, match="damaged"):
        log.truncate_to(4)
    assert log.damage is not None and log.damaged_from == 1


def test_segments_stay_if_the_log_start_cannot_be_saved() -> None:
    log = open_log(SimDisk(), retention_bytes=3000)
    fill(log, [3] * 40)
    waiting: list[Callable[[OSError | None], None]] = []
    log.use_checkpoints(
        LogCheckpoints(start_moved=lambda: None, when_start_saved=waiting.append, truncating=lambda *_: None)
    )
    count = len(log.segments)
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    waiting.pop()(OSError(errno.EIO, "gone"))
    assert len(log.segments) == count, "after a crash, the log would begin at a segment that is gone"
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    waiting.pop()(None)
    assert len(log.segments) < count


def test_damaged_segments_are_not_removed_with_those_before_them() -> None:
    log = open_log(SimDisk(), retention_bytes=3000)
    fill(log, [3] * 40)
    waiting: list[Callable[[OSError | None], None]] = []
    log.use_checkpoints(
        LogCheckpoints(start_moved=lambda: None, when_start_saved=waiting.append, truncating=lambda *_: None)
    )
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    log.quarantine.begin(log.segments.bases[1], "rot")
    damaged = log.segments[1]
    waiting.pop()(None)
    assert log.segments[0] is damaged


def producer_after(disk: SimDisk, log_start: int) -> int:
    """Return the next sequence of the only producer after a restart; 0 if it is unknown."""
    log = open_log(disk, log_start=log_start, recovery_point=log_start, retention_ms=5000)
    return max((producer.next_sequence for producer in log.producers()), default=0)


def written_by_a_producer(disk: SimDisk) -> Log:
    """Return a log with old records of a producer, and a segment with newer records of others."""
    log = open_log(disk, retention_ms=5000)
    for sequence in range(30):
        append(log, idempotent(sequence=sequence, value=b"v" * 150, timestamp=OLD_MS))
    log.roll()
    fill(log, [3] * 4, timestamp=NOW_MS)
    for folder in ("/", "/data"):
        disk.sync_folder(folder)
    return log


def test_a_producer_whose_records_were_removed_is_known_after_a_power_failure() -> None:
    disk = SimDisk()
    log = written_by_a_producer(disk)
    assert log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS) > 1
    disk.crash(kept=0.0)
    assert producer_after(disk, log_start=30) == 30


def test_a_snapshot_that_a_power_failure_has_torn_is_written_again_before_its_records_are_removed() -> None:
    disk = SimDisk()
    log = written_by_a_producer(disk)
    disk.put_back(f"{FOLDER}/{30:020d}.snapshot", b"torn")
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    disk.crash(kept=0.0)
    assert producer_after(disk, log_start=30) == 30


def test_a_start_that_removes_records_keeps_their_producer_over_another_power_failure() -> None:
    disk = SimDisk()
    log = written_by_a_producer(disk)
    log.flush()
    disk.crash(kept=0.0)
    # DeleteRecords moved the start, and the node died before the segments were removed.
    assert producer_after(disk, log_start=30) == 30
    disk.crash(kept=0.0)
    assert producer_after(disk, log_start=30) == 30


def test_records_are_removed_although_a_full_disk_has_no_room_for_the_snapshot() -> None:
    disk = SimDisk()
    log = written_by_a_producer(disk)
    disk.remove(f"{FOLDER}/{30:020d}.snapshot")
    disk.failing["write"] = errno.ENOSPC
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    assert log.segments.bases[0] == 30


def finish_syncs(disk: SimDisk) -> None:
    while disk.finish_sync():
        pass


def about_to_remove() -> tuple[SimDisk, Log]:
    """Return a log whose old segments are removed once the syncs under way have ended."""
    disk = SimDisk(syncs_at_once=False)
    log = written_by_a_producer(disk)
    finish_syncs(disk)
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    return disk, log


def test_records_stay_until_the_snapshot_is_synced() -> None:
    disk, log = about_to_remove()
    assert log.segments.bases[0] == 0
    finish_syncs(disk)
    assert log.segments.bases[0] == 30


def test_a_failed_sync_of_the_snapshot_takes_the_data_folder_offline_and_removes_nothing() -> None:
    disk, log = about_to_remove()
    disk.finish_sync(OSError(errno.EIO, "bad sector"))
    assert log.directory.failure is not None
    assert log.segments.bases[0] == 0


def test_a_deleted_log_removes_no_segments_after_the_snapshot_is_synced() -> None:
    disk, log = about_to_remove()
    log.abandon()
    finish_syncs(disk)
    assert log.directory.failure is None
    assert log.segments.bases[0] == 0


def test_a_removal_that_waited_for_the_disk_does_not_move_the_listed_start_back() -> None:
    log = open_log(SimDisk(), retention_bytes=3000)
    waiting: list[Callable[[OSError | None], None]] = []
    log.use_checkpoints(
        LogCheckpoints(start_moved=lambda: None, when_start_saved=waiting.append, truncating=lambda *_: None)
    )
    for _ in range(2):
        fill(log, [3] * 40)
        log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    # As the metadata log does: its start is in no other file.
    log.segment_list.add_start(log.start_offset)
    first, second = waiting
    first(None)
    assert log.segments.bases[0] < log.start_offset == log.segment_list.begins_at
    second(None)
    assert log.segments.bases[0] == log.segment_list.begins_at == log.start_offset
