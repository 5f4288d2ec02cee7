"""The log directories of brokers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.static.primitive import i8

from penstock.actions.cluster_client import ClusterClient, open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.storage.reserve import ROOM_LEAST, mebibytes
from penstock.wire.api import ApiKey

TopicPartition = tuple[str, int]
BROKER: Final = i8(4)


class TopicSize(NamedTuple):
    """The bytes of a topic's logs."""

    leaders: int
    """One copy: the replicas that lead."""
    replicas: int
    """All replicas."""


class ReadOnlyLogDir(NamedTuple):
    """A log directory that accepts no writes. `needed` is None if the broker is not a Penstock."""

    node: int
    path: str
    usable: int
    needed: int | None

    @property
    def is_full(self) -> bool:
        return self.needed is not None and self.usable < 2 * self.needed

    def __str__(self) -> str:
        if self.needed is None:
            return f"node {self.node}: {self.path} is cordoned"
        if not self.is_full:
            return f"disk error: {self.path} of node {self.node} rejects writes"
        return (
            f"disk full: {self.path} of node {self.node} has {mebibytes(self.usable)} free and needs "
            f"{mebibytes(self.needed)} free to accept writes"
        )


def read_only_log_dirs(cluster: ClusterClient, nodes: Iterable[int]) -> list[ReadOnlyLogDir]:
    """Return the log directories that accept no writes: they are full, fail or are cordoned (KIP-1066)."""
    found: list[ReadOnlyLogDir] = []
    for node in nodes:
        try:
            answer = cluster.send(node, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=()))
        except ActionError:
            continue
        needed = _needed(cluster, node) if any(folder.is_cordoned for folder in answer.results) else None
        found.extend(
            ReadOnlyLogDir(node, folder.log_dir, int(folder.usable_bytes), needed)
            for folder in answer.results
            if folder.is_cordoned
        )
    return found


def _needed(cluster: ClusterClient, node: int) -> int | None:
    """Return how much a full log directory needs: its reserve a second time."""
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(node), configuration_keys=("log.reserve.bytes",)
    )
    try:
        answer = cluster.send(node, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=(resource,)))
        (reserve,) = answer.results[0].configs
    except (ActionError, ValueError, IndexError):
        return None
    return int(reserve.value or 0) or ROOM_LEAST


def describe_log_dirs(
    cluster: ClusterClient, nodes: Iterable[int], topics: Iterable[Any] | None = None
) -> Iterator[tuple[int, str, TopicPartition, int, int]]:
    """Yield node, directory, partition, size and offset lag of every replica, or of those of some topics.

    Skips nodes that do not answer.
    """
    wanted = None if topics is None else tuple(map(_all_partitions, topics))
    for node in nodes:
        try:
            answer = cluster.send(node, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=wanted))
        except ActionError:
            continue
        for folder in answer.results:
            for topic in folder.topics:
                for each in topic.partitions:
                    partition = (str(topic.name), int(each.partition_index))
                    yield node, folder.log_dir, partition, int(each.partition_size), int(each.offset_lag)


def _all_partitions(topic: Any) -> DescribableLogDirTopic:
    indexes = tuple(each.partition_index for each in topic.partitions)
    return DescribableLogDirTopic(topic=topic.name, partitions=indexes)


def topic_sizes(connection: Connection) -> dict[str, TopicSize]:
    """Return the size of each topic. A topic whose brokers do not answer is left out."""
    leaders: Counter[str] = Counter()
    replicas: Counter[str] = Counter()
    with open_cluster(connection) as cluster:
        leader_of = {
            (str(topic.name), int(partition.partition_index)): int(partition.leader_id)
            for topic in cluster.topics
            for partition in topic.partitions
        }
        for node, _, partition, size, _ in describe_log_dirs(cluster, cluster.brokers):
            replicas[partition[0]] += size
            leaders[partition[0]] += size if leader_of.get(partition) == node else 0
    return {topic: TopicSize(leaders[topic], size) for topic, size in replicas.items()}
