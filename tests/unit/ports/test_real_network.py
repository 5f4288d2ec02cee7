"""The network port over real loopback sockets: it is the edge, so there is nothing below it to fake."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.ports.network import Connection, FileSlice, Limits, Session
from penstock.ports.real_disk import RealFile
from penstock.ports.real_network import FRAMES_PER_TURN_MAX, READ_SIZE, RealNetwork


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
    assert connection.overdue(now + 31) == "its frame does not arrive"
    writer.write(b"b")
    await asyncio.sleep(0.05)
    assert connection.overdue(now + 31) == "its frame does not arrive"
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
    assert connection.overdue(resumed + 31) == "its frame does not arrive"
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
    assert connection.overdue(now + 601) == "it was idle for too long"
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
    assert server.network.pool.used == 0
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


class Generous(Echo):
    """Answers every small question with a large reply."""

    def frame(self, frame: memoryview) -> bool:  # type: ignore[override]
        self.frames.append(bytes(frame))
        self.connection.send([b"y" * 400_000])
        return True


async def test_answers_that_nobody_reads_stay_within_the_budget(server: Server) -> None:
    sessions: list[Generous] = []

    def accept(connection: Connection) -> Generous:
        sessions.append(Generous(connection))
        return sessions[-1]

    network = server.network
    network.limit(Limits(memory_budget=1_000_000))
    listener = network.listen("127.0.0.1", 0)
    listener.serve(accept)
    lines = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(6)]
    for line in lines:
        line.sendall(framed(b"?") * 1000)
    for _ in range(20):
        await asyncio.sleep(0.02)
        assert network.unsent.held <= 1_000_000
        assert network.usage().unsent <= 1_000_000
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
