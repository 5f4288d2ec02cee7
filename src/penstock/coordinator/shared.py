"""Batches shared by several commands: one batch for all commands of one event loop iteration.

The costs of a sync, a system call and the encoding of a batch are then paid once. Only commands with a
`SharedDecision` share: decisions made before the batch is written must not depend on its records,
which are applied after the append as usual. A failed append has changed nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")

Done = Callable[[Any, Exception | None], None]
"""Receives the reply, or the error that prevented the command."""

RECORD_OVERHEAD = 24
"""The approximate size of a record in a batch, without its key and value."""


class SharedEntry(NamedTuple, Generic[R]):
    """The part of one command."""

    records: list[R]
    encoded: list[tuple[bytes, bytes | None]]
    done: Done
    reply: Any


Entries = list[SharedEntry[R]]


class SharedTurn:
    """One iteration of the event loop, shared by all shards of a coordinator."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._count = 0
        self._was_alone = True
        self._writes: list[Callable[[], None]] = []

    def join(self, write: Callable[[], None] | None) -> bool:
        """Register a decided command; `write` is called at the end of the turn. Returns True to write now instead.

        If the last turn had a single command, waiting for more would only add latency. `write` is None if the shard has
        already registered.
        """
        self._count += 1
        if self._count == 1:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            # Runs after everything that this iteration of the loop has yet to read.
            self._loop.call_soon(self._end)
            if self._was_alone:
                return True
        if write is not None:
            self._writes.append(write)
        return False

    def _end(self) -> None:
        self._was_alone, self._count = self._count == 1, 0
        writes, self._writes = self._writes, []
        for write in writes:
            write()


def answer(entries: Entries[Any]) -> None:
    for entry in entries:
        entry.done(entry.reply, None)


def refuse(entries: Entries[Any], error: Exception) -> None:
    for entry in entries:
        entry.done(None, error)
