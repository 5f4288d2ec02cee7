"""DescribeGroups, versions 0-6: classic groups with their members, subscriptions and assignments.

v3 adds the authorized operations, v4 static members, v6 GROUP_ID_NOT_FOUND for a group that is not classic
or does not exist; before that such a group has the state Dead. Goes to groups/admin.py.
Refuses, per group: GROUP_ID_NOT_FOUND, and what every coordinator refuses.
"""

from dataclasses import replace
from typing import Final

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32

from penstock.groups import commands
from penstock.groups.errors import GroupIdNotFound
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, OPERATIONS_UNKNOWN, group
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import GroupAuthorizationFailed, Refusal

GROUP_ID_NOT_FOUND_FROM: Final = 6


async def handle(context: Context, request: Request) -> DescribeGroupsResponse:
    body: DescribeGroupsRequest = request.body
    described = []
    for group_id in body.groups:
        if not request.may_on_group(Operation.DESCRIBE, group_id):
            described.append(_described_group(_denied(group_id), (), OPERATIONS_UNKNOWN))
            continue
        found = await _describe(context, group_id)
        if found.error == GroupIdNotFound.code and request.header.version < GROUP_ID_NOT_FOUND_FROM:
            found = replace(found, error=0, error_message=None)
        is_listed = body.include_authorized_operations and not found.error
        operations = request.operations(ResourceType.GROUP, group_id) if is_listed else OPERATIONS_UNKNOWN
        members = [_member(member) async for member in request.pace.each(found.members)]
        described.append(_described_group(found, tuple(members), operations))
    return DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=tuple(described))


async def _describe(context: Context, group_id: str) -> commands.DescribedGroup:
    found: tuple[commands.DescribedGroup, ...]
    try:
        found = await context.groups.ask(group_id, commands.DescribeGroups((group_id,)))
    except Refusal as refusal:
        return commands.DescribedGroup(error=refusal.code, group_id=group_id, state="")
    return found[0]


def _denied(group_id: str) -> commands.DescribedGroup:
    return commands.DescribedGroup(error=GroupAuthorizationFailed.code, group_id=group_id, state="")


def _described_group(
    found: commands.DescribedGroup, members: tuple[DescribedGroupMember, ...], operations: i32
) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode(found.error),
        error_message=found.error_message,
        group_id=group(found.group_id),
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=members,
        authorized_operations=operations,
    )


def _member(member: commands.DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )
