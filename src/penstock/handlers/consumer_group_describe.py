"""ConsumerGroupDescribe, versions 0-1: groups of the consumer protocol, their members and assignments.

v1 adds the protocol of each member. Goes to groups/consumer/describe.py.
Refuses: UNSUPPORTED_VERSION unless the feature group.version is at 1; per group INVALID_GROUP_ID,
GROUP_ID_NOT_FOUND, and what every coordinator refuses.
"""

from collections.abc import Iterable

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kio.schema.errors import ErrorCode

from penstock.groups.consumer.commands import (
    ConsumerGroupDescribe,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedPartitions,
)
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import (
    GROUP_OPERATIONS,
    NO_ERROR,
    NO_THROTTLE,
    OPERATIONS_UNKNOWN,
    group,
    int8,
    int32,
    topic_name,
)
from penstock.model.errors import Refusal, UnsupportedVersion


async def handle(context: Context, request: Request) -> ConsumerGroupDescribeResponse:
    body: ConsumerGroupDescribeRequest = request.body
    found = [await _describe(context, group_id) for group_id in body.group_ids]
    return ConsumerGroupDescribeResponse(
        throttle_time=NO_THROTTLE,
        groups=tuple(_described_group(each, with_operations=body.include_authorized_operations) for each in found),
    )


async def _describe(context: Context, group_id: str) -> DescribedConsumerGroup:
    found: tuple[DescribedConsumerGroup, ...]
    try:
        if not context.groups.serves_consumer_protocol:
            raise UnsupportedVersion
        found = await context.groups.ask(group_id, ConsumerGroupDescribe((group_id,)))
    except Refusal as refusal:
        return DescribedConsumerGroup(error=refusal.code, group_id=group_id)
    return found[0]


def _described_group(found: DescribedConsumerGroup, *, with_operations: bool) -> DescribedGroup:
    error = ErrorCode(found.error)
    return DescribedGroup(
        error_code=error,
        error_message=found.error_message,
        group_id=group(found.group_id),
        group_state=found.group_state,
        group_epoch=int32(found.group_epoch),
        assignment_epoch=int32(found.assignment_epoch),
        assignor_name=found.assignor_name,
        members=tuple(map(_member, found.members)),
        authorized_operations=GROUP_OPERATIONS if with_operations and error is NO_ERROR else OPERATIONS_UNKNOWN,
    )


def _member(member: DescribedConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=int32(member.member_epoch),
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(map(topic_name, member.subscribed_topic_names)),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target_assignment),
        member_type=int8(member.member_type),
    )


def _assignment(partitions: Iterable[DescribedPartitions]) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(
                topic_id=topic.topic_id,
                topic_name=topic_name(topic.topic_name),
                partitions=tuple(map(int32, topic.partitions)),
            )
            for topic in partitions
        )
    )
