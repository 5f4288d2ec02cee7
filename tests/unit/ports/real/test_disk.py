"""Syncs of volumes, and sync threads: which syncs run concurrently, which wait, and what their callbacks get."""

import asyncio
import ctypes
import errno
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.ports.disk import File
from penstock.ports.real import disk
from penstock.ports.real.disk import SyncThreads


class FakeFile:
    """A file whose sync ends when it is released, with an error if it has one."""

    def __init__(self, error: OSError | None = None, *, is_held: bool = False) -> None:
        self.error = error
        self.syncs = 0
        self.begun, self.let_go = threading.Event(), threading.Event()
        if not is_held:
            self.let_go.set()

    def sync(self) -> None:
        self.begun.set()
        assert self.let_go.wait(10)
        self.syncs += 1
        if self.error is not None:
            raise self.error


class SyncCaller:
    def __init__(self, threads: SyncThreads) -> None:
        self.threads = threads
        self.reported: list[tuple[Any, OSError | None]] = []
        self._news = asyncio.Event()

    def ask(self, *files: FakeFile) -> None:
        for file in files:
            self.threads.ask(cast(File, file), lambda error, file=file: self._report(file, error))  # type: ignore[misc]

    def _report(self, file: FakeFile, error: OSError | None) -> None:
        self.reported.append((file, error))
        self._news.set()

    async def wait_for_reports(self, count: int) -> None:
        """Wait until `count` syncs have been reported."""
        while len(self.reported) < count:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 10)


async def begun(*files: FakeFile) -> None:
    for file in files:
        assert await asyncio.to_thread(file.begun.wait, 10)


@pytest.fixture
async def caller() -> AsyncIterator[SyncCaller]:
    threads = SyncThreads(asyncio.get_running_loop())
    yield SyncCaller(threads)
    threads.stop()


async def test_syncs_requested_together_are_reported_together_each_with_its_own_error(caller: SyncCaller) -> None:
    failure = OSError("no")
    files = [FakeFile(failure if number == 3 else None) for number in range(20)]
    caller.ask(*files)
    await caller.wait_for_reports(20)
    assert dict(caller.reported) == {file: file.error for file in files}
    assert [file.syncs for file in files] == [1] * 20
    caller.reported.clear()
    caller.ask(*files)
    await caller.wait_for_reports(1)
    assert len(caller.reported) == 20, "only the very first request is submitted alone"


async def test_syncs_requested_during_a_group_form_the_next_group(
    caller: SyncCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "GROUP_WAIT_S_MAX", 60)
    first, second, third = FakeFile(is_held=True), FakeFile(), FakeFile()
    caller.ask(first)
    await begun(first)
    caller.ask(second, third)
    await asyncio.sleep(0)
    assert not second.begun.is_set() and not third.begun.is_set()
    first.let_go.set()
    await caller.wait_for_reports(1)
    assert caller.reported[0] == (first, None)
    await caller.wait_for_reports(3)
    assert {file for file, _ in caller.reported[1:]} == {second, third}


async def test_a_long_sync_does_not_delay_the_next_group_forever(caller: SyncCaller) -> None:
    slow, quick = FakeFile(is_held=True), FakeFile()
    caller.ask(slow)
    await begun(slow)
    caller.ask(quick)
    await caller.wait_for_reports(1)
    assert caller.reported == [(quick, None)]
    late = FakeFile()
    caller.ask(late)
    await caller.wait_for_reports(2)
    slow.let_go.set()
    await caller.wait_for_reports(3)
    assert caller.reported == [(quick, None), (late, None), (slow, None)]


async def test_stopping_waits_for_every_requested_sync(caller: SyncCaller) -> None:
    files = [FakeFile(), FakeFile()]
    caller.ask(*files)
    caller.threads.stop()
    assert [file.syncs for file in files] == [1, 1]
    await caller.wait_for_reports(2)
    assert len(caller.reported) == 2


@pytest.mark.parametrize("startable", [0, 1])
async def test_files_are_synced_although_threads_cannot_be_started(
    caller: SyncCaller, monkeypatch: pytest.MonkeyPatch, startable: int
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if len(caller.threads._threads) == startable:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        files = [FakeFile(OSError("no") if number == 3 else None) for number in range(5)]
        caller.ask(*files)
        await caller.wait_for_reports(5)
        assert dict(caller.reported) == {file: file.error for file in files}
    caller.ask(FakeFile())
    await caller.wait_for_reports(6)
    assert len(caller.threads._threads) == disk.SYNC_THREADS


def test_a_volume_is_synced_as_a_whole_if_its_file_system_supports_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = disk.RealDisk()
    file = real.open(str(tmp_path / "file"), create=True)
    file.write((b"bytes",), 0)
    monkeypatch.setattr(disk, "file_system_type", lambda path: "fuse.sshfs")
    assert not real.sync_volume(str(tmp_path))
    monkeypatch.setattr(disk, "file_system_type", lambda path: "ext4")
    assert real.sync_volume(str(tmp_path)) is (disk._syncfs is not None)
    file.check_written()
    file.close()
    reader = real.open(str(tmp_path / "file"), writable=False)
    reader.check_written()
    reader.close()


def test_a_failed_sync_of_a_volume_raises_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: int) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    real = disk.RealDisk()
    file = real.open(str(tmp_path / "file"), create=True)
    monkeypatch.setattr(disk, "file_system_type", lambda path: "ext4")
    monkeypatch.setattr(disk, "_syncfs", fail)
    monkeypatch.setattr(disk, "_sync_file_range", fail)
    with pytest.raises(OSError, match="Input/output"):
        real.sync_volume(str(tmp_path))
    with pytest.raises(OSError, match="Input/output"):
        file.check_written()
    file.close()


def test_the_type_of_a_file_system_is_found_by_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 2 0:99999 / /other rw - proc proc rw\n"
        f"3 2 {os.major(device)}:{os.minor(device)} / /data rw,noatime shared:1 - xfs /dev/sdb rw\n"
    )
    monkeypatch.setattr(disk, "MOUNTS_PATH", str(mounts))
    assert disk.file_system_type(str(tmp_path)) == "xfs"
    monkeypatch.setattr(disk, "MOUNTS_PATH", str(tmp_path / "missing"))
    assert disk.file_system_type(str(tmp_path)) == ""


def test_the_number_of_open_files_is_that_of_the_process() -> None:
    assert disk.RealDisk().open_files_max() >= 64
