"""AlterShareGroupOffsets, version 0: new start offsets for an empty share group, which is created if necessary.

Begins a new state epoch, so that writes of the leaders that served the group before are rejected. Goes to
groups/share/groups.py and shares/state_client.py. Refuses: UNSUPPORTED_VERSION unless the feature share.version is at
1, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND; per partition UNKNOWN_TOPIC_OR_PARTITION, and what every coordinator refuses.
"""

from kio.schema.alter_share_group_offsets.v0.request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from kio.schema.alter_share_group_offsets.v0.response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode

from penstock.groups.share.commands import AlterShareOffsets, ShareOffsetsAltered, ShareStateReply
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, ZERO_UUID, int32
from penstock.handlers.support.share_requests import check_enabled
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal, TopicAuthorizationFailed, UnknownTopicOrPartition
from penstock.model.ids import TopicName
from penstock.shares.commands import InitializeState
from penstock.shares.states import SharePartitionKey


async def handle(context: Context, request: Request) -> AlterShareGroupOffsetsResponse:
    body: AlterShareGroupOffsetsRequest = request.body
    try:
        check_enabled(context)
        if not request.may_on_group(Operation.READ, body.group_id):
            raise GroupAuthorizationFailed
        denied = [topic for topic in body.topics if not request.may_on_topic(Operation.READ, topic.topic_name)]
        if denied and len(denied) == len(body.topics):
            # The group must not begin a new state epoch for a client that may change nothing in it.
            return _response(tuple(map(_denied, denied)))
        reply: ShareStateReply = await context.groups.ask(body.group_id, AlterShareOffsets(body.group_id))
    except Refusal as refusal:
        return _response((), ErrorCode(refusal.code), refusal.message)
    if reply.error:
        return _response((), ErrorCode(reply.error), reply.error_message)
    # Unknown topics come first, as in Kafka; but the place of a denied topic must not show whether it exists.
    allowed = [topic for topic in body.topics if topic not in denied]
    allowed.sort(key=lambda topic: TopicName(topic.topic_name) in context.quorum.image.topics)
    altered = [await _alter(context, body.group_id, reply.state_epoch, topic) for topic in allowed]
    return _response((*map(_denied, denied), *altered))


def _denied(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    refusal = TopicAuthorizationFailed()
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID,
        partitions=tuple(_result(each.partition_index, refusal.code, refusal.message) for each in topic.partitions),
    )


async def _alter(
    context: Context, group_id: str, state_epoch: int, topic: AlterShareGroupOffsetsRequestTopic
) -> AlterShareGroupOffsetsResponseTopic:
    found = context.quorum.image.topics.get(TopicName(topic.topic_name))
    results = []
    for partition in topic.partitions:
        index = partition.partition_index
        if found is None or not 0 <= index < len(found.partitions):
            results.append(_result(index, UnknownTopicOrPartition.code, UnknownTopicOrPartition.meaning))
            continue
        key = SharePartitionKey(group_id, found.id, index)
        reply = await context.shares.state.ask(InitializeState(key, state_epoch, partition.start_offset))
        error, message = reply.error, reply.message
        if not error:
            error, message = await _recorded(context, key)
        results.append(_result(index, error, message))
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, topic_id=ZERO_UUID if found is None else found.id, partitions=tuple(results)
    )


async def _recorded(context: Context, key: SharePartitionKey) -> tuple[int, str | None]:
    command = ShareOffsetsAltered(key.group, {key.topic_id: frozenset({key.partition})})
    try:
        await context.groups.ask(key.group, command)
    except Refusal as refusal:
        return refusal.code, refusal.message
    return 0, None


def _result(index: int, error: int, message: str | None) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=int32(index), error_code=ErrorCode(error), error_message=message
    )


def _response(
    topics: tuple[AlterShareGroupOffsetsResponseTopic, ...], error: ErrorCode = NO_ERROR, message: str | None = None
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message, responses=topics
    )
