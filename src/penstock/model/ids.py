"""Names for the integers and strings that must not be mixed up."""

import re
from typing import Final, NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
NodeId = NewType("NodeId", int)
PartitionIndex = NewType("PartitionIndex", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TimestampMs = NewType("TimestampMs", int)
TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", UUID)

NO_OFFSET = Offset(-1)
NO_EPOCH = LeaderEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_TIMESTAMP = TimestampMs(-1)
NO_NODE = NodeId(-1)

_NODE_ID: Final = re.compile(r"[+-]?[0-9]{1,10}")
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def node_id_of(name: str) -> NodeId | None:
    """Return the node id that a resource name stands for, None if it is not a 32-bit integer."""
    # int() alone raises ValueError for thousands of digits.
    if _NODE_ID.fullmatch(name) is None or not _INT_MIN <= int(name) <= _INT_MAX:
        return None
    return NodeId(int(name))


class TopicPartition(NamedTuple):
    """One partition of one topic; its string form is the name of its folder."""

    topic: TopicName
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """One partition of a topic, by the bytes of the topic's id, which are found faster than a UUID."""

    topic_id: bytes
    partition: int
