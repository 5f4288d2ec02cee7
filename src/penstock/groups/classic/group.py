"""A classic group: its members, its state, and its record in the log.

Empty: no members, perhaps offsets. PreparingRebalance: waits for members to join. CompletingRebalance: has
a new generation and waits for the leader's assignment. Stable: has an assignment. Dead: removed.
Only Empty and Stable are ever in the log; the other states are lost with their coordinator.
requests.py and rebalance.py decide on copies, which the shard adopts. Refuses, as Refusals: unknown members,
fenced instances, other generations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from penstock.coordinator.decision import NO_TICKET, Ticket
from penstock.groups.commands import JoinedMember, Protocols
from penstock.groups.errors import (
    FencedInstanceId,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from penstock.groups.records import (
    NO_TIMESTAMP,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetCommitValue,
)
from penstock.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics

CLASSIC = "Classic"


class State(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Used for every commit: looking a member up in its enum takes longer than the comparison.
_EMPTY, _COMPLETING = State.EMPTY, State.COMPLETING

TRANSITIONS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING, State.DEAD}),
    State.PREPARING: frozenset({State.COMPLETING, State.EMPTY, State.DEAD}),
    State.COMPLETING: frozenset({State.STABLE, State.PREPARING, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING, State.DEAD}),
    State.DEAD: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Still in its first rebalance. It may not know its id, so a long timeout is the only sign of its absence."""
    join_ticket: Ticket = NO_TICKET
    sync_ticket: Ticket = NO_TICKET

    @property
    def awaits_join(self) -> bool:
        return self.join_ticket != NO_TICKET

    def subscription(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """Return the first of the member's protocols that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)


class ClassicGroup:
    __slots__ = (
        "_awaiting_join",
        "_protocol_counts",
        "generation",
        "has_new_member",
        "id",
        "initial_delay_left_ms",
        "instances",
        "is_initial",
        "leader",
        "members",
        "metadata_size",
        "pending",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp",
        "subscribed",
        "unsynced",
    )

    def __init__(self, group_id: str, *, state_timestamp: int = NO_TIMESTAMP) -> None:
        self.id = group_id
        self.state = State.EMPTY
        self.state_timestamp = state_timestamp
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        """In the order in which they joined; the oldest becomes the leader when the leader is lost."""
        self.instances: dict[str, str] = {}
        """The current member id of each static instance."""
        self.pending: frozenset[str] = frozenset()
        """Member ids given out whose members have not joined with them yet (KIP-394)."""
        self.unsynced: frozenset[str] = frozenset()
        """Members that have not fetched their assignment in this generation."""
        self.subscribed: frozenset[str] | None = None
        """Topics that the members subscribe to; None if the protocol does not reveal them."""
        self.is_initial = False
        """The rebalance began with an empty group, so it lasts for the whole initial delay."""
        self.has_new_member = False
        self.initial_delay_left_ms = 0
        self.metadata_size = 0
        """The total size of the members' metadata."""
        self._awaiting_join = 0
        self._protocol_counts: dict[str, int] = {}

    def copy(self) -> ClassicGroup:
        """Return a draft. A shallow copy suffices, because members are immutable."""
        draft = ClassicGroup.__new__(ClassicGroup)
        for name in ClassicGroup.__slots__:
            setattr(draft, name, getattr(self, name))
        draft.members = self.members.copy()
        draft.instances = self.instances.copy()
        draft._protocol_counts = self._protocol_counts.copy()
        return draft

    # -- the log ---------------------------------------------------------------------------

    @classmethod
    def restore(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Return the group that a record describes."""
        group = cls(group_id, state_timestamp=value.current_state_timestamp)
        group.generation = value.generation
        group.protocol_type = value.protocol_type
        group.protocol_name = value.protocol
        for kept in value.members:
            timeout = kept.session_timeout if kept.rebalance_timeout < 0 else kept.rebalance_timeout
            group.add(
                ClassicMember(
                    id=kept.member_id,
                    instance_id=kept.group_instance_id,
                    client_id=kept.client_id,
                    client_host=kept.client_host,
                    rebalance_timeout_ms=timeout,
                    session_timeout_ms=kept.session_timeout,
                    protocols=((value.protocol or "", kept.subscription),),
                    assignment=kept.assignment,
                )
            )
        group.leader = value.leader
        group.state = State.STABLE if value.members else State.EMPTY
        group.update_subscribed()
        return group

    def absorb(self, value: GroupMetadataValue) -> ClassicGroup:
        """Return the group after its record was appended or replayed.

        A rebalance in progress is not in the log and continues. The record of the generation that
        waits for its assignment contains that assignment. Any other record replaces the whole state.
        """
        if self.state is State.COMPLETING and value.generation == self.generation:
            for kept in value.members:
                self.members[kept.member_id] = replace(self.members[kept.member_id], assignment=kept.assignment)
            self.move_to(State.STABLE, value.current_state_timestamp)
            return self
        if self.is_rebalancing or self.to_value() == value:
            return self
        return ClassicGroup.restore(self.id, value)

    def to_value(self) -> GroupMetadataValue:
        """Return the group's record; the group must be Stable or Empty."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=self.state_timestamp,
            members=tuple(self._to_metadata(member) for member in self.members.values()),
        )

    def _to_metadata(self, member: ClassicMember) -> MemberMetadata:
        return MemberMetadata(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.subscription(self.protocol_name),
            assignment=member.assignment,
        )

    def tombstones(self) -> list[GroupRecord]:
        return [GroupRecord(GroupMetadataKey(self.id), None)]

    # -- changes ---------------------------------------------------------------------------

    def move_to(self, state: State, now: int) -> None:
        assert state in TRANSITIONS[self.state], f"{self.id}: no transition from {self.state.value} to {state.value}"
        self.state = state
        self.state_timestamp = now

    def add(self, member: ClassicMember) -> None:
        assert member.id not in self.members
        self.members[member.id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.id
        self.pending -= {member.id}
        self._count(member, 1)
        if self.leader is None:
            self.leader = member.id

    def update(self, member: ClassicMember) -> None:
        """Replace the member with the same id."""
        self._count(self.members[member.id], -1)
        self.members[member.id] = member
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._count(member, -1)
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        self.unsynced -= {member_id}
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, member_id: str, new_id: str) -> ClassicMember:
        """Give a static member a new id, which fences the process that used the old one."""
        member = replace(self.members[member_id], id=new_id, is_new=False, join_ticket=NO_TICKET, sync_ticket=NO_TICKET)
        assert member.instance_id is not None
        self._count(self.members[member_id], -1)
        # Keeps the position, because the order of the members is their seniority.
        self.members = {
            (new_id if name == member_id else name): (member if name == member_id else other)
            for name, other in self.members.items()
        }
        self._count(member, 1)
        self.instances[member.instance_id] = new_id
        if member_id in self.unsynced:
            self.unsynced = self.unsynced - {member_id} | {new_id}
        if self.leader == member_id:
            self.leader = new_id
        return member

    def elect_leader(self) -> bool:
        """Ensure that the leader takes part in this generation; return False if no member does."""
        if self.leader is not None and self.members[self.leader].awaits_join:
            return True
        self.leader = next((member.id for member in self.members.values() if member.awaits_join), self.leader)
        return self.leader is not None and self.members[self.leader].awaits_join

    def update_subscribed(self) -> None:
        self.subscribed = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            self.subscribed = subscribed_topics(
                member.subscription(self.protocol_name) for member in self.members.values()
            )

    def _count(self, member: ClassicMember, change: int) -> None:
        self._awaiting_join += change * member.awaits_join
        # Once per member, even if the client repeats a name: a common protocol is counted once for each member.
        for name in dict(member.protocols):
            self._protocol_counts[name] = self._protocol_counts.get(name, 0) + change
        for _, metadata in member.protocols:
            self.metadata_size += change * len(metadata)

    # -- queries ---------------------------------------------------------------------------

    @property
    def type(self) -> str:
        return CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY and not self.pending

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (State.PREPARING, State.COMPLETING)

    @property
    def awaiting_join_count(self) -> int:
        return self._awaiting_join

    @property
    def all_joined(self) -> bool:
        return self._awaiting_join == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def speaks(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols could join."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        counts, size = self._protocol_counts, len(self.members)
        return protocol_type == self.protocol_type and any(counts.get(name, 0) == size for name, _ in protocols)

    def choose_protocol(self) -> str:
        """Return the protocol with most votes; members vote for the first of theirs that all support."""
        size = len(self.members)
        candidates = {name for name, count in self._protocol_counts.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return the members and their subscriptions, from which the leader computes the assignment."""
        return tuple(
            JoinedMember(
                member_id=member.id,
                instance_id=member.instance_id,
                metadata=member.subscription(self.protocol_name),
            )
            for member in self.members.values()
        )

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            current = self.instances.get(instance_id)
            if current is None:
                raise UnknownMemberId
            if current != member_id:
                raise FencedInstanceId
        if member_id not in self.members:
            raise UnknownMemberId

    def commit_check(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        knows_epochs: bool = True,
        is_transactional: bool = False,
    ) -> None:
        """Allow any member of the generation to commit any partition: the coordinator cannot read assignments."""
        if generation < 0 and self.state is _EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            if is_transactional:
                # Before TxnOffsetCommit 3 producers did not name the member; only the producer epoch fences them.
                return
            # Another process would overwrite the offsets that the members rely on.
            raise UnknownMemberId
        self.check_member(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGeneration
        if self.state is _COMPLETING and not is_transactional:
            raise RebalanceInProgress

    def check_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """Allow every fetch: anyone may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        # Only the subscriptions of the consumer protocol can be read.
        if self.state is not State.EMPTY and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise NonEmptyGroup

    def check_delete(self) -> None:
        if self.state is not State.EMPTY:
            raise NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed

    def retention_start(self, committed: OffsetCommitValue) -> int | None:
        if not self.protocol_type:
            return committed.commit_timestamp
        if self.state is State.EMPTY:
            # Records from before KIP-211 do not contain the time at which the group became empty.
            return committed.commit_timestamp if self.state_timestamp < 0 else self.state_timestamp
        if self.state is State.STABLE and self.subscribed is not None:
            return committed.commit_timestamp
        return None
