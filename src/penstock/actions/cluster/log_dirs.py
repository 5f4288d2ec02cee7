"""The log directories of brokers."""

from collections.abc import Iterable, Iterator

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

from penstock.actions.cluster_client import ClusterClient
from penstock.actions.errors import ActionError
from penstock.wire.api import ApiKey

TopicPartition = tuple[str, int]


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
