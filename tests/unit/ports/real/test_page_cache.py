"""Slices of files that are not in the page cache."""

import asyncio
import errno
import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.ports.network import FileSlice, Part
from penstock.ports.real import disk as real_disk
from penstock.ports.real import page_cache
from penstock.ports.real.disk import PROBE_INTERVAL, RealFile
from penstock.ports.real.page_cache import NotCached, PageCache
from penstock.ports.real.slices import first_slices
from tests.unit.ports.real.sockets import Server, framed, read_frame, until

pytestmark = pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="needs preadv2 with RWF_NOWAIT")

SIZE = 3_000_000
real_preadv = os.preadv


class SlowDisk:
    """Nothing is cached until it was read, and reads wait until they are released."""

    def __init__(self) -> None:
        self.cached: set[int] = set()
        self.cached_end = SIZE
        self.may_read = threading.Event()
        self.read_count = 0
        self.error: OSError | None = None

    def preadv(self, fd: int, buffers: list[bytearray], position: int, flags: int = 0) -> int:
        if flags:
            if self.error is not None:
                raise self.error
            if fd not in self.cached or position >= self.cached_end:
                raise BlockingIOError(errno.EAGAIN, "not cached")
            return real_preadv(fd, buffers, position)
        assert threading.current_thread() is not threading.main_thread(), "the event loop must not wait for the disk"
        self.may_read.wait()
        self.read_count += 1
        self.cached.add(fd)
        return real_preadv(fd, buffers, position)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk = SlowDisk()
    monkeypatch.setattr(os, "preadv", disk.preadv)
    for module in (page_cache, real_disk):
        monkeypatch.setattr(module, "NOWAIT", os.RWF_NOWAIT)
    yield disk
    disk.may_read.set()


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    content = os.urandom(SIZE)
    (tmp_path / "log").write_bytes(content)
    return content


@pytest.mark.parametrize("size", [1000, SIZE - 10])
async def test_other_clients_are_served_while_a_reply_waits_for_the_disk(
    server: Server, tmp_path: Path, disk: SlowDisk, content: bytes, size: int
) -> None:
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    connection = server.sessions[0].connection
    connection.send([b"head", FileSlice(server.file(tmp_path / "log"), 10, size), b"tail"])
    await until(lambda: server.network.usage().disk_waits == 1)
    # Later replies, and later requests, wait behind it.
    connection.send([b"more"])
    writer.write(framed(b"later"))
    other_reader, other_writer = await server.client()
    other_writer.write(framed(b"other"))
    assert await read_frame(other_reader) == b"other"
    assert disk.read_count == 0
    disk.may_read.set()
    expected = b"head" + content[10 : 10 + size] + b"tail" + b"more"
    assert await reader.readexactly(len(expected)) == expected
    assert await read_frame(reader) == b"later"


async def test_a_client_may_leave_while_its_reply_waits_for_the_disk(
    server: Server, tmp_path: Path, disk: SlowDisk, content: bytes
) -> None:
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    server.sessions[0].connection.send([FileSlice(server.file(tmp_path / "log"), 0, SIZE)])
    await until(lambda: server.network.usage().disk_waits == 1)
    writer.close()
    await writer.wait_closed()
    await until(lambda: server.sessions[0].lost_count == 1)
    disk.may_read.set()
    other_reader, other_writer = await server.client()
    other_writer.write(framed(b"other"))
    assert await read_frame(other_reader) == b"other"


