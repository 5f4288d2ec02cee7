"""ListGroups, versions 0-5: every group that this node coordinates, of either protocol.

v4 adds the states and a filter by state, v5 the types and a filter by type; both ignore case.
Goes to groups/admin.py, in every shard. Refuses: COORDINATOR_LOAD_IN_PROGRESS while a shard is loading.
"""

from collections.abc import Iterable

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse

from penstock.groups.commands import ListGroups
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, group
from penstock.model.acl import Operation
from penstock.model.errors import Refusal


async def handle(context: Context, request: Request) -> ListGroupsResponse:
    body: ListGroupsRequest = request.body
    command = ListGroups(states=_normal(body.states_filter), types=_normal(body.types_filter))
    error: ErrorCode = NO_ERROR
    try:
        found = await context.groups.list_groups(command)
    except Refusal as refusal:
        error, found = failed(refusal), []
    sees_all = request.rights is None or request.may_on_cluster(Operation.DESCRIBE, is_asked=False)
    return ListGroupsResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        groups=tuple(
            [
                ListedGroup(
                    group_id=group(listed.group_id),
                    protocol_type=listed.protocol_type,
                    group_state=listed.state,
                    group_type=listed.type.lower(),
                )
                async for listed in request.pace.each(found)
                if sees_all or request.may_on_group(Operation.DESCRIBE, listed.group_id, is_asked=False)
            ]
        ),
    )


def _normal(names: Iterable[str]) -> frozenset[str]:
    """Return names without case, once for all shards: they may be long."""
    return frozenset(name.strip().lower() for name in names)
