"""ConsumerGroupHeartbeat, versions 0-1: the whole consumer protocol (KIP-848) in one request.

A member joins with epoch 0, continues with the epoch that it received, and leaves with -1, or with -2 if it is
static and will return. A null field means: unchanged. v1 adds regular expressions, and members
generate their own id. Decoded by wire/hot/consumer_group_heartbeat.py; goes to groups/consumer/groups.py.
Refuses: UNSUPPORTED_VERSION unless the feature group.version is at 1; INVALID_REQUEST,
UNSUPPORTED_ASSIGNOR, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION, and what every coordinator refuses.
"""

from penstock.groups.consumer.commands import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.reply import Encoded
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal, TopicAuthorizationFailed, UnsupportedVersion
from penstock.wire.fields import ZERO_UUID
from penstock.wire.hot import consumer_group_heartbeat as wire


async def handle(context: Context, request: Request) -> Encoded:
    body: wire.ConsumerGroupHeartbeatRequest = request.body
    try:
        if not context.groups.serves_consumer_protocol:
            raise UnsupportedVersion
        if not request.may_on_group(Operation.READ, body.group_id):
            raise GroupAuthorizationFailed
        if request.rights is not None and not _may_subscribe(request, body):
            raise TopicAuthorizationFailed
        reply: ConsumerGroupHeartbeatReply = await context.groups.ask(body.group_id, _command(context, request, body))
    except (GroupAuthorizationFailed, TopicAuthorizationFailed) as refusal:
        reply = ConsumerGroupHeartbeatReply(error=refusal.code)
    except Refusal as refusal:
        reply = ConsumerGroupHeartbeatReply(error=refusal.code, error_message=refusal.message)
    return Encoded(
        (
            wire.write_response(
                request.header.correlation_id,
                reply.error,
                reply.error_message,
                member_id=reply.member_id,
                member_epoch=reply.member_epoch,
                heartbeat_interval_ms=reply.heartbeat_interval_ms,
                assignment=reply.assignment,
            ),
        )
    )


def _may_subscribe(request: Request, body: wire.ConsumerGroupHeartbeatRequest) -> bool:
    return all(request.may_on_topic(Operation.DESCRIBE, name) for name in body.topic_names or ())


def _command(context: Context, request: Request, body: wire.ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        subscribed_topic_names=body.topic_names,
        subscribed_topic_regex=body.topic_regex,
        server_assignor=body.server_assignor,
        topic_partitions=body.owned,
        client_id=request.header.client_id,
        client_host=request.client_host,
        version=request.header.version,
        # Only a member without an id receives one.
        fresh_id=ZERO_UUID if body.member_id else context.entropy.uuid(),
        describable=None if request.rights is None else request.describable,
    )
