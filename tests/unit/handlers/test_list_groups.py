"""ListGroups through its handler."""

from kio.schema.list_groups.v5.request import ListGroupsRequest

from penstock.coordinator.errors import CoordinatorLoadInProgress
from penstock.groups.commands import (
    ListedGroup,
    ListGroups,
)
from penstock.handlers import (
    list_groups,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import node_with_orders


async def test_groups_are_listed_with_their_types_in_lower_case() -> None:
    world = node_with_orders()
    world.groups.replies[ListGroups] = [
        ListedGroup(group_id="g", protocol_type="consumer", state="Stable", type="Classic")
    ]
    body = ListGroupsRequest(states_filter=(" Stable ",), types_filter=("CLASSIC",))
    reply = await world.ask(list_groups.handle, ApiKey.LIST_GROUPS, body)
    assert [(each.group_id, each.group_state, each.group_type) for each in reply.groups] == [("g", "Stable", "classic")]
    assert world.groups.commands == [ListGroups(states=frozenset({"stable"}), types=frozenset({"classic"}))]
    world.groups.replies[ListGroups] = CoordinatorLoadInProgress()
    reply = await world.ask(list_groups.handle, ApiKey.LIST_GROUPS, body)
    assert (reply.error_code, reply.groups) == (CoordinatorLoadInProgress.code, ())
