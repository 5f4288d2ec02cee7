"""What each broker holds on its disk."""

from collections.abc import Iterable, Iterator

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

from penstock.actions.cluster_client import Cluster, ClusterError
from penstock.wire.api import ApiKey

Place = tuple[str, int]


def read_only_nodes(cluster: Cluster, nodes: Iterable[int]) -> list[int]:
    """The brokers that take no writes: a folder of theirs is full or refuses them, or was cordoned (KIP-1066)."""
    found = []
    for node in nodes:
        try:
            answer = cluster.ask(node, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=()))
        except ClusterError:
            continue
        if any(folder.is_cordoned for folder in answer.results):
            found.append(node)
    return found


def log_dirs(cluster: Cluster, nodes: Iterable[int]) -> Iterator[tuple[int, str, Place, int, int]]:
    """Node, folder, partition, bytes and offset lag of every replica; a node that does not answer has none."""
    for node in nodes:
        try:
            answer = cluster.ask(node, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        except ClusterError:
            continue
        for folder in answer.results:
            for topic in folder.topics:
                for each in topic.partitions:
                    place = (str(topic.name), int(each.partition_index))
                    yield node, folder.log_dir, place, int(each.partition_size), int(each.offset_lag)
