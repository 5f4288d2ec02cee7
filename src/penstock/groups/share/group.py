"""A share group, as described by its records.

`apply` applies one record, live or replayed; nothing else changes the group. heartbeat.py decides.
Empty: no members. Stable: otherwise. Refuses, as Refusals: offset commits, the deletion of a group that has members.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from penstock.groups.consumer.assignors import NOTHING, Assignment
from penstock.groups.errors import GroupIdNotFound, NonEmptyGroup, UnknownMemberId
from penstock.groups.group import CommitCheck
from penstock.groups.records import GroupRecord, OffsetCommitValue
from penstock.groups.share.commands import SHARE_PROTOCOL_TYPE, SHARE_TYPE
from penstock.groups.share.records import (
    NamedTopic,
    NamedTopicPartitions,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    TopicPartitions,
)

FIRST_EPOCH = 1
"""The epoch of a group and of its target assignment before either has a record, as in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    id: str
    epoch: int = 0
    previous_epoch: int = -1
    """Still accepted, because the reply with the current epoch may have been lost."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Assignment = field(default_factory=lambda: NOTHING)

    def subscription_record(self, group_id: str) -> GroupRecord:
        return GroupRecord(
            ShareGroupMemberMetadataKey(group_id, self.id),
            ShareGroupMemberMetadataValue(
                rack_id=self.rack_id,
                client_id=self.client_id,
                client_host=self.client_host,
                subscribed_topic_names=tuple(sorted(self.topic_names)),
            ),
        )

    def assignment_record(self, group_id: str) -> GroupRecord:
        return GroupRecord(
            ShareGroupCurrentMemberAssignmentKey(group_id, self.id),
            ShareGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=0,
                assigned_partitions=to_records(self.assigned),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePartitions:
    """The partitions whose state is being initialized, is initialized, or is being deleted."""

    initializing: Assignment = field(default_factory=lambda: NOTHING)
    initialized: Assignment = field(default_factory=lambda: NOTHING)
    deleting: frozenset[UUID] = frozenset()

    @property
    def topic_ids(self) -> frozenset[UUID]:
        return self.deleting.union(self.initialized, self.initializing)

    def record(self, group_id: str, names: Mapping[UUID, str]) -> GroupRecord:
        return GroupRecord(
            ShareGroupStatePartitionMetadataKey(group_id),
            ShareGroupStatePartitionMetadataValue(
                initializing_topics=_named(self.initializing, names),
                initialized_topics=_named(self.initialized, names),
                deleting_topics=tuple(
                    NamedTopic(topic_id=topic, topic_name=names.get(topic, UNKNOWN_NAME))
                    for topic in sorted(self.deleting)
                ),
            ),
        )

    def began(self, partitions: Assignment) -> "StatePartitions":
        return replace(self, initializing=united(self.initializing, partitions))

    def added(self, partitions: Assignment) -> Assignment:
        """Return the partitions that follow initialized ones of their topic: the topic has grown.

        After a first initialization that failed for the last partitions only, it returns those, too.
        """
        found = {}
        for topic, indexes in partitions.items():
            known = self.initialized.get(topic)
            later = frozenset(index for index in indexes if known and index > max(known))
            if later:
                found[topic] = later
        return found

    def completed(self, partitions: Assignment) -> "StatePartitions":
        return replace(
            self,
            initializing=without(self.initializing, partitions),
            initialized=united(self.initialized, partitions),
            deleting=self.deleting - partitions.keys(),
        )

    def forgot(self, topic_ids: Iterable[UUID]) -> "StatePartitions":
        gone = frozenset(topic_ids)
        return StatePartitions(
            initializing={topic: indexes for topic, indexes in self.initializing.items() if topic not in gone},
            initialized={topic: indexes for topic, indexes in self.initialized.items() if topic not in gone},
            deleting=self.deleting - gone,
        )

    def deletes(self, topic_ids: Iterable[UUID]) -> "StatePartitions":
        gone = frozenset(topic_ids)
        return replace(self.forgot(gone), deleting=self.deleting | gone)


UNKNOWN_NAME = "<UNKNOWN>"


class ShareGroup:
    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp",
        "epoch",
        "id",
        "members",
        "metadata_hash",
        "state",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.state = StatePartitions()

    # -- the log -----------------------------------------------------------------------------

    def apply(self, record: GroupRecord) -> None:
        """Apply any record of the group except the group's own tombstone, which removes it."""
        key, value = record
        if isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            self._apply_assignment(key.member_id, value)
        elif isinstance(key, ShareGroupMemberMetadataKey):
            if value is None:
                self.members.pop(key.member_id, None)
            else:
                member = self.members.get(key.member_id) or ShareMember(id=key.member_id)
                self.members[key.member_id] = replace(
                    member,
                    rack_id=value.rack_id,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    topic_names=frozenset(value.subscribed_topic_names),
                )
        elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
            if value is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = _from_records(value.topic_partitions)
        else:
            self._apply_to_group(key, value)

    def _apply_assignment(self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            self.members[member_id] = replace(
                member or ShareMember(id=member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned=_from_records(value.assigned_partitions),
            )
        elif member is not None:
            self.members[member_id] = replace(member, epoch=-1, previous_epoch=-1, assigned=NOTHING)

    def _apply_to_group(self, key: Any, value: Any) -> None:
        if isinstance(key, ShareGroupTargetAssignmentMetadataKey):
            self.assignment_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
            self.assignment_timestamp = 0 if value is None else value.assignment_timestamp
        elif isinstance(key, ShareGroupMetadataKey):
            assert value is not None, "the tombstone of a group removes it"
            self.epoch = value.epoch
            self.metadata_hash = value.metadata_hash
        else:
            assert isinstance(key, ShareGroupStatePartitionMetadataKey), key
            value = value or ShareGroupStatePartitionMetadataValue()
            self.state = StatePartitions(
                initializing=_from_records(value.initializing_topics),
                initialized=_from_records(value.initialized_topics),
                deleting=frozenset(topic.topic_id for topic in value.deleting_topics),
            )

    def epoch_record(self, epoch: int, metadata_hash: int) -> GroupRecord:
        return GroupRecord(
            ShareGroupMetadataKey(self.id), ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        )

    def target_record(self, member_id: str, target: Assignment) -> GroupRecord:
        return GroupRecord(
            ShareGroupTargetAssignmentMemberKey(self.id, member_id),
            ShareGroupTargetAssignmentMemberValue(topic_partitions=to_records(target)),
        )

    def member_tombstones(self, member_id: str) -> list[GroupRecord]:
        return [
            GroupRecord(ShareGroupCurrentMemberAssignmentKey(self.id, member_id), None),
            GroupRecord(ShareGroupTargetAssignmentMemberKey(self.id, member_id), None),
            GroupRecord(ShareGroupMemberMetadataKey(self.id, member_id), None),
        ]

    # -- the interface of every group ----------------------------------------------------------

    @property
    def type(self) -> str:
        return SHARE_TYPE

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def protocol_type(self) -> str:
        return SHARE_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    def commit_check(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        knows_epochs: bool = True,
        is_transactional: bool = False,
    ) -> CommitCheck | None:
        raise self._no_offsets()

    def check_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        raise self._no_offsets()

    def check_offset_delete(self) -> None:
        raise self._no_offsets()

    def _no_offsets(self) -> GroupIdNotFound:
        return GroupIdNotFound(f"Group {self.id} is not a consumer group.")

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup("The group is not empty.")

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topic_names for member in self.members.values())

    def retention_start(self, committed: OffsetCommitValue) -> int | None:
        return None

    def tombstones(self) -> list[GroupRecord]:
        records = [record for member_id in self.members for record in self.member_tombstones(member_id)]
        return [
            *records,
            GroupRecord(ShareGroupTargetAssignmentMetadataKey(self.id), None),
            GroupRecord(ShareGroupStatePartitionMetadataKey(self.id), None),
            GroupRecord(ShareGroupMetadataKey(self.id), None),
        ]

    @property
    def has_state(self) -> bool:
        """Return whether the share coordinator may have state of the group."""
        return bool(self.state.topic_ids)

    def member(self, member_id: str) -> ShareMember:
        """Return the member; raise UnknownMemberId if there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.id}.")
        return member


def united(one: Assignment, other: Assignment) -> Assignment:
    return {topic: one.get(topic, frozenset()) | other.get(topic, frozenset()) for topic in one.keys() | other.keys()}


def common(one: Assignment, other: Assignment) -> Assignment:
    shared = {topic: indexes & other.get(topic, frozenset()) for topic, indexes in one.items()}
    return {topic: indexes for topic, indexes in shared.items() if indexes}


def without(one: Assignment, other: Assignment) -> Assignment:
    left = {topic: indexes - other.get(topic, frozenset()) for topic, indexes in one.items()}
    return {topic: indexes for topic, indexes in left.items() if indexes}


def to_records(assignment: Assignment) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic_id=topic, partitions=tuple(sorted(partitions)))
        for topic, partitions in sorted(assignment.items())
    )


def _named(assignment: Assignment, names: Mapping[UUID, str]) -> tuple[NamedTopicPartitions, ...]:
    return tuple(
        NamedTopicPartitions(
            topic_id=topic, topic_name=names.get(topic, UNKNOWN_NAME), partitions=tuple(sorted(partitions))
        )
        for topic, partitions in sorted(assignment.items())
    )


def _from_records(records: Iterable[TopicPartitions | NamedTopicPartitions]) -> Assignment:
    return {record.topic_id: frozenset(record.partitions) for record in records}
