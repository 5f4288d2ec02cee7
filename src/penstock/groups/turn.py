"""One turn of a shard: the inputs of a deciding function and the decision it builds."""

from typing import NamedTuple

from penstock.coordinator.decision import NO_TICKET, ShardDecision, Ticket
from penstock.groups.records import GroupRecord
from penstock.groups.settings import GroupSettings


class TimerKey(NamedTuple):
    kind: str
    group_id: str = ""
    member_id: str = ""


SESSION = "session"
"""A member has not sent a heartbeat within its session timeout."""
JOIN = "join"
"""The initial delay, or the time for members to rejoin, has elapsed."""
SYNC = "sync"
"""The time for members to fetch their assignment has elapsed."""
RETENTION = "retention"
"""Time to check for expired offsets."""


class Turn:
    __slots__ = ("decision", "now", "settings", "ticket")

    def __init__(self, settings: GroupSettings, ticket: Ticket, now: int) -> None:
        self.settings = settings
        self.ticket = ticket
        self.now = now
        self.decision: ShardDecision[GroupRecord] = ShardDecision()

    def write(self, record: GroupRecord) -> None:
        self.decision.records.append(record)

    def answer(self, reply: object) -> None:
        """Reply to the request that this turn handles."""
        self.reply(self.ticket, reply)

    def reply(self, ticket: Ticket, reply: object) -> None:
        if ticket != NO_TICKET:
            self.decision.replies.append((ticket, reply))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        self.decision.timers[key] = delay_ms

    def cancel_timer(self, key: TimerKey) -> None:
        self.decision.timers[key] = None
