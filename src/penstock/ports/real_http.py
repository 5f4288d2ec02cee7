"""A small HTTP server for a few readers: GET only, one request per connection, everything bounded.

Runs on the broker's event loop and never holds it up: a reader that sends garbage, sends slowly or does not read
is cut off. For metrics and health; nothing of value should ever be asked for here.
"""

import asyncio
import contextlib
import logging
from typing import Final

from penstock.ports.instruments import Answerer, HttpAnswer

log = logging.getLogger(__name__)

HEAD_SIZE_MAX: Final = 8 * 1024
HEAD_S_MAX: Final = 5.0
SEND_S_MAX: Final = 10.0
"""How long a reader may leave a piece of an answer in our memory."""
CONNECTIONS_MAX: Final = 32
UNSENT_SIZE_MAX: Final = 64 * 1024
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


class RealHttpListener:
    def __init__(self, server: asyncio.Server, open_tasks: "set[asyncio.Task[None]]") -> None:
        self._server = server
        self._open = open_tasks
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()


class RealHttp:
    async def listen(self, host: str, port: int, answer: Answerer) -> RealHttpListener:
        open_tasks: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            if len(open_tasks) >= CONNECTIONS_MAX:
                writer.transport.abort()
                return
            open_tasks.add(task)
            try:
                await _serve(reader, writer, answer)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass  # whoever asked is gone, too slow, or no reader of HTTP
            except Exception:
                log.exception("an HTTP request failed")
            finally:
                open_tasks.discard(task)
                writer.transport.abort() if task.cancelling() else writer.close()
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await writer.wait_closed()

        server = await asyncio.start_server(serve, host or None, port, limit=HEAD_SIZE_MAX)
        return RealHttpListener(server, open_tasks)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answerer) -> None:
    async with asyncio.timeout(HEAD_S_MAX):
        head = await reader.readuntil(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        await _send(writer, _head(400, "text/plain"))
        return
    method, target = words[0], words[1].partition(b"?")[0].decode("ascii", "replace")
    if method not in (b"GET", b"HEAD"):
        await _send(writer, _head(405, "text/plain", "Allow: GET, HEAD\r\n"))
        return
    found: HttpAnswer = answer(target)
    writer.transport.set_write_buffer_limits(UNSENT_SIZE_MAX)
    await _send(writer, _head(found.status, found.content_type))
    if method == b"GET":
        async for piece in found.body:
            await _send(writer, piece)
            # `drain` returns at once as long as the buffer is not full: others want their turn too.
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
