"""What several commands write together: one batch for all that comes in one turn of the event loop.

A sync, a system call and the making of a batch are then paid once. Only commands of which a shard
says so share (`SharingShard`): nothing decided before the batch is written may hang on its records,
so they are applied after the append, as always, and a refused append has changed nothing.
"""

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


def answer(entries: Entries[Any]) -> None:
    for entry in entries:
        entry.done(entry.reply, None)


def refuse(entries: Entries[Any], error: Exception) -> None:
    for entry in entries:
        entry.done(None, error)
