"""DeleteShareGroupOffsets through its handler."""

from typing import Any

from kio.schema.delete_share_group_offsets.v0.request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)

from penstock.groups.share.commands import DeleteShareOffsets, ShareOffsetsDeleted, ShareStateReply
from penstock.handlers import delete_share_group_offsets
from penstock.shares.commands import DeleteState, StateReply
from penstock.shares.states import SharePartitionKey
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import ORDERS_ID, node_with_orders

UNKNOWN, NOT_AVAILABLE, NON_EMPTY, NOT_FOUND = 3, 15, 68, 69


async def delete(node: FakeNode, *names: str) -> Any:
    topics: Any = tuple(DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names)  # type: ignore[arg-type]
    body = DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)  # type: ignore[arg-type]
    return await node.ask(delete_share_group_offsets.handle, ApiKey.DELETE_SHARE_GROUP_OFFSETS, body)


def node_with_state() -> FakeNode:
    node = node_with_orders()
    node.groups.replies = {
        DeleteShareOffsets: ShareStateReply(partitions={ORDERS_ID: frozenset({0, 1})}),
        ShareOffsetsDeleted: ShareStateReply(),
    }
    return node


async def test_the_state_of_each_partition_is_deleted() -> None:
    node = node_with_state()
    reply = await delete(node, "orders", "missing")
    assert [(each.topic_name, each.error_code) for each in reply.responses] == [("orders", 0), ("missing", UNKNOWN)]
    assert node.shares.state.commands == [DeleteState(SharePartitionKey("g", ORDERS_ID, index)) for index in (0, 1)]
    assert node.groups.commands[-1] == ShareOffsetsDeleted("g", frozenset({ORDERS_ID}))


async def test_a_topic_without_state_is_an_error() -> None:
    node = node_with_orders()
    node.groups.replies = {DeleteShareOffsets: ShareStateReply()}
    assert (await delete(node, "orders")).responses[0].error_code == UNKNOWN


async def test_a_deletion_that_fails_leaves_its_mark() -> None:
    node = node_with_state()
    node.shares.state.replies[DeleteState] = StateReply(error=NOT_AVAILABLE)
    assert (await delete(node, "orders")).responses[0].error_code == NOT_AVAILABLE
    assert [type(command) for command in node.groups.commands] == [DeleteShareOffsets]


async def test_the_groups_error_is_returned() -> None:
    for error in (NON_EMPTY, NOT_FOUND):
        node = node_with_orders()
        node.groups.replies = {DeleteShareOffsets: ShareStateReply(error=error)}
        assert (await delete(node, "orders")).error_code == error
