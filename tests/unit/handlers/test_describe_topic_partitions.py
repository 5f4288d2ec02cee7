"""DescribeTopicPartitions through its handler."""

from typing import Any

import pytest
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest

from penstock.handlers import (
    describe_topic_partitions,
)
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import broker
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import put_topic


async def topics(node: FakeNode, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    body: Any = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),  # type: ignore[arg-type]
        response_partition_limit=limit,  # type: ignore[arg-type]
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),  # type: ignore[arg-type]
    )
    return await node.ask(describe_topic_partitions.handle, ApiKey.DESCRIBE_TOPIC_PARTITIONS, body)


async def test_topics_are_sorted_and_arrays_without_elements_are_empty() -> None:
    node = FakeNode()
    topic_id = put_topic(node, "a", 1)
    reply = await topics(node, "nope", "bad name", "a", "a")
    assert [(each.name, each.error_code, each.topic_id) for each in reply.topics] == [
        ("a", 0, topic_id),
        ("bad name", 17, None),
        ("nope", 3, None),
    ]
    (partition,) = reply.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes) == (1, 0, (1,))
    assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.offline_replicas) == ((), (), ())
    assert {each.topic_authorized_operations for each in reply.topics} == {3576}


def page(reply: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    found = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in reply.topics]
    cursor = reply.next_cursor
    return found, None if cursor is None else (cursor.topic_name, cursor.partition_index)


async def test_pages_cover_all_topics() -> None:
    node = FakeNode()
    put_topic(node, "b", 3)
    put_topic(node, "a", 1)
    put_topic(node, "c", 1)
    assert page(await topics(node, limit=2)) == ([("a", [0]), ("b", [0])], ("b", 1))
    assert page(await topics(node, limit=2, cursor=("b", 1))) == ([("b", [1, 2])], ("c", 0))
    assert page(await topics(node, limit=2, cursor=("c", 0))) == ([("c", [0])], None)
    assert page(await topics(node, limit=0)) == ([("a", [0])], ("b", 0))


async def test_a_page_never_has_more_partitions_than_the_broker_allows() -> None:
    node = FakeNode({"max.request.partition.size.limit": "2"})
    put_topic(node, "a", 5)
    assert page(await topics(node, "a")) == ([("a", [0, 1])], ("a", 2))


async def test_a_cursor_may_point_past_a_topic_or_to_a_deleted_one() -> None:
    node = FakeNode()
    put_topic(node, "a", 1)
    put_topic(node, "c", 1)
    assert page(await topics(node, "a", cursor=("a", 5))) == ([("a", [])], None)
    assert page(await topics(node, cursor=("b", 7))) == ([("c", [0])], None)


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
async def test_every_topic_is_refused_for_an_invalid_cursor(cursor: tuple[str, int]) -> None:
    node = FakeNode()
    put_topic(node, "a", 1)
    reply = await topics(node, "a", cursor=cursor)
    assert [(each.name, each.error_code) for each in reply.topics] == [("a", 42)]


async def test_a_partition_whose_leader_is_gone_has_no_leader() -> None:
    node = FakeNode(brokers=[broker(1), broker(2, fenced=True)])
    put_topic(node, "a", 1, replicas=(2, 1), isr=(2,), leader=2)
    (partition,) = (await topics(node, "a")).topics[0].partitions
    assert (partition.leader_id, partition.replica_nodes, partition.offline_replicas) == (-1, (2, 1), (2,))
