"""DescribeProducers through its handler."""

from typing import Any

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest

from penstock.handlers import (
    describe_producers,
)
from penstock.storage.producer_state import Producer
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode, FakePartition


async def test_producers_are_described_in_the_partitions_they_wrote_to() -> None:
    node = FakeNode()
    open_one = Producer(7, 3, 0)
    open_one.wrote(0, 10, 12, 99, 0)
    open_one.txn_first_offset = 10
    partition = node.replicas.put(FakePartition("t"))
    partition.log.producers_known = [open_one]
    node.replicas.put(FakePartition("t", 1, is_leader=False))
    body: Any = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0, 1, 2)),))  # type: ignore[arg-type]
    (topic,) = (await node.ask(describe_producers.handle, ApiKey.DESCRIBE_PRODUCERS, body)).topics
    assert [each.error_code for each in topic.partitions] == [0, 0, 3], "a follower answers too"
    (found,) = topic.partitions[0].active_producers
    assert (found.producer_id, found.producer_epoch, found.last_sequence, found.last_timestamp) == (7, 3, 2, 99)
    assert (found.coordinator_epoch, found.current_txn_start_offset) == (-1, 10)
