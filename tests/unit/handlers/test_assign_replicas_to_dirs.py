"""AssignReplicasToDirs through its handler."""

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.handlers import assign_replicas_to_dirs
from penstock.metadata.records import LOST_DIRECTORY
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import TOPIC_ID, directory, node_ids
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of, only_partition

KEY = ApiKey.ASSIGN_REPLICAS_TO_DIRS


async def assign(node: FakeNode, *assignments: tuple[UUID, UUID, tuple[int, ...]], broker_epoch: int = 1) -> Any:
    """Assign broker 1's replicas; each argument is a directory, a topic and partition indexes."""
    directories = [
        {
            "id_": directory_id,
            "topics": [{"topic_id": topic_id, "partitions": [{"partition_index": index} for index in indexes]}],
        }
        for directory_id, topic_id, indexes in assignments
    ]
    body = body_of(KEY, 0, broker_id=1, broker_epoch=broker_epoch, directories=directories)
    return await node.ask(assign_replicas_to_dirs.handle, KEY, body)


async def test_a_lost_replica_leaves_the_isr_and_each_partition_has_its_result(node: FakeNode) -> None:
    reply = await assign(
        node, (LOST_DIRECTORY, TOPIC_ID, (0, 5)), (LOST_DIRECTORY, UUID(int=99), (0,)), (directory(1), TOPIC_ID, ())
    )
    assert [
        (each.id_, topic.topic_id, [(row.partition_index, row.error_code) for row in topic.partitions])
        for each in reply.directories
        for topic in each.topics
    ] == [
        (LOST_DIRECTORY, TOPIC_ID, [(0, ErrorCode.none), (5, ErrorCode.unknown_topic_or_partition)]),
        (LOST_DIRECTORY, UUID(int=99), [(0, ErrorCode.unknown_topic_id)]),
        (directory(1), TOPIC_ID, []),
    ]
    assert (only_partition(node).leader, only_partition(node).isr) == (2, node_ids(2, 3))


async def test_a_stale_broker_and_a_node_that_is_not_the_controller_refuse_the_request(node: FakeNode) -> None:
    assignment = (LOST_DIRECTORY, TOPIC_ID, (0,))
    reply = await assign(node, assignment, broker_epoch=0)
    assert (reply.error_code, reply.directories) == (ErrorCode.stale_broker_epoch, ())
    node.quorum.is_active = False
    reply = await assign(node, assignment)
    assert (reply.error_code, reply.directories) == (ErrorCode.not_controller, ())
    assert only_partition(node).isr == (1, 2, 3)
