"""A group of the consumer protocol (KIP-848), as described by its records.

`apply` applies one record, live or replayed; nothing else changes the group. State derived
from the members (owners of partitions, subscriptions) is updated with each record.
update.py and its callers decide. Empty: no members. Assigning: the group epoch is newer than
its target assignment. Reconciling: some members have not reached the target. Stable: all have.
Refuses, as Refusals: unknown members, stale epochs, the deletion of a group that has members.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from penstock.groups.consumer.assignors import NOTHING, Assignment
from penstock.groups.consumer.commands import CONSUMER_TYPE, FRESH, Volatile
from penstock.groups.consumer.commit_checks import CommitCheck, commit_check, stale
from penstock.groups.consumer.member import ConsumerMember, Epochs, member_tombstones
from penstock.groups.consumer.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from penstock.groups.errors import NonEmptyGroup, UnknownMemberId
from penstock.groups.records import GroupRecord, OffsetCommitValue
from penstock.groups.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.model.errors import UnsupportedVersion

FIRST_EPOCH = 1
"""The epoch of a group and of its target assignment before either has a record."""


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched, with the metadata version and the time of the match."""

    topics: frozenset[str]
    version: int
    timestamp: int


class ConsumerGroup:
    __slots__ = (
        "_classic_protocols",
        "assignment_epoch",
        "assignment_timestamp",
        "assignors",
        "classic_count",
        "epoch",
        "has_partition_metadata",
        "id",
        "instances",
        "members",
        "metadata_hash",
        "owners",
        "regexes",
        "resolved",
        "subscriptions",
        "targets",
        "volatile",
    )

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """The log has a record of an earlier release, which the next epoch removes with a tombstone."""
        self.instances: dict[str, str] = {}
        """The current member id of each static instance."""
        self.owners: dict[UUID, dict[int, str]] = {}
        """The owner of each partition, including partitions that it has yet to revoke."""
        self.subscriptions: Counter[frozenset[str]] = Counter()
        self.regexes: Counter[str] = Counter()
        self.assignors: Counter[str] = Counter()
        self.classic_count = 0
        self._classic_protocols: Counter[str] = Counter()
        self.volatile = FRESH

    def draft(self, volatile: Volatile) -> "ConsumerGroup":
        """Return a group with another volatile state that replaces this one and shares the rest with it."""
        draft = ConsumerGroup.__new__(ConsumerGroup)
        for name in ConsumerGroup.__slots__:
            setattr(draft, name, getattr(self, name))
        draft.volatile = volatile
        return draft

    # -- the log -----------------------------------------------------------------------------

    def apply(self, record: GroupRecord) -> None:
        """Apply any record of the group except the group's own tombstone, which removes it."""
        key, value = record
        if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            member = self.members.get(key.member_id)
            if member is not None or value is not None:
                self._update((member or ConsumerMember(id=key.member_id)).with_assignment(value))
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            if value is not None:
                member = self.members.get(key.member_id) or ConsumerMember(id=key.member_id)
                self._update(member.with_subscription(value))
            elif key.member_id in self.members:
                self._remove(key.member_id)
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            if value is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = {
                    topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
                }
        else:
            self._apply_to_group(key, value)

    def _apply_to_group(self, key: Any, value: Any) -> None:
        if isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            self.assignment_epoch = -1 if value is None else value.assignment_epoch
            self.assignment_timestamp = 0 if value is None else value.assignment_timestamp
        elif isinstance(key, ConsumerGroupMetadataKey):
            assert value is not None, "the tombstone of a group removes it"
            self.epoch = value.epoch
            self.metadata_hash = value.metadata_hash
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            if value is None:
                self.resolved.pop(key.regular_expression, None)
            else:
                self.resolved[key.regular_expression] = ResolvedRegex(
                    frozenset(value.topics), value.version, value.timestamp
                )
        else:
            assert isinstance(key, ConsumerGroupPartitionMetadataKey), key
            self.has_partition_metadata = value is not None

    def _update(self, member: ConsumerMember) -> None:
        old = self.members.get(member.id)
        if old is not None:
            self._forget(old)
        self.members[member.id] = member
        self._count(member, 1)
        for epochs in (member.assigned, member.revoking):
            for topic, partitions in epochs.items():
                self.owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member.id))
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.id

    def _remove(self, member_id: str) -> None:
        self._forget(self.members.pop(member_id))

    def _forget(self, member: ConsumerMember) -> None:
        """Remove everything that was derived from the member."""
        self._count(member, -1)
        # Another member may own the instance or a partition by now, if compaction has changed the order of records.
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.id:
            del self.instances[member.instance_id]
        for epochs in (member.assigned, member.revoking):
            for topic, partitions in epochs.items():
                owners = self.owners.get(topic, {})
                for partition in partitions:
                    if owners.get(partition) == member.id:
                        del owners[partition]
                if not owners:
                    self.owners.pop(topic, None)

    def _count(self, member: ConsumerMember, change: int) -> None:
        _add(self.subscriptions, member.topic_names, change)
        if member.topic_regex:
            _add(self.regexes, member.topic_regex, change)
        if member.server_assignor is not None:
            _add(self.assignors, member.server_assignor, change)
        if member.classic is not None:
            self.classic_count += change
            for name in {protocol.name for protocol in member.classic.supported_protocols}:
                _add(self._classic_protocols, name, change)

    def epoch_record(self, epoch: int, metadata_hash: int) -> GroupRecord:
        return GroupRecord(
            ConsumerGroupMetadataKey(self.id), ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        )

    def regex_record(self, regex: str, resolved: ResolvedRegex | None) -> GroupRecord:
        value = resolved and ConsumerGroupRegularExpressionValue(
            topics=tuple(sorted(resolved.topics)), version=resolved.version, timestamp=resolved.timestamp
        )
        return GroupRecord(ConsumerGroupRegularExpressionKey(self.id, regex), value)

    def tombstones(self) -> list[GroupRecord]:
        """Return the records that delete the group, without its offsets."""
        return self.tombstones_of(self.members)

    def tombstones_of(self, member_ids: Iterable[str]) -> list[GroupRecord]:
        """Return the same for a group whose current members are these."""
        assignments, targets, subscriptions = [], [], []
        for member_id in member_ids:
            assignment, target, subscription = member_tombstones(self.id, member_id)
            assignments.append(assignment)
            targets.append(target)
            subscriptions.append(subscription)
        return [
            *assignments,
            *targets,
            GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(self.id), None),
            *subscriptions,
            *(self.regex_record(regex, None) for regex in self.resolved),
            GroupRecord(ConsumerGroupPartitionMetadataKey(self.id), None),
            GroupRecord(ConsumerGroupMetadataKey(self.id), None),
        ]

    # -- queries -----------------------------------------------------------------------------

    @property
    def type(self) -> str:
        return CONSUMER_TYPE

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """Return the member's target assignment; a new member of a static instance inherits it."""
        if instance_id is not None:
            member_id = self.instances.get(instance_id, member_id)
        return self.targets.get(member_id, NOTHING)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics the member subscribes to by name and by regex; an unresolved regex matches none."""
        return topics_of(member, self.resolved)

    def subscribed_names(
        self, *, without: Iterable[ConsumerMember] = (), including: ConsumerMember | None = None
    ) -> set[str]:
        """Return every topic that a member subscribes to, without some members and with another one."""
        subscriptions, regexes = self.subscriptions, self.regexes
        removed = list(without)
        if removed or including is not None:
            subscriptions, regexes = subscriptions.copy(), regexes.copy()
            for member in removed:
                _add(subscriptions, member.topic_names, -1)
                _add(regexes, member.topic_regex, -1)
            if including is not None:
                _add(subscriptions, including.topic_names, 1)
                _add(regexes, including.topic_regex, 1)
        names: set[str] = set().union(*subscriptions)
        for regex, resolved in self.resolved.items():
            if regexes.get(regex):
                names |= resolved.topics
        return names

    def speaks(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a classic member with these protocols could join."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        names = list(protocols)
        if self.is_empty:
            return bool(names)
        return any(self._classic_protocols.get(name, 0) == self.classic_count for name in names)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether another member still owns a partition of the member's target."""
        for topic, partitions in self.targets.get(member.id, NOTHING).items():
            owned = member.assigned.get(topic, {})
            owners = self.owners.get(topic, {})
            if any(partition not in owned and partition in owners for partition in partitions):
                return True
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        # Called for each of the group's offsets, so the set of names is not built each time.
        return any(topic in names for names in self.subscriptions) or any(
            topic in resolved.topics for regex, resolved in self.resolved.items() if regex in self.regexes
        )

    # -- checks ------------------------------------------------------------------------------

    def commit_check(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        knows_epochs: bool = True,
        is_transactional: bool = False,
    ) -> CommitCheck | None:
        """Check a commit. The returned check, if any, must then be called for each partition."""
        if generation < 0 and not self.members:
            return None
        if is_transactional and generation == -1 and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not knows_epochs and not is_transactional and member.classic is None:
            raise UnsupportedVersion
        return commit_check(member, generation)

    def check_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise stale(member, member_epoch)

    def check_offset_delete(self) -> None:
        """Allow it at any time: the caller skips topics that members subscribe to."""

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup

    def retention_start(self, committed: OffsetCommitValue) -> int | None:
        return committed.commit_timestamp

    # -- for tests and simulators ------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return all state from the records, to compare two groups."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "volatile"}

    def validate(self) -> None:
        """Assert the invariants that hold between two commands."""
        owners: dict[UUID, dict[int, str]] = {}
        for member in self.members.values():
            for epochs in (member.assigned, member.revoking):
                for topic, partition in _each(epochs):
                    other = owners.setdefault(topic, {}).setdefault(partition, member.id)
                    assert other == member.id, f"{topic}-{partition} is owned by {other} and {member.id}"
            assert member.epoch <= self.assignment_epoch <= self.epoch, member
        assert owners == self.owners
        if self.epoch == self.assignment_epoch:
            # Otherwise only a part of a new target may be written (target.py).
            targets = [partition for target in self.targets.values() for partition in _each(target)]
            assert len(targets) == len(set(targets)), "a partition is assigned to two members"
        assert self.classic_count == sum(member.classic is not None for member in self.members.values())


def topics_of(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Return the topics the member subscribes to, if these are the matches of regular expressions."""
    matched = resolved.get(member.topic_regex) if member.topic_regex else None
    return member.topic_names | matched.topics if matched and matched.topics else member.topic_names


def _each(partitions: Epochs | Assignment) -> Iterable[tuple[UUID, int]]:
    return ((topic, partition) for topic, numbers in partitions.items() for partition in numbers)


def _add(counts: Counter[Any], key: Any, change: int) -> None:
    counts[key] += change
    if not counts[key]:
        del counts[key]
