"""AlterPartitionReassignments through its handler."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from penstock.handlers import alter_partition_reassignments
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import broker
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SOON, body_of, only_partition

KEY = ApiKey.ALTER_PARTITION_REASSIGNMENTS


async def move(node: FakeNode, *moves: tuple[str, int, tuple[int, ...] | None], **options: Any) -> Any:
    version = options.pop("version", 1)
    topics: dict[str, list[dict[str, Any]]] = {}
    for name, index, replicas in moves:
        topics.setdefault(name, []).append({"partition_index": index, "replicas": replicas})
    listed = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    body = body_of(KEY, version, **{"timeout": SOON, "topics": listed, **options})
    return await node.ask(alter_partition_reassignments.handle, KEY, body, version=version)


def codes(reply: Any) -> list[tuple[str, int, ErrorCode]]:
    assert reply.error_code == ErrorCode.none
    return [
        (topic.name, each.partition_index, each.error_code) for topic in reply.responses for each in topic.partitions
    ]


@pytest.mark.parametrize("version", [0, 1])
async def test_a_reassignment_begins_and_can_be_cancelled_once(node: FakeNode, version: int) -> None:
    node.quorum.put([broker(4)])
    assert codes(await move(node, ("t", 0, (2, 4)), version=version)) == [("t", 0, ErrorCode.none)]
    assert (only_partition(node).adding_replicas, only_partition(node).removing_replicas) == ((4,), (1, 3))
    assert codes(await move(node, ("t", 0, None), version=version)) == [("t", 0, ErrorCode.none)]
    # As in Kafka, the remaining replicas keep the order of the cancelled reassignment.
    assert only_partition(node).replicas == (2, 1, 3)
    (row,) = (await move(node, ("t", 0, None), version=version)).responses[0].partitions
    assert (row.error_code, bool(row.error_message)) == (ErrorCode.no_reassignment_in_progress, True)


async def test_each_partition_has_its_own_result(node: FakeNode) -> None:
    moves: list[tuple[str, int, tuple[int, ...] | None]] = [
        ("t", 0, (3, 2, 1)),
        ("t", 9, (1,)),
        ("nope", 0, (1,)),
    ]
    assert codes(await move(node, *moves)) == [
        ("t", 0, ErrorCode.none),
        ("t", 9, ErrorCode.unknown_topic_or_partition),
        ("nope", 0, ErrorCode.unknown_topic_or_partition),
    ]


@pytest.mark.parametrize(
    ("replicas", "allow", "error"),
    [
        ((1, 9), True, ErrorCode.invalid_replica_assignment),
        ((1, 1), True, ErrorCode.invalid_replica_assignment),
        ((), True, ErrorCode.invalid_replica_assignment),
        ((1, 2), False, ErrorCode.invalid_replication_factor),
    ],
)
async def test_an_impossible_assignment_changes_nothing(
    node: FakeNode, replicas: tuple[int, ...], allow: bool, error: ErrorCode
) -> None:
    before = only_partition(node)
    reply = await move(node, ("t", 0, replicas), allow_replication_factor_change=allow)
    assert codes(reply) == [("t", 0, error)]
    assert reply.allow_replication_factor_change is allow
    assert only_partition(node) == before


async def test_a_timeout_of_zero_and_a_node_that_is_not_the_controller_refuse_the_request(node: FakeNode) -> None:
    reply = await move(node, ("t", 0, (2, 1)), timeout=timedelta(0))
    assert (reply.error_code, reply.responses) == (ErrorCode.request_timed_out, ())
    node.quorum.is_active = False
    reply = await move(node, ("t", 0, (2, 1)))
    assert (reply.error_code, reply.responses) == (ErrorCode.not_controller, ())
