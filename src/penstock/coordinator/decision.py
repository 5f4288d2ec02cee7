"""What deciding gives back, in the one shape that groups and transactions share.

A shard decides and changes nothing. The runtime appends the records, then has the shard
adopt the drafts and apply the records, sets the timers, and lets replies and actions out once all
that was appended up to then is committed. A decision whose append failed is thrown away.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, NewType, Protocol, TypeVar

from penstock.storage.verification_guard import VerificationGuard

Ticket = NewType("Ticket", int)
"""Stands for one request that waits for its reply; made by the runtime."""

NO_TICKET = Ticket(0)
"""Nobody waits: the command is a timer's or the runtime's own."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class InTransaction:
    """Whose transaction records belong to. They count once it is committed."""

    producer_id: int
    producer_epoch: int
    verification: VerificationGuard | bool = False
    """What `begin_verification` gave before the transaction coordinator was asked; False if it had not to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    """A marker: what the transaction coordinator has decided about a producer's transaction."""

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
    """Also to requests that came earlier and have waited for this one."""
    timers: dict[Hashable, int | None] = field(default_factory=dict)
    """Milliseconds from now, or None to cancel. A timer that is set again moves."""
    drafts: dict[str, Any] = field(default_factory=dict)
    """What the records do not hold: the new volatile state of whatever they are about."""
    actions: list[Any] = field(default_factory=list)
    """What is to be done in the world; handed to the performer once the records are committed, and not before."""
    is_atomic: bool = True
    """Whether the records must stay in one batch. Tombstones of many keys need not."""


class SharedDecision(NamedTuple, Generic[R]):
    """What is decided of a command whose records may share a batch with those of others.

    Nothing that is decided before the batch is written may hang on its records.
    """

    records: list[R]
    reply: Any
    timer: tuple[Hashable, int] | None = None
    """One to be set at once, whatever becomes of the records; in milliseconds."""

    def alone(self, ticket: Ticket) -> ShardDecision[R]:
        """Return the same as a decision that is written on its own."""
        timers: dict[Hashable, int | None] = {} if self.timer is None else dict([self.timer])
        return ShardDecision(self.records, replies=[(ticket, self.reply)], timers=timers)


@dataclass(frozen=True, slots=True)
class Expired:
    """The command that a timer becomes when it fires."""

    timer: Any


class Performer(Protocol):
    """Carries out the actions of shards. Whatever they lead to comes back as a command."""

    def perform(self, index: int, action: Any) -> None:
        """Start an action of the shard of that partition."""
        ...

    def abandon(self, index: int) -> None:
        """Stop all that was started for the shard: it is unloaded, or loaded again and will ask anew."""
        ...
