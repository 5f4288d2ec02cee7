"""Logs that are not written to for a while close their files, and nothing else changes."""

import errno
import gc
import weakref

import pytest

from penstock.model.errors import StorageError
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.storage.log import Log
from penstock.storage.segment import NEVER
from penstock.storage.store import LogStore
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import append, batch, check_quarantined_when_it_keeps_failing, small_settings, stored
from tests.unit.storage.test_store import FIRST_ID, Ids, StillClock


def load(disk: SimDisk, *, most: int = 2, journal_group_least: int = 8) -> LogStore:
    return LogStore.load(
        disk,
        "/data",
        cluster_id=None,
        node_id=1,
        clock=StillClock(),
        entropy=Ids(),
        journal_group_least=journal_group_least,
        open_writers_max=most,
    )


def open_logs(store: LogStore, count: int, *, flush_mode: str = "fsync") -> list[Log]:
    partitions = [TopicPartition(TopicName("many"), PartitionIndex(index)) for index in range(count)]
    return [store.open(each, FIRST_ID, small_settings(flush_mode=flush_mode)) for each in partitions]


def is_held(log: Log) -> bool:
    """Return whether the log has its file open for writes."""
    return log.segments.active._writer is not None


def test_the_oldest_files_are_closed_and_opened_again_by_the_next_write() -> None:
    disk = SimDisk()
    store = load(disk)
    logs = open_logs(store, 5)
    for log in logs:
        append(log, batch(3))
    assert [is_held(log) for log in logs] == [False, False, False, True, True]
    append(logs[0], batch(2))
    assert [is_held(log) for log in logs] == [True, False, False, False, True]
    assert [len(stored(log)) for log in logs] == [2, 1, 1, 1, 1]
    assert [log.durable_offset for log in logs] == [5, 3, 3, 3, 3]
    disk.crash(kept=0.0)
    assert [log.end_offset for log in open_logs(load(disk), 5)] == [5, 3, 3, 3, 3]


def test_a_log_that_was_written_to_meanwhile_stays_open() -> None:
    store = load(SimDisk(), most=20)
    logs = open_logs(store, 23)
    for log in logs[:22]:
        append(log, batch())
    assert [index for index in range(22) if not is_held(logs[index])] == [0, 1]
    append(logs[2], batch())
    append(logs[22], batch())
    assert [index for index in range(23) if not is_held(logs[index])] == [0, 1, 3]


@pytest.mark.parametrize("journal_group_least", [0, 8])
def test_a_file_with_unsynced_writes_stays_open(journal_group_least: int) -> None:
    disk = SimDisk()
    store = load(disk, most=1, journal_group_least=journal_group_least)
    first, second, third = open_logs(store, 3)
    append(first, batch())
    disk.syncs_at_once = False
    append(first, batch())
    append(second, batch())
    append(third, batch())
    assert [is_held(log) for log in (first, second, third)] == [True, True, True]
    while disk.finish_sync():
        pass
    disk.syncs_at_once = True
    append(third, batch())
    (fourth,) = open_logs(store, 4)[3:]
    append(fourth, batch())
    append(open_logs(store, 5)[4], batch())
    assert [is_held(log) for log in (first, second)] == [False, False]
    assert len(store.directory.open_writers) <= 2


def test_a_log_that_does_not_sync_appends_is_synced_before_its_file_is_closed() -> None:
    disk = SimDisk(syncs_at_once=False)
    store = load(disk, most=1)
    first, second, third = open_logs(store, 3, flush_mode="os")
    append(first, batch())
    append(second, batch())
    assert is_held(first) and first.offsets.flushed < first.end_offset
    assert disk.syncs_under_way() == 1
    while disk.finish_sync():
        pass
    append(third, batch())
    assert not is_held(first) and first.offsets.flushed == first.end_offset
    assert is_held(second) and second.offsets.flushed < second.end_offset


def test_a_failed_write_keeps_its_file_open() -> None:
    disk = SimDisk()
    store = load(disk, most=1)
    first, second = open_logs(store, 2)
    append(first, batch())
    disk.failing["write"] = disk.failing["truncate"] = errno.EINTR
    with pytest.raises(StorageError):
        append(first, batch())
    disk.failing.clear()
    append(second, batch())
    assert is_held(first)
    append(first, batch())
    assert first.end_offset == 2 and len(stored(first)) == 2


def test_slices_of_a_closed_file_stay_readable_after_its_removal() -> None:
    disk = SimDisk()
    store = load(disk, most=1)
    first, second = open_logs(store, 2)
    append(first, batch(3))
    piece = first.read(0, max_bytes=1000, end=3)
    assert piece is not None
    content = piece.file.read(piece.size, piece.position)
    append(second, batch())
    assert not is_held(first)
    store.delete(first.topic_partition, FIRST_ID)
    assert piece.file.read(piece.size, piece.position) == content


def test_a_closed_log_is_truncated_rolled_and_closed_cleanly_like_an_open_one() -> None:
    disk = SimDisk()
    store = load(disk, most=1)
    first, second, third = open_logs(store, 3)
    for log in (first, second, third):
        append(log, batch(3))
        append(log, batch(3))
    assert not is_held(first) and not is_held(second)
    assert first.recovery_point == 5, "as long as it was written to, recovery scans its active segment"
    first.truncate_to(3)
    second.roll()
    append(first, batch(2))
    append(second, batch(2))
    assert not third.is_untouched()
    store.close()
    again = open_logs(load(disk), 3)
    assert [(log.end_offset, log.damage) for log in again] == [(5, None), (8, None), (6, None)]


def test_a_file_that_is_gone_is_not_created_again() -> None:
    disk = SimDisk()
    store = load(disk, most=1)
    first, second = open_logs(store, 2)
    append(first, batch())
    append(second, batch())
    disk.remove(first.segments.active.path)
    with pytest.raises(StorageError):
        append(first, batch())
    assert not disk.exists(first.segments.active.path)


def test_a_log_whose_first_write_met_a_read_error_counts_as_open_after_the_next_one() -> None:
    disk = SimDisk()
    (log,) = open_logs(load(disk), 1)
    append(log, batch())
    disk.crash(kept=1.0)
    store = load(disk)
    (log,) = open_logs(store, 1)
    disk.failing["read"] = errno.EIO
    with pytest.raises(StorageError):
        append(log, batch())
    disk.failing.clear()
    append(log, batch())
    assert log.writer.is_open and len(store.directory.open_writers) == 1
    segment = log.segments.active
    assert min(segment.roll_after, segment.roll_after_now) < NEVER


def test_a_log_that_cannot_be_opened_for_writing_is_quarantined_if_the_read_error_persists() -> None:
    disk = SimDisk()
    (log,) = open_logs(load(disk), 1)
    append(log, batch())
    disk.crash(kept=1.0)
    (log,) = open_logs(load(disk), 1)
    disk.failing["read"] = errno.EIO
    check_quarantined_when_it_keeps_failing(log, lambda: append(log, batch()), offset=0)


def test_a_deleted_log_is_forgotten() -> None:
    store = load(SimDisk(), most=10)
    first, second = open_logs(store, 2)
    append(first, batch())
    append(second, batch())
    store.delete(first.topic_partition, FIRST_ID)
    assert len(store.directory.open_writers) == 1
    reference = weakref.ref(first)
    del first
    gc.collect()
    assert reference() is None


def test_half_of_the_descriptors_are_left_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    monkeypatch.setattr(disk, "open_files_max", lambda: 6)
    store = load(disk, most=1000)
    for log in open_logs(store, 10):
        append(log, batch())
    assert len(store.directory.open_writers) == 3
