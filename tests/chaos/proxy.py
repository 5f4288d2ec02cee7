"""A TCP proxy in front of a node, which can hold back, delay or reset connections."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

CHUNK = 64 * 1024


class Proxy:
    """A proxy from one port to another, whose behaviour can be changed at any time."""

    def __init__(self, port: int, node_port: int) -> None:
        self.port = port
        self._node_port = node_port
        self._open = asyncio.Event()
        self.delay_s = 0.0
        self._links: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._open.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.cut()

    def hold(self) -> None:
        """Drop all traffic silently, as with an unplugged cable."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()
        self.delay_s = 0.0

    async def cut(self) -> None:
        """Reset every connection."""
        for task in list(self._links):
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(task)
            # Without an orderly close: the peer must see a reset.
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        node_reader, node_writer = await asyncio.open_connection("127.0.0.1", self._node_port)
        try:
            pipes = {
                asyncio.ensure_future(self._pipe(reader, node_writer)),
                asyncio.ensure_future(self._pipe(node_reader, writer)),
            }
            try:
                await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pipe in pipes:
                    pipe.cancel()
                await asyncio.gather(*pipes, return_exceptions=True)
        finally:
            node_writer.transport.abort()

    async def _pipe(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK):
            await self._open.wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            target.write(data)
            await target.drain()


class ProxyThread:
    """The event loop of all proxies, on a separate thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def call(self, function: Any) -> None:
        self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
