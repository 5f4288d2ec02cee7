"""AlterShareGroupOffsets through its handler."""

from typing import Any

from kio.schema.alter_share_group_offsets.v0.request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)

from penstock.groups.share.commands import AlterShareOffsets, ShareOffsetsAltered, ShareStateReply
from penstock.handlers import alter_share_group_offsets
from penstock.shares.commands import InitializeState, StateReply
from penstock.shares.states import SharePartitionKey
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import ORDERS_ID, node_with_orders

UNKNOWN, NON_EMPTY, NOT_AVAILABLE = 3, 68, 15


async def alter(node: FakeNode, name: str, index: int) -> Any:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=7)  # type: ignore[arg-type]
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=(partition,))  # type: ignore[arg-type]
    body = AlterShareGroupOffsetsRequest(group_id="g", topics=(topic,))  # type: ignore[arg-type]
    return await node.ask(alter_share_group_offsets.handle, ApiKey.ALTER_SHARE_GROUP_OFFSETS, body)


async def test_the_state_is_initialized_in_a_new_epoch() -> None:
    node = node_with_orders()
    node.groups.replies = {AlterShareOffsets: ShareStateReply(state_epoch=9), ShareOffsetsAltered: ShareStateReply()}
    reply = await alter(node, "orders", 1)
    assert node.shares.state.commands == [InitializeState(SharePartitionKey("g", ORDERS_ID, 1), 9, 7)]
    assert reply.responses[0].partitions[0].error_code == 0
    assert node.groups.commands[-1].partitions == {ORDERS_ID: frozenset({1})}


async def test_a_failed_write_is_the_error_of_its_partition() -> None:
    node = node_with_orders()
    node.groups.replies = {AlterShareOffsets: ShareStateReply(state_epoch=9)}
    node.shares.state.replies[InitializeState] = StateReply(error=NOT_AVAILABLE)
    assert (await alter(node, "orders", 1)).responses[0].partitions[0].error_code == NOT_AVAILABLE


async def test_unknown_partitions_are_refused() -> None:
    node = node_with_orders()
    node.groups.replies = {AlterShareOffsets: ShareStateReply(state_epoch=9)}
    for name, index in (("orders", 9), ("missing", 0)):
        assert (await alter(node, name, index)).responses[0].partitions[0].error_code == UNKNOWN


async def test_a_group_with_members_is_refused() -> None:
    node = node_with_orders()
    node.groups.replies = {AlterShareOffsets: ShareStateReply(error=NON_EMPTY)}
    reply = await alter(node, "orders", 0)
    assert (reply.error_code, reply.responses) == (NON_EMPTY, ())
