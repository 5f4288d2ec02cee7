"""Minimal but correct clients of both protocols: they revoke a partition before they report it as revoked."""

from struct import pack
from typing import Any
from uuid import UUID

from penstock.coordinator.decision import Ticket
from penstock.groups.commands import Heartbeat, JoinGroup, JoinReply, LeaveGroup, LeavingMember, SyncGroup, SyncReply
from penstock.groups.consumer.embedded_protocol import read_assignment, read_subscription, write_assignment
from penstock.groups.consumer.group import ConsumerGroup
from tests.unit.groups.groups_model import GROUP, GroupsModel

TopicPartition = tuple[str, int]
"""Topic and partition index."""

UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79


class Client:
    def __init__(self, name: str, topics: frozenset[str], instance_id: str | None) -> None:
        self.name = name
        self.topics = topics
        self.instance_id = instance_id
        self.member_id = name
        self.epoch = 0
        self.owned: frozenset[TopicPartition] = frozenset()

    def step(self, world: GroupsModel, *, is_lost: bool = False, is_slow: bool = False) -> None:
        raise NotImplementedError

    def leave(self, world: GroupsModel) -> None:
        raise NotImplementedError

    def wanted(self, world: GroupsModel) -> frozenset[str]:
        return self.topics & world.counts.keys()


