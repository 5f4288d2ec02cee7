"""LeaveGroup, versions 0-5: members leave, or are removed by an administrator.

v0-2 name one member and have one error; v3 names many, static ones by their instance id alone if
necessary, each with its own error; v5 adds the reason. Goes to groups/classic/requests.py.
Refuses: INVALID_GROUP_ID; per member UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
"""

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse

from penstock.groups.commands import LeaveGroup, LeaveReply, LeavingMember
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal

MANY_MEMBERS_FROM: Final = 3


async def handle(context: Context, request: Request) -> LeaveGroupResponse:
    body: LeaveGroupRequest = request.body
    command = LeaveGroup(
        group_id=body.group_id,
        members=tuple(
            LeavingMember(member_id=member.member_id, instance_id=member.group_instance_id) for member in body.members
        ),
    )
    try:
        if not request.may_on_group(Operation.READ, body.group_id):
            raise GroupAuthorizationFailed
        reply: LeaveReply = await context.groups.ask(body.group_id, command)
    except Refusal as refusal:
        reply = LeaveReply(error=refusal.code)
    if request.header.version < MANY_MEMBERS_FROM:
        error = reply.error or reply.errors[0]
        return LeaveGroupResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode(error), members=())
    return LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(reply.error),
        members=tuple(
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=ErrorCode(error)
            )
            for member, error in zip(body.members, reply.errors, strict=False)
        ),
    )
