"""WriteShareGroupState through its handler."""

from typing import Any
from uuid import UUID

from kio.schema.write_share_group_state.v1 import request as wire

from penstock.handlers import write_share_group_state
from penstock.shares.commands import StateReply, WriteState
from penstock.shares.states import SharePartitionKey, StateRange
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode

TOPIC_ID = UUID(int=5)


async def test_each_partition_is_decided_separately() -> None:
    node = FakeNode()
    node.shares.coordinator.replies[WriteState] = StateReply(error=124, message="fenced")
    partitions: Any = tuple(
        wire.PartitionData(
            partition=index,  # type: ignore[arg-type]
            state_epoch=2,  # type: ignore[arg-type]
            leader_epoch=3,  # type: ignore[arg-type]
            start_offset=4,  # type: ignore[arg-type]
            delivery_complete_count=1,  # type: ignore[arg-type]
            state_batches=(
                wire.StateBatch(first_offset=5, last_offset=6, delivery_state=2, delivery_count=1),  # type: ignore[arg-type]
            ),
        )
        for index in (0, 1)
    )
    topics: Any = (wire.WriteStateData(topic_id=TOPIC_ID, partitions=partitions),)
    body = wire.WriteShareGroupStateRequest(group_id="g", topics=topics)
    reply = await node.ask(write_share_group_state.handle, ApiKey.WRITE_SHARE_GROUP_STATE, body)
    assert node.shares.coordinator.commands == [
        WriteState(SharePartitionKey("g", TOPIC_ID, index), 2, 3, 4, (StateRange(5, 6, 2, 1),), 1) for index in (0, 1)
    ]
    (result,) = reply.results
    assert result.topic_id == TOPIC_ID
    assert [(each.partition, each.error_code, each.error_message) for each in result.partitions] == [
        (index, 124, "fenced") for index in (0, 1)
    ]
