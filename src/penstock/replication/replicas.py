"""Every partition that this node holds, found by topic name or topic id.

Subscribes to the metadata image: makes, opens and retires logs as topics come and go, and
hands changed settings down. Calls go to partition.py and storage/store.py.
"""

import logging
from collections.abc import Callable, Iterator
from uuid import UUID

from penstock.config.settings import BrokerSettings, TopicSettings, topic_settings
from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, TOPIC, Image, PartitionImage, TopicImage
from penstock.model.errors import Corruption, UnknownTopicOrPartition
from penstock.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from penstock.model.topic import is_internal
from penstock.ports.clock import Clock, Timer
from penstock.replication.partition import Partition
from penstock.storage.store import LogStore

log = logging.getLogger(__name__)

PRODUCE_SWEEP_S = 0.5


class HostedTopic:
    """A topic of which this node holds partitions, with the keys that hot requests know it by."""

    __slots__ = ("id", "id_bytes", "internal", "name", "name_bytes", "partitions")

    def __init__(self, name: TopicName, topic_id: UUID) -> None:
        self.name = name
        self.id = topic_id
        self.name_bytes = name.encode()
        self.id_bytes = topic_id.bytes
        self.internal = is_internal(name)
        self.partitions: dict[int, Partition] = {}


class Replicas:
    def __init__(
        self, node_id: NodeId, store: LogStore, clock: Clock, current_settings: Callable[[], BrokerSettings]
    ) -> None:
        self._node_id = node_id
        self._store = store
        self._clock = clock
        self._current_settings = current_settings
        self.by_name: dict[bytes, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}
        self._sweep_timer: Timer | None = None

    def start(self) -> None:
        self._sweep_timer = self._clock.call_later(PRODUCE_SWEEP_S, self._sweep)

    def stop(self) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()

    def find(self, name: TopicName, index: int) -> Partition | None:
        topic = self.by_name.get(name.encode())
        return None if topic is None else topic.partitions.get(index)

    def high_watermark(self, place: TopicPartition) -> int:
        """The mark of a partition; nothing of one that is not served here may be taken away."""
        partition = self.find(place.topic, place.partition)
        return 0 if partition is None else partition.high_watermark

    def all(self) -> Iterator[Partition]:
        for topic in self.by_name.values():
            yield from topic.partitions.values()

    # -- the image changes -----------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> None:
        for topic in delta.topics_deleted:
            self._retire(topic)
        for topic in (*delta.topics_created, *delta.topics_changed):
            for index in sorted(delta.partitions_changed.get(topic.id, ())):
                self._host(topic, index, image)
        if any(resource.type == BROKER for resource in delta.configs_changed):
            changed = list(self.by_name.values())
        else:
            names = [resource.name.encode() for resource in delta.configs_changed if resource.type == TOPIC]
            changed = [self.by_name[name] for name in names if name in self.by_name]
        for hosted in changed:
            settings = self._topic_settings(hosted.name, image)
            for partition in hosted.partitions.values():
                partition.log.settings = settings

    def _topic_settings(self, name: TopicName, image: Image) -> TopicSettings:
        return topic_settings(self._current_settings(), image.topic_config(name))

    def _host(self, topic: TopicImage, index: int, image: Image) -> None:
        state: PartitionImage = topic.partitions[index]
        if self._node_id not in state.replicas:
            return
        hosted = self.by_id.get(topic.id.bytes)
        if hosted is None:
            hosted = HostedTopic(topic.name, topic.id)
            self.by_id[hosted.id_bytes] = self.by_name[hosted.name_bytes] = hosted
        partition = hosted.partitions.get(index)
        if partition is None:
            place = TopicPartition(topic.name, PartitionIndex(index))
            try:
                opened = self._store.open(place, topic.id, self._topic_settings(topic.name, image))
            except (OSError, Corruption) as error:
                log.error("partition %s is offline: %s", place, error)
                return
            partition = hosted.partitions[index] = Partition(topic.name, topic.id, index, self._node_id, opened)
        partition.leader = state.leader
        partition.leader_epoch = state.leader_epoch
        partition.replicas = state.replicas
        partition.isr = state.isr

    def _retire(self, topic: TopicImage) -> None:
        hosted = self.by_id.pop(topic.id.bytes, None)
        if hosted is None:
            return
        if self.by_name.get(hosted.name_bytes) is hosted:
            del self.by_name[hosted.name_bytes]
        for index, partition in hosted.partitions.items():
            partition.fail(UnknownTopicOrPartition.code)
            self._store.delete(TopicPartition(hosted.name, PartitionIndex(index)), hosted.id)

    # -- time and failure ------------------------------------------------------------------

    def _sweep(self) -> None:
        now = self._clock.monotonic()
        for partition in self.all():
            partition.expire_produces(now)
        self._sweep_timer = self._clock.call_later(PRODUCE_SWEEP_S, self._sweep)

    def directory_failed(self) -> None:
        """Answer everybody who waits: what is not durable by now will not be acknowledged."""
        for partition in list(self.all()):
            partition.log_failed()
