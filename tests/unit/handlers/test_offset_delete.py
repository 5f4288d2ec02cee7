"""OffsetDelete through its handler."""

from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.commands import (
    OffsetDelete,
    OffsetDeleteReply,
)
from penstock.handlers import (
    offset_delete,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import node_with_orders

UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR = 3, 16
GROUP_ID_NOT_FOUND = 69


async def test_offsets_are_deleted_per_topic() -> None:
    world = node_with_orders()
    world.groups.replies[OffsetDelete] = OffsetDeleteReply(errors=(86,))
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9))  # type: ignore[arg-type]
    topics = tuple(OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("orders", "gone"))  # type: ignore[arg-type]
    body = OffsetDeleteRequest(group_id="g", topics=topics)  # type: ignore[arg-type]
    reply = await world.ask(offset_delete.handle, ApiKey.OFFSET_DELETE, body)
    assert world.groups.commands == [OffsetDelete(group_id="g", topics=(("orders", (0,)),))]
    rows = {topic.name: {part.partition_index: part.error_code for part in topic.partitions} for topic in reply.topics}
    assert rows == {
        "orders": {0: 86, 9: UNKNOWN_TOPIC_OR_PARTITION},
        "gone": {0: UNKNOWN_TOPIC_OR_PARTITION, 9: UNKNOWN_TOPIC_OR_PARTITION},
    }
    for group_reply in (OffsetDeleteReply(error=GROUP_ID_NOT_FOUND), NotCoordinator()):
        world.groups.replies[OffsetDelete] = group_reply
        reply = await world.ask(offset_delete.handle, ApiKey.OFFSET_DELETE, body)
        assert reply.error_code in (GROUP_ID_NOT_FOUND, NOT_COORDINATOR) and reply.topics == ()
