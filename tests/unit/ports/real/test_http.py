"""The HTTP server with slow readers, and with more readers than it has slots."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from penstock.ports.instruments import HttpAnswer
from penstock.ports.real.http import ANSWERS_MAX, HEADS_MAX, RealHttp, RealHttpListener

BIG = b"x" * 30_000_000


async def _body(data: bytes) -> AsyncIterator[bytes]:
    yield data


def answer(path: str) -> HttpAnswer:
    return HttpAnswer(200, "text/plain", _body(BIG if path == "/metrics" else b"fine"))


@pytest.fixture
async def listener() -> AsyncIterator[RealHttpListener]:
    made = await RealHttp().listen("127.0.0.1", 0, answer)
    yield made
    await made.close()


async def healthy(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /health HTTP/1.1\r\n\r\n")
        return (await asyncio.wait_for(reader.read(), 30)).endswith(b"fine")
    except OSError:
        return False
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def readers(port: int, count: int, head: bytes) -> AsyncIterator[None]:
    """Open connections that send the head and then neither send nor read."""
    lines = []
    try:
        for _ in range(count):
            lines.append(await asyncio.open_connection("127.0.0.1", port, limit=1))
            with contextlib.suppress(OSError):
                lines[-1][1].write(head)
        yield
    finally:
        for _, writer in lines:
            writer.transport.abort()


async def test_slow_heads_do_not_keep_a_health_check_out(listener: RealHttpListener) -> None:
    async with readers(listener.port, 2 * HEADS_MAX, b"GET /health HT"):
        for _ in range(5):
            assert await healthy(listener.port)
        assert len(listener._slots.heads) <= HEADS_MAX


async def test_readers_that_do_not_read_do_not_keep_a_health_check_out(listener: RealHttpListener) -> None:
    async with readers(listener.port, 2 * ANSWERS_MAX, b"GET /metrics HTTP/1.1\r\n\r\n"):
        for _ in range(5):
            assert await healthy(listener.port)
        assert len(listener._slots.answers) <= ANSWERS_MAX


async def test_a_request_that_arrives_in_pieces_is_answered(listener: RealHttpListener) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    for piece in (b"GET /he", b"alth HTTP/1.1\r\n", b"\r\n"):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.02)  # so that the pieces arrive one by one
    assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 200 OK")
    writer.close()


async def test_a_request_that_has_arrived_is_answered_before_a_flood_of_connections_pushes_it_out(
    listener: RealHttpListener,
) -> None:
    # The kernel completes connections, as many as it queues, before the event loop runs and accepts the first one.
    with contextlib.ExitStack() as opened:
        checking = opened.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
        checking.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        for _ in range(3 * HEADS_MAX):
            other = opened.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(("127.0.0.1", listener.port))
        checking.setblocking(False)
        received = await asyncio.get_running_loop().sock_recv(checking, 100)
    assert received.startswith(b"HTTP/1.1 200 ")
