"""ShareGroupDescribe, version 1: share groups, their members and assignments.

Goes to groups/share/groups.py. Refuses: UNSUPPORTED_VERSION unless the feature share.version is at 1; per group
INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, and what every coordinator refuses.
"""

from kio.schema.errors import ErrorCode
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_describe.v1.response import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from kio.static.primitive import i32

from penstock.groups.share.commands import DescribedShareGroup, DescribedShareMember, ShareGroupDescribe
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import (
    HIDDEN_TOPICS,
    NO_THROTTLE,
    OPERATIONS_UNKNOWN,
    group,
    int32,
    topic_name,
)
from penstock.handlers.support.share_requests import check_enabled
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import GroupAuthorizationFailed, Refusal, TopicAuthorizationFailed


async def handle(context: Context, request: Request) -> ShareGroupDescribeResponse:
    body: ShareGroupDescribeRequest = request.body
    found = [await _describe(context, request, group_id) for group_id in body.group_ids]
    return ShareGroupDescribeResponse(
        throttle_time=NO_THROTTLE,
        groups=tuple(
            _described_group(
                each,
                request.operations(ResourceType.GROUP, each.group_id)
                if body.include_authorized_operations and not each.error
                else OPERATIONS_UNKNOWN,
            )
            for each in found
        ),
    )


async def _describe(context: Context, request: Request, group_id: str) -> DescribedShareGroup:
    found: tuple[DescribedShareGroup, ...]
    if not request.may_on_group(Operation.DESCRIBE, group_id):
        return DescribedShareGroup(error=GroupAuthorizationFailed.code, group_id=group_id)
    try:
        check_enabled(context)
        found = await context.groups.ask(group_id, ShareGroupDescribe((group_id,)))
    except Refusal as refusal:
        return DescribedShareGroup(error=refusal.code, group_id=group_id)
    described = found[0]
    if request.rights is None or all(
        request.may_on_topic(Operation.DESCRIBE, name, is_asked=False) for name in _topics_of(described)
    ):
        return described
    return DescribedShareGroup(
        error=TopicAuthorizationFailed.code, error_message=HIDDEN_TOPICS, group_id=described.group_id
    )


def _topics_of(group: DescribedShareGroup) -> set[str]:
    names: set[str] = set()
    for member in group.members:
        names.update(member.subscribed_topic_names)
        names.update(topic.topic_name for topic in member.assignment)
    return names


def _described_group(found: DescribedShareGroup, operations: i32) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode(found.error),
        error_message=found.error_message,
        group_id=group(found.group_id),
        group_state=found.group_state,
        group_epoch=int32(found.group_epoch),
        assignment_epoch=int32(found.assignment_epoch),
        assignor_name=found.assignor_name,
        members=tuple(map(_member, found.members)),
        authorized_operations=operations,
    )


def _member(member: DescribedShareMember) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=int32(member.member_epoch),
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(map(topic_name, member.subscribed_topic_names)),
        assignment=Assignment(
            topic_partitions=tuple(
                TopicPartitions(
                    topic_id=topic.topic_id,
                    topic_name=topic_name(topic.topic_name),
                    partitions=tuple(map(int32, topic.partitions)),
                )
                for topic in member.assignment
            )
        ),
    )
