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
from kio.static.primitive import i32

from penstock.groups.consumer.commands import (
    ConsumerGroupDescribe,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedPartitions,
)
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import (
    HIDDEN_TOPICS,
    NO_THROTTLE,
    OPERATIONS_UNKNOWN,
    group,
    int8,
    int32,
    topic_name,
)
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import GroupAuthorizationFailed, Refusal, TopicAuthorizationFailed, UnsupportedVersion


async def handle(context: Context, request: Request) -> ConsumerGroupDescribeResponse:
    body: ConsumerGroupDescribeRequest = request.body
    groups = [await _describe(context, request, group_id) for group_id in body.group_ids]
    return ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


async def _describe(context: Context, request: Request, group_id: str) -> DescribedGroup:
    found: tuple[DescribedConsumerGroup, ...]
    if not request.may_on_group(Operation.DESCRIBE, group_id):
        return _refused(group_id, GroupAuthorizationFailed.code)
    try:
        if not context.groups.serves_consumer_protocol:
            raise UnsupportedVersion
        found = await context.groups.ask(group_id, ConsumerGroupDescribe((group_id,)))
    except Refusal as refusal:
        return _refused(group_id, refusal.code)
    described = found[0]
    names: set[str] = set()
    members: list[Member] = []
    async for member in request.pace.each(described.members):
        names |= _topics_of(member)
        members.append(_member(member))
    if request.rights is not None and not all(
        request.may_on_topic(Operation.DESCRIBE, name, is_asked=False) for name in names
    ):
        # The subscriptions and assignments of its members name topics that the client may not see.
        return _refused(described.group_id, TopicAuthorizationFailed.code, HIDDEN_TOPICS)
    is_listed = request.body.include_authorized_operations and not described.error
    operations = request.operations(ResourceType.GROUP, described.group_id) if is_listed else OPERATIONS_UNKNOWN
    return _described_group(described, tuple(members), operations)


def _topics_of(member: DescribedConsumerMember) -> set[str]:
    topics = (*member.assignment, *member.target_assignment)
    return {*member.subscribed_topic_names, *(topic.topic_name for topic in topics)}


def _refused(group_id: str, error: int, message: str | None = None) -> DescribedGroup:
    found = DescribedConsumerGroup(error=error, error_message=message, group_id=group_id)
    return _described_group(found, (), OPERATIONS_UNKNOWN)


def _described_group(found: DescribedConsumerGroup, members: tuple[Member, ...], operations: i32) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode(found.error),
        error_message=found.error_message,
        group_id=group(found.group_id),
        group_state=found.group_state,
        group_epoch=int32(found.group_epoch),
        assignment_epoch=int32(found.assignment_epoch),
        assignor_name=found.assignor_name,
        members=members,
        authorized_operations=operations,
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
