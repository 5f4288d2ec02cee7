"""A shard with an in-memory log, clock and timers; invariants are checked after every step."""

from collections.abc import Hashable
from typing import Any, NamedTuple
from uuid import UUID

from penstock.coordinator.decision import NO_TICKET, Expired, InTransaction, ShardDecision, Ticket
from penstock.groups.agreement import differences
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.commands import (
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    SyncGroup,
    TxnOffsetCommit,
)
from penstock.groups.records import GroupRecord
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (("range", b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"),)


class Written(NamedTuple):
    key: bytes
    value: bytes | None
    producer_id: int | None
    """The producer whose transaction contains the record, if any."""


class Marker(NamedTuple):
    producer_id: int
    is_commit: bool


class Harness:
    def __init__(self, **settings: int) -> None:
        self.settings = GroupSettings(**settings)
        self.now = 1_700_000_000_000
        self.log: list[Written | Marker] = []
        self.timers: dict[Hashable, int] = {}
        self.replies: dict[Ticket, Any] = {}
        self.waiting: dict[Ticket, Any] = {}
        self.tickets = 0
        self.shard = GroupShard(self.settings)
        self.carry_out(self.shard.loaded(self.now))

    # -- running ---------------------------------------------------------------------------

    def send(self, command: Any) -> Ticket:
        """Run a command; its reply, if it has one already, is in `replies`."""
        self.tickets += 1
        ticket = Ticket(self.tickets)
        self.waiting[ticket] = command
        self.run(command, ticket)
        return ticket

    def ask(self, command: Any) -> Any:
        """Run a command that is answered immediately; return the reply."""
        return self.replies.pop(self.send(command))

    def run(self, command: Any, ticket: Ticket) -> None:
        decision = self.decide(command, ticket)
        again = self.decide(command, ticket)
        assert decision.records == again.records and decision.replies == again.replies, "deciding changed the state"
        self.carry_out(decision)

    def decide(self, command: Any, ticket: Ticket) -> ShardDecision[GroupRecord]:
        decided = self.shard.decide(command, ticket=ticket, now=self.now)
        if isinstance(decided, ShardDecision):
            return decided
        # The runtime may write it together with other commits, because earlier commits do not affect the decision.
        for record in decided.records:
            self.shard.apply(record)
        again = self.shard.decide(command, ticket=ticket, now=self.now)
        assert again == decided
        return decided.alone(ticket)

    def carry_out(self, decision: ShardDecision[GroupRecord]) -> None:
        producer_id = None if decision.transaction is None else decision.transaction.producer_id
        self.log += [Written(*self.shard.encode(record), producer_id) for record in decision.records]
        self.shard.adopt(decision.drafts)
        for record in decision.records:
            if producer_id is None:
                self.shard.apply(record)
            else:
                self.shard.stage(record, producer_id)
        for key, delay_ms in decision.timers.items():
            if delay_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = self.now + delay_ms
        for ticket, reply in decision.replies:
            assert ticket in self.waiting, "a request is answered twice"
            del self.waiting[ticket]
            self.replies[ticket] = reply
        self.check()

    def end(self, producer_id: int, *, is_commit: bool = True) -> None:
        """Write a marker, whether or not the producer has an open transaction."""
        self.log.append(Marker(producer_id, is_commit))
        self.shard.end_transaction(producer_id, is_commit=is_commit)
        self.check()

    def advance(self, delay_ms: int) -> None:
        """Let time pass; timers fire in order, each at its own time."""
        until = self.now + delay_ms
        while True:
            due = min(self.timers, key=lambda key: (self.timers[key], str(key)), default=None)
            if due is None or self.timers[due] > until:
                break
            self.now = max(self.now, self.timers.pop(due))
            self.run(Expired(due), NO_TICKET)
        self.now = until

    def replayed(self) -> GroupShard:
        shard = GroupShard(self.settings)
        for entry in self.log:
            if isinstance(entry, Marker):
                shard.end_transaction(entry.producer_id, is_commit=entry.is_commit)
                continue
            record = shard.decode(entry.key, entry.value)
            assert record is not None
            if entry.producer_id is None:
                shard.apply(record)
            else:
                shard.stage(record, entry.producer_id)
        return shard

    def restart(self) -> None:
        """Restart from the log alone; waiting requests are lost."""
        self.shard = self.replayed()
        self.timers.clear()
        self.waiting.clear()
        self.carry_out(self.shard.loaded(self.now))

    # -- invariants ------------------------------------------------------------------------

    def check(self) -> None:
        assert differences(self.shard, self.replayed()) == []
        held = set()
        for group in self.shard.groups.values():
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                held |= {member.join_ticket, member.sync_ticket} - {NO_TICKET}
            assert group.awaiting_join_count == sum(member.awaits_join for member in group.members.values())
            assert group.leader is None or group.leader in group.members
            assert (group.leader is None) == (not group.members)
            assert group.instances == {m.instance_id: m.id for m in group.members.values() if m.instance_id is not None}
            assert group.unsynced <= group.members.keys()
            assert not group.pending & group.members.keys()
        assert held == self.waiting.keys(), "the waiting requests are not those that the groups hold"

    # -- shorthand -------------------------------------------------------------------------

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        return self.group.state_name

    def join_command(self, **more: Any) -> JoinGroup:
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "fresh_id": UUID(int=self.tickets + 1),
        }
        return JoinGroup(**(fields | more))

    def join(self, member_id: str = "", **more: Any) -> Ticket:
        return self.send(self.join_command(member_id=member_id, **more))

    def begin_join(self, **more: Any) -> tuple[str, Ticket]:
        """Join as a current dynamic client does: get an id, then join with it. The reply may come later."""
        reply: JoinReply = self.replies.pop(self.join(**more))
        return reply.member_id, self.join(reply.member_id, **more)

    def sync(self, member_id: str, generation: int | None = None, **more: Any) -> Ticket:
        generation = self.group.generation if generation is None else generation
        return self.send(SyncGroup(group_id=GROUP, member_id=member_id, generation=generation, **more))

    def heartbeat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> int:
        generation = self.group.generation if generation is None else generation
        command = Heartbeat(group_id=GROUP, member_id=member_id, generation=generation, instance_id=instance_id)
        return int(self.ask(command).error)

    def leave(self, *members: LeavingMember | str) -> tuple[int, ...]:
        leaving = tuple(LeavingMember(member_id=m) if isinstance(m, str) else m for m in members)
        errors: tuple[int, ...] = self.ask(LeaveGroup(group_id=GROUP, members=leaving)).errors
        return errors

    def commit(self, offset: int, group_id: str = GROUP, **more: Any) -> int:
        offsets = (OffsetToCommit(topic="orders", partition=0, offset=offset),)
        return int(self.ask(OffsetCommit(group_id=group_id, offsets=offsets, **more)).errors[0])

    def stage(self, producer_id: int, offset: int, group_id: str = GROUP, *, topic: str = "orders", **more: Any) -> int:
        """Commit an offset in a transaction."""
        offsets = (OffsetToCommit(topic=topic, partition=0, offset=offset, topic_id=more.pop("topic_id", UUID(int=0))),)
        command = TxnOffsetCommit(group_id=group_id, transaction=InTransaction(producer_id, 0), offsets=offsets, **more)
        return int(self.ask(command).errors[0])

    def unstable(self, group_id: str = GROUP) -> set[tuple[str, int]]:
        return set(self.ask(OffsetFetch(group_id=group_id, require_stable=True)).unstable)

    def committed(self, group_id: str = GROUP, topic: str = "orders", partition: int = 0) -> int | None:
        reply = self.ask(OffsetFetch(group_id=group_id, topics=((topic, (partition,)),)))
        value = reply.topics[0][1][0][1]
        return None if value is None else int(value.offset)

    def stable(self, count: int, **more: Any) -> list[str]:
        """Form a stable group of this many members, led by the first; each is assigned its own id."""
        joined = [self.begin_join(**more) for _ in range(count)]
        self.advance(self.settings.initial_rebalance_delay_ms * (count + 1))
        ids = [member_id for member_id, _ in joined]
        for _, ticket in joined:
            assert self.replies.pop(ticket).error == 0
        for member_id in reversed(ids):
            self.sync(member_id, assignments=self.own_ids() if member_id == self.group.leader else ())
        assert self.state == "Stable"
        self.replies.clear()
        return ids

    def own_ids(self) -> tuple[tuple[str, bytes], ...]:
        return tuple((member_id, member_id.encode()) for member_id in self.group.members)
