"""What the runtime asks of a shard, and of the log that keeps it.

A shard is a pure state machine: it is never told what time it is but through `now`, and
never learns whether its records were committed, because no reply leaves before they are.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from penstock.coordinator.decision import Decision, Ticket

R = TypeVar("R")


class Shard(Protocol[R]):
    def decide(self, command: Any, *, ticket: Ticket, now: int) -> Decision[R]:
        """Answer a command. Changes nothing; `now` is wall time in milliseconds."""
        ...

    def adopt(self, drafts: dict[str, Any]) -> None:
        """Take over the volatile state of a decision whose records are in the log."""
        ...

    def apply(self, record: R) -> None:
        """Take over one record, live right after its append or replayed from the log."""
        ...

    def loaded(self, now: int) -> Decision[R]:
        """Say what follows from a finished replay: timers, above all."""
        ...

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """The key and value in the log; a value of None is a tombstone."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """The record, or None for a type that this release does not know. Raises Corruption."""
        ...


class ShardLog(Protocol):
    """One partition that this node leads."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have."""
        ...

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        ...

    def append(self, batch: bytes) -> int:
        """Write one batch, all or nothing; return the end offset behind it. Raises Refusal."""
        ...

    def when_committed(self, end: int, done: Callable[[int], None]) -> None:
        """Call `done` once: with 0 when the mark reaches `end`, or with the code of what went wrong."""
        ...

    def batches(self) -> Iterator[memoryview]:
        """Every batch from the start of the log to its end."""
        ...
