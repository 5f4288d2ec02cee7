"""What the runtime asks of a shard, and of the log that keeps it.

A shard is a pure state machine: it is never told what time it is but through `now`, and
never learns whether its records were committed, because no reply leaves before they are.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

from penstock.coordinator.decision import InTransaction, ShardDecision, SharedDecision, Ticket, TransactionEnd
from penstock.storage.verification_guard import VerificationGuard

R = TypeVar("R")
Staged = TypeVar("Staged", contravariant=True)


class Shard(Protocol[R]):
    def decide(self, command: Any, *, ticket: Ticket, now: int) -> ShardDecision[R] | SharedDecision[R]:
        """Answer a command. Changes nothing; `now` is wall time in milliseconds.

        A shared decision may be written together with others. It must not depend on what they write.
        """
        ...

    def adopt(self, drafts: dict[str, Any]) -> None:
        """Take over the volatile state of a decision whose records are in the log."""
        ...

    def apply(self, record: R) -> None:
        """Take over one record, live right after its append or replayed from the log."""
        ...

    def loaded(self, now: int) -> ShardDecision[R]:
        """Say what follows from a finished replay: timers, above all."""
        ...

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """The key and value in the log; a value of None is a tombstone."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """The record, or None for a type that this release does not know. Raises Corruption."""
        ...


@runtime_checkable
class StagingShard(Protocol[Staged]):
    """A shard that keeps records apart until the marker of their transaction comes."""

    def stage(self, record: Staged, producer_id: int) -> None:
        """Take over one record of an open transaction, live or replayed."""
        ...

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Let what the producer has staged count, or drop it. A producer that has staged nothing changes nothing."""
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

    def append(self, batch: bytes | bytearray, transaction: InTransaction | None = None) -> int:
        """Write one batch, all or nothing; return the end offset behind it. A bytearray is changed. Raises Refusal."""
        ...

    def append_marker(self, end: TransactionEnd) -> int:
        """Write the control batch that ends a transaction; return the end offset behind it. Raises Refusal."""
        ...

    def begin_verification(self, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        """Note that the transaction coordinator is about to be asked; None if the transaction is open here already."""
        ...

    def when_committed(self, end: int, done: Callable[[int], None]) -> None:
        """Call `done` once: with 0 when the mark reaches `end`, or with the code of what went wrong."""
        ...

    def batches(self) -> Iterator[memoryview]:
        """Every batch from the start of the log to its end."""
        ...
