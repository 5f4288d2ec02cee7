"""Syncs by the kernel: every callback runs, in order for one file, even if the kernel accepts nothing."""

import asyncio
import errno
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from penstock.ports.disk import File
from penstock.ports.real import ring as ring_module
from penstock.ports.real.disk import RealDisk
from penstock.ports.real.ring import ENTRIES, Ring

Answers = list[tuple[str, OSError | None]]


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    # Each test stops it, within its loop.
    yield RealDisk()


def opened(disk: RealDisk, folder: Path, count: int) -> list[File]:
    return [disk.open(f"{folder}/{number:03}", create=True) for number in range(count)]


async def synced(disk: RealDisk, files: list[File], *, times: int = 1) -> Answers:
    answers: Answers = []
    everything = asyncio.Event()

    def done(name: str, error: OSError | None) -> None:
        answers.append((name, error))
        if len(answers) == len(files) * times:
            everything.set()

    for number in range(times):
        for file in files:
            file.write((b"x",), number)
            disk.sync_later(file, partial(done, f"{Path(file.path).name} {number}"))
    async with asyncio.timeout(30):
        await everything.wait()
    return answers


def needs_a_ring(disk: RealDisk) -> None:
    if disk._ring is None:
        disk.stop()
        pytest.skip("io_uring is not available on this system")


async def test_every_file_is_reported_once(disk: RealDisk, tmp_path: Path) -> None:
    files = opened(disk, tmp_path, 40)
    times: list[int] = []
    disk.time_syncs(times.append)
    answers = await synced(disk, files)
    needs_a_ring(disk)
    assert sorted(answers) == [(f"{number:03} 0", None) for number in range(40)]
    assert len(times) == 40 and min(times) > 0
    disk.stop()


async def test_more_files_than_the_kernel_accepts_wait(disk: RealDisk, tmp_path: Path) -> None:
    files = opened(disk, tmp_path, ENTRIES + 40)
    answers = await synced(disk, files)
    assert len({name for name, error in answers if error is None}) == ENTRIES + 40
    disk.stop()


async def test_callbacks_for_one_file_run_in_the_order_of_the_calls(disk: RealDisk, tmp_path: Path) -> None:
    answers = await synced(disk, opened(disk, tmp_path, 3), times=5)
    for file in range(3):
        mine = [name for name, _ in answers if name.startswith(f"{file:03}")]
        assert mine == [f"{file:03} {number}" for number in range(5)]
    disk.stop()


async def test_a_closed_file_cannot_be_synced(disk: RealDisk, tmp_path: Path) -> None:
    (file,) = opened(disk, tmp_path, 1)
    await synced(disk, [file])
    needs_a_ring(disk)
    file.close()
    answered: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    disk.sync_later(file, answered.set_result)
    error = await asyncio.wait_for(answered, 10)
    assert error is not None and error.errno == errno.EBADF
    disk.stop()


async def test_a_failing_callback_does_not_stop_the_others(disk: RealDisk, tmp_path: Path) -> None:
    bad, *good = opened(disk, tmp_path, 5)
    await synced(disk, [bad])
    needs_a_ring(disk)
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, about: errors.append(about["exception"]))

    def fail(error: OSError | None) -> None:
        raise ValueError("mine")

    disk.sync_later(bad, fail)
    assert [error for _, error in await synced(disk, good)] == [None] * 4
    await synced(disk, [bad])
    assert [str(each) for each in errors] == ["mine"]
    disk.stop()


async def test_a_stop_waits_for_syncs_under_way_and_runs_their_callbacks(disk: RealDisk, tmp_path: Path) -> None:
    files = opened(disk, tmp_path, 20)
    answers: list[OSError | None] = []
    for file in files:
        file.write((b"x" * 100_000,), 0)
        disk.sync_later(file, answers.append)
    disk.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert answers == [None] * 20


async def test_threads_sync_files_without_io_uring(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> int:
        raise OSError(errno.EPERM, "not here")

    monkeypatch.setattr(ring_module, "_call", refuse)
    assert len(await synced(disk, opened(disk, tmp_path, 10), times=2)) == 20
    assert disk._ring is None
    disk.stop()


async def test_threads_sync_files_that_the_kernel_does_not_accept(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(disk, tmp_path, 10)
    await synced(disk, files)
    needs_a_ring(disk)
    call, refused = ring_module._call, list[int]()

    def busy(number: int, *arguments: int) -> int:
        if number == ring_module._ENTER and len(refused) < 2:
            refused.append(number)
            raise OSError(errno.EAGAIN, "no memory")
        return call(number, *arguments)

    monkeypatch.setattr(ring_module, "_call", busy)
    answers = await synced(disk, files, times=3)
    assert len(refused) == 2
    assert [error for _, error in answers] == [None] * 30
    disk.stop()


async def test_an_interrupted_worker_is_not_a_failure(disk: RealDisk, tmp_path: Path) -> None:
    (file,) = opened(disk, tmp_path, 1)
    await synced(disk, [file])
    needs_a_ring(disk)
    ring = disk._ring
    assert isinstance(ring, Ring)
    answered: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    disk.sync_later(file, answered.set_result)
    ring_module._call(ring_module._ENTER, ring._fd, 0, 1, ring_module._GET_EVENTS)
    at = ring._answers_at + (ring._words[ring._answer_head_at] & ring._answer_mask) * ring_module._ANSWER.size
    number, _, flags = ring_module._ANSWER.unpack_from(ring._memory, at)
    ring_module._ANSWER.pack_into(ring._memory, at, number, -errno.EINTR, flags)
    assert await asyncio.wait_for(answered, 10) is None
    disk.stop()
