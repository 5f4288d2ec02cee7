"""ListPartitionReassignments through its handler."""

from typing import Any

from kio.schema.list_partition_reassignments.v0.request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

from penstock.handlers import (
    list_partition_reassignments,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SOON, put_topic


async def reassignments(node: FakeNode, *requested: tuple[str, tuple[int, ...]], everything: bool = False) -> Any:
    listed: Any = tuple(
        ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)  # type: ignore[arg-type]
        for name, indexes in requested
    )
    body = ListPartitionReassignmentsRequest(timeout=SOON, topics=None if everything else listed)
    reply = await node.ask(list_partition_reassignments.handle, ApiKey.LIST_PARTITION_REASSIGNMENTS, body)
    assert reply.error_code == 0
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in reply.topics
        for each in topic.partitions
    ]


async def test_only_partitions_that_are_being_reassigned_are_listed() -> None:
    node = FakeNode()
    put_topic(node, "still", 1)
    assert await reassignments(node, everything=True) == []
    put_topic(node, "moving", 1, replicas=(1, 2), adding_replicas=(2,), removing_replicas=(1,))
    moving = [("moving", 0, (1, 2), (2,), (1,))]
    assert await reassignments(node, everything=True) == moving
    assert await reassignments(node, ("moving", (0, 7, -1)), ("still", (0,)), ("zz", (0,))) == moving
    assert await reassignments(node) == []
