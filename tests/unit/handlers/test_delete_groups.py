"""DeleteGroups through its handler."""

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.commands import (
    DeleteGroups,
)
from penstock.groups.share.commands import STATE_EXISTS, DeleteShareOffsets, ShareOffsetsDeleted, ShareStateReply
from penstock.handlers import (
    delete_groups,
)
from penstock.shares.commands import DeleteState, StateReply
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ORDERS_ID, node_with_orders

NOT_AVAILABLE, NOT_COORDINATOR = 15, 16


async def test_the_state_of_a_share_group_is_deleted_first() -> None:
    node = node_with_orders()
    node.groups.replies = {
        DeleteGroups: (STATE_EXISTS,),
        DeleteShareOffsets: ShareStateReply(partitions={ORDERS_ID: frozenset({0})}),
        ShareOffsetsDeleted: ShareStateReply(),
    }
    node.shares.state.replies[DeleteState] = StateReply(error=NOT_COORDINATOR)
    body = DeleteGroupsRequest(groups_names=("g",))  # type: ignore[arg-type]
    reply = await node.ask(delete_groups.handle, ApiKey.DELETE_GROUPS, body)
    assert reply.results[0].error_code == NOT_COORDINATOR, "the group stays if its state does"
    assert [type(command) for command in node.groups.commands] == [DeleteGroups, DeleteShareOffsets]


async def test_a_share_group_that_got_new_state_meanwhile_can_be_deleted_later() -> None:
    node = node_with_orders()
    node.groups.replies = {DeleteGroups: (STATE_EXISTS,), DeleteShareOffsets: ShareStateReply()}
    body = DeleteGroupsRequest(groups_names=("g",))  # type: ignore[arg-type]
    reply = await node.ask(delete_groups.handle, ApiKey.DELETE_GROUPS, body)
    assert reply.results[0].error_code == NOT_AVAILABLE


async def test_a_group_that_is_named_twice_is_deleted_once() -> None:
    world = node_with_orders()
    world.groups.replies[DeleteGroups] = (0,)
    body = DeleteGroupsRequest(groups_names=("g", "h", "g"))  # type: ignore[arg-type]
    reply = await world.ask(delete_groups.handle, ApiKey.DELETE_GROUPS, body)
    assert [(each.group_id, each.error_code) for each in reply.results] == [("g", 0), ("h", 0)]
    world.groups.replies[DeleteGroups] = NotCoordinator()
    reply = await world.ask(delete_groups.handle, ApiKey.DELETE_GROUPS, body)
    assert {each.error_code for each in reply.results} == {NOT_COORDINATOR}
