"""The log directories of brokers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

from penstock.actions.cluster_client import ClusterClient, open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.wire.api import ApiKey

TopicPartition = tuple[str, int]


class TopicSize(NamedTuple):
    """The bytes of a topic's logs."""

    leaders: int
    """One copy: the replicas that lead."""
    replicas: int
    """All replicas."""


def read_only_nodes(cluster: ClusterClient, nodes: Iterable[int]) -> list[int]:
    """Return the brokers that accept no writes: a log directory is full, fails or is cordoned (KIP-1066)."""
    found = []
    for node in nodes:
        try:
            answer = cluster.send(node, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=()))
        except ActionError:
            continue
        if any(folder.is_cordoned for folder in answer.results):
            found.append(node)
    return found


def describe_log_dirs(
    cluster: ClusterClient, nodes: Iterable[int]
) -> Iterator[tuple[int, str, TopicPartition, int, int]]:
    """Yield node, directory, partition, size and offset lag of every replica. Skips nodes that do not answer."""
    for node in nodes:
        try:
            answer = cluster.send(node, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        except ActionError:
            continue
        for folder in answer.results:
            for topic in folder.topics:
                for each in topic.partitions:
                    partition = (str(topic.name), int(each.partition_index))
                    yield node, folder.log_dir, partition, int(each.partition_size), int(each.offset_lag)


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
