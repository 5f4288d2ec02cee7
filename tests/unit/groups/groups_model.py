"""Classic and consumer groups with an in-memory log, clock and timers; invariants are checked after every step."""

from collections.abc import Hashable
from typing import Any
from uuid import UUID

from penstock.coordinator.decision import NO_TICKET, Expired, ShardDecision, Ticket
from penstock.groups import records
from penstock.groups.classic import rebalance
from penstock.groups.classic import requests as classic
from penstock.groups.classic.group import ClassicGroup, State
from penstock.groups.commands import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from penstock.groups.consumer.assignors import Assignment
from penstock.groups.consumer.commands import (
    CONSUMER_TIMERS,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerSettings,
)
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.groups import ConsumerGroups
from penstock.groups.consumer.target import AssignmentFailed, TargetAssigned, assigning
from penstock.groups.consumer.topics import Topics, describe
from penstock.groups.group import Group
from penstock.groups.records import GroupMetadataKey, GroupRecord
from penstock.groups.settings import GroupSettings
from penstock.groups.turn import TimerKey, Turn
from penstock.metadata.image import PartitionImage, TopicImage
from penstock.model.ids import LeaderEpoch, NodeId, TopicName
from penstock.model.job import finish

GROUP = "g"
SESSION_MS = 45_000
REBALANCE_MS = 300_000
NODE = NodeId(1)


def topic_id(name: str, life: int = 0) -> UUID:
    return UUID(int=int.from_bytes(name.encode()) << 16 | life + 1)


def topics_of(version: int, counts: dict[str, int], lives: dict[str, int] | None = None) -> Topics:
    partition = PartitionImage(leader=NODE, leader_epoch=LeaderEpoch(0), replicas=(NODE,), isr=(NODE,))
    found = [
        describe(
            TopicImage(
                name=TopicName(name), id=topic_id(name, (lives or {}).get(name, 0)), partitions=(partition,) * count
            ),
            {},
        )
        for name, count in counts.items()
    ]
    return Topics(
        by_name={topic.name: topic for topic in found},
        by_id={topic.id: topic for topic in found},
        version=version,
        created_version=version,
    )


class FakeShard:
    """The groups, and the dispatch of commands and records to them."""

    def __init__(self, settings: ConsumerSettings, topics: Topics) -> None:
        self.groups: dict[str, Group] = {}
        self.with_offsets: set[str] = set()
        self.consumer = ConsumerGroups(
            self.groups, has_offsets=self.with_offsets.__contains__, settings_of=lambda _: settings, topics=topics
        )

    def decide(self, command: Any, ticket: Ticket, now: int) -> ShardDecision[GroupRecord]:
        turn = Turn(GroupSettings(initial_rebalance_delay_ms=0), ticket, now)
        if isinstance(command, ConsumerGroupHeartbeat):
            self.consumer.heartbeat(command, turn)
        elif isinstance(command, ConsumerGroupDescribe):
            self.consumer.describe(command, turn)
        elif isinstance(command, TargetAssigned):
            self.consumer.assigned(command, turn)
        elif isinstance(command, AssignmentFailed):
            self.consumer.assignment_failed(command, turn)
        elif isinstance(command, Expired):
            self._expire(command.timer, turn)
        else:
            self._classic_command(command, turn)
        return turn.decision

    def _classic_command(self, command: Any, turn: Turn) -> None:
        group = self.groups.get(command.group_id)
        consumer = group if isinstance(group, ConsumerGroup) else None
        plain = group if isinstance(group, ClassicGroup) else None
        draft = None
        if isinstance(command, JoinGroup):
            if consumer is not None and consumer.members:
                self.consumer.join(consumer, command, turn)
            else:
                draft = classic.join(plain, command, turn)
                if consumer is not None and draft is not None:
                    self.consumer.remove_empty(consumer, turn)
        elif isinstance(command, SyncGroup):
            if consumer is not None:
                self.consumer.sync(consumer, command, turn)
            else:
                draft = classic.sync(plain, command, turn)
        elif isinstance(command, Heartbeat):
            if consumer is not None:
                self.consumer.classic_heartbeat(consumer, command, turn)
            else:
                classic.heartbeat(plain, command, turn)
        elif isinstance(command, LeaveGroup):
            if consumer is not None:
                self.consumer.leave(consumer, command, turn)
            else:
                draft = classic.leave(plain, command, turn)
        if draft is not None:
            turn.decision.drafts[draft.id] = draft

    def _expire(self, timer: TimerKey, turn: Turn) -> None:
        if timer.kind in CONSUMER_TIMERS:
            self.consumer.expire(timer, turn)
            return
        group = self.groups.get(timer.group_id)
        if isinstance(group, ClassicGroup):
            draft = turn.decision.drafts[group.id] = group.copy()
            rebalance.expire(draft, timer, turn)

    def apply(self, record: GroupRecord) -> None:
        if not isinstance(record.key, GroupMetadataKey):
            self.consumer.apply(record)
            return
        group = self.groups.get(record.key.group)
        if record.value is None:
            if isinstance(group, ClassicGroup):
                del self.groups[record.key.group]
        elif isinstance(group, ClassicGroup):
            self.groups[record.key.group] = group.absorb(record.value)
        else:
            self.groups[record.key.group] = ClassicGroup.restore(record.key.group, record.value)


