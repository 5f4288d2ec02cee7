"""One turn of a shard: the inputs of a deciding function and the decision it builds."""

from dataclasses import replace
from typing import NamedTuple

from penstock.coordinator.decision import NO_TICKET, ShardDecision, Ticket
from penstock.transactions.commands import Markers
from penstock.transactions.records import NO_EPOCH, NO_PRODUCER_ID, TransactionRecord, TransactionValue
from penstock.transactions.settings import VERSION_FLEXIBLE, TransactionSettings
from penstock.transactions.states import State, is_legal

EPOCH_MAX = 32_767
"""Never given to a client, so that every client epoch can still be fenced."""


def is_exhausted(epoch: int) -> bool:
    """Return whether the next epoch cannot be given to a client."""
    return epoch >= EPOCH_MAX - 1


class Volatile(NamedTuple):
    """The state of a transactional id that is not in its record. A restart loses it."""

    last_epoch: int = NO_EPOCH
    """The previous epoch, if the same producer had it; identifies a retry of InitProducerId."""
    markers: Markers | None = None
    """The markers being written."""


class TimerKey(NamedTuple):
    kind: str
    transactional_id: str = ""


TIMEOUT = "timeout"
"""The transaction may have timed out."""
EXPIRATION = "expiration"
"""Time to check for expired transactional ids."""


class Turn:
    __slots__ = ("decision", "now", "settings", "ticket")

    def __init__(self, settings: TransactionSettings, ticket: Ticket, now: int) -> None:
        self.settings = settings
        self.ticket = ticket
        self.now = now
        self.decision: ShardDecision[TransactionRecord] = ShardDecision()

    def move(
        self, transactional_id: str, before: State | None, after: TransactionValue, volatile: Volatile
    ) -> TransactionValue:
        """Write the id's new state."""
        assert is_legal(before, after.state), f"{transactional_id} cannot go from {before!r} to {after.state!r}"
        assert after.producer_id >= 0 and 0 <= after.epoch <= EPOCH_MAX
        if self.settings.version < VERSION_FLEXIBLE:
            # The plain encoding lacks these fields, and the state in memory must equal that of a replay.
            after = replace(
                after, previous_producer_id=NO_PRODUCER_ID, next_producer_id=NO_PRODUCER_ID, client_version=0
            )
        self.decision.records.append(TransactionRecord(transactional_id, after))
        self.decision.drafts[transactional_id] = volatile
        return after

    def answer(self, reply: object) -> None:
        if self.ticket != NO_TICKET:
            self.decision.replies.append((self.ticket, reply))

    def act(self, action: object) -> None:
        """Request an action, which is performed when the records are committed."""
        self.decision.actions.append(action)

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        self.decision.timers[key] = delay_ms
