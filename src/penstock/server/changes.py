"""Counters of leader elections and ISR changes, taken from changes of the metadata image.

Subscribes to the image, so that the code that decides on such a change need not count it. As in Kafka, the active
controller counts elections, and the leader of a partition counts the changes of its ISR.
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
            # A replica that joins the ISR as leader, after a reassignment, had caught up: only the state shows it.
            metrics.unclean_elections.add(after.leader not in trusted and after.leader_recovery_state == RECOVERING)
