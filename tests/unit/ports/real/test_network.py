"""The network port over real loopback sockets: there is nothing below it to fake."""

import asyncio
import errno
import os
import socket
import struct
from pathlib import Path

import pytest

from penstock.ports.network import Connection, FileSlice, Limits, Session
from penstock.ports.real import connection
from penstock.ports.real.connection import FRAMES_PER_TURN_MAX, SocketConnection
from penstock.ports.real.network import READ_SIZE, RealNetwork
from tests.unit.ports.real.sockets import Echo, Server, count_reads, framed, read_frame, until


class StoppedClock:
    """A clock of the network that advances only when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, network: RealNetwork) -> None:
        self.seconds = 1000.0
        monkeypatch.setattr(network, "now", lambda: self.seconds)
        monkeypatch.setattr(connection, "now_ns", lambda: int(self.seconds * 1e9))


@pytest.mark.parametrize("size", [1, 100, 16 * 1024, 16 * 1024 + 1, READ_SIZE - 4, READ_SIZE, READ_SIZE + 1, 3_000_000])
async def test_frames_of_every_size_arrive_complete_and_in_order(server: Server, size: int) -> None:
    reader, writer = await server.client()
    bodies = [os.urandom(size) for _ in range(5)]
    writer.write(b"".join(map(framed, bodies)))
    assert [await read_frame(reader) for _ in bodies] == bodies


async def test_a_frame_sent_byte_by_byte_arrives_complete(server: Server) -> None:
    reader, writer = await server.client()
    for byte in framed(b"slowly"):
        writer.write(bytes((byte,)))
        await writer.drain()
        await asyncio.sleep(0)
    assert await read_frame(reader) == b"slowly"


@pytest.mark.parametrize("size", [0, -1, -(2**31), 64 * 1024 * 1024 + 1, 2**31 - 1])
async def test_impossible_sizes_close_the_connection(server: Server, size: int) -> None:
    reader, writer = await server.client()
    writer.write(struct.pack(">i", size))
    assert await reader.read() == b""
    assert server.sessions[0].lost_count == 1
    assert server.sessions[0].frames == []


async def test_a_paused_connection_passes_on_no_frame_until_it_is_resumed(server: Server) -> None:
    server.pause_after = 2
    reader, writer = await server.client()
    bodies = [b"%d" % index * 50_000 for index in range(6)]
    writer.write(b"".join(map(framed, bodies)))
    assert [await read_frame(reader) for _ in range(2)] == bodies[:2]
    connection = await server.connection()
    await until(lambda: len(connection._unread) >= len(framed(bodies[2])))
    session = server.sessions[0]
    assert len(session.frames) == 2
    session.connection.resume_frames()
    assert [await read_frame(reader) for _ in range(4)] == bodies[2:]


async def test_a_paused_peer_may_have_sent_more_than_is_read_ahead(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    monkeypatch.setattr(connection, "UNREAD_SIZE_MAX", 16)
    server.pause_after = 1
    bodies = [b"%04d" % number for number in range(20)]
    reader, writer = await server.client()
    # One read takes more than is read ahead of a paused connection; the bytes behind it are not read.
    writer.write(b"".join(map(framed, bodies[:10])))
    assert await read_frame(reader) == bodies[0]
    writer.write(b"".join(map(framed, bodies[10:])))
    await until(lambda: bool(failures) or not server.sessions[0].connection._reading)  # type: ignore[attr-defined]
    server.sessions[0].connection.resume_frames()
    assert [await read_frame(reader) for _ in bodies[1:]] == bodies[1:]
    assert failures == []


async def test_the_disconnect_of_a_paused_peer_is_noticed(server: Server) -> None:
    server.pause_after = 1
    reader, writer = await server.client()
    writer.write(framed(b"hello"))
    await read_frame(reader)
    writer.close()
    await writer.wait_closed()
    await until(lambda: server.sessions[0].lost_count > 0)
    assert server.sessions[0].lost_count == 1


async def test_slices_of_files_and_bytes_are_sent_in_order(server: Server, tmp_path: Path) -> None:
    content = os.urandom(5_000_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    file = server.file(path)
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    server.sessions[0].connection.send(
        [b"head", FileSlice(file, 10, 100), b"middle", FileSlice(file, 1000, 4_000_000), b"tail"]
    )
    expected = b"head" + content[10:110] + b"middle" + content[1000:4_001_000] + b"tail"
    assert await reader.readexactly(len(expected)) == expected


async def test_a_slice_of_a_file_that_was_truncated_meanwhile_closes_the_connection(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"x" * 50)
    file = server.file(path)
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    server.sessions[0].connection.send([b"head", FileSlice(file, 10, 100), b"tail"])
    assert await reader.read() == b""


async def test_a_peer_that_does_not_read_is_not_read() -> None:
    # The buffers are set, so that the kernel takes far less than one frame, whatever its own limits are.
    server = Server(RealNetwork(Limits(send_buffer_size=16 * 1024, receive_buffer_size=16 * 1024)))
    try:
        client = server.open_socket(receive_buffer_size=4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        body = framed(b"x" * 1_000_000)
        sending = asyncio.ensure_future(loop.sock_sendall(client, body * 50))
        connection = await server.connection()
        await until(lambda: connection._writing)
        await until(lambda: not connection._reading)
        assert len(server.sessions[0].frames) == 1
        assert 0 < connection.unsent_in_memory() <= len(body)
        received = 0
        while received < len(body) * 50:
            received += len(await loop.sock_recv(client, 1_000_000))
        await sending
        assert len(server.sessions[0].frames) == 50
    finally:
        await server.close()


async def test_a_slow_peer_does_not_make_the_server_read_many_slices_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_bytes(bytes(60_000))
    server = Server(RealNetwork(Limits(send_buffer_size=16 * 1024)))
    try:
        server.open_socket(receive_buffer_size=4096)
        file = server.file(tmp_path / "log")
        connection = await server.connection()
        connection.send([FileSlice(file, 0, 60_000) for _ in range(100)])
        await until(lambda: connection._writing)
        read = count_reads(monkeypatch)
        connection.flush()
        # Each system call would read all 6 MB that are left. How many there are depends on the socket's buffers.
        assert sum(read) < 3_000_000
    finally:
        await server.close()


async def test_the_sweep_closes_a_connection_whose_frame_does_not_arrive(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StoppedClock(monkeypatch, server.network)
    _, writer = await server.client()
    writer.write(struct.pack(">i", 1000) + b"a")
    connection = await server.connection()
    await until(lambda: len(connection._unread) == 5)
    assert connection.overdue(clock.seconds + 29) is None
    assert connection.overdue(clock.seconds + 31) == "frame_timeout"
    began = clock.seconds
    clock.seconds += 20
    writer.write(b"b")
    await until(lambda: len(connection._unread) == 6)
    assert connection.overdue(began + 31) == "frame_timeout"


async def test_the_time_that_a_connection_was_not_read_does_not_count(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StoppedClock(monkeypatch, server.network)
    server.pause_after = 1
    reader, writer = await server.client()
    writer.write(framed(b"first"))
    await read_frame(reader)
    writer.write(framed(b"second")[:6])
    connection = await server.connection()
    await until(lambda: len(connection._unread) == 6)
    clock.seconds += 100
    connection.resume_frames()
    # The sweep may run before the bytes that were read ahead are handled.
    assert connection.overdue(clock.seconds) is None
    await until(lambda: not connection._cut_scheduled)
    assert connection.overdue(clock.seconds + 29) is None
    assert connection.overdue(clock.seconds + 31) == "frame_timeout"
    writer.write(framed(b"second")[6:])
    assert await read_frame(reader) == b"second"


async def test_the_sweep_closes_an_idle_connection(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StoppedClock(monkeypatch, server.network)
    reader, writer = await server.client()
    writer.write(framed(b"x"))
    await read_frame(reader)
    connection = await server.connection()
    assert connection.overdue(clock.seconds + 599) is None
    assert connection.overdue(clock.seconds + 601) == "idle"


async def test_many_announced_large_frames_cost_little_memory(server: Server) -> None:
    for _ in range(100):
        server.open_socket().sendall(struct.pack(">i", 60_000_000) + b"0123456789")
    connections = server.network.connections
    await until(lambda: len(connections) == 100 and all(len(each._unread) == 14 for each in connections))
    assert server.network.memory.used == 0
    reader, writer = await server.client()
    writer.write(framed(b"still here"))
    assert await read_frame(reader) == b"still here"


async def test_a_node_connects_to_another_and_gets_its_responses(server: Server) -> None:
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    class Client:
        def frame(self, frame: memoryview) -> None:
            received.set_result(bytes(frame))

        def lost(self, error: Exception | None) -> None: ...

    def opened(outcome: Connection | OSError) -> Session | None:
        assert not isinstance(outcome, OSError)
        outcome.send([b"\x00\x00\x00\x02hi"])
        return Client()

    server.network.connect("127.0.0.1", server.listener.port, opened)
    assert await asyncio.wait_for(received, 5) == b"hi"


async def test_a_port_without_a_listener_refuses_the_connection(server: Server) -> None:
    server.listener.close()
    outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    server.network.connect("127.0.0.1", server.listener.port, outcome.set_result)
    assert isinstance(await asyncio.wait_for(outcome, 5), ConnectionRefusedError)


class Generous(Echo):
    """Answers every small request with a large reply."""

    REPLY_SIZE = 900_000

    def frame(self, frame: memoryview) -> bool:  # type: ignore[override]
        self.frames.append(bytes(frame))
        self.connection.send([b"y" * self.REPLY_SIZE])
        return True


async def test_unread_replies_stay_within_the_budget() -> None:
    # Two replies fit the budget and three do not, whatever part of each the kernel takes: its buffers are set here,
    # and hold far less than a quarter of a reply.
    budget = 2_000_000
    limits = Limits(memory_budget=budget, send_buffer_size=16 * 1024)
    server = Server(RealNetwork(limits), session=Generous)
    try:
        for _ in range(6):
            server.open_socket(receive_buffer_size=4096).sendall(framed(b"?") * 1000)
        await until(lambda: len(server.sessions) == 6 and all(session.frames for session in server.sessions))
        network, sessions = server.network, server.sessions
        assert [len(session.frames) for session in sessions] == [1] * 6
        assert sorted(session.lost_count for session in sessions) == [0, 0, 1, 1, 1, 1]
        assert 1.5 * Generous.REPLY_SIZE < network.unsent.held <= budget
        assert network.usage().unsent == network.unsent.held
    finally:
        await server.close()


async def test_a_flood_of_small_frames_is_answered_in_order_and_others_get_a_turn(server: Server) -> None:
    count = 4 * FRAMES_PER_TURN_MAX + 10
    flood, other = await server.client(), await server.client()
    flood[1].write(b"".join(framed(b"%d" % number) for number in range(count)))
    other[1].write(framed(b"me too"))
    assert await read_frame(other[0]) == b"me too"
    assert len(server.sessions[0].frames) < count
    assert [await read_frame(flood[0]) for _ in range(count)] == [b"%d" % number for number in range(count)]


async def test_accepted_connections_have_the_configured_buffers() -> None:
    server = Server(RealNetwork(Limits(receive_buffer_size=32 * 1024, send_buffer_size=48 * 1024)))
    try:
        reader, writer = await server.client()
        writer.write(framed(b"hello"))
        assert await read_frame(reader) == b"hello"
        accepted = await server.connection()
        # Linux doubles the requested size for its own bookkeeping.
        buffers = (socket.SO_RCVBUF, socket.SO_SNDBUF)
        sizes = [accepted._socket.getsockopt(socket.SOL_SOCKET, buffer) for buffer in buffers]
        assert sizes in ([32 * 1024, 48 * 1024], [64 * 1024, 96 * 1024])
    finally:
        await server.close()


MIB = 1024 * 1024
SMALL_BUDGET = Limits(frame_size_max=8 * MIB, memory_budget=16 * MIB)


async def stall(server: Server, count: int, size: int, sent: int) -> list[socket.socket]:
    """Open connections that each send part of a large frame and stop, or wait for memory with it."""
    before = set(server.network.connections)
    lines = [server.open_socket() for _ in range(count)]
    await until(lambda: len(server.network.connections) == len(before) + count)
    view = memoryview(struct.pack(">i", size) + bytes(sent))
    for line in lines:
        line.setblocking(False)
        server.send_later(line, view)

    def has_stalled(connection: SocketConnection) -> bool:
        buffer = connection._frame
        return buffer is not None and (buffer.filled == sent or buffer in server.network.memory.waiting)

    await until(lambda: all(map(has_stalled, server.network.connections - before)))
    return lines


async def test_stalled_uploads_do_not_stop_ordinary_requests(server: Server) -> None:
    server.network.limit(SMALL_BUDGET)
    await stall(server, 8, 4 * MIB, 4 * MIB - 1)
    reader, writer = await server.client()
    for size in (900_000, 60_000):
        body = os.urandom(size)
        for start in range(0, size, 20_000):
            writer.write(framed(body)[start : start + 20_000] if start + 20_000 < size else framed(body)[start:])
            await asyncio.sleep(0)
        assert await asyncio.wait_for(read_frame(reader), 30) == body


async def test_stalled_uploads_are_closed_for_one_that_waits_and_this_is_logged(
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


async def test_a_connection_that_waits_for_memory_does_not_time_out(server: Server) -> None:
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


async def test_a_large_frame_that_was_partly_read_ahead_arrives_complete(server: Server) -> None:
    """Check that reading resumes after a reply that the peer does not read has stopped it inside a frame."""
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


async def test_bytes_that_arrive_in_the_turn_of_a_resume_stay_behind_the_bytes_read_ahead(server: Server) -> None:
    loop = asyncio.get_running_loop()
    sent = framed(os.urandom(100_000)) + framed(b"next")
    client = server.open_socket()
    client.setblocking(False)
    await loop.sock_sendall(client, sent[:40_000])
    connection = await server.connection()
    await until(lambda: connection._frame is not None and connection._frame.filled == 40_000 - 4)
    connection.pause_frames()
    await loop.sock_sendall(client, sent[40_000:50_000])
    await until(lambda: len(connection._unread) == 10_000)
    await loop.sock_sendall(client, sent[50_000:60_000])
    connection.resume_frames()
    # As the loop does if it found the socket readable before the frames were resumed.
    connection._readable()
    await loop.sock_sendall(client, sent[60_000:])
    received = b""
    while len(received) < len(sent):
        received += await loop.sock_recv(client, 200_000)
    assert received == sent


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
    monkeypatch.setattr(os, "preadv", fail)
    server.sessions[0].connection.send([b"head", FileSlice(file, 0, size, owner), b"tail"])
    await asyncio.wait_for(reader.read(), 30)
    ((_, error),) = owner.failed
    assert error.errno == errno.EIO


async def test_a_closed_peer_is_not_a_failure_of_a_file(
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


async def test_frames_that_were_read_ahead_are_writable(server: Server) -> None:
    """Check that frames are writable: the log writes offsets into the batches of a frame in place."""
    server.pause_after = 1
    reader, writer = await server.client()
    writer.write(framed(b"first"))
    await read_frame(reader)
    connection = await server.connection()
    writer.write(framed(b"second"))
    await until(lambda: len(connection._unread) > 0)
    readonly: list[bool] = []
    session = server.sessions[0]
    answer = session.frame

    def note(frame: memoryview) -> None:
        readonly.append(frame.readonly)
        answer(frame)

    session.frame = note  # type: ignore[method-assign]
    connection.resume_frames()
    assert await read_frame(reader) == b"second"
    assert readonly == [False]
