"""ReadShareGroupState through its handler."""

from typing import Any
from uuid import UUID

from kio.schema.read_share_group_state.v0 import request as wire

from penstock.handlers import read_share_group_state
from penstock.shares.commands import ReadState, StateReply
from penstock.shares.states import SharePartitionKey, StateRange
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode

TOPIC_ID = UUID(int=5)


async def test_each_partition_is_decided_separately() -> None:
    node = FakeNode()
    node.shares.coordinator.replies[ReadState] = StateReply(
        state_epoch=2, start_offset=7, ranges=(StateRange(7, 8, 4, 1),)
    )
    partitions: Any = (wire.PartitionData(partition=0, leader_epoch=3),)  # type: ignore[arg-type]
    topics: Any = (wire.ReadStateData(topic_id=TOPIC_ID, partitions=partitions),)
    body = wire.ReadShareGroupStateRequest(group_id="g", topics=topics)
    reply = await node.ask(read_share_group_state.handle, ApiKey.READ_SHARE_GROUP_STATE, body)
    assert node.shares.coordinator.commands == [ReadState(SharePartitionKey("g", TOPIC_ID, 0), 3)]
    (result,) = reply.results
    assert result.topic_id == TOPIC_ID
    (read,) = result.partitions
    assert (read.error_code, read.state_epoch, read.start_offset) == (0, 2, 7)
    (batch,) = read.state_batches
    assert (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count) == (7, 8, 4, 1)
