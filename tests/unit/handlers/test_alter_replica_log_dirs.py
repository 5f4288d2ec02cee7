"""AlterReplicaLogDirs through its handler."""

from typing import Any

from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kio.schema.errors import ErrorCode

from penstock.handlers import (
    alter_replica_log_dirs,
    describe_topic_partitions,
)
from penstock.handlers.support.entities import int32, topic_name
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import node_with_two_partitions


async def topics(node: FakeNode, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    body: Any = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),  # type: ignore[arg-type]
        response_partition_limit=limit,  # type: ignore[arg-type]
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),  # type: ignore[arg-type]
    )
    return await node.ask(describe_topic_partitions.handle, ApiKey.DESCRIBE_TOPIC_PARTITIONS, body)


async def moved(node: FakeNode, path: str, *partitions: tuple[str, int]) -> dict[tuple[str, int], ErrorCode]:
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
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


async def test_a_replica_can_only_be_moved_to_its_current_folder() -> None:
    node = node_with_two_partitions()
    assert await moved(node, "/data", ("a", 0), ("zz", 0)) == {
        ("a", 0): ErrorCode.none,
        ("zz", 0): ErrorCode.unknown_topic_or_partition,
    }
    assert await moved(node, "/elsewhere", ("a", 0)) == {("a", 0): ErrorCode.log_dir_not_found}
    node.context.store.directory.failure = OSError("gone")
    assert await moved(node, "/data", ("a", 0)) == {("a", 0): ErrorCode.kafka_storage_error}
