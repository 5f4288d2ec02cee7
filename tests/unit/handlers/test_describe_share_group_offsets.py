"""DescribeShareGroupOffsets through its handler."""

from typing import Any

from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)

from penstock.groups.share.commands import ReadSharePartitions, ShareStateReply
from penstock.handlers import describe_share_group_offsets
from penstock.shares.commands import ReadSummary, StateReply
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import ORDERS_ID, node_with_orders

NOT_FOUND = 69


async def describe(node: FakeNode, *topics: tuple[str, tuple[int, ...]], version: int = 1) -> Any:
    named: Any = tuple(
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)  # type: ignore[arg-type]
        for name, indexes in topics
    )
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=named or None)  # type: ignore[arg-type]
    body = DescribeShareGroupOffsetsRequest(groups=(group,))
    handle = describe_share_group_offsets.handle
    (answer,) = (await node.ask(handle, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, body, version=version)).groups
    return answer


async def test_the_lag_leaves_out_finished_records() -> None:
    node = node_with_orders()
    node.shares.state.replies[ReadSummary] = StateReply(start_offset=4, complete_count=2, leader_epoch=3)
    (topic,) = (await describe(node, ("orders", (0,)))).topics
    (partition,) = topic.partitions
    assert (partition.start_offset, partition.leader_epoch, partition.lag) == (4, 3, 4)


async def test_without_topics_all_partitions_with_state_are_described() -> None:
    node = node_with_orders()
    node.groups.replies[ReadSharePartitions] = ShareStateReply(partitions={ORDERS_ID: frozenset({1, 0})})
    (topic,) = (await describe(node)).topics
    assert (topic.topic_name, [each.partition_index for each in topic.partitions]) == ("orders", [0, 1])
    assert {(each.start_offset, each.lag) for each in topic.partitions} == {(-1, -1)}


async def test_an_unknown_topic_has_no_start_offset() -> None:
    (topic,) = (await describe(node_with_orders(), ("missing", (0,)))).topics
    assert (topic.partitions[0].start_offset, topic.partitions[0].error_code) == (-1, 0)


async def test_an_end_offset_that_is_not_known_leaves_the_lag_unknown() -> None:
    node = node_with_orders()
    node.shares.end_offsets.end = None
    node.shares.state.replies[ReadSummary] = StateReply(start_offset=4, complete_count=2)
    (topic,) = (await describe(node, ("orders", (0,)))).topics
    assert topic.partitions[0].lag == -1


async def test_an_unknown_group_has_no_topics() -> None:
    node = node_with_orders()
    node.groups.replies[ReadSharePartitions] = ShareStateReply(error=NOT_FOUND, error_message="not found")
    answer = await describe(node)
    assert (answer.error_code, answer.topics) == (0, ())
