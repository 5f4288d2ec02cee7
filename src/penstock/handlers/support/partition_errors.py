"""Errors of Produce and Fetch for partitions that this node does not lead or host, with the leader (KIP-951)."""

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.model.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    Refusal,
    StorageError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NodeId, TopicName
from penstock.wire.hot.produce import NodeEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.handlers.support.context import Context
    from penstock.metadata.image import PartitionImage, TopicImage
    from penstock.replication.hosted_topic import HostedTopic

HINTED = frozenset({NotLeaderOrFollower.code, FencedLeaderEpoch.code})


def _topic(context: "Context", key: bytes, *, by_id: bool) -> "TopicImage | None":
    image = context.quorum.image
    if by_id:
        return image.topics_by_id.get(UUID(bytes=key))
    return image.topics.get(TopicName(str(key, "utf-8", "replace")))


def topic_name_of(context: "Context", key: bytes, hosted: "HostedTopic | None", *, by_id: bool) -> str | None:
    """Return the name of a topic by its name or id in a request; None for an id that no topic has."""
    if not by_id:
        return str(key, "utf-8", "replace")
    if hosted is not None:
        return hosted.name
    topic = _topic(context, key, by_id=True)
    return None if topic is None else topic.name


def _partition(context: "Context", key: bytes, index: int, *, by_id: bool) -> "PartitionImage | None":
    topic = _topic(context, key, by_id=by_id)
    return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None


def not_hosted(context: "Context", key: bytes, index: int, *, by_id: bool) -> Refusal:
    """Return why a partition is not on this node: it is elsewhere, not open, or does not exist."""
    topic = _topic(context, key, by_id=by_id)
    if topic is None:
        return UnknownTopicId() if by_id else UnknownTopicOrPartition()
    if not 0 <= index < len(topic.partitions):
        return UnknownTopicOrPartition()
    if context.node_id in topic.partitions[index].replicas and not context.replicas.is_opening(topic.name, index):
        return StorageError()
    return NotLeaderOrFollower()


def leader_hint(context: "Context", key: bytes, index: int, *, by_id: bool) -> tuple[int, int] | None:
    """Return the leader of the partition and its epoch; None if there is no known leader."""
    partition = _partition(context, key, index, by_id=by_id)
    return None if partition is None else (partition.leader, partition.leader_epoch)


def endpoints_of(context: "Context", leaders: "Iterable[int]", listener: str) -> list[NodeEndpoint]:
    """Return the endpoints of the hinted leaders, for a client of that listener."""
    found: list[NodeEndpoint] = []
    for node_id in sorted(set(leaders)):
        broker = context.quorum.image.brokers.get(NodeId(node_id))
        end_point = None if broker is None else broker.end_point(listener)
        if broker is not None and end_point is not None:
            found.append((node_id, end_point.host, end_point.port, broker.rack))
    return found
