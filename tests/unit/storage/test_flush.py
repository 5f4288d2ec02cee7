import errno
from types import SimpleNamespace

import pytest

from penstock.model.errors import StorageError
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import NOW_MS, append, batch, fill, open_log, small_settings, stored


def later_disk() -> SimDisk:
    return SimDisk(syncs_at_once=False)


def test_an_append_is_durable_when_its_sync_has_ended() -> None:
    disk = later_disk()
    log = open_log(disk)
    told: list[int] = []
    log.flusher.notify_durable(SimpleNamespace(advance=lambda: told.append(log.durable_offset)))
    append(log, batch(3))
    assert (log.durable_offset, told) == (0, [])
    disk.finish_sync()
    assert (log.durable_offset, told) == (3, [3])


def test_appends_during_a_sync_share_the_next_one() -> None:
    disk = later_disk()
    log = open_log(disk)
    fill(log, [1, 1, 1])
    assert disk.syncs_under_way() == 1
    disk.finish_sync()
    assert (log.durable_offset, disk.syncs_under_way()) == (1, 1)
    disk.finish_sync()
    assert (log.durable_offset, disk.syncs_under_way()) == (3, 0)


def test_a_later_segment_is_never_durable_before_an_earlier_one() -> None:
    disk = later_disk()
    log = open_log(disk)
    append(log, batch())
    log.roll()
    append(log, batch())
    marks = [log.durable_offset]
    while disk.finish_sync():
        marks.append(log.durable_offset)
    assert marks == sorted(marks)
    assert marks[-1] == 2


def test_without_group_commit_an_append_is_acknowledged_immediately() -> None:
    disk = later_disk()
    log = open_log(disk, flush_mode="os")
    append(log, batch(2))
    assert (log.durable_offset, log.offsets.flushed, disk.syncs_under_way()) == (2, 0, 0)


def test_without_group_commit_a_closed_segment_is_synced() -> None:
    disk = later_disk()
    log = open_log(disk, flush_mode="os")
    append(log, batch(2))
    log.roll()
    while disk.finish_sync():
        pass
    assert log.offsets.flushed == 2


def test_flush_messages_starts_a_sync() -> None:
    disk = later_disk()
    log = open_log(disk, flush_mode="os", flush_messages=3)
    fill(log, [1, 1])
    assert disk.syncs_under_way() == 0
    fill(log, [1])
    assert disk.syncs_under_way() == 1


def test_flush_ms_starts_a_sync() -> None:
    disk = later_disk()
    log = open_log(disk, flush_mode="os")
    append(log, batch())
    log.flusher.start_if_older_than(NOW_MS, 100)
    log.flusher.start_if_older_than(NOW_MS + 99, 100)
    assert disk.syncs_under_way() == 0
    log.flusher.start_if_older_than(NOW_MS + 100, 100)
    assert disk.syncs_under_way() == 1


def test_a_failed_sync_takes_the_folder_offline_until_a_restart() -> None:
    disk = later_disk()
    log = open_log(disk)
    failures: list[OSError] = []
    log.directory.on_failure = failures.append
    fill(log, [1, 1])
    disk.finish_sync(OSError(errno.EIO, "lost"))
    assert (log.durable_offset, len(failures), disk.syncs_under_way()) == (0, 1, 0)
    with pytest.raises(StorageError):
        append(log, batch())
    assert disk.syncs_under_way() == 0


def test_turning_group_commit_off_acknowledges_written_records() -> None:
    disk = later_disk()
    log = open_log(disk)
    told: list[int] = []
    log.flusher.notify_durable(SimpleNamespace(advance=lambda: told.append(log.durable_offset)))
    append(log, batch(2))
    log.apply_settings(small_settings(flush_mode="os"))
    assert (log.durable_offset, told) == (2, [2])


def test_turning_group_commit_on_keeps_the_durable_offset() -> None:
    disk = later_disk()
    log = open_log(disk, flush_mode="os")
    append(log, batch(2))
    log.apply_settings(small_settings())
    append(log, batch())
    assert log.durable_offset == 2
    disk.finish_sync()
    assert log.durable_offset == 3


def test_a_sync_that_ends_after_a_truncation_makes_nothing_durable() -> None:
    disk = later_disk()
    log = open_log(disk)
    fill(log, [1, 1, 1])
    log.truncate_to(1)
    append(log, batch())
    disk.finish_sync()
    assert log.durable_offset <= 1
    disk.finish_sync()
    assert log.durable_offset == 2


def test_the_recovery_point_waits_for_the_indexes_of_a_closed_segment() -> None:
    disk = later_disk()
    log = open_log(disk)
    append(log, batch(2))
    disk.finish_sync()
    log.roll()
    assert (log.durable_offset, log.recovery_point) == (2, 0)
    while disk.finish_sync():
        pass
    assert log.recovery_point == 2


def test_a_closed_segment_below_a_truncation_is_still_synced() -> None:
    disk = later_disk()
    log = open_log(disk)
    append(log, batch(1))
    append(log, batch(1))  # while the first is being synced
    log.roll()
    fill(log, [1, 1])
    log.truncate_to(3)
    append(log, batch())
    while disk.finish_sync():
        pass
    assert log.durable_offset == 4
    disk.sync_folder("/")
    disk.sync_folder("/data")
    disk.crash(kept=0.0)
    assert [header.base_offset for header in stored(open_log(disk))] == [0, 1, 2, 3]
