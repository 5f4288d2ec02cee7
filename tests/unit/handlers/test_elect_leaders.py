"""ElectLeaders through its handler."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from penstock.handlers import elect_leaders
from penstock.metadata.records import PartitionChangeRecord
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import TOPIC_ID
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SOON, body_of, only_partition

PREFERRED, UNCLEAN = 0, 1


async def elect(
    node: FakeNode, kind: int, *topics: tuple[str, tuple[int, ...]], version: int = 2, wait: Any = SOON
) -> Any:
    listed = [{"topic": name, "partitions": indexes} for name, indexes in topics] or None
    body = body_of(ApiKey.ELECT_LEADERS, version, election_type=kind, topic_partitions=listed, timeout=wait)
    return await node.ask(elect_leaders.handle, ApiKey.ELECT_LEADERS, body, version=version)


def rows(reply: Any) -> list[tuple[str, int, ErrorCode]]:
    return [
        (topic.topic, each.partition_id, each.error_code)
        for topic in reply.replica_election_results
        for each in topic.partition_result
    ]


@pytest.mark.parametrize("version", range(3))
async def test_the_preferred_replica_becomes_leader(node: FakeNode, version: int) -> None:
    node.quorum.put([PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2)])
    reply = await elect(node, PREFERRED, ("t", (0,)), version=version)
    assert rows(reply) == [("t", 0, ErrorCode.none)]
    assert only_partition(node).leader == 1


async def test_each_partition_that_is_named_has_its_result_once(node: FakeNode) -> None:
    reply = await elect(node, PREFERRED, ("t", (0, 9)), ("nope", (0,)), ("t", (0,)))
    assert reply.error_code == ErrorCode.none
    assert sorted(set(rows(reply))) == [
        ("nope", 0, ErrorCode.unknown_topic_or_partition),
        ("t", 0, ErrorCode.election_not_needed),
        ("t", 9, ErrorCode.unknown_topic_or_partition),
    ]
    # Kafka's tools print any message as a failure.
    assert reply.replica_election_results[0].partition_result[0].error_message is None


async def test_null_means_all_partitions_and_omits_those_that_need_no_election(node: FakeNode) -> None:
    assert rows(await elect(node, PREFERRED)) == []
    node.quorum.put([PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=3)])
    assert rows(await elect(node, PREFERRED)) == [("t", 0, ErrorCode.none)]


async def test_an_unclean_election_is_for_partitions_without_a_leader(node: FakeNode) -> None:
    assert rows(await elect(node, UNCLEAN, ("t", (0,)))) == [("t", 0, ErrorCode.election_not_needed)]


async def test_an_unknown_election_type_is_refused(node: FakeNode) -> None:
    reply = await elect(node, 7)
    assert (reply.error_code, reply.replica_election_results) == (ErrorCode.invalid_request, ())


async def test_a_timeout_of_zero_times_out(node: FakeNode) -> None:
    assert (await elect(node, PREFERRED, wait=timedelta(0))).error_code == ErrorCode.request_timed_out


async def test_only_the_active_controller_elects(node: FakeNode) -> None:
    node.quorum.is_active = False
    assert (await elect(node, PREFERRED)).error_code == ErrorCode.not_controller
