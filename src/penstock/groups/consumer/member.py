"""A member of a consumer group, immutable, and its two records in the log.

STABLE: owns all of its target. UNREVOKED_PARTITIONS: has yet to revoke partitions, and stays at
its epoch until it has. UNRELEASED_PARTITIONS: is at the target's epoch but waits for partitions
that other members have yet to revoke. UNKNOWN: written by a later release.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from penstock.groups.consumer.assignors import Assignment
from penstock.groups.consumer.commands import LEAVE_EPOCH
from penstock.groups.consumer.records import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TargetPartitions,
)
from penstock.groups.records import GroupRecord

Epochs = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which the member received it (KIP-1251)."""

NO_PARTITIONS: Final[Epochs] = MappingProxyType({})


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    id: str
    epoch: int = 0
    previous_epoch: int = -1
    """Still accepted, because the reply with the current epoch may have been lost."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    server_assignor: str | None = None
    assigned: Epochs = field(default_factory=lambda: NO_PARTITIONS)
    revoking: Epochs = field(default_factory=lambda: NO_PARTITIONS)
    """Partitions being revoked: owned until the member no longer reports them."""
    classic: ClassicMemberMetadata | None = None
    """Set for a member of the classic protocol."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def at(self, epoch: int, state: MemberState, assigned: Epochs, revoking: Epochs) -> "ConsumerMember":
        """Return the member after a step of its reconciliation."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking)

    # -- the log -----------------------------------------------------------------------------

    def subscription_record(self, group_id: str) -> GroupRecord:
        return GroupRecord(
            ConsumerGroupMemberMetadataKey(group_id, self.id),
            ConsumerGroupMemberMetadataValue(
                instance_id=self.instance_id,
                rack_id=self.rack_id,
                client_id=self.client_id,
                client_host=self.client_host,
                subscribed_topic_names=tuple(sorted(self.topic_names)),
                subscribed_topic_regex=self.topic_regex,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                server_assignor=self.server_assignor,
                classic_member_metadata=self.classic,
            ),
        )

    def with_subscription(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def assignment_record(self, group_id: str) -> GroupRecord:
        return GroupRecord(
            ConsumerGroupCurrentMemberAssignmentKey(group_id, self.id),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=self.state,
                assigned_partitions=_to_records(self.assigned),
                partitions_pending_revocation=_to_records(self.revoking),
            ),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> "ConsumerMember":
        """Return the member after its record, or after the tombstone that precedes the member's removal."""
        if value is None:
            return replace(
                self, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NO_PARTITIONS, revoking=NO_PARTITIONS
            )
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_from_records(value.assigned_partitions, value.member_epoch),
            revoking=_from_records(value.partitions_pending_revocation, value.member_epoch),
        )


def without_epochs(epochs: Epochs) -> dict[UUID, frozenset[int]]:
    return {topic: frozenset(partitions) for topic, partitions in epochs.items()}


def with_epochs(assignment: Assignment, epoch: int) -> Epochs:
    return {topic: dict.fromkeys(sorted(partitions), epoch) for topic, partitions in assignment.items()}


def target_record(group_id: str, member_id: str, target: Assignment) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=tuple(
                TargetPartitions(topic_id=topic, partitions=tuple(sorted(partitions)))
                for topic, partitions in sorted(target.items())
            )
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Return the tombstones of the member. The order matters: its partitions are released before it is removed."""
    return [
        GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def _to_records(epochs: Epochs) -> tuple[AssignedPartitions, ...]:
    return tuple(
        AssignedPartitions(
            topic_id=topic,
            partitions=tuple(sorted(partitions)),
            assignment_epochs=tuple(epoch for _, epoch in sorted(partitions.items())),
        )
        for topic, partitions in sorted(epochs.items())
    )


def _from_records(records: Iterable[AssignedPartitions], member_epoch: int) -> Epochs:
    # Records from before KIP-1251 have no assignment epochs: use the member's, unless it has left.
    stand_in = max(member_epoch, 0)
    epochs: dict[UUID, Mapping[int, int]] = {}
    for record in records:
        given = record.assignment_epochs
        if given is None or len(given) != len(record.partitions):
            given = (stand_in,) * len(record.partitions)
        epochs[record.topic_id] = dict(zip(record.partitions, given, strict=True))
    return epochs
