"""ReadShareGroupStateSummary through its handler."""

from typing import Any
from uuid import UUID

from kio.schema.read_share_group_state_summary.v1 import request as wire

from penstock.handlers import read_share_group_state_summary
from penstock.shares.commands import ReadSummary, StateReply
from penstock.shares.states import SharePartitionKey
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode

TOPIC_ID = UUID(int=5)


async def test_each_partition_is_decided_separately() -> None:
    node = FakeNode()
    node.shares.coordinator.replies[ReadSummary] = StateReply(
        state_epoch=2, leader_epoch=3, start_offset=7, complete_count=1
    )
    partitions: Any = (wire.PartitionData(partition=0, leader_epoch=-1),)  # type: ignore[arg-type]
    topics: Any = (wire.ReadStateSummaryData(topic_id=TOPIC_ID, partitions=partitions),)
    body = wire.ReadShareGroupStateSummaryRequest(group_id="g", topics=topics)
    reply = await node.ask(read_share_group_state_summary.handle, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, body)
    assert node.shares.coordinator.commands == [ReadSummary(SharePartitionKey("g", TOPIC_ID, 0))]
    (result,) = reply.results
    assert result.topic_id == TOPIC_ID
    (read,) = result.partitions
    assert (read.error_code, read.state_epoch, read.leader_epoch) == (0, 2, 3)
    assert (read.start_offset, read.delivery_complete_count) == (7, 1)
