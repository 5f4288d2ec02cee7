"""ListOffsets through its handler."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from penstock.handlers import list_offsets
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.model.errors import OffsetNotAvailable, StorageError
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import broker
from tests.unit.handlers.fakes import FakeNode, FakePartition
from tests.unit.handlers.requests import SOON, TIMES, node_with_records


async def ask(
    node: FakeNode,
    *requested: tuple[str, int, int, int],
    version: int = 11,
    isolation: int = 0,
    replica: int = -1,
) -> list[tuple[str, int, int, int, int, int]]:
    values: Any = {"replica_id": replica, "isolation_level": isolation, "timeout": SOON}
    topics: Any = tuple(
        ListOffsetsTopic(
            name=name,  # type: ignore[arg-type]
            partitions=(
                ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch),  # type: ignore[arg-type]
            ),
        )
        for name, index, timestamp, epoch in requested
    )
    body = ListOffsetsRequest(topics=topics, **values)
    reply = await node.ask(list_offsets.handle, ApiKey.LIST_OFFSETS, body, version=version)
    return [
        (topic.name, each.partition_index, each.error_code, each.timestamp, each.offset, each.leader_epoch)
        for topic in reply.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (-1, (0, -1, 9, 3)),
        (-2, (0, -1, 2, 0)),
        (-3, (0, -1, -1, -1)),
        (-4, (0, -1, 2, 0)),
        (-5, (0, -1, -1, -1)),
        (-6, (0, -1, -1, -1)),
        (-7, (35, -1, -1, -1)),
        (0, (0, 1000, 2, 0)),
        (1001, (0, 3000, 5, 3)),
        (3000, (0, 3000, 5, 3)),
        (3001, (0, -1, -1, -1)),
        (9001, (0, -1, -1, -1)),
    ],
)
async def test_each_timestamp_has_an_offset_below_the_high_watermark(
    timestamp: int, found: tuple[int, int, int, int]
) -> None:
    assert await ask(node_with_records(), ("a", 0, timestamp, -1)) == [("a", 0, *found)]


async def test_the_greatest_timestamp_is_that_of_the_first_record_that_has_it() -> None:
    node = node_with_records()
    node.replicas.partitions["a", 0].log.times = TIMES[:-1]
    assert await ask(node, ("a", 0, -3, -1)) == [("a", 0, 0, 3000, 5, 3)]


async def test_readers_of_committed_records_see_the_last_stable_offset_and_replicas_the_end() -> None:
    assert await ask(node_with_records(), ("a", 0, -1, -1), isolation=1) == [("a", 0, 0, -1, 7, 3)]
    assert await ask(node_with_records(), ("a", 0, -1, -1), replica=2) == [("a", 0, 0, -1, 10, 3)]
    assert await ask(node_with_records(), ("a", 0, 9000, -1), replica=-2) == [("a", 0, 0, 9000, 9, 3)]


async def test_an_empty_log_begins_and_ends_at_one_offset_in_the_current_epoch() -> None:
    node = FakeNode()
    node.replicas.put(FakePartition("a"))
    assert await ask(node, ("a", 0, -2, -1)) == [("a", 0, 0, -1, 0, 3)]
    assert await ask(node, ("a", 0, -3, -1)) == [("a", 0, 0, -1, -1, -1)]


@pytest.mark.parametrize(("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11)])
async def test_special_timestamps_are_unsupported_before_their_version(timestamp: int, since: int) -> None:
    for version in range(1, 12):
        ((_, _, code, *_),) = await ask(node_with_records(), ("a", 0, timestamp, -1), version=version)
        assert code == (0 if version >= since else 35), version


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (3, 0), (2, 74), (4, 75)])
async def test_stale_and_future_epochs_are_fenced(epoch: int, code: int) -> None:
    ((_, _, found, *_),) = await ask(node_with_records(), ("a", 0, -1, epoch))
    assert found == code


async def test_a_partition_named_twice_is_refused_once() -> None:
    assert await ask(node_with_records(), ("a", 0, -1, -1), ("a", 0, -2, -1), ("b", 0, -1, -1)) == [
        ("a", 0, 42, -1, -1, -1),
        ("b", 0, 3, -1, -1, -1),
    ]


async def test_an_unknown_isolation_level_is_answered_as_in_kafka() -> None:
    assert await ask(node_with_records(), ("a", 0, -1, -1), isolation=7) == [("a", 0, -1, -1, -1, -1)]


async def test_errors_of_the_log_reach_the_client() -> None:
    node = node_with_records()
    node.replicas.partitions["a", 0].log.error = StorageError()
    assert await ask(node, ("a", 0, 5, -1)) == [("a", 0, 56, -1, -1, -1)]
    node.replicas.partitions["a", 0].log.error = OffsetNotAvailable()
    assert await ask(node, ("a", 0, 5, -1), version=5) == [("a", 0, 78, -1, -1, -1)]
    assert await ask(node, ("a", 0, 5, -1), version=4) == [("a", 0, 5, -1, -1, -1)]


def put_topic(node: FakeNode, *, replicas: tuple[int, ...]) -> None:
    topic_id = UUID(int=900)
    node.quorum.put(
        [
            TopicRecord(name="a", topic_id=topic_id),
            PartitionRecord(
                partition_id=0, topic_id=topic_id, replicas=replicas, isr=replicas, leader=replicas[0],
                leader_epoch=0, partition_epoch=0,
            ),
        ]
    )  # fmt: skip


async def test_a_partition_on_another_node_and_one_that_could_not_be_opened_have_different_errors() -> None:
    node = FakeNode(brokers=[broker(1), broker(2)])
    put_topic(node, replicas=(2,))
    assert await ask(node, ("a", 0, -1, -1)) == [("a", 0, 6, -1, -1, -1)]
    node = FakeNode()
    put_topic(node, replicas=(1,))
    assert await ask(node, ("a", 0, -1, -1)) == [("a", 0, 56, -1, -1, -1)]


async def test_requests_wait_for_records_that_were_acknowledged_before_they_were_durable() -> None:
    node = node_with_records()
    partition = node.replicas.partitions["a", 0]
    partition.parked = []
    answer = asyncio.create_task(ask(node, ("a", 0, -1, -1)))
    await asyncio.sleep(0)
    assert not answer.done()
    partition.high_watermark = 10
    (done,) = partition.parked
    done(0)
    assert await answer == [("a", 0, 0, -1, 10, 3)]


async def test_requests_of_replicas_do_not_wait() -> None:
    node = node_with_records()
    node.replicas.partitions["a", 0].parked = []
    assert await ask(node, ("a", 0, -1, -1), replica=2) == [("a", 0, 0, -1, 10, 3)]
