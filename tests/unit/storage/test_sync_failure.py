"""The record of a failed sync."""

import errno

import pytest

from penstock.storage.sync_failure import FILE_NAME, TRIES, SyncFailure
from penstock_sim.disk import SimDisk

ERROR = OSError(errno.EIO, "Input/output error")


@pytest.fixture
def disk() -> SimDisk:
    made = SimDisk()
    made.make_folder("/data")
    return made


def started(disk: SimDisk) -> SyncFailure:
    return SyncFailure(disk, "/data")


def test_a_start_finds_no_failure_after_a_process_without_one(disk: SimDisk) -> None:
    assert not started(disk).has_failed
    disk.end_process()
    assert not started(disk).has_failed


def test_a_failure_is_known_until_a_clean_stop(disk: SimDisk) -> None:
    started(disk).record(ERROR)
    disk.end_process()
    assert started(disk).has_failed
    disk.end_process()
    last = started(disk)
    assert last.has_failed
    last.forget()
    last.close()
    assert not started(disk).has_failed


@pytest.mark.parametrize("call", ["open", "exists"])
def test_a_failure_is_recorded_when_no_file_can_be_opened(disk: SimDisk, call: str) -> None:
    process = started(disk)
    disk.failing[call] = errno.EIO
    process.record(ERROR)
    disk.end_process()
    assert started(disk).has_failed


def test_a_failure_is_recorded_on_a_full_disk(disk: SimDisk) -> None:
    process = started(disk)
    disk.capacity = 1
    process.record(ERROR)
    disk.end_process()
    assert started(disk).has_failed


def test_a_write_that_fails_once_is_repeated(disk: SimDisk) -> None:
    process = started(disk)
    disk.fail_at[disk.calls + 1] = errno.EIO
    process.record(ERROR)
    disk.end_process()
    assert started(disk).has_failed


def test_a_failure_is_recorded_if_the_file_could_not_be_prepared(disk: SimDisk) -> None:
    disk.failing["open"] = errno.EMFILE
    process = started(disk)
    assert not process.has_failed
    disk.failing.clear()
    process.record(ERROR)
    disk.end_process()
    assert started(disk).has_failed


def test_a_record_that_cannot_be_read_counts_as_a_failure(disk: SimDisk) -> None:
    started(disk).record(ERROR)
    disk.end_process()
    disk.failing["read"] = errno.EIO
    assert started(disk).has_failed


def test_a_file_that_a_power_failure_left_empty_tells_nothing(disk: SimDisk) -> None:
    disk.open(f"/data/{FILE_NAME}", create=True).close()
    assert not started(disk).has_failed


def test_an_endless_failure_is_given_up(disk: SimDisk) -> None:
    process = started(disk)
    disk.failing["write"] = errno.EIO
    before = disk.calls
    process.record(ERROR)
    assert disk.calls == before + TRIES