@pytest.mark.parametrize("is_cached", [False, True], ids=["to load", "to read ahead"])
async def test_replies_are_sent_although_no_thread_can_be_started(
    server: Server, tmp_path: Path, disk: SlowDisk, content: bytes, monkeypatch: pytest.MonkeyPatch, is_cached: bool
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    file = server.file(tmp_path / "log")
    if is_cached:
        disk.cached.add(file.fd)
        file.read_ahead_end = SIZE
    monkeypatch.setattr(threading.Thread, "start", refuse)
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    server.sessions[0].connection.send([FileSlice(file, 0, SIZE)])
    assert await asyncio.wait_for(reader.readexactly(SIZE), 30) == content


async def test_a_wait_for_the_disk_is_not_a_stall_of_the_client(
    server: Server, tmp_path: Path, disk: SlowDisk, content: bytes
) -> None:
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    server.sessions[0].connection.send([FileSlice(server.file(tmp_path / "log"), 0, SIZE)])
    await until(lambda: server.network.usage().disk_waits == 1)
    (connection,) = server.network.connections
    assert connection.overdue(server.network.now() + 1e6) is None
    disk.may_read.set()
    assert await reader.readexactly(SIZE) == content


async def test_a_reply_larger_than_a_load_is_read_in_several(
    server: Server, tmp_path: Path, disk: SlowDisk, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.ports.real.sending.LOADED_SIZE_MAX", SIZE // 2)
    disk.may_read.set()
    file = server.file(tmp_path / "log")
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    server.sessions[0].connection.send([b"a", FileSlice(file, 0, SIZE), b"b", FileSlice(file, 100, 100_000), b"c"])
    expected = b"a" + content + b"b" + content[100:100_100] + b"c"
    assert await reader.readexactly(len(expected)) == expected


async def test_without_the_means_to_ask_everything_counts_as_cached(
    server: Server, tmp_path: Path, disk: SlowDisk, content: bytes
) -> None:
    disk.error = OSError(errno.EOPNOTSUPP, "Operation not supported")
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    file = server.file(tmp_path / "log")
    server.sessions[0].connection.send([FileSlice(file, 0, 1000), FileSlice(file, 0, SIZE)])
    assert await reader.readexactly(1000 + SIZE) == content[:1000] + content
    assert not server.network.page_cache.is_supported
    assert server.network.usage().disk_waits == 0


async def test_bytes_that_were_just_written_are_cached(tmp_path: Path, content: bytes) -> None:
    cache = PageCache()
    file = RealFile("log", os.open(tmp_path / "log", os.O_RDONLY))
    try:
        piece = FileSlice(file, 5, SIZE - 5)
        cache.check(piece)
        assert piece.is_cached or not cache.is_supported
        assert cache.read(FileSlice(file, 5, 100)) in (content[5:105], None)
    finally:
        file.close()


def test_a_file_says_how_many_bytes_need_no_wait_for_the_disk(
    tmp_path: Path, content: bytes, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    advised: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, position, size, advice: advised.append((position, size)))
    file = RealFile("log", os.open(tmp_path / "log", os.O_RDONLY))
    try:
        assert file.ready_size(10, 500_000) == 0
        assert advised == [(10, 500_000)] and file.read_ahead_end == 500_010
        disk.cached.add(file.fd)
        assert file.ready_size(10, 500_000) == 500_000
        disk.cached_end = 300_000
        assert file.ready_size(10, 500_000) == 3 * PROBE_INTERVAL
        assert advised[1:] == [(10 + 3 * PROBE_INTERVAL, 500_000 - 3 * PROBE_INTERVAL)]
        disk.error = OSError(errno.EOPNOTSUPP, "Operation not supported")
        assert file.ready_size(10, 500_000) == 500_000
    finally:
        file.close()


async def test_reading_in_order_reads_ahead_until_the_rest_is_cached(
    tmp_path: Path, content: bytes, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    advised: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, position, size, advice: advised.append((position, size)))
    disk.may_read.set()
    cache = PageCache()
    file = RealFile("log", os.open(tmp_path / "log", os.O_RDONLY))
    try:
        loaded = asyncio.Event()
        first = FileSlice(file, 0, 100_000)
        with pytest.raises(NotCached):
            cache.check(first)
        cache.load([first], loaded.set)
        await asyncio.wait_for(loaded.wait(), 30)
        assert first.is_cached
        assert advised == [(0, 100_000), (100_000, 200_000)]
        # Everything is cached now, so the next slices need nothing.
        for position in (100_000, 200_000):
            cache.check(FileSlice(file, position, 100_000))
        await until(lambda: file.read_ahead_end == 0)
        assert advised == [(0, 100_000), (100_000, 200_000)]
    finally:
        cache.stop()
        file.close()


async def test_the_next_bytes_are_read_ahead_before_they_are_needed(
    tmp_path: Path, content: bytes, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    advised: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, position, size, advice: advised.append((position, size)))
    cache = PageCache()
    file = RealFile("log", os.open(tmp_path / "log", os.O_RDONLY))
    file.read_ahead_end = 300_000
    try:
        monkeypatch.setattr(cache, "_try", lambda *_: True)
        cache.check(FileSlice(file, 100_000, 100_000))
        assert file.read_ahead_end == 300_000, "two more slices are on their way"
        cache.check(FileSlice(file, 200_000, 100_000))
        assert file.read_ahead_end == 500_000
        await until(lambda: advised == [(300_000, 200_000)])
    finally:
        cache.stop()
        file.close()


def test_the_first_slices_are_cut_at_the_size() -> None:
    file = RealFile("log", -1)
    known = FileSlice(file, 0, 70)
    known.is_cached = True
    out: deque[Part] = deque([b"head", known, FileSlice(file, 100, 30), b"x", FileSlice(file, 200, 50), b"tail"])
    found = first_slices(out, 50)
    assert [(each.position, each.size) for each in found] == [(100, 30), (200, 20)]
    slices = [each for each in out if isinstance(each, FileSlice)]
    assert [(each.position, each.size) for each in slices] == [(0, 70), (100, 30), (200, 20), (220, 30)]
    assert found[0] is slices[1] and found[1] is slices[2]
    assert first_slices(deque([b"head", known]), 50) == []
