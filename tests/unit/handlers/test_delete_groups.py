"""DeleteGroups through its handler."""

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.commands import (
    DeleteGroups,
)
from penstock.handlers import (
    delete_groups,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import node_with_orders

NOT_COORDINATOR = 16


async def test_a_group_that_is_named_twice_is_deleted_once() -> None:
    world = node_with_orders()
    world.groups.replies[DeleteGroups] = (0,)
    body = DeleteGroupsRequest(groups_names=("g", "h", "g"))  # type: ignore[arg-type]
    reply = await world.ask(delete_groups.handle, ApiKey.DELETE_GROUPS, body)
    assert [(each.group_id, each.error_code) for each in reply.results] == [("g", 0), ("h", 0)]
    world.groups.replies[DeleteGroups] = NotCoordinator()
    reply = await world.ask(delete_groups.handle, ApiKey.DELETE_GROUPS, body)
    assert {each.error_code for each in reply.results} == {NOT_COORDINATOR}