class ConsumerClient(Client):
    """A client of the consumer protocol. A slow one delays the revocation of partitions."""

    def __init__(self, name: str, topics: frozenset[str], instance_id: str | None, regex: str = "") -> None:
        super().__init__(name, topics, instance_id)
        self.regex = regex
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.has_news = True

    def wanted(self, world: GroupsModel) -> frozenset[str]:
        matched = {name for name in world.counts if self.regex and name.startswith(self.regex)}
        return super().wanted(world) | matched

    def subscribe(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self.has_news = True

    def step(self, world: GroupsModel, *, is_lost: bool = False, is_slow: bool = False) -> None:
        if not is_slow:
            self.owned = self.assigned
        fields: dict[str, Any] = {"instance_id": self.instance_id}
        if self.has_news or self.epoch == 0:
            fields["subscribed_topic_names"] = tuple(sorted(self.topics))
            fields["subscribed_topic_regex"] = f"{self.regex}.*" if self.regex else ""
            fields["rebalance_timeout_ms"] = 20_000
        by_id: dict[UUID, set[int]] = {}
        for topic, partition in self.owned:
            # Partitions of a deleted topic were lost with it; the request cannot name them.
            if topic in world.topics.by_name:
                by_id.setdefault(world.topics.by_name[topic].id, set()).add(partition)
        owned = {topic: frozenset(partitions) for topic, partitions in by_id.items()}
        reply = world.beat(self.member_id, self.epoch, owned=owned, **fields)
        if is_lost:
            # The client does not know what it missed, so it sends all fields and receives a full reply.
            self.has_news = True
            return
        if reply.error:
            self.owned = self.assigned = frozenset()
            self.epoch = 0
            return
        self.has_news = False
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            by_topic = world.topics.by_id
            self.assigned = frozenset(
                (by_topic[topic].name, partition)
                for topic, partitions in reply.assignment.items()
                if topic in by_topic
                for partition in partitions
            )
            # Revocations come first: new partitions are taken when nothing is left to revoke.
            if self.owned <= self.assigned:
                self.owned = self.assigned

    def leave(self, world: GroupsModel) -> None:
        world.beat(self.member_id, -2 if self.instance_id else -1, instance_id=self.instance_id)
        self.owned = self.assigned = frozenset()
        self.epoch = 0


class ClassicClient(Client):
    """A client of the classic protocol with cooperative rebalancing: keeps its partitions until they are revoked."""

    def __init__(self, name: str, topics: frozenset[str], instance_id: str | None) -> None:
        super().__init__(name, topics, instance_id)
        self.member_id = ""
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None
        self.must_join = True
        self.tries = 0

    def forget_requests(self) -> None:
        """Forget the requests that were lost with the coordinator."""
        if self.join_ticket is not None or self.sync_ticket is not None:
            self.must_join = True
        self.join_ticket = self.sync_ticket = None

    def step(self, world: GroupsModel, *, is_lost: bool = False, is_slow: bool = False) -> None:
        if self.join_ticket is not None:
            self._poll_join(world)
        elif self.sync_ticket is not None:
            self._poll_sync(world)
        elif self.must_join:
            self._join(world)
        elif not is_slow:
            self._beat(world)

    def leave(self, world: GroupsModel) -> None:
        if self.member_id:
            leaving = LeavingMember(member_id=self.member_id, instance_id=self.instance_id)
            world.send(LeaveGroup(group_id=GROUP, members=(leaving,)))
        self._start_over()

    def _start_over(self) -> None:
        self.member_id = ""
        self.epoch = 0
        self.owned = frozenset()
        self.join_ticket = self.sync_ticket = None
        self.must_join = True

    def _join(self, world: GroupsModel) -> None:
        self.tries += 1
        self.join_ticket = world.send(
            JoinGroup(
                group_id=GROUP,
                member_id=self.member_id,
                instance_id=self.instance_id,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
                protocol_type="consumer",
                protocols=(("coop", self._subscription()),),
                fresh_id=UUID(int=int.from_bytes(self.name.encode()) << 16 | self.tries),
            )
        )
        self._poll_join(world)

    def _subscription(self) -> bytes:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned):
            by_topic.setdefault(topic, []).append(partition)
        out = pack(">hi", 1, len(self.topics)) + b"".join(map(_text, sorted(self.topics))) + pack(">i", -1)
        out += pack(">i", len(by_topic))
        for topic, partitions in by_topic.items():
            out += _text(topic) + pack(">i", len(partitions)) + b"".join(pack(">i", each) for each in partitions)
        return out

    def _poll_join(self, world: GroupsModel) -> None:
        assert self.join_ticket is not None
        reply = world.replies.pop(self.join_ticket, None)
        if reply is None:
            return
        self.join_ticket = None
        assert isinstance(reply, JoinReply)
        if reply.error == MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error == REBALANCE_IN_PROGRESS:
            self.must_join = True
        elif reply.error:
            self._start_over()
        else:
            self.member_id = reply.member_id
            self.epoch = reply.generation
            self.must_join = False
            self._sync(world, reply)

    def _sync(self, world: GroupsModel, joined: JoinReply) -> None:
        assignments: tuple[tuple[str, bytes], ...] = ()
        if joined.leader == self.member_id and not joined.skip_assignment:
            assignments = self._assign(world, joined)
        self.sync_ticket = world.send(
            SyncGroup(
                group_id=GROUP,
                member_id=self.member_id,
                instance_id=self.instance_id,
                generation=self.epoch,
                protocol_type="consumer",
                protocol_name="coop",
                assignments=assignments,
            )
        )
        self._poll_sync(world)

    def _assign(self, world: GroupsModel, joined: JoinReply) -> tuple[tuple[str, bytes], ...]:
        """Let each member keep what it owns, once, and give the rest to the members with the fewest partitions."""
        wants = {member.member_id: read_subscription(member.metadata) for member in joined.members}
        given: dict[str, set[TopicPartition]] = {member_id: set() for member_id in wants}
        taken: set[TopicPartition] = set()
        for member_id, subscription in wants.items():
            for topic, partitions in subscription.owned.items():
                if topic in subscription.topics and topic in world.counts:
                    kept = {(topic, each) for each in partitions if each < world.counts[topic]} - taken
                    given[member_id] |= kept
                    taken |= kept
        for topic, count in world.counts.items():
            for partition in range(count):
                takers = [member_id for member_id, wanted in wants.items() if topic in wanted.topics]
                if takers and (topic, partition) not in taken:
                    given[min(takers, key=lambda taker: len(given[taker]))].add((topic, partition))
        return tuple(
            (member_id, write_assignment(_by_topic(partitions), like=self._subscription()))
            for member_id, partitions in given.items()
        )

    def _poll_sync(self, world: GroupsModel) -> None:
        assert self.sync_ticket is not None
        reply = world.replies.pop(self.sync_ticket, None)
        if reply is None:
            return
        self.sync_ticket = None
        assert isinstance(reply, SyncReply)
        if reply.error == REBALANCE_IN_PROGRESS:
            self.must_join = True
        elif reply.error:
            self._start_over()
        else:
            assigned = read_assignment(reply.assignment)
            self.owned = frozenset((topic, each) for topic, numbers in assigned.items() for each in numbers)

    def _beat(self, world: GroupsModel) -> None:
        reply = world.ask(
            Heartbeat(group_id=GROUP, member_id=self.member_id, instance_id=self.instance_id, generation=self.epoch)
        )
        if reply.error == REBALANCE_IN_PROGRESS or (not reply.error and self._has_topic_news(world)):
            self.must_join = True
        elif reply.error:
            self._start_over()

    def _has_topic_news(self, world: GroupsModel) -> bool:
        """Return whether topics have changed: the leader of a classic group watches them and then rejoins."""
        if isinstance(world.shard.groups.get(GROUP), ConsumerGroup):
            return False
        return any(topic not in world.counts or each >= world.counts[topic] for topic, each in self.owned) or any(
            self.topics & {name} and not self._is_covered(world, name) for name in world.counts
        )

    def _is_covered(self, world: GroupsModel, name: str) -> bool:
        # Whether every partition of the topic has an owner; a real leader remembers the counts of its last assignment.
        owned = {partition for client in world.clients for partition in client.owned}
        return all((name, each) in owned for each in range(world.counts[name]))


def _text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


def _by_topic(partitions: set[TopicPartition]) -> dict[str, frozenset[int]]:
    topics = {topic for topic, _ in partitions}
    return {topic: frozenset(number for name, number in partitions if name == topic) for topic in topics}
