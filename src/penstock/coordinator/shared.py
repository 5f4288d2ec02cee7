"""What several commands write together: one batch for all that comes in one turn of the event loop.

A sync, a system call and the making of a batch are then paid once. Only commands of which a shard
says so share (`SharedDecision`): nothing decided before the batch is written may hang on its records,
so they are applied after the append, as always, and a refused append has changed nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")

Done = Callable[[Any, Exception | None], None]
"""Takes the reply, or what kept the command from being done."""

RECORD_OVERHEAD = 24
"""About what a record takes in a batch beside its key and value."""


class SharedEntry(NamedTuple, Generic[R]):
    """One command's part."""

    records: list[R]
    encoded: list[tuple[bytes, bytes | None]]
    done: Done
    reply: Any


Entries = list[SharedEntry[R]]


class SharedTurn:
    """One turn of the event loop as all shards of a coordinator share it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._count = 0
        self._is_lonely = True
        self._writes: list[Callable[[], None]] = []

    def join(self, write: Callable[[], None] | None) -> bool:
        """Another command is decided; `write` is called at the end of the turn. True: write it now instead.

        Where nobody shared the last turn either, waiting for company would only cost time. None: the shard has
        joined already.
        """
        self._count += 1
        if self._count == 1:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            # Behind whatever this turn of the loop still has to read.
            self._loop.call_soon(self._end)
            if self._is_lonely:
                return True
        if write is not None:
            self._writes.append(write)
        return False

    def _end(self) -> None:
        self._is_lonely, self._count = self._count == 1, 0
        writes, self._writes = self._writes, []
        for write in writes:
            write()


def answer(entries: Entries[Any]) -> None:
    for entry in entries:
        entry.done(entry.reply, None)


def refuse(entries: Entries[Any], error: Exception) -> None:
    for entry in entries:
        entry.done(None, error)
