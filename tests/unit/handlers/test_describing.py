"""DescribeCluster, DescribeTopicPartitions, DescribeLogDirs, AlterReplicaLogDirs and ListPartitionReassignments."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

from penstock.handlers import (
    alter_replica_log_dirs,
    describe_cluster,
    describe_log_dirs,
    describe_topic_partitions,
    list_partition_reassignments,
)
from penstock.handlers.entities import int32, topic_name
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import broker
from tests.unit.handlers.fakes import FakeLog, FakeNode, FakePartition

SOON: Any = timedelta(seconds=30)


def put_topic(node: FakeNode, name: str, count: int, **changes: Any) -> UUID:
    topic_id = UUID(int=900 + len(node.image.topics))
    fields: dict[str, Any] = {"replicas": (1,), "isr": (1,), "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    node.quorum.put(
        [
            TopicRecord(name=name, topic_id=topic_id),
            *(PartitionRecord(partition_id=index, topic_id=topic_id, **fields | changes) for index in range(count)),
        ]
    )
    return topic_id


async def cluster(node: FakeNode, *, version: int = 2, **fields: Any) -> Any:
    values: dict[str, Any] = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    body = DescribeClusterRequest(**values | fields)
    return await node.ask(describe_cluster.handle, ApiKey.DESCRIBE_CLUSTER, body, version=version)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_cluster_is_its_id_its_controller_and_its_brokers(version: int) -> None:
    node = FakeNode(brokers=[broker(1), broker(2, rack="r"), broker(3, fenced=True)])
    reply = await cluster(node, version=version)
    assert (reply.error_code, reply.cluster_id, reply.controller_id, reply.endpoint_type) == (0, "the-cluster", 1, 1)
    assert [(each.broker_id, each.host, each.port, each.rack) for each in reply.brokers] == [
        (1, "host1", 9092, None),
        (2, "host2", 9092, "r"),
    ]
    assert reply.cluster_authorized_operations == -(2**31)


async def test_fenced_brokers_and_operations_are_told_to_who_asks() -> None:
    node = FakeNode(brokers=[broker(1), broker(3, fenced=True)])
    reply = await cluster(node, include_fenced_brokers=True, include_cluster_authorized_operations=True)
    assert [(each.broker_id, each.is_fenced) for each in reply.brokers] == [(1, False), (3, True)]
    assert reply.cluster_authorized_operations == 8096


async def test_another_live_broker_stands_in_as_controller_for_a_fenced_one() -> None:
    assert (await cluster(FakeNode(brokers=[broker(1, fenced=True), broker(2)]))).controller_id == 2
    assert (await cluster(FakeNode(brokers=[broker(1, fenced=True)]))).controller_id == -1


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        (2, 114, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"),
        (5, 115, "Unsupported endpoint type 5"),
    ],
)
async def test_other_kinds_of_endpoint_are_not_here(kind: int, code: int, message: str) -> None:
    reply = await cluster(FakeNode(), endpoint_type=kind)
    assert (reply.error_code, reply.error_message) == (code, message)
    assert (reply.cluster_id, reply.controller_id, reply.brokers) == ("", -1, ())


async def topics(node: FakeNode, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    body: Any = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),  # type: ignore[arg-type]
        response_partition_limit=limit,  # type: ignore[arg-type]
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),  # type: ignore[arg-type]
    )
    return await node.ask(describe_topic_partitions.handle, ApiKey.DESCRIBE_TOPIC_PARTITIONS, body)


def page(reply: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    found = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in reply.topics]
    cursor = reply.next_cursor
    return found, None if cursor is None else (cursor.topic_name, cursor.partition_index)


async def test_topics_come_sorted_with_empty_arrays_where_nothing_is() -> None:
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


async def test_pages_lead_through_all_topics() -> None:
    node = FakeNode()
    put_topic(node, "b", 3)
    put_topic(node, "a", 1)
    put_topic(node, "c", 1)
    assert page(await topics(node, limit=2)) == ([("a", [0]), ("b", [0])], ("b", 1))
    assert page(await topics(node, limit=2, cursor=("b", 1))) == ([("b", [1, 2])], ("c", 0))
    assert page(await topics(node, limit=2, cursor=("c", 0))) == ([("c", [0])], None)
    assert page(await topics(node, limit=0)) == ([("a", [0])], ("b", 0))


async def test_a_page_never_holds_more_than_the_broker_allows() -> None:
    node = FakeNode({"max.request.partition.size.limit": "2"})
    put_topic(node, "a", 5)
    assert page(await topics(node, "a")) == ([("a", [0, 1])], ("a", 2))


async def test_a_cursor_may_point_past_a_topic_or_to_one_that_is_gone() -> None:
    node = FakeNode()
    put_topic(node, "a", 1)
    put_topic(node, "c", 1)
    assert page(await topics(node, "a", cursor=("a", 5))) == ([("a", [])], None)
    assert page(await topics(node, cursor=("b", 7))) == ([("c", [0])], None)


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
async def test_a_cursor_that_makes_no_sense_refuses_every_topic(cursor: tuple[str, int]) -> None:
    node = FakeNode()
    put_topic(node, "a", 1)
    reply = await topics(node, "a", cursor=cursor)
    assert [(each.name, each.error_code) for each in reply.topics] == [("a", 42)]


async def test_a_partition_whose_leader_is_gone_has_none() -> None:
    node = FakeNode(brokers=[broker(1), broker(2, fenced=True)])
    put_topic(node, "a", 1, replicas=(2, 1), isr=(2,), leader=2)
    (partition,) = (await topics(node, "a")).topics[0].partitions
    assert (partition.leader_id, partition.replica_nodes, partition.offline_replicas) == (-1, (2, 1), (2,))


async def log_dirs(node: FakeNode, *asked: tuple[str, tuple[int, ...]], everything: bool = False) -> Any:
    listed: Any = tuple(DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in asked)  # type: ignore[arg-type]
    body = DescribeLogDirsRequest(topics=None if everything else listed)
    reply = await node.ask(describe_log_dirs.handle, ApiKey.DESCRIBE_LOG_DIRS, body)
    (result,) = reply.results
    return result


def two_partitions() -> FakeNode:
    node = FakeNode()
    node.replicas.put(FakePartition("a", 0, FakeLog(end_offset=5, size=300), high_watermark=5))
    node.replicas.put(FakePartition("b", 1, FakeLog(end_offset=5, size=10), high_watermark=3))
    return node


async def test_the_folder_is_described_with_its_partitions_and_its_room() -> None:
    result = await log_dirs(two_partitions(), everything=True)
    assert (result.error_code, result.log_dir, result.total_bytes, result.usable_bytes) == (0, "/data", 1000, 400)
    assert [
        (topic.name, each.partition_index, each.partition_size, each.offset_lag, each.is_future_key)
        for topic in result.topics
        for each in topic.partitions
    ] == [("a", 0, 300, 0, False), ("b", 1, 10, 0, False)]


async def test_only_what_is_asked_for_and_here_is_described() -> None:
    result = await log_dirs(two_partitions(), ("a", (0, 5)), ("b", (0,)), ("zz", (0,)))
    assert [topic.name for topic in result.topics] == ["a"]
    assert (await log_dirs(two_partitions())).topics == ()


async def test_a_failed_folder_is_a_storage_error() -> None:
    node = two_partitions()
    node.store.directory.failure = OSError("gone")
    result = await log_dirs(node, everything=True)
    assert (result.error_code, result.topics, result.total_bytes) == (56, (), -1)


async def reassignments(node: FakeNode, *asked: tuple[str, tuple[int, ...]], everything: bool = False) -> Any:
    listed: Any = tuple(
        ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)  # type: ignore[arg-type]
        for name, indexes in asked
    )
    body = ListPartitionReassignmentsRequest(timeout=SOON, topics=None if everything else listed)
    reply = await node.ask(list_partition_reassignments.handle, ApiKey.LIST_PARTITION_REASSIGNMENTS, body)
    assert reply.error_code == 0
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in reply.topics
        for each in topic.partitions
    ]


async def test_only_partitions_that_are_being_moved_are_listed() -> None:
    node = FakeNode()
    put_topic(node, "still", 1)
    assert await reassignments(node, everything=True) == []
    put_topic(node, "moving", 1, replicas=(1, 2), adding_replicas=(2,), removing_replicas=(1,))
    moving = [("moving", 0, (1, 2), (2,), (1,))]
    assert await reassignments(node, everything=True) == moving
    assert await reassignments(node, ("moving", (0, 7, -1)), ("still", (0,)), ("zz", (0,))) == moving
    assert await reassignments(node) == []


async def moved(node: FakeNode, path: str, *places: tuple[str, int]) -> dict[tuple[str, int], ErrorCode]:
    topics: dict[str, list[int]] = {}
    for name, index in places:
        topics.setdefault(name, []).append(index)
    body = AlterReplicaLogDirsRequest(
        dirs=(
            AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    AlterReplicaLogDirTopic(name=topic_name(name), partitions=tuple(map(int32, indexes)))
                    for name, indexes in topics.items()
                ),
            ),
        )
    )
    reply = await node.ask(alter_replica_log_dirs.handle, ApiKey.ALTER_REPLICA_LOG_DIRS, body)
    return {
        (str(topic.topic_name), int(row.partition_index)): row.error_code
        for topic in reply.results
        for row in topic.partitions
    }


async def test_a_replica_can_only_be_moved_to_where_it_is() -> None:
    node = two_partitions()
    assert await moved(node, "/data", ("a", 0), ("zz", 0)) == {
        ("a", 0): ErrorCode.none,
        ("zz", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert await moved(node, "/elsewhere", ("a", 0)) == {("a", 0): ErrorCode.log_dir_not_found}
    node.context.store.directory.failure = OSError("gone")
    assert await moved(node, "/data", ("a", 0)) == {("a", 0): ErrorCode.kafka_storage_error}
