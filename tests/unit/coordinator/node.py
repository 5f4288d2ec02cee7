"""A node with a coordinator on in-memory logs, which follows the metadata and can be restarted."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from penstock.config.settings import BrokerSettings
from penstock.metadata import delta as metadata_delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from penstock.model.ids import LeaderEpoch, NodeId, Offset, TopicName
from penstock.replication.partition import Partition
from penstock_sim.disk import SimDisk
from tests.unit.coordinator.fakes import FakeClock
from tests.unit.storage.support import open_log

ME, OTHER = NodeId(1), NodeId(2)
TURNS = 20


class Service(Protocol):
    """The common interface of Groups and Transactions."""

    def image_changed(self, change: Any, image: Image) -> None: ...

    async def loaded(self, key: str) -> None: ...

    def close(self) -> None: ...


S = TypeVar("S", bound=Service)


def topic(name: str, topic_id: UUID, *leaders: NodeId) -> list[MetadataRecord]:
    """Return the records of a topic with one partition for each leader."""
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=(ME, OTHER),
                isr=(ME, OTHER),
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index, leader in enumerate(leaders)
        ),
    ]


class HostedPartitions:
    """The replicas of the node: the partitions of the coordinator's topic."""

    def __init__(self, topic: TopicName, topic_id: UUID, count: int) -> None:
        self.on_late_open: list[Callable[[TopicName, int], None]] = []
        self.image: Image = EMPTY
        self._topic = topic
        self.opening: set[int] = set()
        """The partitions whose logs are not open yet."""
        self.partitions = {index: Partition(topic, topic_id, index, ME, open_log(SimDisk())) for index in range(count)}

    def find(self, name: str, index: int) -> Partition | None:
        return self.partitions.get(index) if name == self._topic and index not in self.opening else None

    def is_opening(self, name: str, index: int) -> bool:
        return name == self._topic and index in self.opening

    def has_lease(self) -> bool:
        return True


class CoordinatorNode(ABC, Generic[S]):
    """Node 1, whose service stores its state in a topic. The keys "a" and "b" are in different partitions of two."""

    def __init__(self, state_topic: TopicName, topic_id: UUID, *, partition_count: int = 2) -> None:
        self.settings = BrokerSettings()
        self.clock = FakeClock()
        self.replicas = HostedPartitions(state_topic, topic_id, partition_count)
        self.image: Image = EMPTY
        self.service = self.make()

    @abstractmethod
    def make(self) -> S:
        """Create the service as a starting node does."""

    def commit(self, *records: MetadataRecord) -> None:
        """Apply committed metadata records to the node."""
        offset = Offset(self.image.offset + len(records))
        change, self.image = metadata_delta.apply(self.image, records, offset=offset, epoch=LeaderEpoch(1))
        self.service.image_changed(change, self.image)

    async def settle(self, delay_s: float = 0) -> None:
        """Run the loads and all tasks until they wait; then let some time pass, and repeat."""
        for key in ("a", "b"):
            await self.service.loaded(key)
        await turns()
        self.clock.advance(delay_s)
        await turns()

    async def restart(self) -> None:
        self.service.close()
        self.service = self.make()
        self.service.image_changed(metadata_delta.Delta.whole(self.image), self.image)
        await self.settle()


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
