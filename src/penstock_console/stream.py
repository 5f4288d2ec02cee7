"""Server-Sent Events from a thread to a browser."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response, StreamingResponse

from penstock_console.errors import ApiError, api_error
from penstock_console.json_content import encode

if TYPE_CHECKING:
    from penstock_console.console import Console

QUEUE_MAX: Final = 2
SEND_POLL_S: Final = 0.5


class Stopped(Exception):
    """The browser has closed the stream."""


class Events:
    """The sending side of a stream, used by a thread. `send` waits while the browser is slow."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(QUEUE_MAX)
        self._on_stop: list[Callable[[], None]] = []
        self.stopped = threading.Event()

    def send(self, event: str, data: Any, *, id: str | None = None) -> None:
        head = f"id: {id}\n" if id is not None else ""
        self._put(f"{head}event: {event}\ndata: ".encode() + encode(data) + b"\n\n")

    def on_stop(self, call: Callable[[], None]) -> None:
        """Call a function when the stream is stopped, from the event loop."""
        self._on_stop.append(call)
        if self.stopped.is_set():
            call()

    def end(self) -> None:
        with contextlib.suppress(Stopped):
            self._put(None)

    def stop(self) -> None:
        self.stopped.set()
        for call in self._on_stop:
            call()

    async def frames(self) -> AsyncIterator[bytes]:
        while (frame := await self._queue.get()) is not None:
            self._room.release()
            yield frame

    def _put(self, frame: bytes | None) -> None:
        while not self._room.acquire(timeout=SEND_POLL_S):
            if self.stopped.is_set():
                raise Stopped
        if self.stopped.is_set():
            raise Stopped
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, frame)
        except RuntimeError:
            # The event loop is closed: the console stops.
            raise Stopped from None


async def event_stream(console: "Console", work: Callable[[Events], None], *, has_child: bool = False) -> Response:
    """Respond with the events that `work` sends from a thread. A failure becomes the event `failed`."""
    console.limits.take_stream(has_child=has_child)
    events = Events(asyncio.get_running_loop())

    def run() -> None:
        try:
            work(events)
        except Stopped:
            pass
        except Exception as error:
            found = api_error(error) or ApiError(500, "INTERNAL_ERROR", f"The console failed: {type(error).__name__}.")
            if not events.stopped.is_set():
                try:
                    events.send("failed", found.content())
                except Stopped:
                    return
        events.end()

    async def frames() -> AsyncIterator[bytes]:
        threading.Thread(target=run, name="stream", daemon=True).start()
        try:
            # The first bytes open the stream in the browser, also if there is nothing to send yet.
            yield b": ok\n\n"
            async for frame in events.frames():
                yield frame
        finally:
            events.stop()
            console.limits.give_stream_back(has_child=has_child)

    return StreamingResponse(frames(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
