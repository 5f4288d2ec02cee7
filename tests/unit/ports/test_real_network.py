"""The network port over real loopback sockets: it is the edge, so there is nothing below it to fake."""

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from penstock.ports.network import Connection, FileSlice, Limits, Session
from penstock.ports.real_connection import FRAMES_PER_TURN_MAX, SocketConnection
from penstock.ports.real_disk import RealFile
from penstock.ports.real_network import READ_SIZE, RealNetwork


class Echo:
    """Answers each frame with itself, or does what a test tells it to."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        self.lost_count = 0
        self.pause_after = 0

    def frame(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        if self.pause_after and len(self.frames) == self.pause_after:
            self.connection.pause_frames()
        self.connection.send([struct.pack(">i", len(frame)), bytes(frame)])

    def lost(self, error: Exception | None) -> None:
        self.lost_count += 1


class Server:
    def __init__(self, network: RealNetwork) -> None:
        self.network = network
        self.sessions: list[Echo] = []
        self.pause_after = 0
        self.listener = network.listen("127.0.0.1", 0)
        self.listener.serve(self.accept)

    def accept(self, connection: Connection) -> Echo:
        session = Echo(connection)
        session.pause_after = self.pause_after
        self.sessions.append(session)
        return session

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.listener.port, limit=2**26)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    network = RealNetwork(Limits(frame_size_max=64 * 1024 * 1024))
    made = Server(network)
    yield made
    made.listener.close()
    network.stop()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


@pytest.mark.parametrize("size", [1, 100, 16 * 1024, 16 * 1024 + 1, READ_SIZE - 4, READ_SIZE, READ_SIZE + 1, 3_000_000])
async def test_frames_of_every_size_arrive_whole_and_in_order(server: Server, size: int) -> None:
    reader, writer = await server.client()
    bodies = [os.urandom(size) for _ in range(5)]
    writer.write(b"".join(map(framed, bodies)))
    assert [await read_frame(reader) for _ in bodies] == bodies
    writer.close()


async def test_a_frame_sent_byte_by_byte_arrives_whole(server: Server) -> None:
    reader, writer = await server.client()
    for byte in framed(b"slowly"):
        writer.write(bytes((byte,)))
        await writer.drain()
        await asyncio.sleep(0)
    assert await read_frame(reader) == b"slowly"
    writer.close()


@pytest.mark.parametrize("size", [0, -1, -(2**31), 64 * 1024 * 1024 + 1, 2**31 - 1])
async def test_impossible_sizes_close_the_connection(server: Server, size: int) -> None:
    reader, writer = await server.client()
    writer.write(struct.pack(">i", size))
    assert await reader.read() == b""
    assert server.sessions[0].lost_count == 1
    assert server.sessions[0].frames == []
    writer.close()


async def test_a_paused_connection_hands_over_nothing_until_it_is_resumed(server: Server) -> None:
    server.pause_after = 2
    reader, writer = await server.client()
    bodies = [b"%d" % index * 50_000 for index in range(6)]
    writer.write(b"".join(map(framed, bodies)))
    assert [await read_frame(reader) for _ in range(2)] == bodies[:2]
    await asyncio.sleep(0.05)
    session = server.sessions[0]
    assert len(session.frames) == 2
    session.connection.resume_frames()
    assert [await read_frame(reader) for _ in range(4)] == bodies[2:]
    writer.close()


async def test_the_departure_of_a_paused_peer_is_noticed(server: Server) -> None:
    server.pause_after = 1
    reader, writer = await server.client()
    writer.write(framed(b"hello"))
    await read_frame(reader)
    writer.close()
    await writer.wait_closed()
    for _ in range(100):
        if server.sessions[0].lost_count:
            break
        await asyncio.sleep(0.01)
    assert server.sessions[0].lost_count == 1


async def test_slices_of_files_and_bytes_leave_in_order(server: Server, tmp_path: Path) -> None:
    content = os.urandom(5_000_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    file = RealFile(str(path), os.open(path, os.O_RDONLY))
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    server.sessions[0].connection.send(
        [b"head", FileSlice(file, 10, 100), b"middle", FileSlice(file, 1000, 4_000_000), b"tail"]
    )
    expected = b"head" + content[10:110] + b"middle" + content[1000:4_001_000] + b"tail"
    assert await reader.readexactly(len(expected)) == expected
    writer.close()


async def test_a_slice_of_a_file_that_was_cut_meanwhile_ends_the_connection(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"x" * 50)
    file = RealFile(str(path), os.open(path, os.O_RDONLY))
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    server.sessions[0].connection.send([b"head", FileSlice(file, 10, 100), b"tail"])
    assert await reader.read() == b""
    writer.close()


async def test_a_peer_that_does_not_read_is_not_read_from(server: Server) -> None:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", server.listener.port))
    body = framed(b"x" * 1_000_000)
    sending = asyncio.ensure_future(loop.sock_sendall(client, body * 50))
    await asyncio.sleep(0.3)
    session = server.sessions[0]
    assert len(session.frames) < 20
    assert session.connection.unsent_size() < 20_000_000
    received = 0
    while received < len(body) * 50:
        received += len(await loop.sock_recv(client, 1_000_000))
    await sending
    assert len(session.frames) == 50
    client.close()


async def test_a_frame_that_does_not_arrive_is_cut_off_by_the_sweep(server: Server) -> None:
    _, writer = await server.client()
    writer.write(struct.pack(">i", 1000) + b"a")
    await asyncio.sleep(0.05)
    (connection,) = server.network.connections
    now = server.network.now()
    assert connection.overdue(now + 29) is None
    assert connection.overdue(now + 31) == "frame_timeout"
    writer.write(b"b")
    await asyncio.sleep(0.05)
    assert connection.overdue(now + 31) == "frame_timeout"
    writer.close()


async def test_a_connection_is_not_blamed_for_the_time_that_it_was_not_read(server: Server) -> None:
    server.pause_after = 1
    reader, writer = await server.client()
    writer.write(framed(b"first"))
    await read_frame(reader)
    writer.write(framed(b"second")[:6])
    await asyncio.sleep(0.05)
    (connection,) = server.network.connections
    resumed = server.network.now()
    connection.resume_frames()
    # The sweep may come before what was read ahead is cut.
    assert connection.overdue(resumed) is None
    await asyncio.sleep(0.05)
    assert connection.overdue(resumed + 29) is None
    assert connection.overdue(resumed + 31) == "frame_timeout"
    writer.write(framed(b"second")[6:])
    assert await read_frame(reader) == b"second"
    writer.close()


async def test_an_idle_connection_is_cut_off_by_the_sweep(server: Server) -> None:
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    (connection,) = server.network.connections
    now = server.network.now()
    assert connection.overdue(now + 599) is None
    assert connection.overdue(now + 601) == "idle"
    writer.close()


async def test_a_thousand_promises_of_a_large_frame_cost_little_memory(server: Server) -> None:
    clients = []
    for _ in range(300):
        client = socket.create_connection(("127.0.0.1", server.listener.port))
        client.sendall(struct.pack(">i", 60_000_000) + b"0123456789")
        clients.append(client)
    for _ in range(100):
        if len(server.network.connections) == 300:
            break
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert server.network.memory.used == 0
    reader, writer = await server.client()
    writer.write(framed(b"still here"))
    assert await read_frame(reader) == b"still here"
    for client in clients:
        client.close()
    writer.close()


async def test_a_node_connects_to_another_and_hears_its_answers(server: Server) -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    class Client:
        def frame(self, frame: memoryview) -> None:
            heard.set_result(bytes(frame))

        def lost(self, error: Exception | None) -> None: ...

    def opened(outcome: Connection | OSError) -> Session | None:
        assert not isinstance(outcome, OSError)
        outcome.send([b"\x00\x00\x00\x02hi"])
        return Client()

    server.network.connect("127.0.0.1", server.listener.port, opened)
    assert await asyncio.wait_for(heard, 5) == b"hi"


async def test_a_port_without_a_listener_is_told_apart_from_silence(server: Server) -> None:
    server.listener.close()
    outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    server.network.connect("127.0.0.1", server.listener.port, outcome.set_result)
    assert isinstance(await asyncio.wait_for(outcome, 5), ConnectionRefusedError)


# More than the buffers of any two sockets hold.
LARGE_REPLY = b"y" * 40_000_000


class Generous(Echo):
    """Answers every small question with a large reply."""

    def frame(self, frame: memoryview) -> bool:  # type: ignore[override]
        self.frames.append(bytes(frame))
        self.connection.send([LARGE_REPLY])
        return True


async def test_answers_that_nobody_reads_stay_within_the_budget(server: Server) -> None:
    sessions: list[Generous] = []

    def accept(connection: Connection) -> Generous:
        sessions.append(Generous(connection))
        return sessions[-1]

    network = server.network
    network.limit(Limits(memory_budget=100_000_000))
    listener = network.listen("127.0.0.1", 0)
    listener.serve(accept)
    lines = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(6)]
    for line in lines:
        line.sendall(framed(b"?") * 1000)
    for _ in range(20):
        await asyncio.sleep(0.02)
        assert network.unsent.held <= 100_000_000
        assert network.usage().unsent <= 100_000_000
    assert all(len(session.frames) < 100 for session in sessions)
    assert any(session.lost_count for session in sessions)
    listener.close()
    for line in lines:
        line.close()


async def test_a_flood_of_small_frames_is_answered_in_order_and_others_have_their_turn(server: Server) -> None:
    count = 4 * FRAMES_PER_TURN_MAX + 10
    flood, other = await server.client(), await server.client()
    flood[1].write(b"".join(framed(b"%d" % number) for number in range(count)))
    other[1].write(framed(b"me too"))
    assert await read_frame(other[0]) == b"me too"
    assert len(server.sessions[0].frames) < count
    assert [await read_frame(flood[0]) for _ in range(count)] == [b"%d" % number for number in range(count)]
    for _, writer in (flood, other):
        writer.close()


async def test_accepted_connections_have_the_buffers_that_were_asked_for() -> None:
    network = RealNetwork(Limits(receive_buffer_size=32 * 1024, send_buffer_size=48 * 1024))
    server = Server(network)
    reader, writer = await server.client()
    try:
        writer.write(framed(b"hello"))
        assert await read_frame(reader) == b"hello"
        (accepted,) = network.connections
        # Linux keeps twice what it is asked for, for its own books.
        buffers = (socket.SO_RCVBUF, socket.SO_SNDBUF)
        sizes = [accepted._socket.getsockopt(socket.SOL_SOCKET, buffer) for buffer in buffers]
        assert sizes in ([32 * 1024, 48 * 1024], [64 * 1024, 96 * 1024])
    finally:
        writer.close()
        server.listener.close()
        network.stop()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to that")


MIB = 1024 * 1024
SMALL_BUDGET = Limits(frame_size_max=8 * MIB, memory_budget=16 * MIB)


async def stall(server: Server, count: int, size: int, sent: int) -> list[socket.socket]:
    """Connections that each send part of a large frame and stop."""
    before = len(server.network.connections)
    lines = [socket.create_connection(("127.0.0.1", server.listener.port)) for _ in range(count)]
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
    lines = await stall(server, 8, 4 * MIB, 4 * MIB - 1)
    reader, writer = await server.client()
    for size in (900_000, 60_000):
        body = os.urandom(size)
        for start in range(0, size, 20_000):
            writer.write(framed(body)[start : start + 20_000] if start + 20_000 < size else framed(body)[start:])
            await asyncio.sleep(0)
        assert await asyncio.wait_for(read_frame(reader), 30) == body
    writer.close()
    for line in lines:
        line.close()


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
    lines = await stall(server, 3, 4 * MIB, 4 * MIB - 1)
    reader, writer = await server.client()
    body = os.urandom(4 * MIB)
    writer.write(framed(body))
    await until(lambda: bool(server.network.memory.waiting))
    (waiting,) = [buffer.owner for buffer in server.network.memory.waiting]
    assert isinstance(waiting, SocketConnection)
    assert waiting.overdue(server.network.now() + 1000) is None
    assert await asyncio.wait_for(read_frame(reader), 30) == body
    writer.close()
    for line in lines:
        line.close()


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
    writer.close()


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
    file = RealFile(str(path), os.open(path, os.O_RDONLY))
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
    writer.close()


@pytest.mark.parametrize("size", [1000, 300_000])
async def test_the_owner_of_a_file_learns_of_an_io_error(
    server: Server, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "log"
    path.write_bytes(bytes(size))
    file = RealFile(str(path), os.open(path, os.O_RDONLY))
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
    writer.close()


async def test_a_peer_that_is_gone_is_no_failure_of_a_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    path = tmp_path / "log"
    path.write_bytes(bytes(300_000))
    file = RealFile(str(path), os.open(path, os.O_RDONLY))
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    owner = Owner()
    monkeypatch.setattr(os, "sendfile", fail)
    server.sessions[0].connection.send([b"head", FileSlice(file, 0, 300_000, owner)])
    await asyncio.wait_for(reader.read(), 30)
    assert owner.failed == []
    writer.close()
