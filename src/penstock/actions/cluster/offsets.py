"""Offsets and sizes of partitions, requested from their leaders."""

from datetime import timedelta
from typing import Any, Final, cast

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.static.primitive import i8, i32, i64

from penstock.actions.cluster.log_dirs import TopicPartition, describe_log_dirs
from penstock.actions.cluster_client import ClusterClient
from penstock.actions.connection import REQUEST_TIMEOUT_S
from penstock.actions.errors import ActionError
from penstock.wire.api import ApiKey

EARLIEST: Final = -2
LATEST: Final = -1
NO_BROKER: Final = -1


def list_offsets(cluster: ClusterClient, timestamp: int, topics: list[Any] | None = None) -> dict[TopicPartition, int]:
    """Return the first offset at or after a timestamp, or -1; EARLIEST and LATEST return the ends of the log.

    Partitions without a leader, or whose leader does not answer or returns an error, are left out.
    """
    found: dict[TopicPartition, int] = {}
    for leader, indexes_by_topic in cluster.by_leader(cluster.topics if topics is None else topics).items():
        request = ListOffsetsRequest(
            replica_id=cast(Any, NO_BROKER),
            isolation_level=i8(0),
            topics=tuple(
                ListOffsetsTopic(
                    name=cast(Any, name),
                    partitions=tuple(
                        ListOffsetsPartition(partition_index=i32(index), timestamp=i64(timestamp)) for index in indexes
                    ),
                )
                for name, indexes in indexes_by_topic
            ),
            timeout=cast(Any, timedelta(seconds=REQUEST_TIMEOUT_S)),
        )
        try:
            answer = cluster.send(leader, ApiKey.LIST_OFFSETS, request)
        except ActionError:
            continue
        for topic in answer.topics:
            for each in topic.partitions:
                if not each.error_code.value:
                    found[str(topic.name), int(each.partition_index)] = int(each.offset)
    return found


def partition_sizes(cluster: ClusterClient) -> dict[TopicPartition, int]:
    """Return the size of each partition in bytes: that of its largest replica."""
    found: dict[TopicPartition, int] = {}
    for _, _, partition, size, _ in describe_log_dirs(cluster, cluster.brokers):
        found[partition] = max(size, found.get(partition, 0))
    return found
