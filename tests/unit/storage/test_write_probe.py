import errno
import logging

import pytest

from penstock.storage.directory import LogDirectory
from penstock.storage.reserve import Reserve
from penstock.storage.write_probe import PROBE_S, REPEAT_S, WriteProbe
from penstock_sim.disk import SimDisk
from tests.support.stepped_clock import SteppedClock

SIZE = 10_000
FULL = OSError(errno.ENOSPC, "No space left on device")


class Folder:
    def __init__(self, *, capacity: int | None = None, size: int = SIZE) -> None:
        self.disk = SimDisk(capacity=capacity)
        self.disk.make_folder("/data")
        self.clock = SteppedClock()
        self.directory = LogDirectory(self.disk, "/data")
        self.reserve = self.directory.reserve = Reserve(self.disk, "/data", size)
        self.changes: list[bool] = []
        self.probe = WriteProbe(
            self.directory,
            self.reserve,
            self.disk,
            self.clock,
            lambda: self.changes.append(self.directory.is_read_only),
        )
        self.probe.start()


async def test_a_folder_is_read_only_from_a_failed_write_until_there_is_space() -> None:
    folder = Folder()
    folder.disk.capacity = SIZE
    folder.directory.write_failed(FULL)
    assert folder.changes == [True] and folder.directory.refusal is FULL
    await folder.clock.advance(10)
    assert folder.changes == [True]
    folder.disk.capacity = None
    await folder.clock.advance(PROBE_S)
    assert folder.changes == [True, False] and folder.reserve.held == SIZE


async def test_a_little_free_space_is_not_enough() -> None:
    folder = Folder()
    folder.directory.write_failed(FULL)
    folder.disk.capacity = 2 * SIZE - 1
    await folder.clock.advance(10)
    assert folder.changes == [True]
    assert folder.disk.space("/data")[1] == SIZE - 1


async def test_a_folder_without_space_for_its_reserve_starts_read_only() -> None:
    folder = Folder(capacity=SIZE - 1)
    assert folder.changes == [True]
    folder.disk.capacity = None
    await folder.clock.advance(PROBE_S)
    assert folder.changes == [True, False]


async def test_a_disk_that_cannot_sync_is_not_trusted_again() -> None:
    folder = Folder()
    folder.directory.write_failed(OSError(errno.EIO, "Input/output error"))
    folder.disk.failing["sync"] = errno.EIO
    await folder.clock.advance(10)
    assert folder.changes == [True]
    folder.disk.failing.clear()
    await folder.clock.advance(PROBE_S)
    assert folder.changes == [True, False]


async def test_a_folder_that_is_repeatedly_read_only_is_probed_less_often() -> None:
    folder = Folder()
    for pause_s in (PROBE_S, 2 * PROBE_S, 4 * PROBE_S):
        folder.directory.write_failed(FULL)
        await folder.clock.advance(pause_s - 0.1)
        assert folder.directory.is_read_only
        await folder.clock.advance(0.1)
        assert not folder.directory.is_read_only
    await folder.clock.advance(60)
    folder.directory.write_failed(FULL)
    await folder.clock.advance(PROBE_S)
    assert not folder.directory.is_read_only


async def test_an_offline_folder_stays_offline() -> None:
    folder = Folder()
    folder.directory.write_failed(FULL)
    folder.directory.fail(OSError(errno.EIO, "Input/output error"))
    await folder.clock.advance(10)
    assert folder.directory.failure is not None and folder.directory.refusal is folder.directory.failure
    assert not folder.directory.is_read_only and folder.changes == [True]


async def test_too_many_open_files_do_not_make_the_folder_read_only() -> None:
    folder = Folder()
    folder.directory.write_failed(OSError(errno.EMFILE, "Too many open files"))
    assert folder.changes == []


async def test_some_free_space_is_required_without_a_reserve() -> None:
    folder = Folder(size=0)
    folder.directory.write_failed(FULL)
    folder.disk.capacity = 100
    await folder.clock.advance(5)
    assert folder.changes == [True]
    folder.disk.capacity = None
    await folder.clock.advance(PROBE_S)
    assert folder.changes == [True, False] and folder.reserve.held == 0


async def test_a_full_disk_is_logged_once_and_then_at_intervals(caplog: pytest.LogCaptureFixture) -> None:
    folder = Folder()
    folder.disk.capacity = SIZE
    folder.directory.write_failed(FULL)
    folder.directory.write_failed(FULL)
    (first,) = caplog.messages
    assert first.startswith("disk full: /data has 0.0 MiB free and needs 0.0 MiB free to accept writes")
    await folder.clock.advance(REPEAT_S - 1)
    assert len(caplog.messages) == 1
    await folder.clock.advance(2)
    assert caplog.messages == [first, first]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
    caplog.set_level(logging.INFO)
    folder.disk.capacity = None
    await folder.clock.advance(PROBE_S)
    assert caplog.records[-1].levelno == logging.INFO and "accepts writes again" in caplog.messages[-1]


async def test_a_full_folder_says_how_much_space_it_needs() -> None:
    folder = Folder(capacity=64 * 1024 * 1024, size=8 * 1024 * 1024)
    folder.directory.write_failed(FULL)
    assert folder.directory.describe_refusal() == (
        "disk full: /data has 56.0 MiB free and needs 8.0 MiB free to accept writes"
    )
    folder.directory.accept_writes()
    folder.directory.write_failed(OSError(errno.EIO, "Input/output error"))
    assert folder.directory.describe_refusal() == ("disk error: /data rejects writes: [Errno 5] Input/output error")


async def test_a_folder_that_fails_during_a_probe_stays_offline() -> None:
    folder = Folder()
    folder.directory.write_failed(FULL)
    folder.disk.syncs_at_once = False
    await folder.clock.advance(PROBE_S)
    assert folder.disk.syncs_under_way() == 1
    folder.directory.fail(OSError(errno.EIO, "gone"))
    folder.disk.finish_sync()
    await folder.clock.advance(60)
    assert folder.directory.refusal is folder.directory.failure
    assert folder.changes == [True]
