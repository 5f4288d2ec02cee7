"""InitializeShareGroupState through its handler."""

from typing import Any
from uuid import UUID

from kio.schema.initialize_share_group_state.v0 import request as wire

from penstock.handlers import initialize_share_group_state
from penstock.shares.commands import InitializeState, StateReply
from penstock.shares.states import SharePartitionKey
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode

TOPIC_ID = UUID(int=5)


async def test_each_partition_is_decided_separately() -> None:
    node = FakeNode()
    node.shares.coordinator.replies[InitializeState] = StateReply(error=124, message="fenced")
    partitions: Any = tuple(
        wire.PartitionData(partition=index, state_epoch=2, start_offset=-1)  # type: ignore[arg-type]
        for index in (0, 1)
    )
    topics: Any = (wire.InitializeStateData(topic_id=TOPIC_ID, partitions=partitions),)
    body = wire.InitializeShareGroupStateRequest(group_id="g", topics=topics)
    reply = await node.ask(initialize_share_group_state.handle, ApiKey.INITIALIZE_SHARE_GROUP_STATE, body)
    assert node.shares.coordinator.commands == [
        InitializeState(SharePartitionKey("g", TOPIC_ID, index), 2, -1) for index in (0, 1)
    ]
    (result,) = reply.results
    assert result.topic_id == TOPIC_ID
    assert [(each.partition, each.error_code, each.error_message) for each in result.partitions] == [
        (index, 124, "fenced") for index in (0, 1)
    ]
