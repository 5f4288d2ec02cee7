"""Memory for requests and replies, and files that cannot be read, over real loopback sockets."""

import asyncio
import contextlib
import errno
import os
import socket
import struct
from pathlib import Path

import pytest

from penstock.ports.network import FileSlice, Limits
from penstock.ports.real_connection import SocketConnection
from tests.unit.ports.test_real_network import Server, framed, read_frame, server, until

__all__ = ["server"]

MIB = 1024 * 1024
SMALL_BUDGET = Limits(frame_size_max=8 * MIB, memory_budget=16 * MIB)


async def stall(server: Server, count: int, size: int, sent: int) -> list[socket.socket]:
    """Connections that each send part of a large frame and stop."""
    before = len(server.network.connections)
    lines = [server.socket() for _ in range(count)]
    await until(lambda: len(server.network.connections) == before + count)
    for line in lines:
        line.setblocking(False)
        view = memoryview(struct.pack(">i", size) + bytes(sent))
        # What does not fit into the buffers stays unsent: the node does not read it.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(line, view), 0.5)
    return lines


async def test_stalled_uploads_do_not_stop_requests_of_ordinary_size(server: Server) -> None:
    server.network.limit(SMALL_BUDGET)
    await stall(server, 8, 4 * MIB, 4 * MIB - 1)
    reader, writer = await server.client()
    for size in (900_000, 60_000):
        body = os.urandom(size)
        for start in range(0, size, 20_000):
            writer.write(framed(body)[start : start + 20_000] if start + 20_000 < size else framed(body)[start:])
            await asyncio.sleep(0)
        assert await asyncio.wait_for(read_frame(reader), 30) == body


async def test_stalled_uploads_are_closed_for_one_that_waits_and_the_log_says_so(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.network.limit(SMALL_BUDGET)
    lines = await stall(server, 4, 4 * MIB, 4 * MIB - 1)
    reader, writer = await server.client()
    body = os.urandom(4 * MIB)
    writer.write(framed(body))
    assert await asyncio.wait_for(read_frame(reader), 30) == body
    assert server.network.closed["request_memory"] == server.network.usage().closed["request_memory"] >= 1
    assert "memory for requests is short, and it holds 4194304 bytes" in caplog.text
    writer.close()
    for line in lines:
        line.close()
    await until(lambda: len(server.network.connections) == 0)
    assert server.network.memory.used == 0


async def test_a_connection_that_waits_for_memory_is_not_blamed(server: Server) -> None:
    server.network.limit(SMALL_BUDGET)
    await stall(server, 3, 4 * MIB, 4 * MIB - 1)
    reader, writer = await server.client()
    body = os.urandom(4 * MIB)
    writer.write(framed(body))
    await until(lambda: bool(server.network.memory.waiting))
    (waiting,) = [buffer.owner for buffer in server.network.memory.waiting]
    assert isinstance(waiting, SocketConnection)
    assert waiting.overdue(server.network.now() + 1000) is None
    assert await asyncio.wait_for(read_frame(reader), 30) == body


async def test_a_large_frame_that_was_read_ahead_in_part_arrives_whole(server: Server) -> None:
    """A reply that the peer does not take stops the reading of a frame that is under way."""
    reader, writer = await server.client()
    body = os.urandom(3 * MIB)
    writer.write(framed(body)[: 2 * MIB])
    await until(lambda: len(server.network.memory.buffers) == 1)
    (connection,) = server.network.connections
    connection.pause_frames()
    writer.write(framed(body)[2 * MIB :] + framed(b"next"))
    await until(lambda: len(connection._unread) > 0)
    connection.resume_frames()
    assert await asyncio.wait_for(read_frame(reader), 30) == body
    assert await asyncio.wait_for(read_frame(reader), 30) == b"next"
    assert server.network.memory.used == 0


class Owner:
    def __init__(self) -> None:
        self.failed: list[tuple[FileSlice, OSError]] = []

    def read_failed(self, piece: FileSlice, error: OSError) -> None:
        self.failed.append((piece, error))


@pytest.mark.parametrize("size", [1000, 300_000])
async def test_the_owner_of_a_file_learns_that_it_is_too_short(
    server: Server, tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(size // 2))
    file = server.file(path)
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    owner = Owner()
    server.sessions[0].connection.send([b"head", FileSlice(file, 10, size, owner), b"tail"])
    await asyncio.wait_for(reader.read(), 30)
    ((piece, _),) = owner.failed
    assert piece.file is file
    assert piece.position + piece.size == 10 + size
    assert f"of {path} cannot be read" in caplog.text
    assert server.sessions[0].lost_count == 1
    assert server.network.closed["read_error"] == 1


@pytest.mark.parametrize("size", [1000, 300_000])
async def test_the_owner_of_a_file_learns_of_an_io_error(
    server: Server, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "log"
    path.write_bytes(bytes(size))
    file = server.file(path)
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    owner = Owner()
    monkeypatch.setattr(os, "sendfile", fail)
    monkeypatch.setattr(os, "pread", fail)
    server.sessions[0].connection.send([b"head", FileSlice(file, 0, size, owner), b"tail"])
    await asyncio.wait_for(reader.read(), 30)
    ((_, error),) = owner.failed
    assert error.errno == errno.EIO


async def test_a_peer_that_is_gone_is_no_failure_of_a_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    path = tmp_path / "log"
    path.write_bytes(bytes(300_000))
    file = server.file(path)
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    owner = Owner()
    monkeypatch.setattr(os, "sendfile", fail)
    server.sessions[0].connection.send([b"head", FileSlice(file, 0, 300_000, owner)])
    await asyncio.wait_for(reader.read(), 30)
    assert owner.failed == []
