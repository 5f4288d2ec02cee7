"""Counts elections and changes of in-sync sets, as they show in the metadata image.

Subscribes to the image, so nobody who decides on such a change has to think of it. As in Kafka, elections are
counted by the active controller and changes of in-sync sets by the broker that leads the partition.
"""

from typing import TYPE_CHECKING

from penstock.metadata.image import RECOVERING

if TYPE_CHECKING:
    from penstock.metadata.delta import Delta
    from penstock.metadata.image import Image, PartitionImage
    from penstock.metadata.quorum import Quorum
    from penstock.metrics.metrics import Metrics
    from penstock.model.ids import NodeId


class ChangeCounter:
    def __init__(self, metrics: "Metrics", quorum: "Quorum", node_id: "NodeId") -> None:
        self._metrics = metrics
        self._quorum = quorum
        self._node_id = node_id

    def image_changed(self, delta: "Delta", image: "Image") -> None:
        for topic in delta.topics_changed:
            before = delta.before.topics_by_id[topic.id].partitions
            for index in delta.partitions_changed.get(topic.id, ()):
                if index < len(before):
                    self._count(before[index], topic.partitions[index])

    def _count(self, before: "PartitionImage", after: "PartitionImage") -> None:
        metrics = self._metrics
        if after.leader == self._node_id:
            metrics.isr_shrinks.add(bool(set(before.isr) - set(after.isr)))
            metrics.isr_expands.add(bool(set(after.isr) - set(before.isr)))
        if after.leader not in (before.leader, -1) and self._quorum.leader == self._node_id:
            metrics.elections.add()
            trusted = (*before.isr, *before.eligible_leader_replicas)
            # One who comes into the set as its leader, when a move is completed, was caught up: only the state tells.
            metrics.unclean_elections.add(after.leader not in trusted and after.leader_recovery_state == RECOVERING)
