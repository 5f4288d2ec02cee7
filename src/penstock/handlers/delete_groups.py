"""DeleteGroups, versions 0-2: deletes groups without members, and their committed offsets.

A group that occurs twice in the request is deleted once. Goes to groups/admin.py.
Refuses, per group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, INVALID_GROUP_ID, and what every coordinator refuses.
"""

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.errors import ErrorCode

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.groups.commands import DeleteGroups
from penstock.groups.share.commands import STATE_EXISTS
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE
from penstock.handlers.support.share_deletion import delete_state
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal


async def handle(context: Context, request: Request) -> DeleteGroupsResponse:
    body: DeleteGroupsRequest = request.body
    results = []
    for group_id in dict.fromkeys(body.groups_names):
        if request.may_on_group(Operation.DELETE, group_id):
            error = await _delete(context, group_id)
        else:
            error = GroupAuthorizationFailed.code
        results.append(DeletableGroupResult(group_id=group_id, error_code=ErrorCode(error)))
    return DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


async def _delete(context: Context, group_id: str) -> int:
    try:
        errors: tuple[int, ...] = await context.groups.ask(group_id, DeleteGroups((group_id,)))
        if errors[0] == STATE_EXISTS:
            # The state of a share group goes first: afterwards nothing would remember it.
            failed = [code for code, _ in (await delete_state(context, group_id, None)).values() if code]
            errors = tuple(failed) or await context.groups.ask(group_id, DeleteGroups((group_id,)))
            if errors[0] == STATE_EXISTS:
                # A member has come and gone meanwhile; the client tries again.
                raise CoordinatorNotAvailable
    except Refusal as refusal:
        return refusal.code
    return errors[0]
