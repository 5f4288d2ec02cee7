"""Topics, partitions, replicas, brokers, settings and quotas, asked of the brokers that know."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final, cast

from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.static.primitive import i8, i32, i64

from penstock.actions.cluster_client import TIMEOUT_S, Cluster, check
from penstock.actions.cluster.log_dirs import Place, log_dirs
from penstock.sqlview.table import Rows
from penstock.wire.api import ApiKey

TOPIC_CONFIG: Final = 2
BROKER_CONFIG: Final = 4
EARLIEST: Final = -2
LATEST: Final = -1
NO_BROKER: Final = -1
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


def topics(cluster: Cluster) -> Rows:
    names = [topic.name for topic in cluster.topics]
    retention = {
        each.resource_name: int(each.configs[0].value) if each.configs else None
        for each in _describe_configs(cluster, TOPIC_CONFIG, names, keys=("retention.ms",))
    }
    for topic in cluster.topics:
        factor = max((len(partition.replica_nodes) for partition in topic.partitions), default=0)
        yield str(topic.topic_id), topic.name, len(topic.partitions), factor, retention.get(topic.name)


def partitions(cluster: Cluster) -> Rows:
    earliest, latest = list_offsets(cluster, EARLIEST), list_offsets(cluster, LATEST)
    held = sizes(cluster)
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


def replicas(cluster: Cluster) -> Rows:
    held = {(place, node): (folder, size, lag) for node, folder, place, size, lag in log_dirs(cluster, cluster.brokers)}
    for topic in cluster.topics:
        for each in topic.partitions:
            place = (str(topic.name), int(each.partition_index))
            for node in each.replica_nodes:
                folder, size, lag = held.get((place, int(node)), (None, None, None))
                yield (*place, int(node), node == each.leader_id, node in each.isr_nodes, folder, size, lag)


def brokers(cluster: Cluster) -> Rows:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=i8(1), include_fenced_brokers=True
    )
    answer = cluster.ask_any(ApiKey.DESCRIBE_CLUSTER, request)
    check(answer.error_code, about="the brokers")
    for each in answer.brokers:
        is_controller = each.broker_id == cluster.metadata.controller_id
        yield int(each.broker_id), each.host, int(each.port), each.rack, is_controller, each.is_fenced


def configs(cluster: Cluster) -> Rows:
    names = [topic.name for topic in cluster.topics]
    yield from _config_rows("topic", _describe_configs(cluster, TOPIC_CONFIG, names))
    for node in cluster.brokers:
        resource = DescribeConfigsResource(
            resource_type=i8(BROKER_CONFIG), resource_name=str(node), configuration_keys=None
        )
        answer = cluster.ask(node, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=(resource,)))
        yield from _config_rows("broker", answer.results)


def quotas(cluster: Cluster) -> Rows:
    answer = cluster.ask_any(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components=(), strict=False))
    check(answer.error_code, about="the quotas")
    for entry in answer.entries or ():
        entity = {part.entity_type: part.entity_name or "<default>" for part in entry.entity}
        for each in entry.values:
            yield entity.get("user"), entity.get("client-id"), entity.get("ip"), each.key, each.value


def list_offsets(cluster: Cluster, timestamp: int, topics: list[Any] | None = None) -> dict[Place, int]:
    """The first offset at or after the timestamp, or an end of the log; -1 stands for none. By partition."""
    found: dict[Place, int] = {}
    for leader, asked in cluster.by_leader(cluster.topics if topics is None else topics).items():
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
                for name, indexes in asked
            ),
            timeout=cast(Any, timedelta(seconds=TIMEOUT_S)),
        )
        for topic in cluster.ask(leader, ApiKey.LIST_OFFSETS, request).topics:
            for each in topic.partitions:
                if not each.error_code.value:
                    found[str(topic.name), int(each.partition_index)] = int(each.offset)
    return found


def sizes(cluster: Cluster) -> dict[Place, int]:
    """The bytes of each partition, in the replica that holds most."""
    found: dict[Place, int] = {}
    for _, _, place, size, _ in log_dirs(cluster, cluster.brokers):
        found[place] = max(size, found.get(place, 0))
    return found


def _described(cluster: Cluster) -> Iterator[Any]:
    """The topics page by page: only this API tells the eligible leader replicas."""
    names = tuple(TopicRequest(name=topic.name) for topic in cluster.topics)
    cursor: Cursor | None = None
    while names:
        request = DescribeTopicPartitionsRequest(
            topics=names, response_partition_limit=i32(PARTITIONS_PER_ANSWER), cursor=cursor
        )
        answer = cluster.ask_any(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
        yield from answer.topics
        if answer.next_cursor is None:
            return
        cursor = Cursor(topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index)


def _describe_configs(cluster: Cluster, kind: int, names: list[str], keys: tuple[str, ...] | None = None) -> list[Any]:
    if not names:
        return []
    resources = tuple(
        DescribeConfigsResource(resource_type=i8(kind), resource_name=name, configuration_keys=keys) for name in names
    )
    answer = cluster.ask_any(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=resources))
    # A topic may have gone since the metadata was asked for.
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
