"""A topic with partitions on this node, some of whose logs may not be open yet.

After a start, the logs of partitions that this node cannot be elected for are opened on first use and in the background
(late_logs.py). `partitions` opens such a log when it is looked up, so that no caller can take a partition that is not
open yet for a missing one; one with much to scan is not found until it is recovered. Once all logs are open, it is an
ordinary dictionary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.model.ids import NO_NODE, NodeId, TopicName
from penstock.model.topic import is_internal, keeps_state

if TYPE_CHECKING:
    from penstock.config.settings import TopicSettings
    from penstock.metadata.image import PartitionImage
    from penstock.replication.partition import Partition


def may_open_late(name: TopicName, state: PartitionImage, node_id: NodeId) -> bool:
    """Return whether a node may serve other partitions before the log of this one is open.

    Not if another replica must lead in case the log has lost records: if the node leads, or may be elected before it
    has fetched from a leader. Nor if the topic is internal: coordinators load their state when the node serves.
    """
    if is_internal(name) or keeps_state(name):
        return False
    if len(state.replicas) == 1:
        return True
    return state.leader not in (NO_NODE, node_id) and node_id not in (*state.isr, *state.eligible_leader_replicas)


class HostedTopic:
    """The partitions of one topic, and the keys by which produce and fetch requests find it."""

    __slots__ = (
        "_bytes_in_before",
        "_messages_in_before",
        "bytes_out",
        "id",
        "id_bytes",
        "internal",
        "late",
        "name",
        "name_bytes",
        "partitions",
    )

    def __init__(self, name: TopicName, topic_id: UUID) -> None:
        self.name = name
        self.id = topic_id
        self.name_bytes = name.encode()
        self.id_bytes = topic_id.bytes
        self.internal = keeps_state(name)
        self.partitions: dict[int, Partition] = {}
        self.late: set[int] = set()
        """The partitions whose logs are opened on first use or in the background."""
        # Counted by the handlers; the `_before` counts are those of partitions that have left this node.
        self.bytes_out = 0
        self._bytes_in_before = self._messages_in_before = 0

    @property
    def bytes_in(self) -> int:
        return self._bytes_in_before + sum(each.bytes_in for each in list(self.partitions.values()))

    @property
    def messages_in(self) -> int:
        return self._messages_in_before + sum(each.messages_in for each in list(self.partitions.values()))

    def drop(self, index: int) -> Partition | None:
        """Remove a partition; its counts stay in the topic's totals, which never decrease."""
        partition = self.partitions.pop(index, None)
        if partition is not None:
            self._bytes_in_before += partition.bytes_in
            self._messages_in_before += partition.messages_in
        return partition

    def apply_settings(self, settings: TopicSettings) -> None:
        """Pass other settings to the logs; `settings_changed` must follow when the partitions have their roles.

        An image may contain an ISR and another min.insync.replicas: an old one of either must not be used with the
        new one of the other to move the high watermark.
        """
        for partition in self.partitions.values():
            partition.log.apply_settings(settings)

    def settings_changed(self) -> None:
        for partition in self.partitions.values():
            partition.settings_changed()

    def add_late(self, index: int, opener: Callable[[HostedTopic, int], None]) -> None:
        """Open the log of a partition when it is looked up, by calling `opener`, unless that happened before."""
        if not self.late:
            self.partitions = _LatePartitions(self, opener)
        self.late.add(index)

    def take_late(self, index: int) -> bool:
        """Return whether a partition is still to be opened; from now on it is not."""
        if index not in self.late:
            return False
        self.late.remove(index)
        if not self.late:
            # New ones have no room to grow, which saves memory with many topics.
            self.partitions, self.late = dict(self.partitions), set()
        return True


class _LatePartitions(dict[int, "Partition"]):
    """The open partitions of a topic; `get` opens one that is not, unless much of its log must be scanned."""

    __slots__ = ("_opener", "_topic")

    def __init__(self, topic: HostedTopic, opener: Callable[[HostedTopic, int], None]) -> None:
        super().__init__(topic.partitions)
        self._topic = topic
        self._opener = opener

    def get(self, index: int, default: Any = None) -> Any:
        if index in self._topic.late:
            self._opener(self._topic, index)
        # Opening the last log replaces this dictionary.
        return dict.get(self._topic.partitions, index, default)
