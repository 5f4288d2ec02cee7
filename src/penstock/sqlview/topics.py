"""Tables of topics, partitions, replicas, brokers, configs and quotas."""

from collections.abc import Iterator
from typing import Any, Final

from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kio.static.primitive import i8, i32

from penstock.actions.cluster.log_dirs import describe_log_dirs
from penstock.actions.cluster.offsets import EARLIEST, LATEST, list_offsets, partition_sizes
from penstock.actions.cluster_client import ClusterClient, raise_for_error
from penstock.sqlview.table import Rows
from penstock.wire.api import ApiKey

TOPIC_CONFIG: Final = 2
BROKER_CONFIG: Final = 4
PARTITIONS_PER_ANSWER: Final = 2000
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "file",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}


def topics(cluster: ClusterClient) -> Rows:
    names = [topic.name for topic in cluster.topics]
    retention = {
        each.resource_name: int(each.configs[0].value) if each.configs else None
        for each in _describe_configs(cluster, TOPIC_CONFIG, names, keys=("retention.ms",))
    }
    for topic in cluster.topics:
        factor = max((len(partition.replica_nodes) for partition in topic.partitions), default=0)
        yield str(topic.topic_id), topic.name, len(topic.partitions), factor, retention.get(topic.name)


def partitions(cluster: ClusterClient) -> Rows:
    earliest, latest = list_offsets(cluster, EARLIEST), list_offsets(cluster, LATEST)
    held = partition_sizes(cluster)
    for topic in _described(cluster):
        for each in topic.partitions:
            place = (str(topic.name), int(each.partition_index))
            yield (
                *place,
                _broker_or_none(each.leader_id),
                each.leader_epoch,
                _listed(each.replica_nodes),
                _listed(each.isr_nodes),
                _listed(each.eligible_leader_replicas or ()),
                _listed(each.offline_replicas),
                earliest.get(place),
                latest.get(place),
                held.get(place),
                len(each.isr_nodes) < len(each.replica_nodes),
            )


def replicas(cluster: ClusterClient) -> Rows:
    held = {
        (place, node): (folder, size, lag)
        for node, folder, place, size, lag in describe_log_dirs(cluster, cluster.brokers)
    }
    for topic in cluster.topics:
        for each in topic.partitions:
            place = (str(topic.name), int(each.partition_index))
            for node in each.replica_nodes:
                folder, size, lag = held.get((place, int(node)), (None, None, None))
                yield (*place, int(node), node == each.leader_id, node in each.isr_nodes, folder, size, lag)


def brokers(cluster: ClusterClient) -> Rows:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=i8(1), include_fenced_brokers=True
    )
    answer = cluster.send_any(ApiKey.DESCRIBE_CLUSTER, request)
    raise_for_error(answer.error_code, about="the brokers")
    for each in answer.brokers:
        is_controller = each.broker_id == cluster.metadata.controller_id
        yield int(each.broker_id), each.host, int(each.port), each.rack, is_controller, each.is_fenced


def configs(cluster: ClusterClient) -> Rows:
    names = [topic.name for topic in cluster.topics]
    yield from _config_rows("topic", _describe_configs(cluster, TOPIC_CONFIG, names))
    for node in cluster.brokers:
        resource = DescribeConfigsResource(
            resource_type=i8(BROKER_CONFIG), resource_name=str(node), configuration_keys=None
        )
        answer = cluster.send(node, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=(resource,)))
        yield from _config_rows("broker", answer.results)


def quotas(cluster: ClusterClient) -> Rows:
    answer = cluster.send_any(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components=(), strict=False))
    raise_for_error(answer.error_code, about="the quotas")
    for entry in answer.entries or ():
        entity = {part.entity_type: part.entity_name or "<default>" for part in entry.entity}
        for each in entry.values:
            yield entity.get("user"), entity.get("client-id"), entity.get("ip"), each.key, each.value


def _described(cluster: ClusterClient) -> Iterator[Any]:
    """Yield topics page by page: only DescribeTopicPartitions returns the eligible leader replicas."""
    names = tuple(TopicRequest(name=topic.name) for topic in cluster.topics)
    cursor: Cursor | None = None
    while names:
        request = DescribeTopicPartitionsRequest(
            topics=names, response_partition_limit=i32(PARTITIONS_PER_ANSWER), cursor=cursor
        )
        answer = cluster.send_any(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
        yield from answer.topics
        if answer.next_cursor is None:
            return
        cursor = Cursor(topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index)


def _describe_configs(
    cluster: ClusterClient, kind: int, names: list[str], keys: tuple[str, ...] | None = None
) -> list[Any]:
    if not names:
        return []
    resources = tuple(
        DescribeConfigsResource(resource_type=i8(kind), resource_name=name, configuration_keys=keys) for name in names
    )
    answer = cluster.send_any(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=resources))
    # A topic may have been deleted since the metadata request.
    return [each for each in answer.results if not each.error_code.value]


def _config_rows(kind: str, results: Any) -> Rows:
    for result in results:
        for each in result.configs:
            source = _SOURCES.get(int(each.config_source), "unknown")
            value = None if each.is_sensitive else each.value
            yield kind, result.resource_name, each.name, value, source, each.read_only, each.is_sensitive


def _broker_or_none(node: int) -> int | None:
    return int(node) if node >= 0 else None


def _listed(nodes: Any) -> str:
    return ",".join(str(int(node)) for node in nodes)
