"""Names for the integers and strings that must not be mixed up."""

from typing import NamedTuple, NewType
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


class TopicPartition(NamedTuple):
    """One partition of one topic; its string form is the name of its folder."""

    topic: TopicName
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
