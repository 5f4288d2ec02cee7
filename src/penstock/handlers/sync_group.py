"""SyncGroup, versions 0-5: the leader sends the assignment, and every member gets its part of it.

A follower is answered when the leader's assignment is in the log. v3 adds static members, v5 the
protocol type and name, which are then required. Goes to groups/classic/requests.py.
Refuses: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID,
INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS, and what every coordinator refuses.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.sync_group.v5.response import SyncGroupResponse

from penstock.groups.commands import SyncGroup, SyncReply
from penstock.groups.errors import InconsistentGroupProtocol
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal

PROTOCOL_REQUIRED_FROM: Final = 5


async def handle(context: Context, request: Request) -> SyncGroupResponse:
    body: SyncGroupRequest = request.body
    try:
        if not request.may_on_group(Operation.READ, body.group_id):
            raise GroupAuthorizationFailed
        reply = await _sync(context, request.header.version, body)
        # The right may have been removed while the request waited for the leader.
        if not request.may_on_group(Operation.READ, body.group_id, is_asked=False):
            raise GroupAuthorizationFailed
    except Refusal as refusal:
        reply = SyncReply(error=refusal.code)
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(reply.error),
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )


async def _sync(context: Context, version: int, body: SyncGroupRequest) -> SyncReply:
    if version >= PROTOCOL_REQUIRED_FROM and (body.protocol_type is None or body.protocol_name is None):
        raise InconsistentGroupProtocol
    command = SyncGroup(
        group_id=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol_name=body.protocol_name,
        assignments=tuple((part.member_id, part.assignment) for part in body.assignments),
    )
    reply: SyncReply = await context.groups.ask(body.group_id, command)
    return reply
