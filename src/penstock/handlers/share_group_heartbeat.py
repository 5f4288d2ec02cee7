"""ShareGroupHeartbeat, version 1: a member of a share group (KIP-932) joins, stays and leaves.

A member joins with epoch 0, continues with the epoch that it received, and leaves with -1. A null field means:
unchanged. If the state of subscribed partitions is being initialized, the response to a join waits for it for a
moment, so that the member need not wait for its next heartbeat. Goes to groups/share/groups.py. Refuses:
UNSUPPORTED_VERSION unless the feature share.version is at 1; INVALID_REQUEST, GROUP_ID_NOT_FOUND,
GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, and what every coordinator refuses.
"""

from dataclasses import replace
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.share_group_heartbeat.v1.response import Assignment, ShareGroupHeartbeatResponse, TopicPartitions

from penstock.groups.share.commands import JOIN_EPOCH, ShareGroupHeartbeat, ShareGroupHeartbeatReply
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, int32, milliseconds
from penstock.handlers.support.share_requests import check_enabled
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal, TopicAuthorizationFailed

INITIALIZED_S_MAX: Final = 2.0


async def handle(context: Context, request: Request) -> ShareGroupHeartbeatResponse:
    try:
        check_enabled(context)
        _check_rights(request)
        reply = await _beat(context, _command(request))
    except (GroupAuthorizationFailed, TopicAuthorizationFailed) as refusal:
        reply = ShareGroupHeartbeatReply(error=refusal.code)
    except Refusal as refusal:
        reply = ShareGroupHeartbeatReply(error=refusal.code, error_message=refusal.message)
    assignment = None
    if reply.assignment is not None:
        assignment = Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic_id, partitions=tuple(map(int32, sorted(partitions))))
                for topic_id, partitions in sorted(reply.assignment.items())
            )
        )
    return ShareGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(reply.error),
        error_message=reply.error_message,
        member_id=reply.member_id,
        member_epoch=int32(reply.member_epoch),
        heartbeat_interval=milliseconds(reply.heartbeat_interval_ms),
        assignment=assignment,
    )


def _check_rights(request: Request) -> None:
    body: ShareGroupHeartbeatRequest = request.body
    if not request.may_on_group(Operation.READ, body.group_id):
        raise GroupAuthorizationFailed
    names = body.subscribed_topic_names or ()
    if request.rights is not None and not all(request.may_on_topic(Operation.DESCRIBE, name) for name in names):
        raise TopicAuthorizationFailed


async def _beat(context: Context, command: ShareGroupHeartbeat) -> ShareGroupHeartbeatReply:
    reply: ShareGroupHeartbeatReply = await context.groups.ask(command.group_id, command)
    if reply.error or command.member_epoch != JOIN_EPOCH or not reply.is_initializing:
        return reply
    if not await context.groups.share_state_initialized(command.group_id, INITIALIZED_S_MAX):
        return reply
    again = replace(command, member_epoch=reply.member_epoch)
    later: ShareGroupHeartbeatReply = await context.groups.ask(command.group_id, again)
    return reply if later.error else later


def _command(request: Request) -> ShareGroupHeartbeat:
    body: ShareGroupHeartbeatRequest = request.body
    names = body.subscribed_topic_names
    return ShareGroupHeartbeat(
        group_id=body.group_id,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        rack_id=body.rack_id,
        subscribed_topic_names=None if names is None else tuple(map(str, names)),
        client_id=request.header.client_id,
        client_host=request.client_host,
    )
