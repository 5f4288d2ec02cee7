"""A server that echoes frames on a loopback socket, and its clients."""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.ports.network import Connection
from penstock.ports.real.connection import SocketConnection
from penstock.ports.real.disk import RealFile
from penstock.ports.real.network import RealNetwork


class Echo:
    """Answers each frame with itself, or does what a test sets."""

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
    """Listens with one kind of session, and closes everything that a test opens through it."""

    def __init__(self, network: RealNetwork, session: type[Echo] = Echo) -> None:
        self.network = network
        self.sessions: list[Echo] = []
        self.pause_after = 0
        self._session = session
        self._opened = ExitStack()
        self._writers: list[asyncio.StreamWriter] = []
        self._sending: list[asyncio.Future[None]] = []
        self.listener = network.listen("127.0.0.1", 0)
        self.listener.serve(self.accept)

    def accept(self, connection: Connection) -> Echo:
        session = self._session(connection)
        session.pause_after = self.pause_after
        self.sessions.append(session)
        return session

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, limit=2**26)
        self._writers.append(writer)
        return reader, writer

    def open_socket(self, *, receive_buffer_size: int = 0) -> socket.socket:
        """Return a connected socket; with a size, one whose buffer does not grow."""
        sock = self._opened.enter_context(closing(socket.socket()))
        if receive_buffer_size:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_size)
        sock.connect(("127.0.0.1", self.listener.port))
        return sock

    def file(self, path: Path) -> RealFile:
        return self._opened.enter_context(closing(RealFile(str(path), os.open(path, os.O_RDONLY))))

    def send_later(self, sock: socket.socket, data: memoryview) -> None:
        """Send in the background as the server reads. What the server does not read is never sent."""
        self._sending.append(asyncio.ensure_future(asyncio.get_running_loop().sock_sendall(sock, data)))

    async def connection(self) -> SocketConnection:
        """Wait for the only connection, and return it."""
        await until(lambda: len(self.network.connections) == 1)
        (connection,) = self.network.connections
        return connection

    async def close(self) -> None:
        for sending in self._sending:
            sending.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        for writer in self._writers:
            writer.close()
        for writer in self._writers:
            with suppress(OSError):
                await writer.wait_closed()
        self._opened.close()
        self.listener.close()
        self.network.stop()


async def until(holds: Callable[[], bool], *, seconds_max: float = 30.0) -> None:
    """Run the loop until a condition holds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds_max
    while not holds():
        assert loop.time() < deadline, f"the condition does not hold after {seconds_max:.0f} s"
        await asyncio.sleep(0.001)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the size of each read of a file from now on."""
    sizes: list[int] = []
    pread, preadv = os.pread, os.preadv

    def counted_pread(*arguments: Any) -> bytes:
        data = pread(*arguments)
        sizes.append(len(data))
        return data

    def counted_preadv(*arguments: Any) -> int:
        size = preadv(*arguments)
        sizes.append(size)
        return size

    monkeypatch.setattr(os, "pread", counted_pread)
    monkeypatch.setattr(os, "preadv", counted_preadv)
    return sizes


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)
