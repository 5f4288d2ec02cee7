"""DeleteShareGroupState through its handler."""

from typing import Any
from uuid import UUID

from kio.schema.delete_share_group_state.v0 import request as wire

from penstock.handlers import delete_share_group_state
from penstock.shares.commands import DeleteState, StateReply
from penstock.shares.states import SharePartitionKey
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode

TOPIC_ID = UUID(int=5)


async def test_each_partition_is_decided_separately() -> None:
    node = FakeNode()
    node.shares.coordinator.replies[DeleteState] = StateReply(error=124, message="fenced")
    partitions: Any = tuple(wire.PartitionData(partition=index) for index in (0, 1))  # type: ignore[arg-type]
    topics: Any = (wire.DeleteStateData(topic_id=TOPIC_ID, partitions=partitions),)
    body = wire.DeleteShareGroupStateRequest(group_id="g", topics=topics)
    reply = await node.ask(delete_share_group_state.handle, ApiKey.DELETE_SHARE_GROUP_STATE, body)
    assert node.shares.coordinator.commands == [
        DeleteState(SharePartitionKey("g", TOPIC_ID, index)) for index in (0, 1)
    ]
    (result,) = reply.results
    assert result.topic_id == TOPIC_ID
    assert [(each.partition, each.error_code, each.error_message) for each in result.partitions] == [
        (index, 124, "fenced") for index in (0, 1)
    ]
