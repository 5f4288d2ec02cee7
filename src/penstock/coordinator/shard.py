"""The interfaces of a shard and of its log, as required by the runtime.

A shard is a pure state machine: its only source of time is `now`, and
it does not know whether its records are committed, because no reply is sent before they are.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

from penstock.coordinator.decision import InTransaction, ShardDecision, SharedDecision, Ticket, TransactionEnd
from penstock.storage.verification_guard import VerificationGuard

R = TypeVar("R")
Staged = TypeVar("Staged", contravariant=True)


class Shard(Protocol[R]):
    def decide(self, command: Any, *, ticket: Ticket, now: int) -> ShardDecision[R] | SharedDecision[R]:
        """Decide about a command without changing the state; `now` is wall time in milliseconds.

        A shared decision may be written together with others. It must not depend on their records.
        """
        ...

    def adopt(self, drafts: dict[str, Any]) -> None:
        """Apply the volatile state of a decision whose records are in the log."""
        ...

    def apply(self, record: R) -> None:
        """Apply one record, after its append or during replay."""
        ...

    def loaded(self, now: int) -> ShardDecision[R]:
        """Return the decision that follows a completed replay, which sets the timers above all."""
        ...

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Return the key and value bytes; a value of None is a tombstone."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """Return the record, or None if this release does not know its type. Raises Corruption."""
        ...


@runtime_checkable
class StagingShard(Protocol[Staged]):
    """A shard that holds back records until the marker of their transaction is written."""

    def stage(self, record: Staged, producer_id: int) -> None:
        """Hold back one record of an open transaction, after its append or during replay."""
        ...

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply or drop the producer's staged records. Has no effect if there are none."""
        ...


@runtime_checkable
class PositionedShard(Protocol):
    """A shard that must know where its records are, because it deletes old ones itself."""

    position: int
    """Set before records are applied: an offset at or before that of the first of them."""


class ShardLog(Protocol):
    """One partition that this node leads."""

    @property
    def end_offset(self) -> int:
        """Return the offset of the next record."""
        ...

    @property
    def high_watermark(self) -> int:
        """Return the offset below which everything is committed."""
        ...

    def append(self, batch: bytes | bytearray, transaction: InTransaction | None = None) -> int:
        """Append one batch atomically and return the new end offset. Modifies a bytearray. Raises Refusal."""
        ...

    def append_marker(self, end: TransactionEnd) -> int:
        """Append the control batch that ends a transaction and return the new end offset. Raises Refusal."""
        ...

    def begin_verification(self, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        """Begin a verification before the transaction coordinator is asked; None if the transaction is open here."""
        ...

    def when_committed(self, end: int, done: Callable[[int], None]) -> None:
        """Call `done` once: with 0 when the high watermark reaches `end`, or with an error code."""
        ...

    def batches(self) -> Iterator[memoryview]:
        """Yield every batch from the start of the log to its end."""
        ...