class GroupsModel:
    def __init__(self, counts: dict[str, int] | None = None, **settings: Any) -> None:
        self.settings = ConsumerSettings(**{"assignment_interval_ms": 0, **settings})
        self.now = 1_700_000_000_000
        self.version = 1
        self.lives: dict[str, int] = {}
        self.counts = dict(counts or {})
        self.topics = topics_of(self.version, self.counts)
        self.shard = FakeShard(self.settings, self.topics)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[Hashable, int] = {}
        self.replies: dict[Ticket, Any] = {}
        self.tickets = 0
        self.clients: list[Any] = []
        """All participating clients; those of the classic protocol compute assignments among themselves."""
        self.last: list[GroupRecord] = []
        """The records of the last command."""
        self.computed: list[list[TargetAssigned]] = []
        """Targets of large groups: the parts of each that are not yet written."""

    # -- running -----------------------------------------------------------------------------

    def send(self, command: Any) -> Ticket:
        self.tickets += 1
        self.run(command, Ticket(self.tickets))
        return Ticket(self.tickets)

    def ask(self, command: Any) -> Any:
        return self.replies.pop(self.send(command))

    def run(self, command: Any, ticket: Ticket) -> None:
        decision = self.shard.decide(command, ticket, self.now)
        again = self.shard.decide(command, ticket, self.now)
        assert (decision.records, decision.replies, decision.timers) == (
            again.records,
            again.replies,
            again.timers,
        ), "deciding changed the state"
        self.last = decision.records
        for record in decision.records:
            self.log.append(records.encode(record))
        self.shard.groups.update(decision.drafts)
        for record in decision.records:
            self.shard.apply(record)
        for key, delay_ms in decision.timers.items():
            if delay_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = self.now + delay_ms
        for answered, reply in decision.replies:
            self.replies[answered] = reply
        for action in decision.actions:
            self.computed.append(finish(assigning(action)))
        self.check()

    def write_part(self) -> None:
        """Write the next part of a large group's target, unless it is no longer wanted."""
        parts = self.computed[0]
        part = parts.pop(0)
        if not self.ask(part) or part.is_last:
            self.computed.remove(parts)

    def fail_assignment(self) -> None:
        """Give up the target that is being written."""
        part = self.computed.pop(0)[0]
        self.ask(AssignmentFailed(part.group_id, part.epoch))

    def write_parts(self) -> None:
        while self.computed:
            self.write_part()

    def settle(self) -> None:
        """Fire the timers that are due now."""
        self.advance(0)

    def advance(self, delay_ms: int) -> None:
        end = self.now + delay_ms
        while due := [(when, str(key), key) for key, when in self.timers.items() if when <= end]:
            when, _, key = min(due)
            self.now = max(self.now, when)
            del self.timers[key]
            self.run(Expired(key), NO_TICKET)
        self.now = end

    def set_topics(self, **changes: int) -> None:
        """Change partition counts; 0 deletes a topic. A topic that is created again has another id."""
        self.version += 1
        for name, count in changes.items():
            if count:
                self.counts[name] = count
            else:
                del self.counts[name]
                self.lives[name] = self.lives.get(name, 0) + 1
        self.topics = self.shard.consumer.topics = topics_of(self.version, self.counts, self.lives)

    def restart(self) -> None:
        """Lose all state that is not in the log, and replay the log."""
        self.shard = self.replay()
        self.computed.clear()
        turn = Turn(GroupSettings(), NO_TICKET, self.now)
        self.shard.consumer.loaded(turn)
        for group in self.shard.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    rebalance.keep_session(group, member, turn)
                if group.state is State.STABLE and group.leader is None:
                    rebalance.prepare(group, turn)
        self.timers = {key: self.now + delay_ms for key, delay_ms in turn.decision.timers.items() if delay_ms}

    def replay(self) -> FakeShard:
        shard = FakeShard(self.settings, self.topics)
        shard.with_offsets |= self.shard.with_offsets
        for key, value in self.log:
            record = records.decode(key, value)
            assert record is not None
            shard.apply(record)
        return shard

    def compact(self) -> None:
        """Keep the last record of each key, without tombstones."""
        latest = {key: index for index, (key, _) in enumerate(self.log)}
        self.log = [
            (key, value) for index, (key, value) in enumerate(self.log) if latest[key] == index and value is not None
        ]

    def check(self) -> None:
        """Check that a replay gives the current state, and that the state is valid."""
        replayed = self.replay().groups
        for group_id, group in self.shard.groups.items():
            if isinstance(group, ConsumerGroup):
                group.validate()
                other = replayed[group_id]
                assert isinstance(other, ConsumerGroup)
                assert other.snapshot() == group.snapshot()
        consumer_groups = {name for name, group in self.shard.groups.items() if isinstance(group, ConsumerGroup)}
        assert consumer_groups == {name for name, group in replayed.items() if isinstance(group, ConsumerGroup)}

    # -- shorthands --------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def beat(self, member_id: str, epoch: int, *, owned: Assignment | None = None, **more: Any) -> Any:
        command = ConsumerGroupHeartbeat(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, topic_partitions=owned, **more
        )
        return self.ask(command)

    def join(self, member_id: str, *names: str, **more: Any) -> Any:
        wanted: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "owned": {}}
        if "subscribed_topic_regex" not in more:
            wanted["subscribed_topic_names"] = names
        return self.beat(member_id, 0, **{**wanted, **more})
