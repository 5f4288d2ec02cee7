"""The description of a group for ConsumerGroupDescribe.

The members of a large group are described by the caller, in slices, as it iterates over them: they are values, so the
description is that of the moment of the request.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from penstock.groups.consumer.assignors import Assignment
from penstock.groups.consumer.commands import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedPartitions,
)
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.consumer.topics import Topics


def describe(group: ConsumerGroup, topics: Topics, default_assignor: str) -> DescribedConsumerGroup:
    votes = group.assignors
    return DescribedConsumerGroup(
        group_id=group.id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=max(sorted(votes), key=votes.__getitem__, default=default_assignor),
        members=_Members(tuple(group.members.values()), dict(group.targets), topics),
    )


@dataclass(frozen=True, slots=True)
class _Members:
    members: tuple[ConsumerMember, ...]
    targets: Mapping[str, Assignment]
    topics: Topics

    def __iter__(self) -> Iterator[DescribedConsumerMember]:
        for member in self.members:
            yield _describe_member(member, self.targets.get(member.id, {}), self.topics)


def _describe_member(member: ConsumerMember, target: Assignment, topics: Topics) -> DescribedConsumerMember:
    # Includes partitions that the member has yet to revoke, because it still owns them.
    owned: dict[UUID, set[int]] = {}
    for epochs in (member.assigned, member.revoking):
        for topic, partitions in epochs.items():
            owned.setdefault(topic, set()).update(partitions)
    return DescribedConsumerMember(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
        subscribed_topic_regex=member.topic_regex,
        assignment=_describe_partitions(owned, topics),
        target_assignment=_describe_partitions(target, topics),
        member_type=0 if member.classic is not None else 1,
    )


def _describe_partitions(partitions: Mapping[UUID, Iterable[int]], topics: Topics) -> tuple[DescribedPartitions, ...]:
    """Return the partitions by topic, without topics that have been deleted."""
    return tuple(
        DescribedPartitions(topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(numbers)))
        for topic_id, numbers in sorted(partitions.items())
        if (topic := topics.by_id.get(topic_id))
    )
