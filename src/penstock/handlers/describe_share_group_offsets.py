"""DescribeShareGroupOffsets, versions 0-1: the start offset of each share partition; v1 adds the lag (KIP-1226).

A group without named topics is answered with all partitions that have state. A partition without state, or of an
unknown topic, has start offset -1, and an unknown group has no topics, which is not an error. Goes to
groups/share/groups.py and shares/state_client.py. Refuses, per group: UNSUPPORTED_VERSION unless the feature
share.version is at 1, and what every coordinator refuses.
"""

from collections.abc import Iterable
from uuid import UUID

from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kio.schema.describe_share_group_offsets.v1.response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode

from penstock.groups.errors import GroupIdNotFound
from penstock.groups.share.commands import ReadSharePartitions, ShareStateReply
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, ZERO_UUID, group, int32, int64, topic_name
from penstock.handlers.support.share_requests import check_enabled, message_of
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal, TopicAuthorizationFailed
from penstock.model.ids import TopicName
from penstock.shares.commands import ReadSummary
from penstock.shares.states import UNINITIALIZED, SharePartitionKey


async def handle(context: Context, request: Request) -> DescribeShareGroupOffsetsResponse:
    body: DescribeShareGroupOffsetsRequest = request.body
    return DescribeShareGroupOffsetsResponse(
        throttle_time=NO_THROTTLE, groups=tuple([await _describe(context, request, each) for each in body.groups])
    )


async def _describe(
    context: Context, request: Request, requested: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    error, message = NO_ERROR, None
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    try:
        check_enabled(context)
        if not request.may_on_group(Operation.DESCRIBE, requested.group_id):
            raise GroupAuthorizationFailed
        for name, topic_id, partitions in await _partitions(context, requested):
            if not request.may_on_topic(Operation.DESCRIBE, name, is_asked=requested.topics is not None):
                if requested.topics is not None:
                    topics.append(_denied(name, partitions))
                continue
            found = [await _partition(context, requested.group_id, topic_id, index) for index in partitions]
            topics.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=topic_name(name), topic_id=topic_id, partitions=tuple(found)
                )
            )
    except Refusal as refusal:
        error, message, topics = ErrorCode(refusal.code), message_of(refusal), []
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group(requested.group_id), topics=tuple(topics), error_code=error, error_message=message
    )


def _denied(name: str, partitions: Iterable[int]) -> DescribeShareGroupOffsetsResponseTopic:
    """Return the result of a topic that the client may not see, whether it exists or not."""
    refusal = TopicAuthorizationFailed()
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic_name(name),
        topic_id=ZERO_UUID,
        partitions=tuple(
            _answer(index, UNINITIALIZED, error=ErrorCode(refusal.code), message=refusal.message)
            for index in partitions
        ),
    )


async def _partitions(
    context: Context, requested: DescribeShareGroupOffsetsRequestGroup
) -> list[tuple[str, UUID, Iterable[int]]]:
    """Return the requested partitions by name and id of their topic."""
    image = context.quorum.image
    if requested.topics is not None:
        named = [(topic, image.topics.get(TopicName(topic.topic_name))) for topic in requested.topics]
        return [
            (topic.topic_name, ZERO_UUID if found is None else found.id, topic.partitions) for topic, found in named
        ]
    reply: ShareStateReply = await context.groups.ask(requested.group_id, ReadSharePartitions(requested.group_id))
    if reply.error == GroupIdNotFound.code:
        return []
    return [
        (image.topics_by_id[topic_id].name, topic_id, sorted(indexes))
        for topic_id, indexes in sorted(reply.partitions.items())
        if topic_id in image.topics_by_id
    ]


async def _partition(
    context: Context, group_id: str, topic_id: UUID, index: int
) -> DescribeShareGroupOffsetsResponsePartition:
    if topic_id == ZERO_UUID:
        return _answer(index, UNINITIALIZED)
    reply = await context.shares.state.ask(ReadSummary(SharePartitionKey(group_id, topic_id, index)))
    if reply.error:
        return _answer(index, UNINITIALIZED, error=ErrorCode(reply.error), message=reply.message)
    lag = UNINITIALIZED
    if reply.start_offset != UNINITIALIZED and reply.complete_count != UNINITIALIZED:
        end = await context.shares.end_offsets.find(topic_id, index)
        if end is not None:
            lag = max(0, end - reply.start_offset - reply.complete_count)
    return _answer(index, reply.start_offset, leader_epoch=reply.leader_epoch, lag=lag)


def _answer(
    index: int,
    start_offset: int,
    *,
    leader_epoch: int = 0,
    lag: int = UNINITIALIZED,
    error: ErrorCode = NO_ERROR,
    message: str | None = None,
) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=int32(index),
        start_offset=int64(start_offset),
        leader_epoch=int32(leader_epoch),
        lag=int64(lag),
        error_code=error,
        error_message=message,
    )
