"""How many reads and streams run at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from penstock_console.errors import ApiError

STREAMS_MAX: Final = 20
FILTERS_MAX: Final = 4
"""Searches, and tails with an SQL condition, which share the child processes."""
READS_MAX: Final = 4
QUERIES_MAX: Final = 2
READ_WAIT_S: Final = 10.0


class Limits:
    def __init__(self, *, streams: int = STREAMS_MAX, reads: int = READS_MAX, wait_s: float = READ_WAIT_S) -> None:
        self._streams_max = streams
        self._streams = 0
        self._filters = 0
        self._reads = asyncio.Semaphore(reads)
        self._queries = asyncio.Semaphore(QUERIES_MAX)
        self._wait_s = wait_s

    def take_stream(self, *, has_child: bool = False) -> None:
        """Count a stream that begins; the caller calls `give_stream_back` when it ends."""
        if has_child and self._filters >= FILTERS_MAX:
            raise ApiError(
                429,
                "TOO_MANY_STREAMS",
                f"{FILTERS_MAX} searches and tails with an SQL condition are open.",
                "Close one of them, or search for text.",
            )
        if self._streams >= self._streams_max:
            raise ApiError(
                429, "TOO_MANY_STREAMS", f"{self._streams_max} streams are open.", "Close another tail or search."
            )
        self._streams += 1
        self._filters += has_child

    def give_stream_back(self, *, has_child: bool = False) -> None:
        self._streams -= 1
        self._filters -= has_child

    @asynccontextmanager
    async def read(self) -> AsyncIterator[None]:
        """Wait for a free read of records."""
        async with self._turn(self._reads):
            yield

    @asynccontextmanager
    async def query(self) -> AsyncIterator[None]:
        """Wait for a free SQL query."""
        async with self._turn(self._queries):
            yield

    @asynccontextmanager
    async def _turn(self, semaphore: asyncio.Semaphore) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._wait_s):
                await semaphore.acquire()
        except TimeoutError:
            raise ApiError(429, "TOO_MANY_READS", "Too many reads are running.", "Try again in some seconds.") from None
        try:
            yield
        finally:
            semaphore.release()
