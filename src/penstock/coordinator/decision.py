"""The result of a decision, in the form that groups and transactions share.

A shard decides without changing its state. The runtime appends the records, then has the shard
adopt the drafts and apply the records, sets the timers, and releases replies and actions when
everything appended so far is committed. A decision whose append failed is discarded.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, NewType, Protocol, TypeVar

from penstock.storage.verification_guard import VerificationGuard

Ticket = NewType("Ticket", int)
"""The id of a request that waits for its reply; assigned by the runtime."""

NO_TICKET = Ticket(0)
"""No request waits for a reply: the command comes from a timer or the runtime."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class InTransaction:
    """The transaction that records belong to. They take effect when it is committed."""

    producer_id: int
    producer_epoch: int
    verification: VerificationGuard | bool = False
    """The result of `begin_verification`; False if the transaction coordinator did not have to be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    """A marker: the transaction coordinator's decision about a producer's transaction."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


@dataclass(slots=True)
class ShardDecision(Generic[R]):
    records: list[R] = field(default_factory=list)
    transaction: InTransaction | None = None
    """The records are staged: they are written as part of this transaction, in one batch."""
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    """May include replies to earlier requests that were waiting."""
    timers: dict[Hashable, int | None] = field(default_factory=dict)
    """Milliseconds from now, or None to cancel. Setting a timer again moves it."""
    drafts: dict[str, Any] = field(default_factory=dict)
    """The new volatile state, which is not in the records, by key."""
    actions: list[Any] = field(default_factory=list)
    """Side effects; passed to the performer only when the records are committed."""
    is_atomic: bool = True
    """Whether the records must be in one batch. Tombstones of many keys need not be."""


class SharedDecision(NamedTuple, Generic[R]):
    """The decision about a command whose records may share a batch with those of other commands.

    Decisions made before the batch is written must not depend on its records.
    """

    records: list[R]
    reply: Any
    timer: tuple[Hashable, int] | None = None
    """A timer to set immediately, even if the records are not written; in milliseconds."""

    def alone(self, ticket: Ticket) -> ShardDecision[R]:
        """Return the equivalent decision for a batch of its own."""
        timers: dict[Hashable, int | None] = {} if self.timer is None else dict([self.timer])
        return ShardDecision(self.records, replies=[(ticket, self.reply)], timers=timers)


@dataclass(frozen=True, slots=True)
class Expired:
    """The command that is run when a timer fires."""

    timer: Any


class Performer(Protocol):
    """The performer of shards' actions, whose results return as commands."""

    def perform(self, index: int, action: Any) -> None:
        """Start an action of the shard of that partition."""
        ...

    def abandon(self, index: int) -> None:
        """Stop all actions of the shard, because it is unloaded, or loaded again and will repeat them."""
        ...
