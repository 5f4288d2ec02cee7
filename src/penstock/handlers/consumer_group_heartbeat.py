"""ConsumerGroupHeartbeat, versions 0-1: the whole of the consumer protocol (KIP-848) in one request.

A member joins with epoch 0, goes on with the one it was given, leaves with -1, or with -2 if it is
static and means to come back. A null field means: as before. v1 brought regular expressions, and has
members make their own id. Goes to groups/consumer.py.
Refuses: UNSUPPORTED_VERSION unless the feature group.version is at 1; INVALID_REQUEST,
UNSUPPORTED_ASSIGNOR, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION, and what every coordinator refuses.
"""

from collections.abc import Mapping
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kio.schema.errors import ErrorCode

from penstock.groups.consumer_commands import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from penstock.handlers.context import Context, Request
from penstock.handlers.entities import NO_THROTTLE, in_milliseconds, int32, milliseconds
from penstock.metadata.fields import ZERO_UUID
from penstock.model.errors import Refusal, UnsupportedVersion


async def handle(context: Context, request: Request) -> ConsumerGroupHeartbeatResponse:
    body: ConsumerGroupHeartbeatRequest = request.body
    try:
        if not context.groups.serves_consumer_protocol:
            raise UnsupportedVersion
        reply: ConsumerGroupHeartbeatReply = await context.groups.ask(body.group_id, _command(context, request, body))
    except Refusal as refusal:
        reply = ConsumerGroupHeartbeatReply(error=refusal.code, error_message=refusal.message)
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(reply.error),
        error_message=reply.error_message,
        member_id=reply.member_id,
        member_epoch=int32(reply.member_epoch),
        heartbeat_interval=milliseconds(reply.heartbeat_interval_ms),
        assignment=None if reply.assignment is None else _assignment(reply.assignment),
    )


def _command(context: Context, request: Request, body: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeat:
    names = body.subscribed_topic_names
    return ConsumerGroupHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=in_milliseconds(body.rebalance_timeout),
        subscribed_topic_names=None if names is None else tuple(map(str, names)),
        subscribed_topic_regex=body.subscribed_topic_regex,
        server_assignor=body.server_assignor,
        topic_partitions=None
        if body.topic_partitions is None
        else {topic.topic_id or ZERO_UUID: frozenset(topic.partitions) for topic in body.topic_partitions},
        client_id=request.header.client_id,
        client_host=request.client_host,
        version=request.header.version,
        fresh_id=context.entropy.uuid(),
    )


def _assignment(assignment: Mapping[UUID, frozenset[int]]) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(map(int32, sorted(partitions))))
            for topic_id, partitions in assignment.items()
        )
    )
