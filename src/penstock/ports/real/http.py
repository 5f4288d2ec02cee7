"""A small HTTP server for a few readers: GET only, one request per connection, everything bounded.

Runs on the broker's event loop and never blocks it: a reader that sends garbage, sends slowly or does not read
is disconnected. Connections that wait for a request and those that are being answered have separate limits, and a new
one replaces the oldest: slow readers, however many, do not keep a health check out.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.ports.instruments import Answerer, HttpAnswer

log = logging.getLogger(__name__)

HEAD_SIZE_MAX: Final = 8 * 1024
HEAD_S_MAX: Final = 2.0
SEND_S_MAX: Final = 10.0
"""How long a reader may leave a part of a response unread."""
HEADS_MAX: Final = 128
ANSWERS_MAX: Final = 32
BACKLOG: Final = 512
ACCEPTED_PER_TURN_MAX: Final = HEADS_MAX // 4
"""With more, a flood of connections could push out one whose request has arrived before that is read."""
UNSENT_SIZE_MAX: Final = 64 * 1024
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}

Task = asyncio.Task[None]


class ConnectionSlots:
    """The connections of a listener in the order of their arrival, with the address of each."""

    def __init__(self) -> None:
        self.heads: dict[Task, str] = {}
        self.answers: dict[Task, str] = {}

    def enter(self, task: Task, host: str) -> None:
        _make_room(self.heads, HEADS_MAX)
        self.heads[task] = host

    def answer(self, task: Task) -> None:
        host = self.heads.pop(task)
        _make_room(self.answers, ANSWERS_MAX)
        self.answers[task] = host

    def leave(self, task: Task) -> None:
        self.heads.pop(task, None)
        self.answers.pop(task, None)

    @property
    def all(self) -> list[Task]:
        return [*self.heads, *self.answers]


def _make_room(slots: dict[Task, str], most: int) -> None:
    """Close the oldest connection of the address that has the most, if there are too many."""
    if len(slots) >= most:
        ((busiest, _),) = Counter(slots.values()).most_common(1)
        oldest = next(task for task, host in slots.items() if host == busiest)
        del slots[oldest]
        oldest.cancel()


class RealHttpListener:
    def __init__(self, server: asyncio.Server, slots: ConnectionSlots) -> None:
        self._server = server
        self._slots = slots
        name = server.sockets[0].getsockname()
        self.port: int = 0 if isinstance(name, str) else name[1]

    async def close(self) -> None:
        self._server.close()
        tasks = self._slots.all
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()


class RealHttp:
    async def listen(self, host: str, port: int, answer: Answerer) -> RealHttpListener:
        slots = ConnectionSlots()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            peer = writer.get_extra_info("peername")
            slots.enter(task, peer[0] if peer else "")
            try:
                head = await _head_of(reader)
                slots.answer(task)
                await _serve(head, writer, answer)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass  # the reader is gone, too slow, or does not use HTTP
            except Exception:
                log.exception("an HTTP request failed")
            finally:
                slots.leave(task)
                writer.transport.abort() if task.cancelling() else writer.close()
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await writer.wait_closed()

        if host.startswith("/"):
            server = await _listen_unix(serve, host)
        else:
            server = await asyncio.start_server(
                serve, host or None, port, limit=HEAD_SIZE_MAX, backlog=ACCEPTED_PER_TURN_MAX
            )
        _lengthen_backlog(server)
        return RealHttpListener(server, slots)


async def _listen_unix(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], path: str
) -> asyncio.Server:
    """Listen on a Unix socket; one that a killed process has left is replaced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return await asyncio.start_unix_server(serve, path, limit=HEAD_SIZE_MAX, backlog=ACCEPTED_PER_TURN_MAX)


def _lengthen_backlog(server: asyncio.Server) -> None:
    """Let the kernel queue more connections than asyncio accepts at a time, for which it has one setting."""
    for listening in server.sockets:
        with socket.socket(fileno=os.dup(listening.fileno())) as same:
            same.listen(BACKLOG)


async def _head_of(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(HEAD_S_MAX):
        return await reader.readuntil(b"\r\n\r\n")


async def _serve(head: bytes, writer: asyncio.StreamWriter, answer: Answerer) -> None:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        await _send(writer, _head(400, "text/plain"))
        return
    method, target = words[0], words[1].partition(b"?")[0].decode("ascii", "replace")
    if method not in (b"GET", b"HEAD"):
        await _send(writer, _head(405, "text/plain", "Allow: GET, HEAD\r\n"))
        return
    given = answer(target)
    found = given if isinstance(given, HttpAnswer) else await given
    writer.transport.set_write_buffer_limits(UNSENT_SIZE_MAX)
    await _send(writer, _head(found.status, found.content_type))
    if method == b"GET":
        async for piece in found.body:
            await _send(writer, piece)
            # `drain` returns immediately while the buffer is not full: let other work run too.
            await asyncio.sleep(0)
    async with asyncio.timeout(SEND_S_MAX):
        writer.write_eof()
        await writer.drain()


def _head(status: int, content_type: str, more: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {content_type}\r\n{more}"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode()


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    async with asyncio.timeout(SEND_S_MAX):
        await writer.drain()
