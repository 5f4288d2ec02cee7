"""JoinGroup, versions 0-9: a member of a classic group joins a rebalance.

Answered when the rebalance is complete, so a response may take as long as the slowest member needs to
rejoin. v1 adds the rebalance timeout; v4 makes a new member rejoin with the id that it is
given (KIP-394); v5 static members (KIP-345); v7 the protocol type in the response and a null protocol
name; v8 the reason; v9 lets a leader skip the assignment (KIP-814). Goes to groups/classic/requests.py.
Refuses: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID,
MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, and what every
coordinator refuses.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.join_group.v9.response import JoinGroupResponse, JoinGroupResponseMember

from penstock.groups.commands import JoinGroup, JoinReply
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, in_milliseconds, int32
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal

MEMBER_ID_REQUIRED_FROM: Final = 4
NULL_PROTOCOL_NAME_FROM: Final = 7
CAN_SKIP_ASSIGNMENT_FROM: Final = 9


async def handle(context: Context, request: Request) -> JoinGroupResponse:
    body: JoinGroupRequest = request.body
    version = request.header.version
    command = JoinGroup(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=request.header.client_id,
        client_host=request.client_host,
        session_timeout_ms=in_milliseconds(body.session_timeout),
        rebalance_timeout_ms=in_milliseconds(body.rebalance_timeout),
        protocol_type=body.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in body.protocols),
        fresh_id=context.entropy.uuid(),
        must_know_member_id=version >= MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment=version >= CAN_SKIP_ASSIGNMENT_FROM,
        describable=None if request.rights is None else request.describable,
    )
    try:
        if not request.may_on_group(Operation.READ, body.group_id):
            raise GroupAuthorizationFailed
        context.groups.admit_member(sum(len(metadata) for _, metadata in command.protocols))
        reply: JoinReply = await context.groups.ask(body.group_id, command)
        # The right may have been removed while the request waited for other members.
        if not request.may_on_group(Operation.READ, body.group_id, is_asked=False):
            raise GroupAuthorizationFailed
    except Refusal as refusal:
        reply = JoinReply(error=refusal.code)
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(reply.error),
        generation_id=int32(reply.generation),
        protocol_type=reply.protocol_type,
        # Earlier versions do not allow null.
        protocol_name=reply.protocol_name if version >= NULL_PROTOCOL_NAME_FROM else reply.protocol_name or "",
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in reply.members
        ),
    )
