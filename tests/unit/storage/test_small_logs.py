"""Logs of one small segment: no derived file is written when they close, and all of it is derived when they open."""

import pytest

from penstock_sim.disk import SimDisk
from tests.crash.workload import check_derived
from tests.unit.storage.support import (
    NOW_MS,
    append,
    batch,
    end_transaction,
    fill,
    idempotent,
    open_log,
    stored,
    transactional,
)

LIMIT = 1000
WRITES = ("write", "truncate", "rename", "remove", "sync", "sync_folder")


@pytest.fixture(autouse=True)
def real_size_max(monkeypatch: pytest.MonkeyPatch, small_size_max: None) -> None:
    monkeypatch.setattr("penstock.storage.segment.SMALL_SIZE_MAX", LIMIT)


def closed_with_everything(disk: SimDisk) -> int:
    """Close a log with two epochs, producers, an aborted transaction and times that do not rise; return its end."""
    log = open_log(disk)
    append(log, idempotent(sequence=0, timestamp=NOW_MS + 50), epoch=1)
    append(log, transactional(sequence=0, producer_id=8), epoch=1, transaction_verified=True)
    end_transaction(log, commit=False, producer_id=8)
    append(log, batch(2), epoch=3)
    assert log.segments.is_small
    log.close()
    return log.end_offset


def test_a_clean_close_writes_nothing() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [1, 2])
    begin = len(disk.trace)
    log.close()
    assert [call for call in disk.trace[begin:] if call[0] in WRITES] == []


def test_a_clean_open_writes_nothing_and_reads_no_other_file() -> None:
    disk = SimDisk()
    end = closed_with_everything(disk)
    begin = len(disk.trace)
    open_log(disk, clean=True, recovery_point=end)
    calls = disk.trace[begin:]
    assert [call for call in calls if call[0] in WRITES] == []
    read = {path.rpartition("/")[2] for kind, path in calls if kind in ("open", "read")}
    assert read == {"00000000000000000000.log", "quarantine"}


def test_a_clean_open_derives_everything_from_the_batches() -> None:
    disk = SimDisk()
    end = closed_with_everything(disk)
    log = open_log(disk, clean=True, recovery_point=end)
    assert (log.end_offset, log.damage, log.recovery_notes) == (end, None, ())
    check_derived(log)
    assert log.epochs.entries() == [(1, 0), (3, 3)]
    assert log.aborted_transactions(0, end) == [(8, 1)]
    assert log.segments.active.max_timestamp == NOW_MS + 50


@pytest.mark.parametrize("clean", [True, False])
def test_the_last_entry_of_the_time_index_is_added_when_the_segment_is_closed(clean: bool) -> None:
    disk = SimDisk()
    log = open_log(disk, index_interval_bytes=LIMIT)
    append(log, batch(timestamp=NOW_MS + 50))
    append(log, batch(timestamp=NOW_MS))
    log.close()
    log = open_log(disk, clean=clean, index_interval_bytes=LIMIT)
    segment = log.segments.active
    assert len(segment.time_index) == 0
    log.roll()
    assert segment.time_index.last() == (NOW_MS + 50, 0)
    log.close()
    closed = open_log(disk, clean=False, index_interval_bytes=LIMIT).segments[0]
    assert closed.time_index.last() == (NOW_MS + 50, 0)


def test_damage_is_found_by_a_clean_open() -> None:
    disk = SimDisk()
    end = closed_with_everything(disk)
    disk.flip("/data/orders-0/00000000000000000000.log", 70)
    log = open_log(disk, clean=True, recovery_point=end)
    assert (log.damaged_from, log.end_offset) == (0, end)


def test_a_log_that_lost_its_end_is_found_by_a_clean_open() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [1, 1])
    size = log.segments.active.size
    log.close()
    disk.cut_off("/data/orders-0/00000000000000000000.log", size // 2)
    assert open_log(disk, clean=True, recovery_point=2).damaged_from == 1


def test_derived_files_are_written_once_the_log_has_grown() -> None:
    disk = SimDisk()
    closed_with_everything(disk)
    log = open_log(disk, clean=True)
    fill(log, [3] * 6)
    assert not log.segments.is_small
    end = log.end_offset
    log.close()
    names = disk.list("/data/orders-0")
    assert {"leader-epoch-checkpoint", "txnindex-checkpoint", f"{end:020d}.snapshot"} <= set(names)
    again = open_log(disk, clean=True, recovery_point=end)
    check_derived(again)
    assert again.aborted_transactions(0, end) == [(8, 1)]


def test_the_indexes_of_a_small_segment_are_not_trusted_after_a_roll_and_a_crash() -> None:
    # The recovery point of the clean close is the base offset of the next segment, so that the first is not scanned.
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [3] * 6)
    log.close()
    end = log.end_offset
    log = open_log(disk, clean=True, recovery_point=end)
    log.truncate_to(3)
    append(log, batch(timestamp=NOW_MS - 1000), epoch=2)
    log.close()
    end = log.end_offset
    log = open_log(disk, clean=True, recovery_point=end)
    log.flusher.stop()
    log.roll()
    append(log, batch(), epoch=2)
    disk.end_process()
    again = open_log(disk, recovery_point=end)
    assert [each.base_offset for each in again.segments] == [0, end]
    assert [header.base_offset for header in stored(again)] == [0, 3, 4]
    check_derived(again)
